"""A tiny causal model, and a store of texts and questions that it is trained on in seconds."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

WORDS = ["heat", "layer", "speed", "angle", "flat", "distance", "grows", "measured", "stands", "written", "numbers"]


def sentence(draw: random.Random) -> str:
    words = draw.choices(WORDS, k=draw.randint(7, 12))
    return f"The {' '.join(words)} {draw.randint(10, 99)}."


def write_texts(path: Path, count: int, seed: int = 0) -> Path:
    """Rows of a few sentences of a dozen words, every second one with a question."""
    draw = random.Random(seed)
    lines = []
    for number in range(count):
        text = " ".join(sentence(draw) for _ in range(draw.randint(3, 6)))
        row: dict[str, str] = {"text": text}
        if number % 2:
            row |= {"question": f"What stands in {number}?", "answer": text.split()[3]}
        lines.append(json.dumps(row) + "\n")
    path.write_text("".join(lines))
    return path


@pytest.fixture(scope="session")
def small_decoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny random llama whose window holds every prompt."""
    import tiny_models

    return tiny_models.write("llama", tmp_path_factory.mktemp("decoder") / "llama", max_position_embeddings=4096)


@pytest.fixture(scope="session")
def language_model(small_decoder: Path):
    from slotrag.encoders.backbones.frozen import FrozenLM

    return FrozenLM.load(small_decoder, causal=True, device="cpu")


@pytest.fixture(scope="session")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_texts(tmp_path_factory.mktemp("texts") / "texts.jsonl", 120)


@pytest.fixture(scope="session")
def store(texts: Path, language_model, tmp_path_factory: pytest.TempPathFactory):
    from slotrag.rag.icae.training.data import Preparation, made_of, prepare
    from slotrag.rag.icae.training.sources import Source

    preparation = Preparation(held_out=0.15)
    of = made_of([Source(texts)], [], {"tokenizer": "t"}, preparation)
    folder = tmp_path_factory.mktemp("store")
    return prepare([Source(texts)], language_model.tokenizer, folder, made_of=of, preparation=preparation).store
