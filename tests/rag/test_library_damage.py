"""Bytes of ``library.db`` that a disk or a copy has spoilt: a sentence that says so, or results; no other error."""

import random
import shutil

import pytest
from libraries import open_library, write
from slotrag import SlotragError
from slotrag.storage import Catalog
from slotrag.storage.errors import LibraryDamaged
from slotrag.storage.schema import HEADS

COMMANDS = {
    "status": lambda library, docs: library.status(),
    "search": lambda library, docs: library.search("copper melts", k=20),
    "doctor": lambda library, docs: library.doctor(),
    "index": lambda library, docs: library.index([docs]),
}


@pytest.fixture(scope="module")
def whole(memory_folder, hashing_encoder):
    root = memory_folder / "damage"
    text = "Copper number {0} melts at {0} degrees, and more. "
    docs = write(root / "docs", {f"{n}.md": f"# Number {n}\n\n{text.format(n) * 6}" for n in range(12)})
    with open_library(root / "library") as library:
        library.index([docs])
    return root


def damaged(whole, *changes):
    """A copy of the library in which the byte at each place is another."""
    copy = whole / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(whole / "library", copy)
    content = bytearray((copy / "library.db").read_bytes())
    for place, change in changes:
        content[place] ^= change
    (copy / "library.db").write_bytes(content)
    return copy


def test_a_sentence_or_results(whole):
    """At 60 places, of which none is in the unused part of a page."""
    rng = random.Random(20)
    content = (whole / "library" / "library.db").read_bytes()
    places = rng.sample([place for place, byte in enumerate(content) if byte], 60)
    sentences = set()
    for number, place in enumerate(places):
        name = list(COMMANDS)[number % len(COMMANDS)]
        change = rng.randrange(1, 256)
        copy = damaged(whole, (place, change))
        try:
            with open_library(copy) as library:
                COMMANDS[name](library, whole / "docs")
        except SlotragError as error:
            assert "\n" not in str(error)
            sentences.add(type(error))
        except Exception as error:
            pytest.fail(f"{name} with byte {place} changed by {change}: {error!r}")
    assert LibraryDamaged in sentences


@pytest.mark.parametrize(
    "wanted", [b"degrees, and more", b"text/markdown", HEADS["library"].encode(), b"CREATE TABLE collections"]
)
def test_what_is_no_text_any_more(whole, wanted):
    """The first letter is no UTF-8, wherever the words stand."""
    content = (whole / "library" / "library.db").read_bytes()
    changes, at = [], content.find(wanted)
    while at >= 0:
        changes.append((at, 0x80))
        at = content.find(wanted, at + 1)
    copy = damaged(whole, *changes)
    for act in (lambda library: library.search("copper melts"), lambda library: library.index([whole / "docs"])):
        try:
            with open_library(copy) as library:
                act(library)
        except LibraryDamaged:
            return
    pytest.fail("nothing was said")


def test_a_revision_that_is_gone(whole):
    """The tables are there, so that making them fails."""
    copy = damaged(whole)
    with Catalog.open(copy) as catalog, catalog._library.writing() as connection:
        connection.exec_driver_sql("DELETE FROM alembic_version")
    with pytest.raises(LibraryDamaged, match="is damaged"):
        Catalog.open(copy)


def test_a_value_of_another_kind(whole):
    copy = damaged(whole)
    with Catalog.open(copy) as catalog, catalog._library.writing() as connection:
        connection.exec_driver_sql("UPDATE collections SET splitting = '{broken'")
    with pytest.raises(LibraryDamaged, match="is damaged"), Catalog.open(copy) as catalog:
        catalog.collections()
