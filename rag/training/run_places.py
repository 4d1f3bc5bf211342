"""Where runs lie, and that the frozen states of a collection's texts go with the texts. It knows no model.

States tell much of a text. An adaptation deletes its own at its end; one that was broken off leaves them for the next,
but no longer than the collection stays as it was: wherever the vectors of removed texts are erased, what is left of
such a run is erased too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ...encoders.training.run_folder import RunBusy, RunFolder
from ...encoders.whole_files import write_whole

if TYPE_CHECKING:
    from ...storage import Catalog
    from ...storage.records import CollectionRecord

RUNS = "training"
"""Where runs lie below the models folder, and those of a collection below the library's."""

STATES = "states"
"""Where the frozen states lie in a run's folder, which are of the texts that are trained on."""

_NOTE = "collection.json"
"""Says in a run's folder of which state of which collection its states are."""


class OwnRun:
    """The run of one kind of head that is adapted to a collection.

    Parameters
    ----------
    catalog : Catalog
    collection : CollectionRecord
        As it was before its documents were read.
    method : str
        Of the head.

    Attributes
    ----------
    folder : RunFolder
        The run's, unless the user wants that elsewhere; the states lie in it in any case.
    """

    def __init__(self, catalog: Catalog, collection: CollectionRecord, method: str) -> None:
        self._catalog, self._collection = catalog, collection
        self.folder = RunFolder(catalog.folder / RUNS / f"collection-{collection.id}-{method}")

    @property
    def states(self) -> Path:
        """Where the states lie."""
        return self.folder.path / STATES

    @contextmanager
    def held(self) -> Iterator[None]:
        """Alone among all processes, with nothing there of another state of the collection.

        Where the collection was changed meanwhile and states are left at the end, as after an interrupt, they are
        erased then.

        Raises
        ------
        slotrag.encoders.training.run_folder.RunBusy
            Another process adapts such a head to the collection.
        """
        with self.folder.held():
            if _is_stale(self._catalog, self.folder.path):
                self.folder.clear()
            self._note()
            try:
                yield
            finally:
                if _is_stale(self._catalog, self.folder.path):
                    self.folder.clear()

    def forget(self) -> None:
        """Delete a run that cannot go on; `held` is on."""
        self.folder.clear()
        self._note()

    def _note(self) -> None:
        note = {"collection": self._collection.id, "state": self._collection.state}
        write_whole(self.folder.path / _NOTE, json.dumps(note).encode() + b"\n")


def erase_stale(catalog: Catalog) -> list[Path]:
    """Erase what interrupted adaptations left of collections that have changed since or are no more.

    One that runs at this moment is left alone: it erases the same when it ends, and the next call does where it was
    killed.

    Returns
    -------
    list of Path
        The folders that were emptied.
    """
    emptied = []
    for path in stale(catalog):
        run = RunFolder(path)
        try:
            with run.held():
                # It may have come to its end before the lock was taken.
                if _is_stale(catalog, path):
                    run.clear()
                    emptied.append(path)
        except RunBusy:
            continue
    return emptied


def stale(catalog: Catalog) -> list[Path]:
    """Folders with states of collections that have changed since or are no more."""
    folder = catalog.folder / RUNS
    if not folder.is_dir():
        return []
    return [path for path in sorted(folder.iterdir()) if path.is_dir() and _is_stale(catalog, path)]


def _is_stale(catalog: Catalog, path: Path) -> bool:
    if not (path / STATES).is_dir():
        return False
    try:
        note = json.loads((path / _NOTE).read_bytes())
        found = int(note["collection"]), int(note["state"])
    except (OSError, ValueError, KeyError, TypeError):
        return True
    return found not in {(record.id, record.state) for record in catalog.collections()}
