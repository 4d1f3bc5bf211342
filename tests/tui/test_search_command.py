"""``search`` over a real library: what it writes and how it ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from program import Command, value


def test_search_json_has_the_keys_of_the_contract_in_order(command: Command, indexed: Path) -> None:
    found = value(command("search", "boiler serviced", "--json", "-k", "2"))
    assert list(found) == ["schema", "query", "results"]
    assert found["query"] == "boiler serviced"
    first = found["results"][0]
    assert list(first) == [
        "rank", "score", "score_kind", "scores", "passage_id", "path", "absolute_path", "copies", "page", "lines",
        "chars", "heading", "text",
    ]  # fmt: skip
    assert list(first["scores"]) == ["dense", "lexical"]
    assert (first["rank"], first["score_kind"], first["path"]) == (1, "rrf", "boiler.md")
    assert Path(first["absolute_path"]).read_text(encoding="utf-8").count("boiler") == 1


@pytest.mark.parametrize(("mode", "kind"), [("dense", "cosine"), ("lexical", "bm25"), ("hybrid", "rrf")])
def test_modes_name_their_score(command: Command, indexed: Path, mode: str, kind: str) -> None:
    found = value(command("search", "boiler", "--mode", mode, "--json"))
    assert {result["score_kind"] for result in found["results"]} == {kind}


def test_search_for_a_reader(command: Command, indexed: Path) -> None:
    code, out, _ = command("search", "when is the boiler serviced", "--explain")
    assert code == 0
    assert out.startswith("1. boiler.md:")
    assert "The boiler is serviced in September." in out and "cosine" in out


def test_words_of_a_query_need_no_quotes(command: Command, indexed: Path) -> None:
    assert value(command("search", "boiler", "serviced", "--json"))["query"] == "boiler serviced"


def test_path_filter(command: Command, indexed: Path) -> None:
    found = value(command("search", "boiler music", "--path", "deep/*", "--json"))
    assert {result["path"] for result in found["results"]} == {"deep/rules.txt"}


def test_nothing_found_is_three(command: Command, indexed: Path) -> None:
    assert value(command("search", "boiler", "--path", "nowhere/*", "--json"), code=3)["results"] == []
    code, out, err = command("search", "boiler", "--path", "nowhere/*")
    assert (code, out) == (3, "")
    assert "nothing found" in err
