"""Paths as bytes and as text for display, and the glob that selects documents. It knows no SQL.

A path is kept as the bytes that open it; beside it stands a readable form in NFC, in which undecodable bytes are
replaced. Globs are compared with that form, so a name is found whether it is spelled composed or decomposed.
"""

from __future__ import annotations

import os
import re
import unicodedata
from functools import lru_cache


def to_bytes(path: str) -> bytes:
    """The bytes that open `path`."""
    return os.fsencode(path)


def from_bytes(path: bytes) -> str:
    """The path as Python's functions take it."""
    return os.fsdecode(path)


def display(path: str) -> str:
    """`path` in NFC with undecodable bytes replaced.

    >>> display("cafe\\u0301.txt") == "caf\\u00e9.txt"
    True
    >>> display("\\udcff.txt")
    '\\ufffd.txt'
    """
    text = os.fsencode(path).decode("utf-8", "replace")
    return unicodedata.normalize("NFC", text)


@lru_cache(maxsize=64)
def glob_pattern(pattern: str) -> re.Pattern[str]:
    """Regular expression of a path glob, to be given `display` forms of the relative and of the absolute path.

    ``*`` and ``?`` stay within one name, ``**`` goes over any number of folders, ``[abc]`` and ``[!abc]`` are
    character sets. A pattern without ``/`` is compared with names at any depth, any other from the start of the path.
    A folder stands for everything in it. Upper and lower case differ.

    >>> globs = "*.md", "notes", "notes/*.md", "notes/**/*.md"
    >>> [bool(glob_pattern(glob).fullmatch("notes/2024/plan.md")) for glob in globs]
    [True, True, False, True]
    """
    text = display(pattern).removeprefix("./").rstrip("/") or "**"
    prefix = "(?:.*/)?" if "/" not in text else ""
    return re.compile(prefix + _translate(text) + "(?:/.*)?", re.DOTALL)


def _translate(text: str) -> str:
    parts: list[str] = []
    at = 0
    while at < len(text):
        if text.startswith("**/", at) and (at == 0 or text[at - 1] == "/"):
            parts.append("(?:.*/)?")
            at += 3
        elif text.startswith("**", at):
            parts.append(".*")
            at += 2
        elif text[at] == "*":
            parts.append("[^/]*")
            at += 1
        elif text[at] == "?":
            parts.append("[^/]")
            at += 1
        elif text[at] == "[" and (end := text.find("]", at + 2)) > 0:
            parts.append(_character_set(text[at + 1 : end]))
            at = end + 1
        else:
            parts.append(re.escape(text[at]))
            at += 1
    return "".join(parts)


def _character_set(inner: str) -> str:
    negated = inner[0] == "!"
    members = inner[1:] if negated else inner
    if not members:
        return re.escape(f"[{inner}]")
    escaped = members.replace("\\", r"\\").replace("[", r"\[").replace("]", r"\]").replace("^", r"\^")
    escaped = re.sub(r"(&&|\|\||~~|--)", lambda found: "\\" + found[0][0] + "\\" + found[0][1], escaped)
    return f"(?!/)[{'^' if negated else ''}{escaped}]"
