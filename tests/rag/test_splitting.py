"""Passages: within the limit when counted alone, exact places, nothing lost, structure kept."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slotrag.rag.documents import Block, Document
from slotrag.rag.readers.code import code_blocks
from slotrag.rag.readers.markdown import markdown_blocks
from slotrag.rag.readers.text import paragraphs
from slotrag.rag.splitting import CHARACTERS_PER_TOKEN, WINDOW, Piece, split

Tokenizer = Callable[[str], list[tuple[int, int]]]


def words(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in re.finditer(r"\w+|[^\w\s]", text)]


def with_spaces(text: str) -> list[tuple[int, int]]:
    """Tokens take in the space before them, as byte-level vocabularies do."""
    return [match.span() for match in re.finditer(r" ?[^\s]{1,3}|\s", text)]


def several_a_character(text: str) -> list[tuple[int, int]]:
    """Bytes: a character above 127 is two tokens at one place."""
    return [(at, at + 1) for at, character in enumerate(text) for _ in range(1 if character < "\x80" else 2)]


def dearer_alone(text: str) -> list[tuple[int, int]]:
    """The first and the last word of whatever is tokenised come letter by letter."""
    found = words(text)
    if not found:
        return []
    ends = {found[0], found[-1]}
    return [span for word in found for span in ([(i, i + 1) for i in range(*word)] if word in ends else [word])]


def one_for_all(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in re.finditer(r"\S+", text)]


TOKENIZERS: list[Tokenizer] = [words, with_spaces, several_a_character, dearer_alone, one_for_all]


def visible(text: str) -> str:
    return re.sub(r"\s", "", text)


def check(document: Document, pieces: list[Piece], tokenizer: Tokenizer, limit: int) -> None:
    text = document.text
    assert visible("".join(piece.text for piece in pieces)) == visible(text)
    end = 0
    for piece in pieces:
        start, stop = piece.chars
        assert start >= end
        end = stop
        assert piece.text == text[start:stop]
        assert piece.text.strip()
        assert piece.lines == (text.count("\n", 0, start) + 1, text.count("\n", 0, stop - 1) + 1)
        assert len(tokenizer(piece.text)) <= limit or len(piece.text) == 1
        assert len(piece.text) <= limit * CHARACTERS_PER_TOKEN


TEXT = st.text("ab AB .,!?\n#`-|다é(\u0301", max_size=200) | st.lists(
    st.sampled_from(
        ["Word.", "and", "# Head\n", "\n\n", "- item\n", "Dr. No", "```\n", "문장이다.", "| a | b |\n", ", "]
    ),
    max_size=60,
).map(" ".join)


@given(TEXT, st.sampled_from(TOKENIZERS), st.integers(1, 40), st.sampled_from(["text", "markdown", "code", "none"]))
@settings(max_examples=300)
def test_passages_fit_cover_and_are_exact(text: str, tokenizer: Tokenizer, limit: int, form: str) -> None:
    blocks = {
        "text": lambda: paragraphs(text),
        "markdown": lambda: markdown_blocks(text)[0],
        "code": lambda: code_blocks(text),
        "none": list,
    }[form]()
    document = Document("", text, "", blocks)
    check(document, split(document, tokenizer, limit), tokenizer, limit)


@given(TEXT, st.data())
def test_blocks_of_a_careless_reader_lose_nothing(text: str, data: st.DataObject) -> None:
    """Overlapping, unordered, out of range, blank."""
    place = st.integers(0, len(text) + 5)
    kinds = st.sampled_from(["heading", "paragraph", "table", "code", "list"])
    blocks = data.draw(st.lists(st.builds(Block, kinds, place, place), max_size=6))
    document = Document("", text, "", blocks)
    check(document, split(document, words, 7), words, 7)


def markdown(text: str, limit: int) -> list[str]:
    return [piece.text for piece in split(Document("", text, "", markdown_blocks(text)[0]), words, limit)]


def test_sentences_stay_whole() -> None:
    text = " ".join(f"This is sentence number {number} of it." for number in range(40))
    for piece in split(Document("", text, ""), words, 50):
        assert piece.text.startswith("This") and piece.text.endswith("of it.")


def test_a_sentence_over_the_limit_is_cut_at_a_clause_then_at_a_word() -> None:
    clause = "one two three four five six"
    pieces = split(Document("", f"{clause}, {clause}, {clause}.", ""), words, 8)
    assert [piece.text for piece in pieces] == [f"{clause},", f"{clause},", f"{clause}."]
    pieces = split(Document("", "word " * 30, ""), words, 8)
    assert all(set(piece.text.split()) == {"word"} for piece in pieces)
    assert len(pieces) == 4


def test_small_paragraphs_share_a_passage_under_one_heading_only() -> None:
    assert markdown("# A\n\none.\n\ntwo.\n\n# B\n\nthree.", 50) == ["# A\n\none.\n\ntwo.", "# B\n\nthree."]


def test_a_heading_goes_with_what_follows() -> None:
    filler = "Some words stand here in a row. " * 3
    for limit in range(13, 40):
        found = markdown(f"# Top\n\n## Sub\n\n{filler}\n\n{filler}\n\n## Next\n\n{filler}", limit)
        assert found[0].startswith("# Top\n\n## Sub\n\nSome")
        assert all(not piece.rstrip().endswith(("Sub", "Next")) for piece in found)


def test_heading_path_of_a_passage_is_that_of_its_text() -> None:
    text = "# A\n\n## B\n\ntext\n\n# C\n\nmore\n\n# Last"
    pieces = split(Document("", text, "", markdown_blocks(text)[0]), words, 50)
    assert [piece.heading for piece in pieces] == ["A > B", "C", "Last"]


def test_passages_of_a_section_have_like_sizes() -> None:
    text = " ".join(f"Sentence {number} is five." for number in range(21))
    counts = [len(words(piece.text)) for piece in split(Document("", text, ""), words, 100)]
    assert len(counts) == 2 and max(counts) - min(counts) <= 5


def test_paragraph_ends_are_preferred_to_sentence_ends() -> None:
    paragraph = "One two three four five. Six seven eight nine ten."
    text = f"{paragraph}\n\n{paragraph}\n\n{paragraph}"
    pieces = [piece.text for piece in split(Document("", text, "", paragraphs(text)), words, 26)]
    assert sorted(pieces, key=len) == [paragraph, f"{paragraph}\n\n{paragraph}"]


def test_code_keeps_its_indentation_and_whole_lines() -> None:
    text = "class A:\n" + "".join(f"\n    def f{number}(self):\n        return {number}\n" for number in range(20))
    pieces = split(Document("", text, "", code_blocks(text)), words, 60)
    lines = text.split("\n")
    for piece in pieces:
        assert piece.text == "\n".join(lines[piece.lines[0] - 1 : piece.lines[1]])
        assert piece.heading == "A"
    assert all(piece.text.startswith("    def") for piece in pieces[1:])


def test_pages_are_those_of_the_first_character_and_never_mixed() -> None:
    text = "First page.\n\nSecond page.\n\nThird page."
    starts = [0, 13, 27]
    blocks = [
        Block("paragraph", *match.span(), page=number)
        for number, match in enumerate(re.finditer(r"\w+ page\.", text), 1)
    ]
    pieces = split(Document("", text, "", blocks, page_starts=starts), words, 50)
    assert [(piece.page, piece.text) for piece in pieces] == [
        (1, "First page."),
        (2, "Second page."),
        (3, "Third page."),
    ]


def test_a_paragraph_over_a_page_end_gives_each_part_its_page() -> None:
    text = "One two three. " * 4 + "Four five six. " * 4
    document = Document("", text, "", [Block("paragraph", 0, len(text), page=1)], page_starts=[0, 60])
    assert [piece.page for piece in split(document, words, 16)] == [1, 2]


def test_limit_below_one_is_refused_and_no_text_gives_nothing() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        split(Document("", "a", ""), words, 0)
    assert split(Document("", " \n\t ", ""), words, 5) == []
    assert split(Document("", "", ""), words, 5) == []


def test_the_tokenizer_is_called_seldom() -> None:
    calls: list[int] = []

    def counting(text: str) -> list[tuple[int, int]]:
        calls.append(len(text))
        return words(text)

    text = "This is a sentence of some words. " * 20_000
    pieces = split(Document("", text, ""), counting, 200)
    assert len(calls) <= len(pieces) + 2 * len(text) // WINDOW + 2
    assert max(calls) <= WINDOW
    assert sum(calls) < 2.2 * len(text)


@pytest.mark.parametrize("unit", ["a", ". ", "(", "\n", "\n- a", "1\n", "a b", "가", "\u200b\n"])
@pytest.mark.parametrize("kind", ["paragraph", "code"])
def test_large_monotonous_blocks_take_seconds(unit: str, kind: str) -> None:
    text = unit * (300_000 // len(unit))
    document = Document("", text, "", [Block(kind, 0, len(text))])  # pyright: ignore[reportArgumentType]
    start = time.perf_counter()
    split(document, words, 200)
    assert time.perf_counter() - start < 15


def test_real_tokenizer_on_real_prose(request: pytest.FixtureRequest) -> None:
    """The default backbone's own tokenizer, on this repository's Python files and README."""
    models = request.getfixturevalue("models")
    import tokenizers

    if not models.present("minilm-l6"):
        pytest.skip("the default model is not on this machine")
    tokenizer = tokenizers.Tokenizer.from_file(str(models.resolve("minilm-l6") / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def offsets(text: str) -> list[tuple[int, int]]:
        return tokenizer.encode(text, add_special_tokens=False).offsets

    for file in sorted(Path(__file__).parents[2].glob("rag/*.py"))[:12]:
        text = file.read_text(encoding="utf-8")
        document = Document("", text, "", code_blocks(text))
        check(document, split(document, offsets, 200), offsets, 200)


def test_short_sentences_do_not_part_a_heading_from_them():
    text = "# Mines\n\n" + "It is of copper here. " * 60
    blocks, _ = markdown_blocks(text)
    pieces = split(Document("Mines", text, "text/markdown", blocks), words, 200)
    assert len(pieces) == 2
    assert pieces[0].text.startswith("# Mines\n\nIt is")
    assert all(len(words(piece.text)) > 100 for piece in pieces)
