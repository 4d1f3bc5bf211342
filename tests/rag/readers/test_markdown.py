"""Reading Markdown: front matter gives the title and no passage."""

from __future__ import annotations

from pathlib import Path

import pytest
from libraries import open_library
from slotrag.rag.readers import read

FRONT = '---\ntitle: "The boiler"\ntags: [boiler, service]\n---\n'
BODY = "\n# Care\n\nThe boiler is serviced in May.\n"


def test_front_matter_gives_the_title_and_no_passage(tmp_path: Path, hashing_encoder: str) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text(FRONT + BODY)
    document = read(docs / "a.md")
    assert document.title == "The boiler" and document.text == BODY
    with open_library(tmp_path / "library") as library:
        library.index([docs])
        hits = library.search("boiler service tags").hits
    assert [hit.text for hit in hits] == ["# Care\n\nThe boiler is serviced in May."]
    whole = FRONT + BODY
    assert whole[slice(*hits[0].chars)] == hits[0].text
    first, last = hits[0].lines
    assert "\n".join(whole.split("\n")[first - 1 : last]) == hits[0].text


@pytest.mark.parametrize("mode", ["dense", "lexical"])
def test_a_title_in_front_matter_alone_is_searchable(tmp_path: Path, hashing_encoder: str, mode: str) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text("---\ntitle: 'Zeppelin journeys'\ndate: 2020\n---\nThey began in May.\n")
    (docs / "b.md").write_text("They ended in June.\n")
    with open_library(tmp_path / "library") as library:
        library.index([docs])
        hit = library.search("zeppelin", mode=mode).hits[0]
    assert (hit.path, hit.text) == ("a.md", "They began in May.")


@pytest.mark.parametrize(
    "text", [FRONT, FRONT.rstrip("\n"), FRONT + "\n \n", "---\nA rule, and no end of it.\n", "---"]
)
def test_what_has_no_text_after_it_is_kept(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.md").write_text(text)
    document = read(tmp_path / "a.md")
    assert (document.text, document.first_line, document.first_character) == (text, 1, 0)
