"""Trains the compressors that ship for smollm2-135m, in runs that may be stopped at any time, and measures them.

    python tests/benchmarks/icae_recipe.py WORK --data DATA --documentation DIR --dictionary FILE.dict.dz
        --measured xquad.en.part-a.json --measured GIT_DOC_FOLDER [--compressor pooled] [--minutes 90]

Each call goes on with the first stage that is not at its end, for about so many minutes; when all are, it measures and
says which checkpoint came out. What is trained on: DATA's prose_en and qa_en (CC BY-SA and the like), the
documentation's sources (PSF-2.0) and the dictionary (GFDL); what is measured on shares no run of 13 words with it.

The stages rest on what short runs showed: plain words around the slots, a read-out after 8 to 10 of 30 layers, slots
that begin as the mean of their tokens' embeddings, rates that rise, and answers from the beginning.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

READ_OUT = {"pooled": 8, "memory-tokens": 10}
LEAST_CHARACTERS = 80
LICENCES = {
    "prose_en": "CC BY-SA 3.0 and 4.0",
    "reading.jsonl": "CC BY-SA 4.0, CC BY 4.0, MIT",
    "natural.jsonl": "CC BY-SA 3.0",
    "pubmed.jsonl": "MIT",
    "documentation": "PSF-2.0",
    "dictionary": "GFDL-1.1-or-later",
}


@dataclass(frozen=True)
class Stage:
    """One training: its kind, and the options that are its own."""

    name: str
    kind: str
    options: tuple[str, ...]
    replies: int = 0
    before: str | None = None
    first: bool = False


STAGES = (
    # Copying, from one slot for each token upwards; questions a little, so that their form is learned early.
    Stage(
        "copy",
        "pretrain",
        (
            "--steps", "2400", "--rates", "1:100,2:700,3:400,2+4:*", "--lengths", "32-64:900,64-128:*",
            "--mix", "autoencode=0.7,continue=0.15,instruct=0.15", "--batch-tokens", "512",
            "--learning-rate", "0.001", "--warm-up", "50", "--check-every", "150", "--check-rows", "12",
            "--write-every", "4",
        ),
        first=True,
    ),
    # Asking and copying side by side, on passages as long as those that are stored, several of them at times.
    Stage(
        "ask",
        "finetune",
        (
            "--steps", "3000", "--rates", "2+4", "--lengths", "64-256", "--passages", "3",
            "--mix", "autoencode=0.3,continue=0.1,instruct=0.6", "--batch-tokens", "768",
            "--learning-rate", "0.0006", "--warm-up", "50", "--distil", "0.5", "--check-every", "150",
            "--check-rows", "12", "--write-every", "4",
        ),
        replies=1500,
        before="copy",
    ),
)  # fmt: skip


def main() -> None:
    """Go on with the first stage that is not at its end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--documentation", type=Path, required=True)
    parser.add_argument("--dictionary", type=Path, required=True)
    parser.add_argument("--measured", type=Path, action="append", required=True)
    parser.add_argument("--compressor", choices=list(READ_OUT), default="pooled")
    parser.add_argument("--minutes", type=float, default=90)
    parser.add_argument("--dtype", default="float32", help="bfloat16 is faster where the processor has it")
    parser.add_argument("--show", action="store_true", help="say the commands and run none")
    options = parser.parse_args()
    sources = prepared_sources(options)
    for stage in STAGES:
        if result(options, stage) is not None and result(options, stage)["stopped"] == "steps":
            continue
        command = command_of(options, stage, sources)
        print(shlex.join(command), file=sys.stderr, flush=True)
        if not options.show:
            subprocess.run(command, check=True)
        return
    last = result(options, STAGES[-1])
    measuring = [sys.executable, str(Path(__file__).with_name("icae_measures.py")), last["hash"]]
    for path in options.measured:
        measuring += ["--data", str(path)]
    print(shlex.join(measuring), file=sys.stderr, flush=True)
    if not options.show:
        subprocess.run(measuring, check=True)


def prepared_sources(options: argparse.Namespace) -> list[tuple[Path, str]]:
    """What is trained on, with its licence; the dictionary is parted into its entries."""
    dictionary = options.work / "dictionary.jsonl"
    if not dictionary.exists():
        options.work.mkdir(parents=True, exist_ok=True)
        content = gzip.decompress(options.dictionary.read_bytes()).decode("utf-8", "replace")
        lines = [json.dumps({"text": entry}) + "\n" for entry in entries(content)]
        dictionary.write_text("".join(lines), encoding="utf-8")
    questions = [options.data / "qa_en" / f"{name}.jsonl" for name in ("reading", "natural", "pubmed")]
    return [
        (options.data / "prose_en", LICENCES["prose_en"]),
        *((path, LICENCES[path.name]) for path in questions),
        (options.documentation, LICENCES["documentation"]),
        (dictionary, LICENCES["dictionary"]),
    ]


def entries(content: str) -> list[str]:
    """The definitions of a dictionary in DICT's form, as running text."""
    found = []
    for block in re.split(r"\n(?=\S[^\n]*\n\n)", content):
        headword, _, body = block.strip().partition("\n\n")
        paragraphs = (" ".join(part.split()) for part in re.sub(r"[{}]", "", body).split("\n\n"))
        text = "\n".join(part for part in paragraphs if part)
        if len(text) >= LEAST_CHARACTERS:
            found.append(f"{headword.strip()}: {text}")
    return found


def run_folder(options: argparse.Namespace, stage: Stage) -> Path:
    """The folder of a stage's run."""
    return options.work / f"{options.compressor}-{stage.name}"


def result(options: argparse.Namespace, stage: Stage) -> dict | None:
    """What came out of a stage so far."""
    path = run_folder(options, stage) / "result.json"
    return json.loads(path.read_text()) if path.exists() else None


def command_of(options: argparse.Namespace, stage: Stage, sources: list[tuple[Path, str]]) -> list[str]:
    """The command that trains a stage, or goes on with it."""
    command = ["slotrag", "train", "icae", "--stage", stage.kind, "--base", "smollm2-135m"]
    for path, licence in sources:
        command += ["--data", str(path), "--licence", licence]
    for path in options.measured:
        command += ["--exclude", str(path)]
    command += [*stage.options, "--dtype", options.dtype, "--replies", str(stage.replies)]
    command += ["--prepared", str(options.work / "tokens"), "--run", str(run_folder(options, stage))]
    command += ["--minutes", str(options.minutes)]
    if stage.first:
        return [
            *command, "--compressor", options.compressor, "--read-out", str(READ_OUT[options.compressor]),
            "--rank", "32",
        ]  # fmt: skip
    before = next(each for each in STAGES if each.name == stage.before)
    found = result(options, before)
    assert found is not None, f"{before.name} has no result"
    return [*command, "--start", found["hash"]]


if __name__ == "__main__":
    main()
