"""Which revision each database must be at, and how it gets there. It knows no table.

The revision is read by plain SQL; Alembic is imported only where a database is new or old, so that opening an
up-to-date library costs no more than reading one row.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import LibraryReadOnly, LibraryTooNew

if TYPE_CHECKING:
    from alembic.config import Config
    from sqlalchemy import Connection

HEADS = {"library": "library_0004", "sessions": "sessions_0001", "slots": "slots_0001"}
"""Newest revision of each database; equal to the heads of the scripts in ``migrations/versions``."""

_logger = logging.getLogger(__name__)


def stored_revision(connection: Connection) -> str | None:
    """The revision a database is at, None for an empty one."""
    table = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'alembic_version'"
    if connection.exec_driver_sql(table).first() is None:
        return None
    row = connection.exec_driver_sql("SELECT version_num FROM alembic_version").first()
    return None if row is None else row[0]


def is_current(connection: Connection, kind: str) -> bool:
    """Whether the database of this `kind` needs no migration."""
    return stored_revision(connection) == HEADS[kind]


def migrate(connection: Connection, kind: str) -> None:
    """Bring a database to its newest revision inside the transaction that `connection` is in.

    Raises
    ------
    LibraryTooNew
        Its revision is one that this version does not know.
    """
    from alembic import command
    from alembic.script import ScriptDirectory

    revision = stored_revision(connection)
    if revision == HEADS[kind]:
        return
    config = alembic_config()
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if revision is not None and revision not in known:
        raise too_new(kind)
    _logger.debug("migrating %s.db from %s to %s", kind, revision, HEADS[kind])
    config.attributes.update(connection=connection, kind=kind)
    command.upgrade(config, f"{kind}@head")


def refuse_unless_current(connection: Connection, kind: str) -> None:
    """For a read-only disk, where nothing can be migrated: raise unless the database is at its newest revision."""
    if is_current(connection, kind):
        return
    from alembic.script import ScriptDirectory

    known = {script.revision for script in ScriptDirectory.from_config(alembic_config()).walk_revisions()}
    revision = stored_revision(connection)
    if revision is not None and revision not in known:
        raise too_new(kind)
    raise LibraryReadOnly(
        f"{kind}.db is of an earlier version of slotrag and lies on a read-only disk: copy the library to a "
        "writable folder and open it there once"
    )


def too_new(kind: str) -> LibraryTooNew:
    return LibraryTooNew(f"{kind}.db was written by a later version of slotrag: upgrade slotrag to open it")


def alembic_config() -> Config:
    """Alembic's configuration, without a file."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    return config
