"""The library: one folder, opened; what the commands, the app and other programs call. It has no logic of its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .encoder_shelf import EncoderShelf
from .errors import PassageMissing
from .events import AnswerEvent, CancelToken, Finished, Progress, ProgressListener
from .index_run import IndexRun, Parts
from .locations import library_folder
from .locking import WriterLock
from .maintenance import CollectionStatus, LibraryStatus
from .query import Request
from .results import Answer, Hit, IndexReport, SearchResult
from .retrieval import Retriever
from .sources import real_path, refuse_inside
from .vectors import IndexKeeper

if TYPE_CHECKING:
    from ..encoders.backbones.store import ModelStore
    from ..storage import Catalog
    from ..storage.records import CollectionRecord, SessionRecord
    from .decoder import Decoder
    from .doctor import Finding
    from .settings import Settings
    from .training.outcomes import HeadOutcome


class Library:
    """A library in its folder. Use `open`; may be used from several threads at once.

    Attributes
    ----------
    folder : Path
    read_only : bool
        Whether its disk refuses writing; searching and asking work.
    settings : Settings

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, Library.open(folder) as library:
    ...     library.status().collections
    []
    """

    def __init__(
        self, catalog: Catalog, settings: Settings, models: ModelStore | None, progress: ProgressListener | None
    ) -> None:
        self._listener = progress
        self._local = threading.local()
        self.settings = settings
        self._models: ModelStore | None = models
        self._lock = threading.RLock()
        self._decoders: dict[str, Decoder] = {}
        self._catalog = catalog
        self._parts: Parts | None = None
        self._searcher: Retriever | None = None

    @classmethod
    def open(
        cls,
        folder: Path | str | None = None,
        *,
        create: bool = True,
        dry: bool = False,
        settings: Settings | None = None,
        models: ModelStore | None = None,
        offline: bool = False,
        progress: ProgressListener | None = None,
    ) -> Library:
        """Open the library in `folder` (default: see `slotrag.rag.locations.library_folder`).

        Parameters
        ----------
        create : bool
            Make an empty one where there is none.
        dry : bool
            Make nothing where there is none, and be an empty library that cannot be written: for dry runs.
        settings : Settings, optional
            By default those of the environment and ``config.toml``.
        models : ModelStore, optional
            Where models come from; by default the user's model cache, which `offline` keeps from fetching.
        progress : callable, optional
            Told about every step that may take over a second.

        Raises
        ------
        slotrag.SlotragError
            There is no library and none may be made, it is of a later version, or it is damaged.
        """
        from ..storage import Catalog
        from ..storage.errors import LibraryMissing
        from . import settings as settings_module

        chosen = settings if settings is not None else settings_module.load()
        if offline and not chosen.offline:
            chosen = replace(chosen, offline=True)
        place = library_folder(folder)
        try:
            catalog = Catalog.open(place, create=create and not dry)
        except LibraryMissing:
            if not dry:
                raise
            catalog = Catalog.empty(place)
        return cls(catalog, chosen, models, progress)

    @property
    def folder(self) -> Path:
        return self._catalog.folder

    @property
    def read_only(self) -> bool:
        return self._catalog.read_only

    @property
    def models(self) -> ModelStore:
        """Where models come from."""
        with self._lock:
            if self._models is None:
                from ..encoders.backbones.store import ModelStore

                self._models = ModelStore(offline=self.settings.offline, report=self._report_model)
            return self._models

    def index(
        self,
        paths: Sequence[Path | str] | Path | str = (),
        *,
        collection: str | None = None,
        encoder: str | None = None,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        hidden: bool | None = None,
        dry_run: bool = False,
        wait: bool = True,
        progress: ProgressListener | None = None,
        cancel: CancelToken | None = None,
    ) -> IndexReport:
        """Add folders and files to a collection, or refresh it; without `paths` everything it follows.

        Parameters
        ----------
        collection : str, optional
            Made where there is none of that name; by default the library's default collection.
        encoder : str, optional
            Spec for a new collection. An existing one keeps its own; `rebuild` changes it.
        include, exclude : sequence of str
            Patterns as in ``.gitignore``, remembered with the source.
        hidden : bool, optional
            Take hidden files too; by default what the settings say.
        dry_run : bool
            Only tell what would be done, in ``planned`` of the report.
        wait : bool
            Whether to wait while another process writes, or to raise `LibraryLocked`.

        Raises
        ------
        slotrag.SlotragError
            See `slotrag.rag.index_run.IndexRun.run`.
        slotrag.rag.events.Cancelled
            `cancel` was set; what was stored before stays.
        """
        listed = [paths] if isinstance(paths, str | Path) else list(paths)
        refuse_inside(listed, os.path.realpath(self.folder))
        taken = self.settings.index_hidden and bool(listed) if hidden is None else hidden
        with self._reporting(progress) as listener:
            run = IndexRun(self._shared(), collection, encoder, listener, cancel)
            return run.run(listed, include=include, exclude=exclude, hidden=taken, dry_run=dry_run, wait=wait)

    def refresh(self, collection: str | None = None, **options: Any) -> Iterator[IndexReport]:
        """`index` without a path: everything that `collection`, or each one, follows; a report of each collection.

        `options` as in `index`. An error in one collection is raised when the others are up to date.
        """
        from .refreshing import following, refresh

        return refresh(following(self._catalog, collection), lambda name: self.index(collection=name, **options))

    def watch(
        self,
        paths: Sequence[Path | str] | Path | str = (),
        *,
        collection: str | None = None,
        encoder: str | None = None,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        hidden: bool | None = None,
        progress: ProgressListener | None = None,
        cancel: CancelToken | None = None,
    ) -> Iterator[IndexReport]:
        """`index` now and whenever something changes in the folders, until `cancel` is set; a report of each run.

        Options and errors as in `index`; without `paths` and `collection` as in `refresh`, a report of each collection.
        A folder that goes away while it is watched is a notice in the report, its documents are kept, and it is
        followed again when it comes back.

        Raises
        ------
        slotrag.rag.watching.WatchFailed
            The system cannot tell about changes.
        """
        from .refreshing import watch

        listed = [paths] if isinstance(paths, str | Path) else list(paths)
        token = cancel or CancelToken()
        options = {
            "encoder": encoder, "include": include, "exclude": exclude, "hidden": hidden, "progress": progress,
            "cancel": token,
        }  # fmt: skip

        def first() -> Iterator[IndexReport]:
            return (
                iter([self.index(listed, collection=collection, **options)])
                if listed
                else self.refresh(collection, **options)
            )

        def again(name: str | None, sources: Sequence[str]) -> IndexReport:
            with self._reporting(progress) as listener:
                return IndexRun(self._shared(), name, None, listener, token).run(sources, required=False)

        return watch(
            self._catalog, listed, collection,
            first=first, again=again, without=os.path.realpath(self.folder), cancel=token,
        )  # fmt: skip

    def rebuild(
        self,
        collection: str | None = None,
        *,
        encoder: str | None = None,
        postprocessing: str | None = None,
        wait: bool = True,
        progress: ProgressListener | None = None,
        cancel: CancelToken | None = None,
    ) -> IndexReport:
        """Make a collection anew, with another encoder, splitting or post-processing.

        The old one answers until the new one is whole.

        Parameters
        ----------
        encoder : str, optional
            Spec; by default the collection's own.
        postprocessing : str, optional
            Steps as in `slotrag.encoders.postprocessing_steps.parse_steps`, such as ``mean+top=3`` or ``none``. Without
            `encoder` only this changes: no document is read or encoded again. By default a collection keeps its steps,
            fitted anew, or gets those that another encoder brings along.

        Raises
        ------
        slotrag.UsageError
            Steps that do not exist, or that the encoder or the number of passages does not allow.
        slotrag.SlotragError
            See `slotrag.rag.rebuilding.Rebuild.run`.
        """
        from ..encoders.postprocessing_steps import parse_steps
        from .rebuilding import Rebuild

        steps = parse_steps(postprocessing) if postprocessing is not None else None
        with self._reporting(progress) as listener, self._writing(wait=wait, cancel=cancel):
            rebuild = Rebuild(self._shared(), listener, cancel)
            record = self._catalog.collection(collection)
            if encoder is None and steps is not None:
                return rebuild.postprocess(record, steps)
            return rebuild.run(record, encoder, steps)

    def adapt(
        self,
        collection: str | None = None,
        head: str = "glot",
        *,
        progress: ProgressListener | None = None,
        cancel: CancelToken | None = None,
        **options: Any,
    ) -> HeadOutcome:
        """Train a head on a collection's own passages, kept only where it is better than the collection's encoder.

        The collection stays as it is; `rebuild` with the outcome's spec makes it anew. Options and errors as in
        `slotrag.rag.training.adapting.adapt_collection`.
        """
        from .training.adapting import adapt_collection

        with self._reporting(progress) as listener:
            record = self._catalog.collection(collection)
            return adapt_collection(
                self._shared(), self.models, record, head, progress=listener, cancel=cancel, **options
            )

    def remove(self, path: Path | str, *, collection: str | None = None, wait: bool = True) -> int:
        """Erase what was indexed at `path`, in one collection or in all; the number of documents."""
        from .maintenance import remove

        real_path(path)  # refuses an empty one, which would be the working directory
        with self._writing(wait=wait):
            return remove(self._shared(), path, self._chosen(collection))

    def search(
        self,
        query: str,
        k: int | None = None,
        *,
        collection: str | None = None,
        mode: str | None = None,
        path: str | None = None,
        min_score: float | None = None,
        diversity: float | None = None,
        explain: bool = False,
    ) -> SearchResult:
        """The passages that fit `query` best.

        Parameters
        ----------
        k : int
            Most results. This and whatever else is None comes from the settings.
        collection : str, optional
            By default all collections, fused by rank.
        mode : str
            ``hybrid``, ``dense`` or ``lexical``.
        path : str, optional
            Glob over the documents' paths.
        min_score : float, optional
            Dense cosine that results are at or above.
        diversity : float
            From 0 (plain order) to 1.

        Raises
        ------
        slotrag.UsageError
            An empty query, ``k < 1``, an unknown mode or collection, a number out of range.
        FingerprintMismatch
            The encoder is not the one that a collection was made with.
        """
        request = self._request(query, k, mode, path, min_score, diversity, explain)
        found = self._retriever().retrieve(request, self._chosen(collection))
        return SearchResult(query, found.hits, found.timings_ms, found.notices)

    def ask(
        self,
        question: str,
        *,
        k: int | None = None,
        collection: str | None = None,
        mode: str | None = None,
        path: str | None = None,
        min_score: float | None = None,
        diversity: float | None = None,
        context: str | None = None,
        decoder: str | None = None,
        max_tokens: int | None = None,
        session: str | None = None,
        cancel: CancelToken | None = None,
    ) -> Iterator[AnswerEvent]:
        """Answer a question from the documents, as a stream of events that ends with `Finished`.

        The question and its answer are stored in `session`, or in a new one. Options as in `search`.

        Raises
        ------
        slotrag.SlotragError
            As `search`; an unknown session; the decoder cannot be had or fails.
        """
        from .conversing import Asking

        request = self._request(question, k, mode, path, min_score, diversity, False).checked()
        asking = Asking(
            catalog=self._catalog,
            retriever=self._retriever(),
            collections=self._chosen(collection),
            encoder=self._shared().encoder,
            decoder=lambda: self._decoder(decoder or self.settings.decoder),
            settings=self.settings,
        )
        return asking.run(
            request, session=session, context=context or self.settings.context,
            max_tokens=max_tokens or self.settings.max_tokens, cancel=cancel,
        )  # fmt: skip

    def answer(self, question: str, **options: Any) -> Answer:
        """`ask`, waited for: the whole answer."""
        for event in self.ask(question, **options):
            if isinstance(event, Finished):
                return event.answer
        raise AssertionError("an answer's events end with Finished")

    def passage(self, passage_id: int) -> Hit:
        """A passage by its id, as a hit without a score. Raises `PassageMissing`."""
        records = self._catalog.passages([passage_id])
        if not records:
            raise PassageMissing(f"There is no passage {passage_id} (any more); search again for a current number.")
        (record,) = records
        copies = self._catalog.copies([passage_id])[passage_id]
        return Hit(
            rank=1, score=0.0, score_kind="cosine", dense=None, lexical=None, passage_id=record.id,
            collection=record.collection, path=record.path, absolute_path=record.absolute_path, copies=copies,
            page=record.page, lines=record.lines, chars=record.chars, heading=record.heading, text=record.text,
        )  # fmt: skip

    def status(self) -> LibraryStatus:
        """What the library holds and what is pending."""
        from .maintenance import library_status

        return library_status(self._shared())

    def collections(self) -> list[CollectionStatus]:
        """The collections with their figures, oldest first."""
        return self.status().collections

    def doctor(self, fix: bool = False, *, wait: bool = True) -> list[Finding]:
        """Check the library; with `fix` put right what can be put right."""
        from .doctor import examine

        if not fix:
            return examine(self._shared(), self.models, fix=False)
        with self._writing(wait=wait):
            return examine(self._shared(), self.models, fix=True)

    def sessions(self, query: str | None = None) -> list[SessionRecord]:
        """Conversations, last used first; with `query` those that hold it."""
        return self._catalog.sessions(query)

    def session(self, session_id: str) -> SessionRecord:
        """A conversation with its messages. Raises `UnknownSession`."""
        return self._catalog.session(session_id)

    def rename_session(self, session_id: str, title: str) -> None:
        """Give a conversation another title."""
        self._catalog.rename_session(session_id, title)

    def delete_session(self, session_id: str) -> None:
        """Erase a conversation."""
        self._catalog.delete_session(session_id)

    def export_session(self, session_id: str, format: str = "markdown") -> str:
        """A conversation with its excerpts as ``markdown`` or ``json``."""
        from .sessions import export

        return export(self._catalog.session(session_id), format)

    def close(self) -> None:
        """Close the library's files."""
        self._catalog.close()

    def __enter__(self) -> Library:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _request(
        self,
        query: str,
        k: int | None,
        mode: str | None,
        path: str | None,
        min_score: float | None,
        diversity: float | None,
        explain: bool,
    ) -> Request:
        settings = self.settings
        return Request(
            query=query,
            k=settings.k if k is None else k,
            mode=settings.mode if mode is None else mode,
            path=path,
            min_score=min_score,
            diversity=settings.diversity if diversity is None else diversity,
            explain=explain,
        )

    def _chosen(self, collection: str | None) -> list[CollectionRecord]:
        """The collection of that name, or all that users see."""
        from .maintenance import shown

        every = shown(self._catalog.collections())
        if collection is None and every:
            return every
        chosen = [record for record in every if record.name == collection]
        return chosen or [self._catalog.collection(collection)]

    def _shared(self) -> Parts:
        with self._lock:
            if self._parts is None:
                device, threads = self.settings.device, self.settings.threads
                shelf = EncoderShelf(self.models, device=device, threads=threads, catalog=self._catalog)
                self._parts = Parts(self._catalog, IndexKeeper(self._catalog, self._report), shelf, self.settings)
            return self._parts

    def _retriever(self) -> Retriever:
        parts = self._shared()
        with self._lock:
            if self._searcher is None:
                self._searcher = Retriever(self._catalog, parts.keeper, parts.encoder)
            return self._searcher

    def _decoder(self, name: str) -> Decoder:
        with self._lock:
            if name not in self._decoders:
                from .decoder import Decoder

                settings = self.settings
                self._decoders[name] = Decoder.load(
                    name, self.models, device=settings.device, dtype=settings.decoder_dtype
                )
            return self._decoders[name]

    @contextmanager
    def _writing(self, *, wait: bool, cancel: CancelToken | None = None) -> Iterator[None]:
        with WriterLock(self.folder, wait=wait, listener=self._report, cancel=cancel):
            yield

    @contextmanager
    def _reporting(self, progress: ProgressListener | None) -> Iterator[ProgressListener]:
        """Let reports of this thread go to `progress` for a while."""
        before = getattr(self._local, "listener", None)
        self._local.listener = progress or before
        try:
            yield self._report
        finally:
            self._local.listener = before

    def _report(self, event: Progress) -> None:
        listener = getattr(self._local, "listener", None) or self._listener
        if listener is not None:
            listener(event)

    def _report_model(self, stage: str, done: int, total: int | None, unit: str, message: str) -> None:
        self._report(Progress(stage, done, total, unit, message))
