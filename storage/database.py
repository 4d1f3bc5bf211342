"""One SQLite file: its engine, its settings, its transactions, and how it opens on a read-only disk.

It knows no table. Settings of every connection: foreign keys on, deleted content overwritten (`secure_delete`), a
writer waited for. The journal is a write-ahead log with ``synchronous = NORMAL``: a killed process loses nothing that
was committed and the file is never torn; a power cut may take back the last transactions, which the next indexing run
makes again. Conversations cannot be made again, so ``sessions.db`` is opened with ``FULL``.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, exc

from .. import SlotragError
from . import schema
from .errors import DiskFailed, DiskFull, LibraryBusy, LibraryDamaged, LibraryMissing, LibraryReadOnly

BUSY_SECONDS = 30
_CHECKPOINT_SECONDS = 1
_NO_TEXT = (UnicodeDecodeError, json.JSONDecodeError)
_UNREADABLE = (AttributeError, LookupError, OverflowError, TypeError, ValueError)
"""What becomes of a stored value that is not of its kind when rows are only read."""

_DAMAGE = frozenset(
    (
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_CONSTRAINT,
        sqlite3.SQLITE_FORMAT,
        sqlite3.SQLITE_MISMATCH,
        sqlite3.SQLITE_TOOBIG,
    )
)
_LOST = re.compile("no such (table|column|index|module)|malformed|vtable constructor failed|not decode to UTF-8")
"""How SQLite words damage for which it has no code: of its schema and of text."""

_LEAST_ROOM = 1 << 16
"""Bytes free below which a disk counts as full: the log and its companion take more than half of it when made."""

_NO_LOG = frozenset(
    (
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_IOERR_SHMOPEN,
        sqlite3.SQLITE_IOERR_SHMSIZE,
        sqlite3.SQLITE_IOERR_SHMMAP,
        sqlite3.SQLITE_IOERR_WRITE,
    )
)
"""How SQLite says that it could not make the log or its companion."""


class Database:
    """A SQLite file of a library.

    Parameters
    ----------
    path : Path
        The file; made with mode 0600 and migrated where it is missing and `create` is set.
    kind : str
        ``library``, ``sessions`` or ``slots``: the branch of migrations it follows.
    read_only : bool
        Open without writing a byte to its folder.
    synchronous : str
        ``NORMAL`` or ``FULL``.
    reason : str
        Why it is only read, as half a sentence; otherwise empty. As a parameter in place of the one found.
    """

    def __init__(
        self,
        path: Path,
        kind: str,
        *,
        create: bool = True,
        read_only: bool = False,
        synchronous: str = "NORMAL",
        reason: str = "",
    ) -> None:
        self.path = path
        self.kind = kind
        self.read_only = read_only
        self._synchronous = synchronous
        self.reason = ""
        if read_only:
            self._refuse(reason or _why_not_writable(path.parent))
        self._writer = threading.Lock()
        self._copied: tempfile.TemporaryDirectory[str] | None = None
        if not path.is_file() and (read_only or not create):
            raise LibraryMissing(f"there is no {path.name} in {path.parent}: run `slotrag index FOLDER` first")
        with self._errors_translated(_UNREADABLE):
            self.engine = self._open_read_only() if read_only else self._open_with_or_without_room()

    def _refuse(self, reason: str, error: Exception | None = None) -> None:
        """Let attempts to write raise `error`, or one that gives the reason."""
        self.reason = reason
        self._refusal = error or LibraryReadOnly(f"the library cannot be written: {reason}")

    def _open_with_or_without_room(self) -> Engine:
        """To write where there is room for the log; otherwise what is there can still be read."""
        try:
            return self._open_writable()
        except (exc.OperationalError, sqlite3.OperationalError) as error:
            if _code(error) not in _NO_LOG or self.path.stat().st_size == 0:
                raise
            self.read_only = True
            translated = _translated(error, self.path)
            self._refuse("its disk is full" if isinstance(translated, DiskFull) else "its disk refuses it", translated)
            try:
                return self._open_read_only()
            except (exc.DatabaseError, OSError, SlotragError):
                raise error from None

    def _open_writable(self) -> Engine:
        try:
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        except OSError as error:
            raise _refused(error, self.path) from error
        engine = self._engine(f"file:{_quoted(self.path)}?mode=rw")
        try:
            with engine.connect() as connection:
                current = schema.is_current(connection, self.kind)
            if not current:
                self._migrate(engine)
        except BaseException:
            engine.dispose()
            raise
        return engine

    def _migrate(self, engine: Engine) -> None:
        with _transaction(engine, writing=True) as connection:
            try:
                schema.migrate(connection, self.kind)
            except exc.DatabaseError as error:
                if _code(error) == sqlite3.SQLITE_ERROR:  # what it changes is not as the stored revision left it
                    raise _damaged(self.path) from error
                raise

    def _open_read_only(self) -> Engine:
        last: Exception = FileNotFoundError(self.path)
        for uri in self._read_only_uris():
            engine = self._engine(uri)
            try:
                with engine.connect() as connection:
                    schema.refuse_unless_current(connection, self.kind)
                return engine
            except exc.OperationalError as error:
                engine.dispose()
                last = error
            except BaseException:
                engine.dispose()
                raise
        raise last

    def _read_only_uris(self) -> Iterator[str]:
        """Ways to read, tried in order: with the log as it lies there, then without one or with a copy of it."""
        yield f"file:{_quoted(self.path)}?mode=ro"
        log = self.path.with_name(self.path.name + "-wal")
        if not log.exists() or log.stat().st_size == 0:
            yield f"file:{_quoted(self.path)}?mode=ro&immutable=1"
            return
        self._copied = tempfile.TemporaryDirectory(prefix="slotrag-")
        for file in (self.path, log):
            shutil.copyfile(file, Path(self._copied.name) / file.name)
        yield f"file:{_quoted(Path(self._copied.name) / self.path.name)}?mode=rw"

    def _engine(self, uri: str) -> Engine:
        engine = create_engine(
            "sqlite://",
            creator=lambda: sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, check_same_thread=False),
            poolclass=_pool_class(),
            pool_size=4,
            max_overflow=-1,
        )
        event.listen(engine, "connect", self._configure)
        event.listen(engine, "begin", _begin)
        return engine

    def _configure(self, connection: sqlite3.Connection, _record: Any) -> None:
        connection.isolation_level = None
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA cache_size = -16000")
        if self.read_only:
            connection.execute("PRAGMA query_only = ON")
            return
        _use_write_ahead_log(connection)
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        connection.execute("PRAGMA secure_delete = ON")

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection that sees one state of the database until it is left."""
        with self._errors_translated(_UNREADABLE), _transaction(self.engine, writing=False) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A write transaction: committed when left, undone by an exception. One at a time."""
        if self.read_only:
            raise self._refusal
        with self._writer, self._errors_translated(), _transaction(self.engine, writing=True) as connection:
            yield connection

    def checkpoint(self) -> None:
        """Merge the write-ahead log into the file and empty it where no reader stands: it may hold what was erased."""
        with self._writer, self._errors_translated(), self.engine.connect() as connection:
            raw: Any = connection.connection.dbapi_connection
            raw.execute(f"PRAGMA busy_timeout = {_CHECKPOINT_SECONDS * 1000}")
            try:
                raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                raw.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")

    def close(self) -> None:
        """Close every idle connection; the last one merges the log into the file."""
        self.engine.dispose()
        if self._copied is not None:
            self._copied.cleanup()
            self._copied = None

    @contextmanager
    def _errors_translated(self, unreadable: tuple[type[Exception], ...] = _NO_TEXT) -> Iterator[None]:
        """SQLite's errors as ours; one of `unreadable` comes of a stored value that is not of its kind."""
        try:
            yield
        except SlotragError:
            raise
        except (exc.DatabaseError, sqlite3.DatabaseError) as error:
            translated = _translated(error, self.path)
            if translated is None:
                raise
            raise translated from error
        except unreadable as error:
            raise _damaged(self.path) from error


@contextmanager
def _transaction(engine: Engine, *, writing: bool) -> Iterator[Connection]:
    with engine.connect() as plain:
        connection = plain.execution_options(slotrag_writing=writing)
        with connection.begin():
            yield connection


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Switch a new file to its log. SQLite does not wait for another process that is just doing so: we do."""
    give_up = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > give_up:
                raise
            time.sleep(0.01)


def _begin(connection: Connection) -> None:
    writing = connection.get_execution_options().get("slotrag_writing", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def _pool_class() -> Any:
    from sqlalchemy.pool import QueuePool

    return QueuePool


def _quoted(path: Path) -> str:
    from urllib.parse import quote

    return quote(os.fsencode(path.absolute()))


def _translated(error: Exception, path: Path) -> Exception | None:
    """The error that a user can act on, by SQLite's own code; None for a fault of ours."""
    code = _code(error)
    if code in (None, sqlite3.SQLITE_ERROR):
        return _damaged(path) if _LOST.search(str(getattr(error, "orig", None) or error)) else None
    primary = code & 0xFF
    refused = primary in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)
    if primary == sqlite3.SQLITE_FULL or (refused and _is_full(path.parent)):
        return DiskFull(f"the disk of {path.parent} is full: make room and run the command again")
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return LibraryBusy(f"another process has been writing {path.name} for {BUSY_SECONDS} s: try again later")
    if primary in _DAMAGE and code != sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:  # what a caller refers to may be gone
        return _damaged(path)
    if primary in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return LibraryReadOnly(f"{path} cannot be written: give yourself write access or choose another --library")
    if refused:
        return DiskFailed(
            f"the disk refuses to read or write {path.name} in {path.parent}: see that there is room, that you may "
            "write there and that the disk is sound, then run the command again"
        )
    return None


def _damaged(path: Path) -> LibraryDamaged:
    return LibraryDamaged(f"{path} is damaged: restore it from a backup, or delete it and index again")


def _code(error: Exception) -> int | None:
    """SQLite's own extended code of an error."""
    return getattr(getattr(error, "orig", None) or error, "sqlite_errorcode", None)


def _why_not_writable(folder: Path) -> str:
    try:
        read_only = os.statvfs(folder).f_flag & os.ST_RDONLY
    except OSError:
        read_only = 0
    return "its disk is read-only" if read_only else "you may not write to its folder and files"


def _is_full(folder: Path) -> bool:
    try:
        return shutil.disk_usage(folder).free < _LEAST_ROOM
    except OSError:
        return False


def _refused(error: OSError, path: Path) -> Exception:
    """What to say of a file that the system does not let us open."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(f"the disk of {path.parent} is full: make room and run the command again")
    return DiskFailed(f"{path} cannot be opened ({error.strerror}): see that you may read and write it")
