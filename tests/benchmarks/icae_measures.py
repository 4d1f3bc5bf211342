"""What slots of a compressor are worth on texts that it was never trained on, beside the text itself and nothing.

    python tests/benchmarks/icae_measures.py HASH --data FILE_OR_FOLDER [--data ...] [--rates 2 4]
        [--lengths 64 128 256] [--rows 32] [--written 16] [--base smollm2-135m] [--dtype float32] [--json]

For each set a line for each objective, length and rate: loss with slots, with the text and with nothing, recovery, the
share of tokens that are right (numbers and names apart); BLEU and exact prefix of what is written out; F1 and exact
match of short answers where the set has questions (SQuAD's form). HASH may be ``untrained``.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from slotrag.encoders.backbones.frozen import FrozenLM
from slotrag.encoders.backbones.store import ModelStore
from slotrag.rag.icae.checkpoint import find_compressor
from slotrag.rag.icae.configuration import CompressorConfig
from slotrag.rag.icae.training import curriculum
from slotrag.rag.icae.training.checking import Checker, summary
from slotrag.rag.icae.training.data import Preparation, made_of, prepare
from slotrag.rag.icae.training.drawing import Drawer, Plan
from slotrag.rag.icae.training.objectives import make_reader
from slotrag.rag.icae.training.sources import Source

COLUMNS = (
    "loss", "text loss", "none loss", "recovery", "accuracy", "number accuracy", "name accuracy", "bleu",
    "exact prefix", "f1", "text f1", "none f1", "exact",
)  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hash")
    parser.add_argument("--data", type=Path, action="append", required=True)
    parser.add_argument("--rates", type=float, nargs="+", default=[2, 4])
    parser.add_argument("--lengths", type=int, nargs="+", default=[64, 128, 256])
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--written", type=int, default=16)
    parser.add_argument("--base", default="smollm2-135m")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    models = ModelStore(offline=True)
    language_model = FrozenLM.load(
        models.resolve(options.base), causal=True, device=options.device, dtype=options.dtype
    )
    digests = {"weights": models.weights_sha256(options.base), "tokenizer": models.tokenizer_sha256(options.base)}
    if options.hash == "untrained":
        config, weights = CompressorConfig.for_model(language_model), None
    else:
        found = find_compressor(options.hash, models)
        found.require_for(base_weights=digests["weights"], tokenizer=digests["tokenizer"])
        config, weights = found.config, found.weights
    reader, decoder = make_reader(language_model, config, weights)
    for path in options.data:
        with tempfile.TemporaryDirectory() as folder:
            # Nothing is trained on, and only questions of people are asked.
            preparation = Preparation(held_out=1, questions=0)
            of = made_of([Source(path)], [], digests, preparation)
            store = prepare(
                [Source(path)], language_model.tokenizer, Path(folder), made_of=of, preparation=preparation
            ).store
            mix = {"autoencode": 1.0, "continue": 1.0}
            if any(True for _ in store.questions()):
                mix["instruct"] = 1.0
            span = f"{min(options.lengths)}-{max(options.lengths)}"
            rates = "+".join(f"{rate:g}" for rate in options.rates)
            drawer = Drawer(store, Plan(mix, curriculum.rates(rates), curriculum.lengths(span)))
            checker = Checker(
                reader, drawer, rates=options.rates, lengths=options.lengths, rows=options.rows,
                written_rows=options.written, stop_ids=decoder.stop_ids, tokenizer=language_model.tokenizer,
            )  # fmt: skip
            measure(path.resolve().name, checker, as_json=options.json)


def measure(name: str, checker: Checker, *, as_json: bool) -> None:
    """All cells of one set, each printed when it is measured."""
    measured = {cell.name: checker.measured(cell) for cell in checker.baselines()}
    if not as_json:
        print(name, *COLUMNS, "seconds", sep="\t")
    for cell in [*checker.losses(), *checker.written()]:
        started = time.perf_counter()
        measured[cell.name] = checker.measured(cell)
        own = summary(measured, [cell])[cell.name]
        seconds = round(time.perf_counter() - started, 1)
        if as_json:
            print(json.dumps({"set": name, "cell": cell.name, **own, "seconds": seconds}), flush=True)
        else:
            shown = (f"{own[column]:.3f}" if column in own else "" for column in COLUMNS)
            print(cell.name, *shown, seconds, sep="\t", flush=True)


if __name__ == "__main__":
    main()
