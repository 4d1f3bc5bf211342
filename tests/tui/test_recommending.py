"""The recommended decoder follows from memory and speed, and listing models measures nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from slotrag.encoders.backbones import catalogue, hardware
from slotrag.encoders.backbones.store import ModelStore
from slotrag.rag.settings import Settings
from slotrag.tui import recommending

GIB = 1 << 30


@pytest.mark.parametrize(
    "content", [None, "", "{", "[]", '{"tokens_per_second": "fast"}', '{"tokens_per_second": -1}', "null"]
)
def test_a_speed_that_nobody_measured_is_none(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / ".speed.json").write_text(content, encoding="utf-8")
    assert recommending.remembered_speed(ModelStore(tmp_path)) is None


def test_a_measured_speed_is_kept(
    tmp_path: Path, tiny_model: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ModelStore(tmp_path, offline=True)
    monkeypatch.setattr(ModelStore, "resolve", lambda self, name: tiny_model("llama"))
    speed = recommending.measure(store, Settings())
    assert speed > 0
    assert recommending.remembered_speed(store) == pytest.approx(speed, abs=0.1)


def test_more_memory_and_speed_never_recommend_a_smaller_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    for memory, speed in ((2 * GIB, 5.0), (16 * GIB, 15.0), (16 * GIB, 100.0), (64 * GIB, 500.0)):
        monkeypatch.setattr(hardware, "memory_bytes", lambda memory=memory: memory)
        sizes.append(recommending.recommended(speed).parameters)
    assert sizes == sorted(sizes) and sizes[-1] > sizes[0]


def test_the_sentence_names_the_commands_and_the_licence() -> None:
    entry = catalogue.find("qwen2.5-0.5b")
    assert entry is not None
    text = recommending.sentence(entry, None, current="smollm2-135m")
    assert "slotrag models pull qwen2.5-0.5b" in text and "slotrag config set decoder qwen2.5-0.5b" in text
    assert entry.licence in text and "--measure" in text
    assert "suits this machine" in recommending.sentence(entry, 12.0, current=entry.name)
    assert "12 tokens a second" in recommending.sentence(entry, 12.0, current=entry.name)
