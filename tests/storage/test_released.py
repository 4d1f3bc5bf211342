"""A database of every released revision, kept as SQL in the folder ``released``, opens with what it held.

The packaged revisions are the releases. Whoever adds one runs, before it, with tests/support on PYTHONPATH,

    python tests/storage/test_released.py

which writes the databases of the newest revisions there, and commits them.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from dataclasses import asdict
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory
from library_parts import FINGERPRINT, input_hash, new_collection, new_document, put, vector_of
from slotrag.storage import Catalog, schema
from slotrag.storage.errors import LibraryTooNew
from slotrag.storage.records import NewPostprocessing, PostprocessingRecord

RELEASED = Path(__file__).parent / "released"
POSTPROCESSING = NewPostprocessing("mean", "collection", 150, b"statistics")
TEXTS = {"notes/a.txt": ["Wing flow at low speed.", "Heat in a plate."], "한글.txt": ["도서관은 아침에 문을 연다."]}

LATER = """
import sqlalchemy as sa
from alembic import op

revision = "library_later"
down_revision = "HEAD"
branch_labels = None
depends_on = None


def upgrade():
    with op.batch_alter_table("documents") as batch:
        batch.add_column(sa.Column("language", sa.String(), nullable=False, server_default=""))
    op.execute("UPDATE documents SET language = 'ko' WHERE display_path LIKE '%한글%'")
    op.create_index("ix_documents_language", "documents", ["language"])
"""


def fill(folder: Path) -> None:
    """A library with something in each of its databases."""
    with Catalog.open(folder) as catalog:
        collection = new_collection(catalog)
        source = catalog.put_source(collection.id, "/source", exclude=["*.log"])
        put(catalog, collection.id, [new_document(path, texts, source_id=source.id) for path, texts in TEXTS.items()])
        catalog.set_postprocessing(collection.id, 1, POSTPROCESSING, noise_level=0.25)
        session = catalog.create_session("a question")
        catalog.add_message(session, "user", "what?", citations=[], details={"k": 5})
        catalog.put_slots("c", {b"k" * 32: b"slots"})
        catalog.put_variants({b"v" * 32: ["Flow at a wing.", ""]}, {b"v" * 32: input_hash("Heat in a plate.")})


def look(catalog: Catalog) -> None:
    """All that `fill` stored is there."""
    collection = catalog.collection()
    assert (collection.name, collection.fingerprint) == ("notes", FINGERPRINT)
    records = catalog.passages(catalog.passage_ids(collection.id).tolist())
    found: dict[str, list[str]] = {}
    for record in sorted(records, key=lambda record: record.position):
        found.setdefault(record.path, []).append(record.text)
    assert found == TEXTS
    assert [source.exclude for source in catalog.sources()] == [("*.log",)]
    assert len(catalog.lexical_search(collection.id, "wing flow", 5)) == 1
    for ids, vectors in catalog.vectors(collection.id):
        texts = {record.id: record.text for record in records}
        for passage_id, vector in zip(ids.tolist(), vectors, strict=True):
            assert vector == pytest.approx(vector_of(texts[passage_id]), abs=1e-3)
    (session,) = catalog.sessions()
    assert [message.text for message in catalog.session(session.id).messages] == ["what?"]
    assert catalog.get_slots("c", [b"k" * 32]) == {b"k" * 32: b"slots"}
    assert catalog.integrity_check(full=True) == []
    if collection.postprocessing:  # the first release had none
        record = catalog.postprocessing(collection.id, collection.postprocessing)
        assert record == PostprocessingRecord(1, **asdict(POSTPROCESSING)) and collection.noise_level == 0.25


def unpack(folder: Path, **revisions: str) -> None:
    """Make the databases of the revisions named, the newest for the others."""
    folder.mkdir(exist_ok=True)
    for kind, head in schema.HEADS.items():
        with sqlite3.connect(folder / f"{kind}.db") as connection:
            connection.executescript((RELEASED / f"{revisions.get(kind, head)}.sql").read_text(encoding="utf-8"))
        connection.close()


def released() -> list[str]:
    script = ScriptDirectory.from_config(schema.alembic_config())
    return sorted(revision.revision for revision in script.walk_revisions())


def test_only_the_first_release_has_no_postprocessing(tmp_path: Path) -> None:
    for revision in released():
        if revision.startswith("library"):
            unpack(tmp_path / revision, library=revision)
            with Catalog.open(tmp_path / revision) as catalog:
                collection = catalog.collection()
                assert collection.postprocessing == (0 if revision == "library_0001" else 1)
                assert (catalog.postprocessing(collection.id, 1) is None) == (revision == "library_0001")
                assert catalog.next_postprocessing(collection.id) == collection.postprocessing + 1


def test_variants_came_with_the_third_release(tmp_path: Path) -> None:
    for revision, held in (("library_0002", {}), ("library_0003", {b"v" * 32: ["Flow at a wing.", ""]})):
        unpack(tmp_path / revision, library=revision)
        with Catalog.open(tmp_path / revision) as catalog:
            assert catalog.get_variants([b"v" * 32]) == held


@pytest.mark.parametrize("revision", released())
def test_every_release_opens_with_what_it_held(tmp_path: Path, revision: str) -> None:
    unpack(tmp_path, **{revision.split("_")[0]: revision})
    with Catalog.open(tmp_path) as catalog:
        look(catalog)
        put(catalog, catalog.collection().id, [new_document("new.txt", ["Something new."])])
        assert input_hash("Something new.") in catalog.stored_vectors(FINGERPRINT, [input_hash("Something new.")])
        for kind, database in (
            ("library", catalog._library),
            ("sessions", catalog._sessions),
            ("slots", catalog._slots),
        ):
            with database.reading() as connection:
                assert schema.stored_revision(connection) == schema.HEADS[kind]


@pytest.fixture
def later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Puts a later revision of library.db, which no release has, beside the packaged ones."""
    folder = tmp_path / "later versions"
    folder.mkdir()
    (folder / "library_later.py").write_text(LATER.replace("HEAD", schema.HEADS["library"]), encoding="utf-8")
    packaged = schema.alembic_config

    def config():
        made = packaged()
        places = [Path(schema.__file__).parent / "migrations" / "versions", folder]
        made.set_main_option("version_locations", os.pathsep.join(map(str, places)))
        made.set_main_option("path_separator", "os")
        return made

    with monkeypatch.context() as patch:
        patch.setattr(schema, "alembic_config", config)
        patch.setattr(schema, "HEADS", schema.HEADS | {"library": "library_later"})
        yield patch


def languages(folder: Path) -> list[tuple[str, str]]:
    with sqlite3.connect(folder / "library.db") as connection:
        rows = connection.execute("SELECT display_relative_path, language FROM documents ORDER BY id").fetchall()
    connection.close()
    return rows


def test_a_later_version_brings_the_first_release_up_to_date(tmp_path: Path, later: pytest.MonkeyPatch) -> None:
    library = tmp_path / "library"
    unpack(library, library="library_0001")
    with Catalog.open(library) as catalog:
        look(catalog)
    assert languages(library) == [("notes/a.txt", ""), ("한글.txt", "ko")]
    later.undo()
    with pytest.raises(LibraryTooNew, match="upgrade slotrag"):
        Catalog.open(library)
    assert languages(library) == [("notes/a.txt", ""), ("한글.txt", "ko")]


def test_a_new_library_of_a_later_version(tmp_path: Path, later: pytest.MonkeyPatch) -> None:
    fill(tmp_path / "library")
    with Catalog.open(tmp_path / "library") as catalog:
        look(catalog)


def test_an_upgrade_that_ends_in_the_middle_is_made_again(tmp_path: Path, later: pytest.MonkeyPatch) -> None:
    from alembic import op

    library = tmp_path / "library"
    unpack(library, library="library_0001")

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with later.context() as patch:
        patch.setattr(op, "create_index", die)
        with pytest.raises(KeyboardInterrupt):
            Catalog.open(library)
    with sqlite3.connect(library / "library.db") as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [("library_0001",)]
        assert "language" not in {row[1] for row in connection.execute("PRAGMA table_info(documents)")}
    connection.close()
    with Catalog.open(library) as catalog:
        look(catalog)


def main() -> None:
    """Write the databases of the newest revisions as SQL."""
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder))
        for kind, head in schema.HEADS.items():
            connection = sqlite3.connect(Path(folder) / f"{kind}.db")
            lines = "\n".join(connection.iterdump())
            connection.close()
            (RELEASED / f"{head}.sql").write_text(lines + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
