"""One run of about ten minutes on a GPU with prepared data; a second call goes on with it.

    python tests/benchmarks/icae_gpu.py PREPARED RUN [--base FOLDER] [--minutes 9] [--stage pretrain]
        [-- MORE OPTIONS OF slotrag train icae]

PREPARED is what ``slotrag train icae --prepared PREPARED --data ...`` wrote on a machine with the texts, so that this
one needs neither them nor the time to prepare them. At the end it says how many context tokens a second were trained.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from slotrag.tui.cli import run

OPTIONS = [
    "--device", "cuda", "--dtype", "bfloat16", "--batch-tokens", "16384", "--check-rows", "64", "--check-every", "100",
    "--write-every", "5",
]  # fmt: skip


def main() -> int:
    """Train, and tell the speed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prepared", type=Path)
    parser.add_argument("run", type=Path)
    parser.add_argument("--base", default="smollm2-135m")
    parser.add_argument("--minutes", default="9")
    parser.add_argument("--stage", default="pretrain")
    parser.add_argument("more", nargs="*")
    options = parser.parse_args()
    code = run(
        [
            "train", "icae", "--stage", options.stage, "--base", options.base, "--prepared", str(options.prepared),
            "--run", str(options.run), "--minutes", options.minutes, *OPTIONS, *options.more,
        ]
    )  # fmt: skip
    if code == 0:
        found = json.loads((options.run / "result.json").read_text())
        print(f"{found['tokens'] / max(found['seconds'], 1):,.0f} context tokens a second", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
