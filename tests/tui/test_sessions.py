"""``slotrag sessions``: conversations shown once and whole, found by the beginning of their id."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from slotrag import UsageError
from slotrag.rag.locations import library_folder
from slotrag.rag.sessions import Conversation, full_id
from slotrag.storage import Catalog
from slotrag.storage.records import SessionRecord
from slotrag.tui.cli import run

QUESTION = "When is the boiler serviced?"
CITATION = {
    "number": 1,
    "passage_id": 1,
    "path": "boiler.md",
    "absolute_path": "/x/boiler.md",
    "page": None,
    "lines": [3, 3],
    "heading": "Boiler",
    "excerpt": "The boiler is serviced\nin September.",
}


@pytest.fixture
def catalog() -> Iterator[Catalog]:
    with Catalog.open(library_folder(None)) as catalog:
        yield catalog


@pytest.fixture
def session(catalog: Catalog) -> str:
    made = catalog.create_session(QUESTION)
    catalog.add_message(made, "user", QUESTION, citations=[], details={})
    catalog.add_message(made, "assistant", "In September. [1]", citations=[CITATION], details={})
    return made


def test_each_message_is_shown_once_with_the_excerpts_it_cited(
    session: str, catalog: Catalog, capsys: pytest.CaptureFixture[str]
) -> None:
    said = f"> {QUESTION}\n\nIn September. [1]\n[1] boiler.md:3\n    The boiler is serviced\n    in September.\n"
    assert run(["sessions", "show", session]) == 0
    assert capsys.readouterr().out == said
    catalog.rename_session(session, "Heating")
    run(["sessions", "show", session])
    assert capsys.readouterr().out == f"Heating\n\n{said}"


def test_json_is_one_line(session: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sessions", "show", session, "--json"]) == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    found = json.loads(out)
    assert (found["schema"], found["id"], len(found["messages"])) == (1, session, 2)


def test_the_beginning_of_an_id_is_enough(session: str, catalog: Catalog, capsys: pytest.CaptureFixture[str]) -> None:
    beginning = session[:8]
    assert Conversation.open(catalog, beginning).id == session
    for command in ("show", "export", "delete"):
        assert run(["sessions", command, beginning]) == 0
    assert catalog.sessions() == []
    assert run(["sessions", "show", beginning]) == 3


def test_a_beginning_of_several_ids_is_refused() -> None:
    records = [SessionRecord(name, name, 0.0, 0.0, 0, []) for name in ("abc1", "abc2", "abc")]
    assert full_id(records, "abc1") == "abc1"
    assert full_id(records, "abc") == "abc"
    assert full_id(records, "x") == "x"
    with pytest.raises(UsageError, match="3 sessions begin with 'ab'"):
        full_id(records, "ab")
