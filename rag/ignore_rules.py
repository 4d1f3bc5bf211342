"""The rules of one ignore file, matched as git matches them: of all that fit, the last one decides. It opens no file.

Patterns and paths are compared character by character. Whoever wants them compared byte by byte, as git does, gives
both decoded as Latin-1, which turns each byte into one character.
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from dataclasses import dataclass

_SPECIAL = frozenset("*?[\\")
_STAR = "[^/]*"
_FOLDERS = "(?:.*/)?"
_ANYTHING = ".*"
_NAMED_CLASSES = {
    "alnum": string.ascii_letters + string.digits,
    "alpha": string.ascii_letters,
    "blank": " \t",
    "cntrl": "".join(map(chr, (*range(32), 127))),
    "digit": string.digits,
    "graph": "".join(map(chr, range(33, 127))),
    "lower": string.ascii_lowercase,
    "print": "".join(map(chr, range(32, 127))),
    "punct": string.punctuation,
    "space": " \t\n\r",
    "upper": string.ascii_uppercase,
    "xdigit": string.hexdigits,
}


@dataclass(frozen=True, slots=True)
class Rule:
    """One pattern.

    Attributes
    ----------
    takes_back : bool
        It began with ``!``.
    folders_only : bool
        It ended with a slash.
    by_name : bool
        It holds no other slash, so that names at any depth are compared with it.
    literal : str or None
        What must be equal, where the pattern has no wildcard; otherwise `expression` must match.
    """

    takes_back: bool
    folders_only: bool
    by_name: bool
    literal: str | None
    expression: re.Pattern[str] | None

    def fits(self, path: str, name: str, is_folder: bool) -> bool:
        """Whether it speaks of the file or folder at `path`, whose last part is `name`."""
        if self.folders_only and not is_folder:
            return False
        text = name if self.by_name else path
        if self.expression is None:
            return text == self.literal
        return self.expression.fullmatch(text) is not None


class Rules:
    """The patterns of one file, in their order.

    Examples
    --------
    >>> rules = Rules(["*", "!*/", "!*.md"])
    >>> [rules.verdict(path, is_folder) for path, is_folder in [("a.txt", False), ("b", True), ("b/c.md", False)]]
    [True, False, False]
    """

    def __init__(self, lines: Sequence[str]) -> None:
        parsed = [rule for line in lines if (rule := parse(line)) is not None]
        self._rules = parsed[::-1]

    def verdict(self, path: str, is_folder: bool) -> bool | None:
        """True: ignored, False: taken back by a ``!`` rule, None: no rule speaks of it.

        `path` is relative to the file's folder. Only it is judged: what is in an ignored folder is for the caller.
        """
        name = path.rpartition("/")[2]
        for rule in self._rules:
            if rule.fits(path, name, is_folder):
                return not rule.takes_back
        return None


def lines_of(text: str) -> list[str]:
    """The lines of an ignore file: a line ends with a line feed, perhaps after one carriage return, and nowhere else.

    A line holds nothing from a NUL on, and no spaces at its end but escaped ones.
    """
    lines = (line.removesuffix("\r").partition("\0")[0] for line in text.split("\n"))
    return [_without_last_spaces(line) for line in lines if not line.startswith("#")]


def _without_last_spaces(line: str) -> str:
    kept = line.rstrip(" ")
    backslashes = len(kept) - len(kept.rstrip("\\"))
    return kept + " " if backslashes % 2 and len(kept) < len(line) else kept


def parse(line: str, *, strict: bool = False) -> Rule | None:
    """The rule in a line; None where it can fit nothing, as an unfinished bracket, or with `strict` where a range in it
    runs backwards, which git takes for its first character."""
    takes_back = line.startswith("!")
    pattern = line[takes_back:]
    folders_only = pattern.endswith("/")
    pattern = pattern.removesuffix("/")
    by_name = "/" not in pattern
    pattern = pattern.removeprefix("/")
    if not pattern:
        return None
    head = next((at for at, character in enumerate(pattern) if character in _SPECIAL), len(pattern))
    if head == len(pattern):
        return Rule(takes_back, folders_only, by_name, pattern, None)
    # As in git, what follows the part without wildcards is matched on its own, so that a ``**/`` there is at its start.
    try:
        rest = _Translation("" if by_name else pattern[:head], pattern[0 if by_name else head :], strict).expression
    except _Unmatchable:
        return None
    return Rule(takes_back, folders_only, by_name, None, rest)


class _Unmatchable(Exception):
    """The pattern fits nothing."""


class _Translation:
    """Makes a regular expression of a pattern with wildcards."""

    def __init__(self, head: str, pattern: str, strict: bool) -> None:
        self._pattern, self._strict = pattern, strict
        self._at = 0
        pieces = [re.escape(head)]
        while self._at < len(pattern):
            pieces.append(self._piece())
        self.expression = re.compile(_joined(pieces), re.DOTALL)

    def _piece(self) -> str:
        start, character = self._at, self._pattern[self._at]
        self._at += 1
        if character == "*":
            return self._stars(start)
        if character == "?":
            return "[^/]"
        if character == "[":
            return self._bracket()
        if character == "\\":
            return re.escape(self._next())
        return re.escape(character)

    def _stars(self, start: int) -> str:
        pattern = self._pattern
        while pattern.startswith("*", self._at):
            self._at += 1
        rest = pattern[self._at :]
        alone = (start == 0 or pattern[start - 1] == "/") and (not rest or rest.startswith(("/", "\\/")))
        if self._at - start < 2 or not alone:
            return _STAR
        if rest.startswith("/"):
            self._at += 1
            return _FOLDERS
        return _ANYTHING

    def _next(self) -> str:
        if self._at >= len(self._pattern):
            raise _Unmatchable
        self._at += 1
        return self._pattern[self._at - 1]

    def _bracket(self) -> str:
        """A set of characters. The first one is never the end; a backslash takes the next as it is."""
        negated = self._pattern[self._at : self._at + 1] in ("!", "^")
        self._at += negated
        members: list[str] = []
        previous = ""
        character = self._next()
        while True:
            if character == "\\":
                previous = self._next()
                members.append(re.escape(previous))
            elif character == "-" and previous and self._pattern[self._at : self._at + 1] not in ("", "]"):
                last = self._next()
                last = self._next() if last == "\\" else last
                if previous <= last:
                    members.append(f"{re.escape(previous)}-{re.escape(last)}")
                elif self._strict:
                    raise _Unmatchable
                previous = ""
            elif character == "[" and self._pattern.startswith(":", self._at) and (named := self._named()) is not None:
                members.append(re.escape(named))
                previous = ""
            else:
                members.append(re.escape(character))
                previous = character
            character = self._next()
            if character == "]":
                break
        inside = "".join(members)
        return f"(?!/)[^{inside}]" if negated else f"(?!/)[{inside}]"

    def _named(self) -> str | None:
        """The characters of a ``[:name:]`` whose ``[`` was just read; None where it is no such thing."""
        end = self._pattern.find("]", self._at + 1)
        if end < 0:
            raise _Unmatchable
        if end - 1 <= self._at or self._pattern[end - 1] != ":":
            return None
        named = _NAMED_CLASSES.get(self._pattern[self._at + 1 : end - 1])
        if named is None:
            raise _Unmatchable
        self._at = end + 1
        return named


def _joined(pieces: Sequence[str]) -> str:
    """The expression of the pieces. Of two stars without a slash between, the first takes the least that lets what
    follows match, for good: a pattern of many stars would be tried in every way otherwise."""
    made: list[str] = []
    at = 0
    while at < len(pieces):
        if pieces[at] == _STAR:
            end = at + 1
            while end < len(pieces) and pieces[end] not in (_STAR, "/", _FOLDERS, _ANYTHING):
                end += 1
            if end < len(pieces) and pieces[end] == _STAR:
                made.append(f"(?>[^/]*?{''.join(pieces[at + 1 : end])})")
                at = end
                continue
        made.append(pieces[at])
        at += 1
    return "".join(made)
