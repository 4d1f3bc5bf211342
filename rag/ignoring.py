"""Which files and folders a walk leaves out: ``.gitignore`` rules and the user's globs. It opens no document."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import UsageError
from .ignore_rules import Rules, lines_of, parse

MAXIMUM_RULES = 1_000_000
"""Most bytes of an ignore file; a larger one, which nobody wrote, is passed over."""

TOOL_FOLDERS = frozenset({"node_modules", "__pycache__"})
"""Never documents, though not hidden; an include pattern that names one enters it. (``.git`` and its like are hidden,
and stay left out with ``hidden=True``: see `REPOSITORY_FOLDERS`.)"""

REPOSITORY_FOLDERS = frozenset({".git", ".hg", ".svn"})


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


BINARY_SUFFIXES = _words(
    ".png .jpg .jpeg .gif .bmp .tif .tiff .webp .svg .ico .icns .heic .avif .psd .mp3 .wav .flac .ogg .m4a .aac .opus "
    ".mp4 .m4v .mkv .avi .mov .webm .wmv .ttf .otf .woff .woff2 .eot .pyc .pyo .o .a .so .dll .dylib .exe .class "
    ".jar .wasm .npy .npz .pt .pth .safetensors .gguf .onnx .parquet .sqlite .sqlite3 .db .iso .img .dmg .deb .rpm .whl"
)
"""Names of files that never hold a document; they are not even opened."""


@dataclass(frozen=True, slots=True)
class IgnoreFile:
    """The rules of one ``.gitignore``; they hold below `folder`, an absolute path with a separator at its end."""

    folder: str
    rules: Rules

    def verdict(self, path: str, is_folder: bool) -> bool | None:
        """True: ignored, False: taken back by a ``!`` rule, None: no rule speaks of it."""
        relative = path[len(self.folder) :].replace(os.sep, "/")
        return self.rules.verdict(os.fsencode(relative).decode("latin-1"), is_folder)


def read_ignore_file(path: str) -> IgnoreFile | None:
    """The rules in the file at `path`; None where there is no regular file of a bearable size to be read."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - a FIFO would wait for a writer once opened
            return None
        with Path(path).open("rb") as stream:
            data = stream.read(MAXIMUM_RULES + 1)
    except OSError:
        return None
    if len(data) > MAXIMUM_RULES:
        return None
    text = data.removeprefix(b"\xef\xbb\xbf").decode("latin-1")  # compared byte by byte, as git does
    folder = os.path.dirname(path)  # noqa: PTH120 - Path would not keep a path's exact spelling
    return IgnoreFile(folder.rstrip(os.sep) + os.sep, Rules(lines_of(text)))


def own_exclude(folder: str) -> IgnoreFile | None:
    """The rules of a repository's ``info/exclude``; they hold below `folder`, its top."""
    top = folder.rstrip(os.sep)
    file = read_ignore_file(os.path.join(top, ".git", "info", "exclude"))  # noqa: PTH118
    return IgnoreFile(top + os.sep, file.rules) if file else None


def ignored(rules: Sequence[IgnoreFile], path: str, is_folder: bool) -> bool:
    """Whether the rules, outermost first, leave `path` out: the innermost file that speaks of it decides.

    The folders that it is in are not looked at; a walk does not enter one that is ignored.
    """
    for file in reversed(rules):
        verdict = file.verdict(path, is_folder)
        if verdict is not None:
            return verdict
    return False


def rules_above(source: str) -> list[IgnoreFile]:
    """The ignore files between a repository's top folder and `source` (not its own), outermost first.

    None where `source` is in no repository, or where those rules would leave out `source` itself: who names an
    ignored folder wants it.
    """
    found: list[IgnoreFile] = []
    folder = source
    while not Path(folder, ".git").exists():
        parent = os.path.dirname(folder)  # noqa: PTH120
        if parent == folder:
            return []
        folder = parent
        file = read_ignore_file(os.path.join(folder, ".gitignore"))  # noqa: PTH118
        if file:
            found.insert(0, file)
    exclude = own_exclude(folder)
    if exclude:
        found.insert(0, exclude)
    return [] if _inside_ignored(found, source, folder) else found


def _inside_ignored(rules: Sequence[IgnoreFile], source: str, top: str) -> bool:
    """Whether the rules leave out `source` or a folder between it and `top`."""
    folder = source
    while folder != top:
        above = [file for file in rules if folder.startswith(file.folder)]
        if ignored(above, folder, True):
            return True
        folder = os.path.dirname(folder)  # noqa: PTH120
    return False


class Globs:
    """The user's ``--include`` and ``--exclude`` patterns, written as in ``.gitignore``, relative to the source.

    With include patterns only files that match one are taken. A file or folder that a rule (hidden, ignored, binary)
    leaves out is taken if an include pattern names it: by a part of the pattern without wildcards
    (``.github/**``, ``node_modules/left-pad/README.md``), or a suffix of binary files (``*.png``).

    Raises
    ------
    slotrag.UsageError
        A pattern that is none: of them, unlike those of an ignore file, none is passed over.
    """

    def __init__(self, include: Sequence[str], exclude: Sequence[str]) -> None:
        for pattern in (*include, *exclude):
            if parse(pattern, strict=True) is None:
                raise UsageError(f"{pattern!r} is no pattern; write it as in a .gitignore file, such as '*.log'.")
        self._include = Rules(include) if include else None
        self._exclude = Rules(exclude) if exclude else None
        parts = [part for pattern in include for part in pattern.split("/") if part]
        self._named = {part for part in parts if not set(part) & set("*?[!")}
        self._suffixes = {part[1:].lower() for part in parts if part.startswith("*.")}

    def refusal(self, relative: str, is_folder: bool) -> str:
        """Why the patterns leave a file or folder out; empty where they do not."""
        if self._exclude is not None and self._exclude.verdict(relative, is_folder):
            return "excluded"
        if self._include is not None and not is_folder and not _reaches(self._include, relative):
            return "not included"
        return ""

    def names(self, name: str) -> bool:
        """Whether an include pattern names this file or folder outright."""
        return name in self._named

    def names_suffix(self, suffix: str) -> bool:
        return suffix in self._suffixes


def _reaches(rules: Rules, path: str) -> bool:
    """Whether rules fit a file or a folder that it is in."""
    ends = [at for at, character in enumerate(path) if character == "/"]
    return any(rules.verdict(path[:end], True) for end in ends) or bool(rules.verdict(path, False))
