"""Keeps each collection's index file in step with the stored vectors. It knows the catalog and the index interface.

The index is derived: whatever its file says, what counts is which passages the catalog holds now. Passage ids are
never used again and a passage's vector never changes, so the difference of the two sets of ids is all there is to do.
An index holds the vectors as the collection's post-processing leaves them; another post-processing has another number,
and with it another file, so that a change is whole or has not happened.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..index import IndexFileError, IndexState, new_index, open_index
from .errors import IndexNotSaved
from .events import Progress, ProgressListener
from .postprocessing import PostprocessedEncoder, PostprocessingLost, Postprocessings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..encoders.base import Encoder
    from ..encoders.postprocessing import Postprocessing
    from ..index import VectorIndex
    from ..storage import Catalog
    from ..storage.records import CollectionRecord

_CHECKED = 16
_TOLERANCE = 0.01
_logger = logging.getLogger(__name__)


class IndexKeeper:
    """The open indexes of a library; may be used from several threads.

    Another process's indexing is noticed at the next call, by the state number of the collection given.

    Attributes
    ----------
    postprocessings : Postprocessings
    """

    def __init__(self, catalog: Catalog, listener: ProgressListener | None = None) -> None:
        self._catalog = catalog
        self._listener = listener
        self.postprocessings = Postprocessings(catalog)
        self._indexes: dict[int, VectorIndex] = {}
        self._saved: dict[int, int] = {}
        self._lock = threading.RLock()

    def path(self, collection: CollectionRecord) -> Path:
        """Where a collection's index file under its present post-processing lies."""
        number = f".{collection.postprocessing}" if collection.postprocessing else ""
        return self._catalog.folder / f"collection-{collection.id}{number}.index"

    def dimension(self, collection: CollectionRecord) -> int:
        """Length of the vectors that a collection compares. Raises `PostprocessingLost`."""
        postprocessing = self.postprocessings.of(collection)
        return collection.dimension if postprocessing is None else postprocessing.dimension_out

    def vectors(
        self, collection: CollectionRecord, passage_ids: np.ndarray | None = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """As `Catalog.vectors`, post-processed: what the index holds. Raises `PostprocessingLost`."""
        return self._applied(collection, self.postprocessings.of(collection), passage_ids)

    def encoder(self, collection: CollectionRecord, encoder: Encoder) -> Encoder:
        """A collection's encoder, giving the vectors that the collection compares. Raises `PostprocessingLost`."""
        postprocessing = self.postprocessings.of(collection)
        return encoder if postprocessing is None else PostprocessedEncoder(encoder, postprocessing)

    def begin(self, collection: CollectionRecord) -> None:
        """Write the index file of a new collection, so that a missing file always means a lost one."""
        with self._lock:
            state = IndexState(collection.state, collection.fingerprint, collection.postprocessing)
            index = new_index(self.dimension(collection), state)
            self._save(index, collection)
            self._indexes[collection.id] = index

    def prepare(
        self, collection: CollectionRecord, postprocessing: Postprocessing | None, check: Callable[[], None]
    ) -> VectorIndex:
        """Build and save the index that a collection will have under a post-processing it does not have yet.

        `collection` is the record as it will be, its new number in it; `check` may raise to break off. The old index
        and its file stay as they are until `adopt`.
        """
        index = self._built(collection, postprocessing, check)  # without the lock: searches go on in the old one
        self._write(index, collection)
        return index

    def adopt(self, before: CollectionRecord, after: CollectionRecord, index: VectorIndex) -> None:
        """Go over to a prepared index, now that the catalog has; the old file goes."""
        with self._lock:
            self._indexes[after.id] = index
            self._saved[after.id] = index.state.state
            if self.path(before) != self.path(after):
                self.path(before).unlink(missing_ok=True)

    def search(
        self, collection: CollectionRecord, vectors: np.ndarray, k: int, allowed: np.ndarray | None = None
    ) -> tuple[list[tuple[np.ndarray, np.ndarray]], list[str]]:
        """Nearest passages of a collection as it is now, as `VectorIndex.search`, and what is to be said about it.

        `vectors` are post-processed, as the encoder of `encoder` gives them.
        """
        with self._lock:
            index, notices = self._current(collection)
            return index.search(vectors, k, allowed), notices

    def refresh(self, collection: CollectionRecord) -> list[str]:
        """Bring the index up to `collection.state` and save it; what is to be said about it."""
        with self._lock:
            index, notices = self._current(collection)
            if self._saved.get(collection.id) != index.state.state:
                self._progress(len(index), "writing the index file")
                self._save(index, collection)
            return notices

    def problem(self, collection: CollectionRecord) -> str | None:
        """What is wrong with the index file of a collection, None where nothing is. It changes nothing."""
        with self._lock:
            try:
                index = open_index(self.path(collection))
                return self._unfit(index, collection) or self._difference(index, collection)
            except (IndexFileError, PostprocessingLost) as error:
                return str(error)

    def state_on_disk(self, collection: CollectionRecord) -> str:
        """``current``, ``behind``, ``missing`` or ``broken``, as far as the file's header tells."""
        from ..index import files

        path = self.path(collection)
        if not path.exists():
            return "missing"
        try:
            with files.opened(path) as (header, _):
                pass
        except IndexFileError:
            return "broken"
        built = tuple(header.get(name) for name in ("state", "fingerprint", "postprocessing"))
        now = (collection.state, collection.fingerprint, collection.postprocessing)
        return "current" if built == now else "behind"

    def forget(self, collection_id: int, *, delete: bool = False) -> None:
        """Let go of a collection's index, and of its files."""
        with self._lock:
            self._indexes.pop(collection_id, None)
            self._saved.pop(collection_id, None)
            if delete:
                for path in self._catalog.folder.glob(f"collection-{collection_id}.*index"):
                    path.unlink(missing_ok=True)

    def _current(self, collection: CollectionRecord) -> tuple[VectorIndex, list[str]]:
        notices: list[str] = []
        index = self._indexes.get(collection.id)
        if index is not None and self._unfit(index, collection):
            index = None
        if index is None:
            index = self._opened(collection, notices)
        elif index.state.state != collection.state:
            self._catch_up(index, collection)
        self._indexes[collection.id] = index
        return index, notices

    def _opened(self, collection: CollectionRecord, notices: list[str]) -> VectorIndex:
        path = self.path(collection)
        try:
            index = open_index(path)
            reason = self._unfit(index, collection)
        except IndexFileError as error:
            index, reason = None, str(error)
        if index is not None and reason is None:
            unknown = self._unknown(index, collection)
            changed = self._catch_up(index, collection)
            reason = self._strange(index, collection, whole=unknown)
            if reason is None:
                self._saved[collection.id] = -1 if changed else index.state.state
                return index
        index = self._built(collection, self.postprocessings.of(collection))
        if len(index):
            notices.append(
                f"The index of collection {collection.name} was built anew from the stored vectors: {reason}."
            )
            self._save_quietly(index, collection)
        return index

    def _built(
        self,
        collection: CollectionRecord,
        postprocessing: Postprocessing | None,
        check: Callable[[], None] = lambda: None,
    ) -> VectorIndex:
        state = IndexState(collection.state, collection.fingerprint, collection.postprocessing)
        dimension = collection.dimension if postprocessing is None else postprocessing.dimension_out
        index = new_index(dimension, state)
        index.reserve(len(self._catalog.passage_ids(collection.id)))
        for ids, vectors in self._applied(collection, postprocessing):
            check()
            index.add(ids, vectors)
            self._progress(len(index), "building the index from the stored vectors")
        return index

    def _applied(
        self,
        collection: CollectionRecord,
        postprocessing: Postprocessing | None,
        passage_ids: np.ndarray | None = None,
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for ids, vectors in self._catalog.vectors(collection.id, passage_ids):
            yield ids, vectors if postprocessing is None else postprocessing.apply(vectors)

    def _catch_up(self, index: VectorIndex, collection: CollectionRecord) -> bool:
        """Make `index` hold what the catalog holds now; whether its file is out of date by that.

        That may be more than `collection.state` says, which is harmless: the next state seen leads here again.
        """
        wanted = self._catalog.passage_ids(collection.id)
        held = index.ids()
        added = np.setdiff1d(wanted, held, assume_unique=True)
        removed = np.setdiff1d(held, wanted, assume_unique=True)
        if len(removed):
            index.remove(removed.tolist())
        if len(added):
            if len(added) > len(held):
                index.reserve(len(wanted))
            for ids, vectors in self.vectors(collection, added):
                index.add(ids, vectors)
        before = index.state
        index.state = IndexState(collection.state, collection.fingerprint, collection.postprocessing)
        return bool(len(added) or len(removed)) or index.state != before

    def _unfit(self, index: VectorIndex, collection: CollectionRecord) -> str | None:
        if index.state.fingerprint != collection.fingerprint:
            return "it is of another encoder"
        if index.state.postprocessing != collection.postprocessing:
            return "it is of another post-processing"
        return "it is of another encoder" if index.dimension != self.dimension(collection) else None

    def _unknown(self, index: VectorIndex, collection: CollectionRecord) -> bool:
        """Whether the index is of a state that the library may never have had, as after the database was put back from
        a copy: its ids may stand for other passages now."""
        state = index.state.state
        return state != collection.state and not self._catalog.had_state(collection.id, state)

    def _strange(self, index: VectorIndex, collection: CollectionRecord, *, whole: bool = False) -> str | None:
        """Whether the index differs from the stored vectors: in a sample, as another library's would, or anywhere."""
        ids = index.ids()
        if not len(ids):
            return None
        looked_at = None if whole else ids[np.linspace(0, len(ids) - 1, min(_CHECKED, len(ids))).astype(int)]
        for chunk, vectors in self.vectors(collection, looked_at):
            held = np.isin(chunk, ids, assume_unique=True)
            if (np.abs(index.vectors(chunk[held]) - vectors[held]) > _TOLERANCE).any():
                return "it does not hold the vectors of this library"
        return None

    def _difference(self, index: VectorIndex, collection: CollectionRecord) -> str | None:
        wanted, held = self._catalog.passage_ids(collection.id), index.ids()
        missing = len(np.setdiff1d(wanted, held, assume_unique=True))
        extra = len(np.setdiff1d(held, wanted, assume_unique=True))
        if missing or extra:
            return f"it lacks {missing} passages and holds {extra} that are no more"
        return self._strange(index, collection, whole=True)

    def _save(self, index: VectorIndex, collection: CollectionRecord) -> None:
        self._write(index, collection)
        self._saved[collection.id] = index.state.state

    def _write(self, index: VectorIndex, collection: CollectionRecord) -> None:
        try:
            index.save(self.path(collection))
        except OSError as error:
            raise IndexNotSaved(
                f"The index file of collection {collection.name} could not be written ({error.strerror}); make room in "
                f"{self._catalog.folder} and run the command again, nothing that was stored is lost."
            ) from error

    def _save_quietly(self, index: VectorIndex, collection: CollectionRecord) -> None:
        """Save an index that a reader had to build; where it cannot, the next reader builds it again."""
        if self._catalog.read_only or not self._is_present(collection):
            return
        try:
            self._save(index, collection)
        except IndexNotSaved:
            _logger.debug("the index file could not be written", exc_info=True)

    def _is_present(self, collection: CollectionRecord) -> bool:
        """Whether a collection still has the post-processing of this record; otherwise its file would stay behind."""
        now = {record.id: record.postprocessing for record in self._catalog.collections()}
        return now.get(collection.id) == collection.postprocessing

    def _progress(self, done: int, message: str) -> None:
        if self._listener is not None:
            self._listener(Progress("index", done, None, "passages", message))
