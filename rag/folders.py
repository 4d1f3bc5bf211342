"""Walks a source folder and tells which of its files may be documents. It opens no document and knows no library.

Order is by the bytes of the names, folders in their place among the files. Paths keep their own bytes
(``surrogateescape``) and their own Unicode spelling.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import SlotragError
from ..storage.records import FileStamp
from .ignoring import (
    BINARY_SUFFIXES,
    REPOSITORY_FOLDERS,
    TOOL_FOLDERS,
    Globs,
    IgnoreFile,
    ignored,
    own_exclude,
    read_ignore_file,
    rules_above,
)
from .results import SkippedFile

_LARGEST_INODE = 2**63 - 1
"""Of a longer number, which few file systems have, the lower bits are kept: a database holds no more."""


class SourceMissing(SlotragError):
    """A source is not there or cannot be listed; its documents must not be taken for deleted."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A regular file that may be a document.

    Attributes
    ----------
    path : str
        Absolute; opens the file (``surrogateescape``, spelling untouched).
    relative_path : str
        To the source; the file's name where the source is the file itself.
    size : int
        Bytes.
    mtime_ns, ctime_ns, inode : int
        See `slotrag.storage.records.FileStamp`.
    """

    path: str
    relative_path: str
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @classmethod
    def of(cls, path: str, relative_path: str, status: os.stat_result) -> FoundFile:
        """The file at `path`, of which the system says `status`."""
        inode = status.st_ino & _LARGEST_INODE
        return cls(path, relative_path, status.st_size, status.st_mtime_ns, status.st_ctime_ns, inode)

    @property
    def stamp(self) -> FileStamp:
        return FileStamp(self.size, self.mtime_ns, self.ctime_ns, self.inode)


def walk(
    source: Path | str,
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    hidden: bool = False,
    follow_links: bool = False,
    left_out: Counter[str] | None = None,
) -> Iterator[FoundFile | SkippedFile]:
    """The files under `source`, each real one once.

    Left out by rule: ``.gitignore`` (nested, negation, also those above the source in its repository), hidden names,
    repositories' own folders, ``node_modules``, ``__pycache__``, names of binary files, links to files that are
    walked anyway, FIFOs, sockets and devices (never opened). These are counted in `left_out`, not reported one by one.
    Reported as `SkippedFile`: links that leave the source (unless followed), and, as failed, folders that cannot be
    listed and files that cannot be examined. What vanishes during the walk is passed over.

    Parameters
    ----------
    include, exclude : sequence of str
        Patterns as in ``.gitignore``; see `slotrag.rag.ignoring.Globs`. They hold for the name of a file that is itself
        the source, too, as when a shell has made files of ``docs/*``; the other rules do not.
    hidden : bool
        Take hidden files and folders too.
    follow_links : bool
        Follow links that leave the source; loops end, and no real file is met twice.
    left_out : Counter, optional
        Is given the number of files and folders left out, by reason.

    Raises
    ------
    SourceMissing
        `source` is not there, is neither file nor folder, or cannot be listed.
    """
    top = os.path.abspath(os.fspath(source))  # noqa: PTH100 - Path.resolve would follow the links in it
    try:
        status = os.stat(top)  # noqa: PTH116
        if stat.S_ISREG(status.st_mode):
            name = os.path.basename(top)  # noqa: PTH119
            reason = Globs(include, exclude).refusal(name, is_folder=False)
            if reason and left_out is not None:
                left_out[reason] += 1
            return iter([] if reason else [FoundFile.of(top, name, status)])
        if not stat.S_ISDIR(status.st_mode):
            raise SourceMissing(f"{top} is neither a file nor a folder: name one of these")
        os.scandir(top).close()
    except OSError as error:
        raise SourceMissing(f"{top} cannot be read ({error.strerror}): check the path and its permissions") from error
    return _Walk(top, Globs(include, exclude), hidden, follow_links, left_out).files()


class _Walk:
    """One walk: its options, the links met, and the real paths behind followed links."""

    def __init__(self, top: str, globs: Globs, hidden: bool, follow_links: bool, left_out: Counter[str] | None) -> None:
        self._top = top.rstrip(os.sep) + os.sep
        self._roots = [os.path.realpath(top).rstrip(os.sep) + os.sep]
        self._globs = globs
        self._hidden = hidden
        self._follow_links = follow_links
        self._left_out: Counter[str] = Counter() if left_out is None else left_out
        self._links: list[str] = []
        self._following = False

    def files(self) -> Iterator[FoundFile | SkippedFile]:
        rules = rules_above(self._top.rstrip(os.sep) or os.sep)
        yield from self._folder(self._top, rules, named=False)
        self._following = True
        to_files: list[str] = []
        while self._links:  # after everything real, so that a real path wins over a link to it
            links, self._links = sorted(self._links, key=os.fsencode), []
            for link in links:
                if self._follow_links and os.path.isfile(link):  # noqa: PTH113
                    to_files.append(link)  # after the folders, which may hold the file
                else:
                    yield from self._link(link, rules)
        for link in to_files:
            yield from self._link(link, rules)

    def _folder(self, top: str, rules: list[IgnoreFile], named: bool) -> Iterator[FoundFile | SkippedFile]:
        """Everything under the folder `top`, whose path ends with a separator."""
        stack = [self._entries(top, rules, named)]
        while stack:
            for item in stack[-1]:
                if isinstance(item, tuple):
                    stack.append(self._entries(*item))
                    break
                yield item
            else:
                stack.pop()

    def _entries(
        self, folder: str, rules: list[IgnoreFile], named: bool
    ) -> Iterator[FoundFile | SkippedFile | tuple[str, list[IgnoreFile], bool]]:
        """The files of one folder, and in their place its folders as arguments for this method.

        `named`: an include pattern names the folder, so that rules that leave its contents out do not count.
        """
        try:
            with os.scandir(folder) as listing:
                entries = sorted(listing, key=lambda entry: os.fsencode(entry.name))
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            yield SkippedFile(folder.rstrip(os.sep), f"the folder cannot be listed: {error.strerror}", failed=True)
            return
        rules = [*rules, *self._own_rules(folder, {entry.name for entry in entries})]
        for entry in entries:
            path = folder + entry.name
            try:
                item = self._entry(entry, path, rules, named)
            except FileNotFoundError:
                continue
            except OSError as error:
                item = SkippedFile(path, f"cannot be examined: {error.strerror}", failed=True)
            if item is not None:
                yield item

    def _own_rules(self, folder: str, names: set[str]) -> list[IgnoreFile]:
        """The rules that begin to hold in a folder; a repository inside another one brings its own."""
        nested = own_exclude(folder) if ".git" in names and folder != self._top else None
        own = read_ignore_file(folder + ".gitignore") if ".gitignore" in names else None
        return [file for file in (nested, own) if file]

    def _entry(
        self, entry: os.DirEntry[str], path: str, rules: list[IgnoreFile], named: bool
    ) -> FoundFile | tuple[str, list[IgnoreFile], bool] | None:
        is_folder = entry.is_dir(follow_symlinks=False)
        named = named or self._globs.names(entry.name)
        reason = self._reason(entry.name, path, rules, is_folder, named)
        if reason:
            self._left_out[reason] += 1
            return None
        if is_folder:
            if self._following and os.path.realpath(path) + os.sep in self._roots:
                return None  # walked already through another link
            return path + os.sep, rules, named
        if entry.is_symlink():
            self._links.append(path)
            return None
        if not entry.is_file(follow_symlinks=False):
            self._left_out["not a regular file"] += 1
            return None
        status = entry.stat(follow_symlinks=False)
        return FoundFile.of(path, self._relative(path), status)

    def _reason(self, name: str, path: str, rules: list[IgnoreFile], is_folder: bool, named: bool) -> str:
        """Why a rule leaves the entry out; empty where none does."""
        relative = self._relative(path)
        refused = self._globs.refusal(relative, is_folder)
        if refused:
            return refused
        if named:
            return ""
        if name in REPOSITORY_FOLDERS:
            return "version control"
        if name in TOOL_FOLDERS and is_folder:
            return "made by tools"
        if name.startswith(".") and not self._hidden:
            return "hidden"
        if rules and ignored(rules, path, is_folder):
            return "ignored by .gitignore"
        if not is_folder:
            suffix = os.path.splitext(name)[1].lower()  # noqa: PTH122
            if suffix in BINARY_SUFFIXES and not self._globs.names_suffix(suffix):
                return "binary by its name"
        return ""

    def _relative(self, path: str) -> str:
        return path[len(self._top) :]

    def _link(self, path: str, rules: list[IgnoreFile]) -> Iterator[FoundFile | SkippedFile]:
        """A symbolic link, met again after everything real."""
        try:
            real = os.path.realpath(path, strict=True)
            status = os.stat(real)  # noqa: PTH116
        except OSError:  # also a link to itself
            self._left_out["link to nothing"] += 1
            return
        if any((real + os.sep).startswith(root) for root in self._roots):
            self._left_out["link to a place in the folder"] += 1
            return
        if not self._follow_links:
            yield SkippedFile(path, f"a link that leaves the folder: index {real} to have it", failed=False)
            return
        if stat.S_ISDIR(status.st_mode):
            if (self._roots[0]).startswith(real.rstrip(os.sep) + os.sep):
                self._left_out["link to a folder above"] += 1
                return
            earlier = tuple(self._roots)
            self._roots.append(real.rstrip(os.sep) + os.sep)
            for item in self._folder(path + os.sep, rules, named=False):
                # A link met before may lead to a file or folder inside this one.
                if isinstance(item, FoundFile) and (os.path.realpath(item.path) + os.sep).startswith(earlier):
                    self._left_out["link to a place in the folder"] += 1
                    continue
                yield item
        elif stat.S_ISREG(status.st_mode):
            self._roots.append(real + os.sep)
            yield FoundFile.of(path, self._relative(path), status)
