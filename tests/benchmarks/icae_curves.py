"""Curves of training runs as one SVG and a small JSON: held-out loss and recovery over context tokens.

    python tests/benchmarks/icae_curves.py OUT RUN [RUN ...]

Writes OUT.svg and OUT.json. Runs are the folders that ``slotrag train icae --run`` wrote, in the order in which one
started from the other; their tokens are counted on.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

WIDTH, HEIGHT, MARGIN = 640, 260, 48
COLOURS = ("#1b6ca8", "#c1440e", "#3a7d44", "#7a4fa3", "#b8860b", "#444444", "#c2185b", "#00838f")
SHOWN = ("loss", "recovery")


def checks(runs: list[Path]) -> list[dict]:
    """The checks of all runs, their tokens counted on from one to the next."""
    found, before = [], 0
    for run in runs:
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        own = [line for line in lines if line["kind"] == "check"]
        found += [{**line, "run": run.name, "tokens": before + line["tokens"]} for line in own]
        before += max((line["tokens"] for line in lines), default=0)
    return found


def curves(lines: list[dict], measure: str) -> dict[str, list[tuple[float, float]]]:
    """The points of one measure, by what was measured."""
    found: dict[str, list[tuple[float, float]]] = {}
    for line in lines:
        for name, measures in line["measures"].items():
            if measure in measures:
                found.setdefault(name.removeprefix("loss "), []).append((line["tokens"], measures[measure]))
    return found


def drawn(measure: str, found: dict[str, list[tuple[float, float]]], top: int) -> list[str]:
    """One chart, its upper edge at `top`."""
    points = [point for line in found.values() for point in line]
    if not points:
        return []
    right = max(x for x, _ in points) or 1
    low, high = min(0.0, *(y for _, y in points)), max(y for _, y in points) or 1

    def place(x: float, y: float) -> str:
        across = MARGIN + x / right * (WIDTH - 2 * MARGIN)
        return f"{across:.1f},{top + HEIGHT - MARGIN - (y - low) / (high - low) * (HEIGHT - 2 * MARGIN):.1f}"

    parts = [f'<text x="{MARGIN}" y="{top + 20}" font-weight="bold">{measure}</text>']
    for value in (low, (low + high) / 2, high):
        x, y = place(0, value).split(",")
        parts.append(f'<line x1="{x}" x2="{WIDTH - MARGIN}" y1="{y}" y2="{y}" stroke="#ddd"/>')
        parts.append(f'<text x="{MARGIN - 4}" y="{y}" text-anchor="end">{value:.2f}</text>')
    bottom = top + HEIGHT - MARGIN + 16
    parts.append(f'<text x="{WIDTH - MARGIN}" y="{bottom}" text-anchor="end">{right:,.0f} context tokens</text>')
    for number, (name, line) in enumerate(sorted(found.items())):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(place(x, y) for x, y in line)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        parts.append(f'<text x="{WIDTH - MARGIN + 8}" y="{top + MARGIN + 14 * number}" fill="{colour}">{name}</text>')
    return parts


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("runs", type=Path, nargs="+")
    options = parser.parse_args()
    lines = checks(options.runs)
    body = [part for at, name in enumerate(SHOWN) for part in drawn(name, curves(lines, name), at * HEIGHT)]
    size = f'width="{WIDTH + 180}" height="{HEIGHT * len(SHOWN)}"'
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">', *body, "</svg>"]
    options.out.with_suffix(".svg").write_text("\n".join(svg) + "\n", encoding="utf-8")
    options.out.with_suffix(".json").write_text(json.dumps(lines, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
