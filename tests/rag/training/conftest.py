"""A library over a tiny model, large enough to part and to train on."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from libraries import write
from slotrag.encoders.backbones.store import ModelStore
from slotrag.rag.library import Library
from slotrag.rag.settings import Settings

THINGS = ["wing", "plate", "tunnel", "library", "report", "table", "machine", "question", "meeting", "code"]
WORDS = ["heat", "layer", "speed", "angle", "flat", "distance", "grows", "measured", "stands", "written", "numbers"]


def text(number: int) -> str:
    draw = random.Random(number)
    thing = f"{THINGS[number % 10]} {number}"
    lines = [f"# The {thing}", ""]
    for _ in range(5):
        words = " ".join(draw.choices(WORDS, k=7))
        lines += [f"The {thing} has {words} {draw.randint(100, 999)}. It is {' '.join(draw.choices(WORDS, k=6))}.", ""]
    return "\n".join(lines)


@pytest.fixture(scope="session")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("own-documents"), {f"{number}.md": text(number) for number in range(24)})


@pytest.fixture(scope="session")
def own_library(
    documents: Path, tiny_model: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Library]:
    """Indexed with mean pooling over a tiny random BERT; heads go to a models folder of its own."""
    root = tmp_path_factory.mktemp("own-library")
    settings = Settings(encoder=f"mean@({tiny_model('bert')})", decoder="none-such", passage_tokens=60)
    models = ModelStore(root / "models", offline=True)
    with Library.open(root / "library", settings=settings, models=models) as library:
        library.index([documents])
        yield library
