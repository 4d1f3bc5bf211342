"""Refreshing what collections follow, once or whenever something changes. It knows no encoder and no storage form.

The runs themselves come from the caller: here is decided which collection is run, when, and on which sources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from .. import SlotragError
from ..storage.errors import DiskFull, UnknownCollection
from .errors import IndexNotSaved
from .events import CancelToken
from .index_run import DEFAULT_COLLECTION
from .maintenance import shown
from .results import IndexReport
from .sources import real_path, sources_around
from .watching import follow, wait_for

if TYPE_CHECKING:
    from ..storage import Catalog
    from ..storage.records import SourceRecord

FIRST_PAUSE_SECONDS = 2.0
"""After it a run that found the disk full is tried again; each pause is twice as long as the one before."""

LONGEST_PAUSE_SECONDS = 60.0

Runs = Callable[[], Iterator[IndexReport]]
Again = Callable[[str | None, Sequence[str]], IndexReport]


def following(catalog: Catalog, collection: str | None) -> list[str | None]:
    """The collection of that name, or all that follow something; where none does, the default one (None)."""
    if collection is not None:
        return [collection]
    every = shown(catalog.collections())
    return [record.name for record in every if catalog.sources(record.id)] or [None]


def refresh(names: Sequence[str | None], index: Callable[[str | None], IndexReport]) -> Iterator[IndexReport]:
    """Bring each collection up to date with `index`; a report of each.

    Raises
    ------
    slotrag.SlotragError
        The first error of a collection, when the others are up to date.
    """
    failed: list[SlotragError] = []
    for name in names:
        try:
            yield index(name)
        except SlotragError as error:
            failed.append(error)
    if failed:
        raise failed[0]


def watch(
    catalog: Catalog,
    paths: Sequence[Path | str],
    collection: str | None,
    *,
    first: Runs,
    again: Again,
    without: str,
    cancel: CancelToken,
) -> Iterator[IndexReport]:
    """The reports of `first`, then those of `again` after every change in the folders, until `cancel` is set.

    Parameters
    ----------
    paths : sequence of str or Path
        What is watched; without any, everything that the collections follow.
    collection : str or None
        Without `paths` and a name, every collection.
    first : callable
        The run that adds the paths, or refreshes the collections.
    again : callable
        Refreshes the sources (paths) of one collection; one that is gone for a while is no error.
    without : str
        The library's own folder, whose changes do not count.

    Raises
    ------
    slotrag.rag.watching.WatchFailed
        The system cannot tell about changes.

    A full disk does not end it: that is a notice in a report, and the run is tried again until there is room. Only a
    library that was opened on one cannot go on.
    """

    def later() -> Iterator[IndexReport]:
        for name in [collection] if paths else following(catalog, collection):
            run = partial(again, name, sources_around(paths, _sources(catalog, name)))
            yield from patiently(run, name, cancel)

    roots = [real_path(path) for path in paths] or [
        source.path for name in following(catalog, collection) for source in _sources(catalog, name)
    ]
    runs = iter([first])
    for reports in follow(lambda: next(runs, later)(), roots, without=[without], cancel=cancel):
        yield from reports  # the run itself goes on here


def patiently(run: Callable[[], IndexReport], name: str | None, cancel: CancelToken) -> Iterator[IndexReport]:
    """The report of `run`; before it one with a notice for each time that the disk was full, until `cancel` is set."""
    pause = FIRST_PAUSE_SECONDS
    while not cancel.cancelled:
        try:
            report = run()
        except (DiskFull, IndexNotSaved) as error:
            report = IndexReport(name or DEFAULT_COLLECTION)
            report.notices.append(f"{str(error).rstrip('.')}. It is tried again in {pause:.0f} s.")
            yield report
            wait_for(cancel, pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        else:
            yield report
            return


def _sources(catalog: Catalog, collection: str | None) -> list[SourceRecord]:
    """What the collection of that name, or the default one, follows; nothing where there is none yet."""
    try:
        return catalog.sources(catalog.collection(collection).id)
    except UnknownCollection:
        return []
