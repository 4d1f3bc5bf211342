"""One-word prompts and Token Prepending on a file of sentence pairs: quality of every setting, and what each costs.

    python tests/benchmarks/one_word.py STS_FILE [--pairs N] [--backbone NAME] [--exits 3] [--layers=-1,-2,-3]

The file is one that ``slotrag eval sts`` reads; N pairs are used, evenly spread over it. Post-processing is fitted on
the texts of the pairs with even numbers; every Spearman correlation (times 100) is that of the pairs with odd numbers,
with and without. Each row is one pass over the texts.

Times are taken in alternation, setting by setting, round after round, each as a ratio to plain ``eol`` in the same
round; the median of the rounds is shown, so that other work on the machine weighs on all alike.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import median

import numpy as np
from slotrag.encoders import registry
from slotrag.encoders.backbones.store import ModelStore
from slotrag.encoders.one_word import scan_states
from slotrag.encoders.postprocessing import LEAST_ROWS
from slotrag.encoders.postprocessing_fit import fit
from slotrag.encoders.prompts import DEMONSTRATIONS, PROMPTS
from slotrag.rag.evaluation.correlation import spearman
from slotrag.rag.evaluation.pairs import Pairs, read_pairs

STEPS = ("none", "mean", "top=1", "mean+top=1", "mean+top=3", "mean+whiten=128", "embedfilter")


def correlation(vectors: np.ndarray, places: dict[str, int], pairs: Pairs, rows: slice) -> float:
    """Spearman correlation of the cosines of some pairs with their scores, times 100."""
    left, right = (vectors[[places[text] for text in side[rows]]] for side in (pairs.first, pairs.second))
    return 100 * spearman((left * right).sum(axis=1), np.asarray(pairs.gold[rows]))


def settings(
    backbone: str, prompts: list[str], exits: list[int], demonstrations: list[str]
) -> list[tuple[tuple[str, str, str], str]]:
    """Labels (prompt, prepending, demonstration) and specs of every setting to compare."""
    chosen = []
    for prompt in prompts:
        for demonstration in ["none", *(demonstrations if prompt != "metaeol" else [])]:
            common = f"calibration=none,prompt={prompt},demonstration={demonstration}"
            chosen.append(((prompt, "-", demonstration), f"prompteol@({backbone}):{common}"))
            for end in [1, *exits]:
                label = "no copy" if end == 1 else f"exit {end}"
                chosen.append(((prompt, label, demonstration), f"tp@({backbone}):{common},exit={end}"))
    return chosen


def processed(steps: str, rows: np.ndarray, fitting: list[int], encoder) -> np.ndarray:
    """Unit rows after post-processing that is fitted on some of them."""
    if steps == "none":
        return rows
    unembedding = encoder.unembedding() if "filter" in steps else None
    return fit(steps, [rows[fitting]], unembedding=unembedding).apply(rows)


def measure_quality(arguments: argparse.Namespace, models: ModelStore) -> None:
    pairs = read_pairs(arguments.pairs_file)
    pairs = pairs.sample(arguments.pairs or len(pairs))
    texts = list(dict.fromkeys([*pairs.first, *pairs.second]))
    places = {text: place for place, text in enumerate(texts)}
    fitting = sorted({places[text] for side in (pairs.first, pairs.second) for text in side[::2]})
    odd = slice(1, None, 2)
    print(
        f"{len(pairs)} pairs, {len(texts)} texts; fitted on {len(fitting)} texts, reported on {len(pairs) // 2} pairs"
    )
    if len(fitting) < LEAST_ROWS:
        print(f"(fewer than {LEAST_ROWS} texts: the post-processed columns are noise)")
    print(f"{'prompt':10} {'prepending':10} {'demonstr.':10} {'layer':>5} " + " ".join(f"{s:>15}" for s in STEPS))
    for (prompt, prepending, demonstration), spec in settings(
        arguments.backbone, arguments.prompts, arguments.exits, arguments.demos
    ):
        encoder = registry.create(spec, models)
        states = scan_states(encoder, texts)
        for layer in arguments.layers:
            rows = states[layer] / np.linalg.norm(states[layer], axis=1, keepdims=True)
            found = []
            for steps in STEPS:
                own = steps.replace("128", str(min(128, len(fitting) // 4)))
                found.append(correlation(processed(own, rows, fitting, encoder), places, pairs, odd))
            values = " ".join(f"{value:15.1f}" for value in found)
            print(f"{prompt:10} {prepending:10} {demonstration:10} {layer:5} {values}", flush=True)


def measure_time(arguments: argparse.Namespace, models: ModelStore) -> None:
    pairs = read_pairs(arguments.pairs_file).sample(arguments.timed // 2)
    texts = [*pairs.first, *pairs.second]
    backbone = arguments.backbone
    specs = {"eol": f"prompteol@({backbone}):calibration=none"}
    for prompt in arguments.prompts:
        if prompt != "eol":
            specs[prompt] = f"prompteol@({backbone}):calibration=none,prompt={prompt}"
        for end in arguments.exits:
            specs[f"{prompt}, exit {end}"] = f"tp@({backbone}):calibration=none,prompt={prompt},exit={end}"
    specs["eol, demonstration"] = f"prompteol@({backbone}):calibration=none,demonstration={next(iter(DEMONSTRATIONS))}"
    specs["eol, layer -1 (full pass)"] = f"prompteol@({backbone}):calibration=none,layer=-1"
    specs["eol, layer -3"] = f"prompteol@({backbone}):calibration=none,layer=-3"
    specs["eol, half the layers"] = f"prompteol@({backbone}):calibration=none,layer={arguments.half}"
    specs["echo"] = f"echo@({backbone}):calibration=none"
    encoders = {name: registry.create(spec, models) for name, spec in specs.items()}
    for encoder in encoders.values():
        encoder.encode_documents(texts[:2])
    ratios: dict[str, list[float]] = {name: [] for name in specs}
    speeds: dict[str, list[float]] = {name: [] for name in specs}
    for _ in range(arguments.rounds):
        for name, encoder in encoders.items():
            # Plain eol beside each: a ratio compares two neighbours, not the two ends of a round.
            plain = seconds(encoders["eol"], texts)
            took = seconds(encoder, texts)
            ratios[name].append(took / plain)
            speeds[name].append(len(texts) / took)
    print(f"\n{len(texts)} texts, median of {arguments.rounds} rounds (lowest and highest ratio in brackets)")
    print(f"{'setting (layer -2 unless named)':34} {'texts/s':>8} {'time / eol':>11}")
    for name, found in ratios.items():
        print(f"{name:34} {median(speeds[name]):8.1f} {median(found):11.3f}  ({min(found):.3f} to {max(found):.3f})")


def seconds(encoder, texts: list[str]) -> float:
    started = time.perf_counter()
    encoder.encode_documents(texts)
    return time.perf_counter() - started


def words(text: str) -> list[str]:
    return [part for part in text.split(",") if part]


def numbers(text: str) -> list[int]:
    return [int(part) for part in words(text)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs_file", type=Path)
    parser.add_argument("--pairs", type=int, help="pairs for the correlations (default: all)")
    parser.add_argument("--backbone", default="smollm2-135m")
    parser.add_argument("--exits", type=numbers, default=[3, 7], help="exits of Token Prepending")
    parser.add_argument(
        "--layers", type=numbers, default=[-1, -2, -3, -4], help="--layers= leaves the correlations out"
    )
    parser.add_argument("--prompts", type=words, default=list(PROMPTS))
    parser.add_argument("--demos", type=words, default=list(DEMONSTRATIONS), help="demonstrations beside none")
    parser.add_argument("--timed", type=int, default=64, help="texts of a timed round")
    parser.add_argument("--rounds", type=int, default=5, help="0 leaves the times out")
    parser.add_argument("--half", type=int, default=15, help="a layer in the middle, for the time of an early exit")
    arguments = parser.parse_args()
    models = ModelStore()
    if arguments.layers:
        measure_quality(arguments, models)
    if arguments.rounds:
        measure_time(arguments, models)


if __name__ == "__main__":
    main()
