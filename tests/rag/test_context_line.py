"""Context lines: from the content, within the encoder's limit, and re-encoded only where they change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from libraries import open_library, passages, write
from slotrag.rag.context_line import CONTEXT_TOKENS, context_line, is_title
from slotrag.rag.documents import Document


def words(text: str) -> list[tuple[int, int]]:
    return [(0, 1)] * len(text.split())


def line(title: str, heading: str, text: str = "Some text.", room: int = 100) -> str:
    return context_line(Document(title, "", "text/plain"), heading, text, words, room)


@pytest.mark.parametrize(
    ("title", "heading", "expected"),
    [
        ("Manual", "Care > Filter", "Manual > Care > Filter"),
        ("Care", "Care > Filter", "Care > Filter"),
        ("Manual", "", "Manual"),
        ("", "Care", "Care"),
        ("", "", ""),
        ("It rained all day and nobody came.", "", ""),
    ],
)
def test_title_and_headings(title, heading, expected):
    assert line(title, heading) == expected


def test_what_the_passage_says_itself_is_not_said_again():
    assert line("Manual", "Care > Filter", "## Filter\n\nClean it.") == "Manual > Care"
    assert line("Manual", "Care", "Manual\n======\n\nKeep it dry.") == "Care"


def test_long_first_lines_are_no_titles():
    assert not is_title(Document(" ".join(["word"] * 16), "", "text/plain"))
    assert is_title(Document("회의록 5월", "", "text/plain"))


heading_paths = st.lists(st.text("abc ", min_size=1, max_size=30).map(str.strip).filter(bool), max_size=6)


@given(title=st.text("abc ", max_size=40), headings=heading_paths, room=st.integers(0, 60))
def test_never_more_than_the_room(title, headings, room):
    said = line(title.strip(), " > ".join(headings), room=room)
    assert len(words(said)) <= min(room, CONTEXT_TOKENS)
    assert "\n" not in said


def test_with_its_context_line_no_passage_exceeds_the_encoder(tmp_path, hashing_encoder):
    from slotrag.encoders.registry import create

    text = "# A heading of several words\n\n" + "copper and tin are metals. " * 200
    docs = write(tmp_path / "docs", {"a.md": text})
    encoder = create("hashing:max_tokens=30", None)
    with open_library(tmp_path / "library", encoder="hashing:max_tokens=30") as library:
        library.index([docs])
        catalog = library._catalog
        held = catalog.passages(catalog.passage_ids(catalog.collection(None).id).tolist())
        assert len(held) > 10
        for passage in held:
            given_text = f"{passage.context}\n{passage.text}" if passage.context else passage.text
            assert len(encoder.token_offsets(given_text)) <= 30


def test_a_changed_heading_encodes_its_passages_only(tmp_path, hashing_encoder):
    body = "".join(f"## Part {n}\n\n" + f"Sentence {n} about copper mines. " * 60 + "\n\n" for n in range(5))
    docs = write(tmp_path / "docs", {"a.md": "# Mines\n\n" + body, "b.md": "# Other\n\nText."})
    with open_library(tmp_path / "library") as library:
        library.index([docs])
        before = passages(library)
        write(docs, {"a.md": "# Mines\n\n" + body.replace("## Part 3", "## Chapter 3")})
        report = library.index([docs])
        changed = {row for row in passages(library) if "Chapter 3" in row[3]}
        assert report.encoded == len({row[8] for row in changed}) == 2 < len(before) / 2
        hits = library.search("chapter", mode="lexical").hits
        assert {hit.heading for hit in hits} == {"Mines > Chapter 3"}
        assert all("Mines >" not in hit.text for hit in hits), "the line is not shown"
        write(docs, {"a.md": "# Pits\n\n" + body})
        assert library.index([docs]).encoded == len({row[8] for row in before}) - 1, "all stand under the title"
