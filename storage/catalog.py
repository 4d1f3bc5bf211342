"""The catalog: everything that a library keeps, and the only place with SQL. It knows no encoder, no index, no model.

Three files in one folder: ``library.db`` is the truth, ``sessions.db`` holds conversations, ``slots.db`` can be thrown
away. The last two are opened when first used.
"""

from __future__ import annotations

import logging
import os
import tempfile
import threading
from pathlib import Path
from types import TracebackType

from .collections import CollectionsPart
from .database import Database
from .documents import DocumentsPart
from .errors import LibraryDamaged, LibraryMissing, LibraryTooNew
from .maintenance import MaintenancePart
from .passages import PassagesPart
from .postprocessings import PostprocessingsPart
from .selection import Selections
from .sessions import SessionsPart
from .slots import SlotsPart
from .variants import VariantsPart
from .vectors import VectorsPart

_logger = logging.getLogger(__name__)


class Catalog(
    CollectionsPart,
    PostprocessingsPart,
    DocumentsPart,
    PassagesPart,
    VectorsPart,
    VariantsPart,
    SessionsPart,
    SlotsPart,
    MaintenancePart,
):
    """A library's databases. Use `open`; may be used from several threads at once.

    Attributes
    ----------
    folder : Path
        Where the files lie.
    read_only : bool
        Whether it cannot be written; methods that write then raise `LibraryReadOnly` or `DiskFull`.
    read_only_reason : str
        Why not, as half a sentence; empty where it can.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder, Catalog.open(Path(folder) / "library") as catalog:
    ...     made = catalog.create_collection("notes", encoder="mean", fingerprint="0" * 64, dimension=4, splitting={})
    ...     (made.name, made.is_default, made.state)
    ('notes', True, 0)
    """

    def __init__(self, folder: Path, library: Database) -> None:
        self.folder = folder
        self._selections = Selections()
        self._opening = threading.Lock()
        self._databases = {"library": library}
        self._elsewhere: tempfile.TemporaryDirectory[str] | None = None

    @classmethod
    def open(cls, folder: Path, *, create: bool = True) -> Catalog:
        """Open the library in `folder`, made with mode 0700 where it is missing and `create` is set.

        Raises
        ------
        LibraryMissing
            There is none, and `create` is not set or the disk is read-only.
        LibraryTooNew
            A later version of slotrag wrote it.
        LibraryDamaged
            ``library.db`` is not a database.
        """
        folder = Path(folder).absolute()
        path = folder / "library.db"
        exists = path.is_file()
        if not exists and not create:
            raise LibraryMissing(f"there is no library in {folder}: run `slotrag index FOLDER` first")
        if not exists:
            _make_folder(folder)
        read_only = exists and not _writable(folder, path)
        return cls(folder, Database(path, "library", create=create, read_only=read_only))

    @classmethod
    def empty(cls, folder: Path) -> Catalog:
        """What a new library in `folder` would hold, read-only and kept elsewhere: nothing is made in `folder`."""
        elsewhere = tempfile.TemporaryDirectory(prefix="slotrag-")
        try:
            catalog = cls(Path(folder).absolute(), _empty_database(Path(elsewhere.name), "library"))
        except BaseException:
            elsewhere.cleanup()
            raise
        catalog._elsewhere = elsewhere
        return catalog

    @property
    def read_only(self) -> bool:
        return self._library.read_only

    @property
    def read_only_reason(self) -> str:
        return self._library.reason

    @property
    def _library(self) -> Database:
        return self._databases["library"]

    @property
    def _sessions(self) -> Database:
        return self._lazily("sessions")

    @property
    def _slots(self) -> Database:
        return self._lazily("slots")

    def _lazily(self, kind: str) -> Database:
        with self._opening:
            if kind not in self._databases:
                self._databases[kind] = self._open_beside(kind)
            return self._databases[kind]

    def _open_beside(self, kind: str) -> Database:
        path = self.folder / f"{kind}.db"
        synchronous = "FULL" if kind == "sessions" else "NORMAL"
        if self.read_only and not path.is_file():
            return self._stand_in(kind)
        try:
            return Database(path, kind, read_only=self.read_only, synchronous=synchronous, reason=self.read_only_reason)
        except (LibraryDamaged, LibraryTooNew):
            if kind != "slots" or self.read_only:
                raise
        _logger.warning("%s cannot be used and is made anew", path)
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        return Database(path, kind, synchronous=synchronous)

    def _stand_in(self, kind: str) -> Database:
        """An empty database elsewhere for one that a read-only disk does not hold."""
        if self._elsewhere is None:
            self._elsewhere = tempfile.TemporaryDirectory(prefix="slotrag-")
        return _empty_database(Path(self._elsewhere.name), kind)

    def _opened(self) -> list[Database]:
        with self._opening:
            return list(self._databases.values())

    def close(self) -> None:
        """Close the files."""
        for database in self._opened():
            database.close()
        if self._elsewhere is not None:
            self._elsewhere.cleanup()
            self._elsewhere = None

    def __enter__(self) -> Catalog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _empty_database(folder: Path, kind: str) -> Database:
    path = folder / f"{kind}.db"
    Database(path, kind).close()
    return Database(path, kind, read_only=True, reason="it is an empty one in place of one that is not there")


def _make_folder(folder: Path) -> None:
    """Make the folder for our eyes only; one that holds other things already keeps its mode."""
    try:
        folder.mkdir(parents=True, mode=0o700, exist_ok=True)
        if not any(folder.iterdir()):
            folder.chmod(0o700)
    except OSError as error:
        raise LibraryMissing(f"no library can be made in {folder}: {error.strerror}") from error


def _writable(folder: Path, path: Path) -> bool:
    return os.access(folder, os.W_OK | os.X_OK) and os.access(path, os.W_OK)
