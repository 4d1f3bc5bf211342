"""Every kind of damage that doctor mends, planted: it is told, mended, and the library equals a fresh one."""

import os
import sqlite3

import numpy as np
import pytest
from libraries import assert_same, open_library, write
from slotrag.storage.errors import LibraryDamaged

FILES = {f"{n}.md": f"# Part {n}\n\nNote {n} on copper.\n\n# More\n\nThe bridge of {n * 7}." for n in range(30)}
QUERIES = ["note on copper", "bridge 21"]

DAMAGE = {
    "a vector is gone": ("vectors", "DELETE FROM vectors WHERE id IN (SELECT id FROM vectors LIMIT 3)"),
    "words are gone": ("words", "DELETE FROM lexical_postings WHERE rowid_term = 1"),
    "word counts are gone": ("words", "DELETE FROM lexical_lengths"),
    "words of nobody": ("orphans", "INSERT INTO lexical_postings VALUES (77, 0, 'copper', x'010001')"),
    "a document without collection": (
        "orphans",
        "INSERT INTO documents VALUES "
        "(900, 77, NULL, x'2f', x'78', 'x', 'x', 1, 1, x'00', 'text/1', 'indexed', '', '', '', 0, 1, 1)",
    ),
    "passages without document": ("orphans", "DELETE FROM documents WHERE display_relative_path = '3.md'"),
    "passages are gone": ("documents", "DELETE FROM passages WHERE id % 5 = 1"),
    "a source is gone": ("orphans", "UPDATE documents SET source_id = 99 WHERE id = 2"),
    "a vector is short": ("vectors", "UPDATE vectors SET data = zeroblob(8) WHERE id = 3"),
    "a vector is no number": ("vectors", "UPDATE vectors SET data = replace(hex(data), '', '') WHERE id = 3"),
    "a vector is infinite": (
        "vectors",
        "UPDATE vectors SET data = CAST(x'007c' || substr(data, 3) AS BLOB) WHERE id = 3",
    ),
    "a passage is another text": ("documents", "UPDATE passages SET text = 'hello' WHERE id = 2"),
    "lines run backwards": ("documents", "UPDATE passages SET line_start = 9, line_end = 1 WHERE id = 2"),
    "characters before the first": ("documents", "UPDATE passages SET char_start = -5 WHERE id = 2"),
    "a status that there is not": ("documents", "UPDATE documents SET status = 'weird' WHERE id = 2"),
    "a vector of nobody": (None, "INSERT INTO vectors SELECT 999, encoder_id, x'00', data FROM vectors LIMIT 1"),
}


@pytest.fixture
def docs(tmp_path):
    return write(tmp_path / "docs", FILES)


def damage(folder, statement):
    with sqlite3.connect(folder / "library.db") as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute(statement.replace("rowid_term = 1", "term = 'copper'"))
    connection.close()


def wrong(findings):
    return {finding.check for finding in findings if finding.severity == "error"}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_told_and_mended(tmp_path, docs, hashing_encoder, name):
    check, statement = DAMAGE[name]
    with open_library(tmp_path / "library") as library:
        library.index([docs])
        assert wrong(library.doctor()) == set()
    damage(tmp_path / "library", statement)
    with open_library(tmp_path / "library") as library:
        found = library.doctor()
        assert check is None or check in wrong(found), found
        assert all(finding.command for finding in found if finding.severity == "error"), found
        mended = library.doctor(fix=True)
        assert all(finding.fixed for finding in mended if finding.severity == "error"), mended
        assert wrong(library.doctor()) == set()
        library.index()
        with open_library(tmp_path / "fresh") as fresh:
            fresh.index([docs])
            assert_same(library, fresh, QUERIES)
        assert not library._catalog.has_leftovers()
        held = library._catalog.stored_vectors(library.collections()[0].fingerprint, [b"\0"])
        assert held == set()


def test_an_index_of_another_library_is_told_and_mended(tmp_path, docs, hashing_encoder):
    other = write(tmp_path / "other", {name: text.replace("copper", "zinc") for name, text in FILES.items()})
    for folder, source in (("library", docs), ("stranger", other)):
        with open_library(tmp_path / folder) as library:
            library.index([source])
    (mine,), (theirs,) = ((tmp_path / folder).glob("*.index") for folder in ("library", "stranger"))
    mine.write_bytes(theirs.read_bytes())
    with open_library(tmp_path / "library") as library:
        assert any(finding.check == "index" and finding.severity == "warning" for finding in library.doctor())
        assert any(finding.check == "index" and finding.fixed for finding in library.doctor(fix=True))
        with open_library(tmp_path / "fresh") as fresh:
            fresh.index([docs])
            assert_same(library, fresh, QUERIES)


def test_a_single_wrong_vector_in_the_index_is_told(tmp_path, docs, hashing_encoder):
    with open_library(tmp_path / "library") as library:
        library.index([docs])
        keeper, record = library._shared().keeper, library._catalog.collection()
        index, _ = keeper._current(record)
        last = index.ids()[-2:-1]
        index.add(last, np.eye(1, index.dimension, 5, dtype=np.float32))
        keeper._save(index, record)
    with open_library(tmp_path / "library") as library:
        assert any(finding.check == "index" and finding.severity == "warning" for finding in library.doctor())
        library.doctor(fix=True)
        with open_library(tmp_path / "fresh") as fresh:
            fresh.index([docs])
            assert_same(library, fresh, QUERIES)


def test_an_index_of_sqlite_is_told_and_mended(tmp_path, docs, hashing_encoder):
    with open_library(tmp_path / "library") as library:
        library.index([docs])
    other = "CREATE INDEX ix_passages_text_hash ON passages (heading)"
    with sqlite3.connect(tmp_path / "library" / "library.db") as connection:  # filled by one rule, taken for another
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_master SET sql = ? WHERE name = 'ix_passages_text_hash'", (other,))
    connection.close()
    with open_library(tmp_path / "library") as library:
        assert "database" in wrong(library.doctor())
        assert all(finding.fixed for finding in library.doctor(fix=True) if finding.severity == "error")
        assert wrong(library.doctor()) == set()


def test_a_torn_page_is_told_and_not_called_mended(tmp_path, docs, hashing_encoder):
    with open_library(tmp_path / "library") as library:
        library.index([docs])
    path = tmp_path / "library" / "library.db"
    with sqlite3.connect(path) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'passages'").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    data = bytearray(path.read_bytes())
    data[(root - 1) * size : root * size] = b"\xff" * size
    path.write_bytes(data)
    with open_library(tmp_path / "library") as library:
        for fix in (False, True):
            errors = [finding for finding in library.doctor(fix=fix) if finding.severity == "error"]
            assert errors and not any(finding.fixed for finding in errors)
            assert all("backup" in finding.command for finding in errors)


def test_files_of_others_are_left_alone(tmp_path, hashing_encoder):
    docs = write(tmp_path / "docs", {"a.md": "Copper."})
    with open_library(tmp_path / "library") as library:
        library.index([docs])
        others = ["video.mp4.part", "collection-thesis.index", "collection-1.index.bak"]
        for name in others:
            path = tmp_path / "library" / name
            path.write_text("x")
            os.utime(path, (0, 0))
        library.doctor(fix=True)
        assert all((tmp_path / "library" / name).exists() for name in others)


@pytest.mark.parametrize("statement", ["DELETE FROM sources", "UPDATE documents SET source_id = 99 WHERE id = 2"])
def test_documents_without_a_source_are_told_until_they_are_followed_again(tmp_path, docs, hashing_encoder, statement):
    with open_library(tmp_path / "library") as library:
        library.index([docs])
    damage(tmp_path / "library", statement)
    with open_library(tmp_path / "library") as library:
        library.doctor(fix=True)
        for fix in (False, True):
            (told,) = [finding for finding in library.doctor(fix=fix) if finding.check == "sources"]
            assert told.severity == "warning" and not told.fixed and f"`slotrag remove {docs}`" in told.message
            assert told.command == f"slotrag index {docs} --collection default"
        assert library.index([docs], collection="default").encoded == 0
        assert not [finding for finding in library.doctor() if finding.check == "sources"]
        with open_library(tmp_path / "fresh") as fresh:
            fresh.index([docs])
            assert_same(library, fresh, QUERIES)


def test_searching_and_indexing_say_that_a_vector_is_broken(tmp_path, docs, hashing_encoder):
    with open_library(tmp_path / "library") as library:
        library.index([docs])
    damage(tmp_path / "library", DAMAGE["a vector is short"][1])
    for call in (lambda opened: opened.search("copper", mode="dense"), lambda opened: opened.index()):
        with (
            open_library(tmp_path / "library") as library,
            pytest.raises(LibraryDamaged, match="run slotrag doctor --fix"),
        ):
            call(library)


def test_a_splitting_that_is_none_is_damage(tmp_path, docs, hashing_encoder):
    with open_library(tmp_path / "library") as library:
        library.index([docs])
    damage(tmp_path / "library", "UPDATE collections SET splitting = 'null'")
    for call in (lambda opened: opened.index(), lambda opened: opened.doctor(fix=True)):
        with open_library(tmp_path / "library") as library, pytest.raises(LibraryDamaged, match="from a backup"):
            call(library)
