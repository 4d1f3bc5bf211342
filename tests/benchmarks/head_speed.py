"""A step of head training from cached states against LoRA and full fine-tuning of the same backbone, on one batch.

    python tests/benchmarks/head_speed.py [--model smollm2-135m] [--method glot] [--batch 32] [--tokens 64] [--rounds 5]

Every step is that of retrieval: `--batch` queries and their passages, forward, InfoNCE, backward, Adam. The head
reads its states from the cache on the disk. LoRA has rank `--rank` on all linear layers. For each: seconds of a step
(the median of `--rounds`, after one that does not count), trained parameters, and the growth of the process's peak
memory, each in a process of its own. Then the time and disk of the cache, and what the head adds to mean pooling when
texts are encoded.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PARTS = ("head", "lora", "full", "encoding")
_WORDS = "boundary layer wing supersonic flow grows with heat and distance from its leading edge".split()  # noqa: SIM905


def texts(count: int, tokens: int, seed: int) -> list[str]:
    """Made-up texts of about `tokens` tokens, all different."""
    import random

    generator = random.Random(seed)
    return [f"{number} " + " ".join(generator.choices(_WORDS, k=tokens)) for number in range(count)]


def loaded(arguments: argparse.Namespace) -> tuple[Any, Any]:
    """The frozen model and the head's configuration."""
    from slotrag.encoders.backbones.frozen import FrozenLM
    from slotrag.encoders.backbones.store import ModelStore
    from slotrag.encoders.heads.inputs import config_for

    folder = Path(arguments.model)
    folder = folder if folder.is_dir() else ModelStore(offline=True).resolve(arguments.model)
    language_model = FrozenLM.load(folder, device=arguments.device)
    return language_model, config_for(language_model, arguments.method)


def opened(arguments: argparse.Namespace, folder: str) -> tuple[Any, Any, Any]:
    """The frozen model, the configuration and an empty cache."""
    from slotrag.encoders.training.state_cache import StateCache

    language_model, config = loaded(arguments)
    facts = {
        "weights": arguments.model, "tokenizer": arguments.model, "max_length": arguments.tokens,
        "query_prefix": "", "passage_prefix": "",
    }  # fmt: skip
    return language_model, config, StateCache.open(Path(folder), language_model, config, facts=facts)


def peak_bytes() -> int:
    """Most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def timed_steps(step: Any, parameters: list[Any], rounds: int, device: Any) -> dict[str, float]:
    """Median seconds of a step with Adam over `parameters`, their number, and the growth of peak memory."""
    import torch

    on_gpu = device.type == "cuda"
    optimiser = torch.optim.Adam(parameters, lr=1e-4)
    before = torch.cuda.memory_allocated(device) if on_gpu else peak_bytes()
    if on_gpu:
        torch.cuda.reset_peak_memory_stats(device)
    took = []
    for _ in range(rounds + 1):
        started = time.perf_counter()
        optimiser.zero_grad(set_to_none=True)
        step().backward()
        optimiser.step()
        if on_gpu:
            torch.cuda.synchronize(device)
        took.append(time.perf_counter() - started)
    after = torch.cuda.max_memory_allocated(device) if on_gpu else peak_bytes()
    return {
        "step_seconds": statistics.median(took[1:]),
        "fastest_seconds": min(took[1:]),
        "parameters": sum(parameter.numel() for parameter in parameters),
        "peak_growth_bytes": after - before,
    }


def info_nce(queries: Any, passages: Any) -> Any:
    """The loss of `training.losses.retrieval` where each query has its own passage."""
    import torch
    from slotrag.encoders.training.losses import retrieval, unit

    count = len(queries)
    targets = torch.arange(count, device=queries.device)
    blocked = torch.zeros((count, count), dtype=torch.bool, device=queries.device)
    return retrieval(unit(queries), unit(passages), targets, blocked, scale=20.0)


def measure_head(arguments: argparse.Namespace) -> dict[str, float]:
    """A step of the head from the cache; also what the cache took."""
    from slotrag.encoders.heads.heads import build_head
    from slotrag.encoders.training.sources import TextVectors

    with tempfile.TemporaryDirectory() as folder:
        language_model, config, cache = opened(arguments, folder)
        queries, passages = (texts(arguments.batch, arguments.tokens, seed) for seed in (0, 1))
        cache.ensure([*queries, *passages])
        device = language_model.device
        vectors = TextVectors(build_head(config).to(device).train(), cache, device)

        def step() -> Any:
            return info_nce(vectors(queries, ""), vectors(passages, ""))

        found = timed_steps(step, list(vectors.module.parameters()), arguments.rounds, device)
        count = 2 * arguments.batch
        vectors_kept = sum(cache.lengths([*queries, *passages]))
        return {
            **found,
            "cache_seconds_a_text": cache.seconds / count,
            "cache_bytes_a_text": cache.bytes / count,
            "cache_bytes_a_vector": cache.bytes / vectors_kept,
        }


def measure_backbone(arguments: argparse.Namespace, *, lora: bool) -> dict[str, float]:
    """A step of the whole model under mean pooling, all of its weights trained, or LoRA on all linear layers."""
    from slotrag.encoders.pooling import pool
    from slotrag.encoders.tokens import TextTokens

    language_model, _ = loaded(arguments)
    device = language_model.device
    # Copies: the module's own tensors are shared and frozen.
    from transformers import AutoModel

    tree = AutoModel.from_pretrained(language_model.folder).to(device).train()
    if lora:
        from peft import LoraConfig, get_peft_model

        tree = get_peft_model(tree, LoraConfig(r=arguments.rank, lora_alpha=32, target_modules="all-linear"))
    parameters = [parameter for parameter in tree.parameters() if parameter.requires_grad]
    tokens = TextTokens(language_model.tokenizer, arguments.tokens)

    def encoded(some: list[str]) -> Any:
        inputs, mask = language_model._batch(tokens.ids(some))
        inputs = {name: value for name, value in inputs.items() if name != "position_ids"}
        return pool(tree(**inputs).last_hidden_state, mask)

    queries, passages = (texts(arguments.batch, arguments.tokens, seed) for seed in (0, 1))
    return timed_steps(lambda: info_nce(encoded(queries), encoded(passages)), parameters, arguments.rounds, device)


def measure_encoding(arguments: argparse.Namespace) -> dict[str, float]:
    """Seconds a text of the backbone with mean pooling, and of the head on top of the same states.

    Texts of unlike lengths in batches of like length, as when documents are indexed.
    """
    import torch
    from slotrag.encoders.batching import batch_limits, batches
    from slotrag.encoders.heads.heads import build_head
    from slotrag.encoders.heads.inputs import head_inputs
    from slotrag.encoders.tokens import TextTokens
    from slotrag.encoders.training.mean_pooling import MeanPooling

    language_model, config = loaded(arguments)
    head, mean = build_head(config).to(language_model.device).eval(), MeanPooling()
    tokens = TextTokens(language_model.tokenizer, arguments.tokens)
    some = [text for length in (0.25, 0.5, 1.0) for text in texts(64, int(arguments.tokens * length), 2)]
    ids = tokens.ids(some)
    spent: dict[str, list[float]] = {"backbone": [], "mean": [], "head": []}
    for _ in range(arguments.rounds + 1):
        clock = dict.fromkeys(spent, 0.0)
        for places in batches([len(row) for row in ids], *batch_limits(language_model.device.type)):
            started = time.perf_counter()
            states, mask = head_inputs(language_model, [ids[place] for place in places], config)
            clock["backbone"] += time.perf_counter() - started
            for name, module in (("mean", mean), ("head", head)):
                started = time.perf_counter()
                with torch.no_grad():
                    module(states, mask).cpu()
                clock[name] += time.perf_counter() - started
        for name, seconds in clock.items():
            spent[name].append(seconds / len(some))
    backbone, pooled, headed = (statistics.median(spent[name][1:]) for name in ("backbone", "mean", "head"))
    return {
        "mean_seconds_a_text": backbone + pooled,
        "head_seconds_a_text": backbone + headed,
        "overhead": (headed - pooled) / (backbone + pooled),
    }


def measured(part: str, arguments: argparse.Namespace) -> dict[str, float]:
    """One part, in this process."""
    from slotrag.encoders.backbones.threads import set_threads

    set_threads(arguments.threads)
    if part == "head":
        return measure_head(arguments)
    if part == "encoding":
        return measure_encoding(arguments)
    return measure_backbone(arguments, lora=part == "lora")


def in_own_process(part: str) -> dict[str, float]:
    """The same in a process of its own, whose peak memory is not the others'."""
    command = [sys.executable, __file__, *sys.argv[1:], "--part", part]
    ended = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(ended.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="smollm2-135m", help="a name of the catalogue, or a folder")
    parser.add_argument("--method", default="glot", help="glot, ilse, attention ...")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=64, help="most tokens of a text, special ones included")
    parser.add_argument("--rank", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--part", choices=PARTS)
    arguments = parser.parse_args()
    if arguments.part:
        print(json.dumps(measured(arguments.part, arguments)))
        return
    found = {part: in_own_process(part) for part in PARTS}
    head = found["head"]
    for part in ("lora", "full"):
        found[part]["slower_than_head"] = found[part]["step_seconds"] / head["step_seconds"]
        found[part]["parameters_of_head"] = found[part]["parameters"] / max(head["parameters"], 1)
    print(json.dumps({"arguments": vars(arguments), **found}, indent=1))


if __name__ == "__main__":
    main()
