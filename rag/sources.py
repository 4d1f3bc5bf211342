"""Which folders and files a run is about: given paths against the sources that a collection follows. It reads no file.

Rules: a path inside a followed folder refreshes that part of it, unless it comes with rules of its own; a path with its
own rules, or outside every source, becomes a source. Of two nested sources the inner one owns its files, so each file
is in a collection once; a new outer source takes an inner one without rules of its own into itself.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import UsageError
from ..storage.records import SourceRecord


@dataclass(frozen=True, slots=True)
class Target:
    """A source to walk.

    Attributes
    ----------
    path : str
        The source, absolute and without links.
    record : SourceRecord or None
        None for one that is not followed yet.
    below : str or None
        Only this file or folder inside it.
    absorbed : tuple of SourceRecord
        Followed sources that become part of it.
    """

    path: str
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    hidden: bool
    record: SourceRecord | None = None
    below: str | None = None
    absorbed: tuple[SourceRecord, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether the source is new or its rules are not the stored ones."""
        record = self.record
        return record is None or (record.include, record.exclude, record.hidden) != (
            self.include, self.exclude, self.hidden,
        )  # fmt: skip


def targets(
    paths: Sequence[Path | str],
    followed: Sequence[SourceRecord],
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    hidden: bool = False,
) -> list[Target]:
    """What a run has to walk; without `paths` every followed source.

    Raises
    ------
    slotrag.UsageError
        A path is not there and lies in no followed folder, or is neither a file nor a folder; rules are given without
        a path, or an empty one.
    """
    rules = (tuple(include), tuple(exclude), hidden)
    ruled = any(rules)
    if not all(pattern.strip() for pattern in (*include, *exclude)):
        raise UsageError("A pattern of --include or --exclude is empty; leave it out.")
    if not paths:
        if include or exclude:
            raise UsageError("Name the folder that --include and --exclude are for.")
        return [_followed(record) for record in followed]
    found: dict[tuple[str, str | None], Target] = {}
    for path in paths:
        target = _target(real_path(path), followed, rules, ruled)
        found.setdefault((target.path, target.below), target)
    whole = {target.path for target in found.values() if target.below is None}
    return [target for target in found.values() if target.below is None or target.path not in whole]


def real_path(path: Path | str) -> str:
    """`path` absolute and without links. Raises `slotrag.UsageError` for an empty one."""
    text = os.fspath(path)
    if not text or "\0" in text:
        raise UsageError("The path is empty; name a folder or a file.")
    return os.path.realpath(os.path.expanduser(text))  # noqa: PTH111 - bytes that are no UTF-8 stay as they are


def refuse_inside(paths: Sequence[Path | str], library: str) -> None:
    """Raise `slotrag.UsageError` where one of `paths` is the library's own folder or lies in it."""
    for path in map(real_path, paths):
        if path == library or inside(path, library):
            raise UsageError(f"{path} is of the library's own folder, which is never indexed; name another folder.")


def _target(
    path: str,
    followed: Sequence[SourceRecord],
    rules: tuple[tuple[str, ...], tuple[str, ...], bool],
    ruled: bool,
) -> Target:
    same = next((record for record in followed if record.path == path), None)
    if same is not None:
        return Target(path, *rules, same) if ruled else _followed(same)
    outer = innermost(path, followed)
    if outer is not None and not ruled:
        return _followed(outer, below=path)
    if not os.path.lexists(path):
        raise UsageError(f"There is no file or folder {path}; check the spelling.")
    if not os.path.isfile(path) and not os.path.isdir(path):  # noqa: PTH112,PTH113 - paths keep their own bytes
        raise UsageError(f"{path} is neither a file nor a folder; only those can be indexed.")
    plain = [r for r in followed if inside(r.path, path) and not (r.include or r.exclude or r.hidden)]
    return Target(path, *rules, absorbed=tuple(plain))


def _followed(record: SourceRecord, below: str | None = None) -> Target:
    return Target(record.path, record.include, record.exclude, record.hidden, record, below)


def sources_around(paths: Sequence[Path | str], followed: Sequence[SourceRecord]) -> list[str]:
    """The followed sources that `paths` are or lie in; without `paths` all of them."""
    if not paths:
        return [record.path for record in followed]
    found = []
    for path in map(real_path, paths):
        same = next((record for record in followed if record.path == path), None)
        nearest = same or innermost(path, followed)
        if nearest is not None:
            found.append(nearest.path)
    return list(dict.fromkeys(found))


def inside(path: str, folder: str) -> bool:
    """Whether `path` lies in `folder` (and is not the folder itself).

    Examples
    --------
    >>> inside("/notes/a.md", "/notes"), inside("/notes2/a.md", "/notes"), inside("/notes", "/notes")
    (True, False, False)
    """
    return path.startswith(folder.rstrip(os.sep) + os.sep) and path != folder


def innermost(path: str, followed: Sequence[SourceRecord]) -> SourceRecord | None:
    """The nearest followed source around `path`."""
    around = [record for record in followed if inside(path, record.path)]
    return max(around, key=lambda record: len(record.path), default=None)
