"""Reading reStructuredText: titles, literal blocks, lists, tables; lines are the file's own."""

from __future__ import annotations

from pathlib import Path

import pytest
from slotrag.rag.documents import Document, LineIndex, NoText
from slotrag.rag.readers import read

PAGE = """\
=====
House
=====

The boiler is serviced. Run this::

    make boiler

    make check

Costs
=====

- Water
- Power

.. code-block:: python

   cost = 20

Details
-------

+-------+-----+
| Water | 20  |
+-------+-----+

Other
=====

The end.
"""


def write(folder: Path, text: str, name: str = "page.rst") -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


def parts(document: Document) -> list[tuple[str, str, int, str]]:
    return [(b.kind, document.text[b.start : b.end], b.level, b.heading_path) for b in document.blocks]


def test_the_text_is_the_file(tmp_path: Path) -> None:
    document = read(write(tmp_path, PAGE))
    assert document.text == PAGE
    assert document.media_type == "text/x-rst"
    assert document.title == "House"


def test_levels_follow_the_order_in_which_the_underlines_appear(tmp_path: Path) -> None:
    headings = [part[1:] for part in parts(read(write(tmp_path, PAGE))) if part[0] == "heading"]
    assert headings == [
        ("=====\nHouse\n=====", 1, "House"),
        ("Costs\n=====", 2, "House > Costs"),
        ("Details\n-------", 3, "House > Costs > Details"),
        ("Other\n=====", 2, "House > Other"),
    ]


def test_literal_blocks_lists_and_tables(tmp_path: Path) -> None:
    found = [(kind, text, path) for kind, text, _, path in parts(read(write(tmp_path, PAGE)))]
    assert ("code", "    make boiler\n\n    make check", "House") in found
    assert ("list", "- Water\n- Power", "House > Costs") in found
    assert ("code", ".. code-block:: python\n\n   cost = 20", "House > Costs") in found
    assert ("table", "+-------+-----+\n| Water | 20  |\n+-------+-----+", "House > Costs > Details") in found
    assert ("paragraph", "The end.", "House > Other") in found


def test_lines_are_the_files_own(tmp_path: Path) -> None:
    document = read(write(tmp_path, PAGE.replace("\n", "\r\n")))
    lines = PAGE.split("\n")
    index = LineIndex(document.text)
    for block in document.blocks:
        first, last = index.lines(block.start, block.end)
        assert "\n".join(lines[first - 1 : last]) == document.text[block.start : block.end]


def test_a_simple_table_is_no_title(tmp_path: Path) -> None:
    table = "=====  ====\nItem   Cost\n=====  ====\nWater  20\n=====  ===="
    assert [part[:2] for part in parts(read(write(tmp_path, table + "\n\nAfter.\n")))] == [
        ("table", table),
        ("paragraph", "After."),
    ]


def test_a_rule_between_paragraphs_is_no_title(tmp_path: Path) -> None:
    document = read(write(tmp_path, "Before.\n\n-----\n\nAfter.\n"))
    assert all(block.kind != "heading" for block in document.blocks)


def test_the_source_of_a_page_kept_as_text_is_known_by_its_titles(tmp_path: Path) -> None:
    assert read(write(tmp_path, PAGE, "page.rst.txt")).media_type == "text/x-rst"
    assert read(write(tmp_path, "Nothing but words.\n", "plain.rst.txt")).media_type == "text/plain"


def test_only_white_space(tmp_path: Path) -> None:
    with pytest.raises(NoText):
        read(write(tmp_path, " \n\n"))


def test_a_heap_of_rules_takes_linear_time(tmp_path: Path) -> None:
    text = "=" * 200_000 + "\n" + "===\n" * 50_000
    assert read(write(tmp_path, text)).text == text
