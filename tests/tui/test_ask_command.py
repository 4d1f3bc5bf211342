"""``ask`` and its conversations over a real library, with a tiny decoder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from program import Command, value

ANSWER_KEYS = [
    "schema", "question", "answer", "stop_reason", "citations", "context", "timings_ms", "session", "quotes",
    "unsupported",
]  # fmt: skip


def test_ask_not_found_is_three_and_loads_no_decoder(
    command: Command, indexed: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SLOTRAG_MODELS", str(tmp_path / "no-models"))
    outcome = command("ask", "zebra giraffe?", "--path", "nowhere/*", "--json")
    found = value(outcome, code=3)
    assert list(found) == ANSWER_KEYS
    assert (found["stop_reason"], found["citations"]) == ("not_found", [])


def test_ask_answers_and_continues_a_conversation(
    command: Command, indexed: Path, tiny_model: Callable[[str], Path]
) -> None:
    options = ["--decoder", tiny_model("llama"), "--max-tokens", "5", "--context", "text"]
    found = value(command("ask", "When is the boiler serviced in September?", *options, "--json"))
    assert list(found) == ANSWER_KEYS
    assert found["stop_reason"] != "not_found" and found["answer"]
    assert list(found["timings_ms"]) == ["retrieve", "compress", "first_token", "total"]
    assert {item["form"] for item in found["context"]} <= {"text"}
    session = command("sessions")[1].split("\t")[0]
    code, out, err = command("ask", "When is the boiler serviced in September?", *options, "--session", session)
    assert code == 0
    assert "Sources\n[1] boiler.md:" in out
    assert session in err
    assert value(command("sessions", "list", "--json"))["sessions"][0]["messages"] == 4
    assert command("ask", "x", *options, "--session", "unknown")[:2] == (3, "")


def test_the_run_that_fetches_the_decoder_offers_a_larger_one(
    command: Command, indexed: Path, tiny_model: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from slotrag.encoders.backbones.store import ModelStore
    from slotrag.tui import recommending

    present = ModelStore.present
    monkeypatch.setattr(ModelStore, "resolve", lambda self, name: tiny_model("llama"))
    monkeypatch.setattr(ModelStore, "present", lambda self, name: False)
    monkeypatch.setattr(recommending, "measure", lambda store, settings: 1000.0)
    question = ["ask", "When is the boiler serviced in September?", "--max-tokens", "5"]
    assert "slotrag config set decoder" in command(*question)[2]
    monkeypatch.setattr(ModelStore, "present", lambda self, name: True)
    assert "slotrag config set decoder" not in command(*question)[2]
    monkeypatch.setattr(ModelStore, "present", present)


def conversation(question: str) -> str:
    """A conversation in the library, stored without asking a model; its id."""
    from slotrag.rag.locations import library_folder
    from slotrag.storage import Catalog

    with Catalog.open(library_folder(None)) as catalog:
        session = catalog.create_session(question)
        catalog.add_message(session, "user", question, citations=[], details={})
        citation = {
            "number": 1, "passage_id": 1, "path": "boiler.md", "absolute_path": "/x/boiler.md", "page": None,
            "lines": [3, 3], "heading": "Boiler", "excerpt": "The boiler is serviced in September.",
        }  # fmt: skip
        catalog.add_message(session, "assistant", "In September [1].", citations=[citation], details={})
    return session


def test_sessions(command: Command, indexed: Path, tmp_path: Path) -> None:
    session = conversation("When is the boiler serviced?")
    assert command("sessions")[1].startswith(f"{session}\t")
    assert value(command("sessions", "list", "--json"))["sessions"][0]["id"] == session
    assert value(command("sessions", "list", "nothing-like-it", "--json"))["sessions"] == []
    code, out, _ = command("sessions", "show", session)
    assert code == 0
    assert "When is the boiler serviced?" in out and "[1] boiler.md:3" in out
    assert "The boiler is serviced in September." in command("sessions", "export", session)[1]
    file = tmp_path / "conversation.json"
    assert command("sessions", "export", session, "--format", "json", "--output", file)[:2] == (0, "")
    json.loads(file.read_text(encoding="utf-8"))
    assert command("sessions", "delete", session)[0] == 0
    for arguments in (["show", session], ["delete", session], ["export", session]):
        code, out, err = command("sessions", *arguments)
        assert (code, out) == (3, "") and err.count("\n") == 1
