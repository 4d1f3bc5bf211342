"""Databases are made and brought up to date by migrations, and later ones are refused."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from library_parts import new_collection
from slotrag.storage import Catalog, schema
from slotrag.storage.errors import LibraryTooNew
from slotrag.storage.library_models import LibraryBase
from slotrag.storage.sessions_models import SessionsBase
from slotrag.storage.slots_models import SlotsBase

BASES = {"library": LibraryBase, "sessions": SessionsBase, "slots": SlotsBase}


def open_all(folder: Path) -> None:
    with Catalog.open(folder) as catalog:
        catalog.create_session("a question")
        catalog.put_slots("c", {b"k" * 32: b"slots"})


def set_revision(file: Path, revision: str) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (revision,))
    connection.close()


@pytest.mark.parametrize("kind", BASES)
def test_migrations_lead_to_the_models(tmp_path: Path, kind: str) -> None:
    open_all(tmp_path)
    with Catalog.open(tmp_path) as catalog:
        database = {"library": catalog._library, "sessions": catalog._sessions, "slots": catalog._slots}[kind]
        with database.reading() as connection:
            context = MigrationContext.configure(connection, opts={"compare_type": True})
            assert compare_metadata(context, BASES[kind].metadata) == []


@pytest.mark.parametrize("kind", BASES)
def test_migrations_keep_what_no_comparison_shows(tmp_path: Path, kind: str) -> None:
    """AUTOINCREMENT, WITHOUT ROWID and cascades are in the table's SQL only."""
    from sqlalchemy import create_engine

    open_all(tmp_path)
    engine = create_engine(f"sqlite:///{tmp_path / 'model.db'}")
    BASES[kind].metadata.create_all(engine)
    engine.dispose()
    query = "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'alembic%'"
    schemas = []
    for file in (tmp_path / f"{kind}.db", tmp_path / "model.db"):
        connection = sqlite3.connect(file)
        schemas.append({name: sorted(sql.replace(",", " ").split()) for name, sql in connection.execute(query)})
        connection.close()
    assert schemas[0] == schemas[1]


def test_heads_are_those_of_the_scripts() -> None:
    script = ScriptDirectory.from_config(schema.alembic_config())
    assert sorted(schema.HEADS.values()) == sorted(script.get_heads())
    for kind, head in schema.HEADS.items():
        assert script.get_revision(f"{kind}@head").revision == head


@pytest.mark.parametrize("kind", ["library", "sessions"])
def test_a_later_version_is_refused(tmp_path: Path, kind: str) -> None:
    open_all(tmp_path)
    set_revision(tmp_path / f"{kind}.db", "from_the_future")
    with pytest.raises(LibraryTooNew, match="upgrade slotrag"), Catalog.open(tmp_path) as catalog:
        catalog.sessions()
    connection = sqlite3.connect(tmp_path / f"{kind}.db")
    assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [("from_the_future",)]
    connection.close()


@pytest.mark.parametrize("damage", ["later", "garbage", "missing"])
def test_slots_are_made_anew(tmp_path: Path, damage: str) -> None:
    open_all(tmp_path)
    file = tmp_path / "slots.db"
    if damage == "later":
        set_revision(file, "from_the_future")
    elif damage == "garbage":
        file.write_bytes(b"garbage" * 1000)
    else:
        file.unlink()
    with Catalog.open(tmp_path) as catalog:
        assert catalog.get_slots("c", [b"k" * 32]) == {}
        catalog.put_slots("c", {b"k" * 32: b"again"})
        assert catalog.get_slots("c", [b"k" * 32]) == {b"k" * 32: b"again"}
        assert len(catalog.sessions()) == 1


def test_a_failed_migration_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from alembic import op

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("killed in the middle")

    with monkeypatch.context() as patch:
        patch.setattr(op, "create_index", fail)
        with pytest.raises(RuntimeError, match="middle"):
            Catalog.open(tmp_path)
    connection = sqlite3.connect(tmp_path / "library.db")
    assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
    connection.close()
    with Catalog.open(tmp_path) as catalog:
        new_collection(catalog)


def test_opening_what_is_up_to_date_imports_no_alembic(tmp_path: Path) -> None:
    open_all(tmp_path)
    code = (
        "import sys; from pathlib import Path; from slotrag.storage import Catalog\n"
        "with Catalog.open(Path(sys.argv[1])) as catalog: catalog.collections(); catalog.sessions()\n"
        "sys.exit('alembic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False).returncode == 0
