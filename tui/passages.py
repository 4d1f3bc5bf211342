"""Found passages as lines and as JSON: place, heading, score, and the part of the text that holds the query's words."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .output import bold, clean, columns, dim, on_terminal, one_line, say, say_json

if TYPE_CHECKING:
    from ..rag.results import Hit, SearchResult

_SNIPPET_LINES = 4
_MARGIN = 3 + len(" ...")  # the indentation and the mark of what is left out
_COMMON = frozenset(
    {"a", "an", "and", "are", "as", "at", "be", "by", "did", "do", "does", "for", "from", "had", "has", "have", "how"}
    | {"in", "is", "it", "its", "not", "of", "on", "or", "that", "the", "their", "there", "they", "this", "to", "was"}
    | {"were", "what", "when", "where", "which", "who", "why", "will", "with", "you"}
)


def say_result_json(result: SearchResult, *, explain: bool = False) -> None:
    """Write `result` in the form of schema 1; ``explanation`` is one key more of each result."""
    say_json({"schema": 1, "query": result.query, "results": [_as_json(hit, explain=explain) for hit in result.hits]})


def _as_json(hit: Hit, *, explain: bool) -> dict[str, Any]:
    value: dict[str, Any] = {
        "rank": hit.rank,
        "score": hit.score,
        "score_kind": hit.score_kind,
        "scores": {"dense": hit.dense, "lexical": hit.lexical},
        "passage_id": hit.passage_id,
        "path": hit.path,
        "absolute_path": hit.absolute_path,
        "copies": hit.copies,
        "page": hit.page,
        "lines": list(hit.lines),
        "chars": list(hit.chars),
        "heading": hit.heading,
        "text": hit.text,
    }
    if explain:
        value["explanation"] = hit.explanation
    return value


def say_hits(hits: Sequence[Hit], *, query: str, explain: bool = False) -> None:
    """Write `hits` for a reader: on a terminal the lines around the query's words, on a pipe the whole passage."""
    several = len({hit.collection for hit in hits}) > 1
    pattern = words_pattern(query)
    for number, hit in enumerate(hits):
        if number:
            say()
        say(_head(hit, several=several))
        for line in _body(hit.text, pattern):
            say(f"   {highlighted(line, pattern)}")
        if hit.copies:
            say(dim(f"   also in {one_line(', '.join(hit.copies))}"))
        if explain:
            say(dim(f"   {_explained(hit)}"))


def place(path: str, lines: tuple[int, int], page: int | None) -> str:
    """Where a passage stands, as ``path:first-last, page n``.

    Examples
    --------
    >>> place("notes/a.md", (3, 9), None)
    'notes/a.md:3-9'
    >>> place("b.pdf", (4, 4), 2)
    'b.pdf:4, page 2'
    """
    first, last = lines
    span = f"{first}-{last}" if last > first else str(first)
    return f"{one_line(path)}:{span}" + (f", page {page}" if page is not None else "")


def words_pattern(query: str) -> re.Pattern[str] | None:
    """Matches the query's words that tell something, with any ending; None where there are none.

    Examples
    --------
    >>> words_pattern("How are the pipes laid?").findall("Pipes were laid; a pipeline")
    ['Pipes', 'laid']
    """
    words = {word for word in re.findall(r"\w+", query.lower()) if word not in _COMMON and len(word) > 1}
    if not words:
        return None
    longest_first = sorted(words, key=lambda word: (-len(word), word))
    return re.compile(r"\b(?:" + "|".join(map(re.escape, longest_first)) + r")\w*", re.IGNORECASE)


def highlighted(line: str, pattern: re.Pattern[str] | None) -> str:
    """`line` with the matches of `pattern` in bold."""
    return pattern.sub(lambda match: bold(match.group()), line) if pattern else line


def _head(hit: Hit, *, several: bool) -> str:
    parts = [bold(f"{hit.rank}. {place(hit.path, hit.lines, hit.page)}")]
    if several:
        parts.append(clean(hit.collection))
    if hit.heading:
        parts.append(one_line(hit.heading))
    parts.append(dim(f"{hit.score_kind} {hit.score:.4f}"))
    return "  ".join(parts)


def _body(text: str, pattern: re.Pattern[str] | None) -> list[str]:
    lines = [line.rstrip() for line in clean(text).expandtabs(4).splitlines() if line.strip()]
    if not on_terminal():
        return lines
    wrapped = [piece for line in lines for piece in _wrapped(line, columns() - _MARGIN)]
    if len(wrapped) <= _SNIPPET_LINES:
        return wrapped
    found = [len(set(pattern.findall(line.lower()))) if pattern else 0 for line in wrapped]
    starts = range(len(wrapped) - _SNIPPET_LINES + 1)
    best = max(starts, key=lambda start: (sum(found[start : start + _SNIPPET_LINES]), -start))
    snippet = wrapped[best : best + _SNIPPET_LINES]
    if best:
        snippet[0] = f"... {snippet[0]}"
    if best + _SNIPPET_LINES < len(wrapped):
        snippet[-1] = f"{snippet[-1]} ..."
    return snippet


def _wrapped(line: str, width: int) -> list[str]:
    """`line` in pieces of `width` columns; Korean and other wide characters take two."""
    from rich.cells import cell_len, chop_cells

    if cell_len(line) == len(line):
        return textwrap.wrap(line, width) or [line]
    pieces: list[str] = []
    current = ""
    for word in line.split():
        joined = f"{current} {word}" if current else word
        if cell_len(joined) <= width:
            current = joined
            continue
        pieces += [current] if current else []
        *full, current = chop_cells(word, width) or [""]
        pieces += full
    return [*pieces, current] if current else pieces


def _explained(hit: Hit) -> str:
    dense = "not found by its vector" if hit.dense is None else f"cosine {hit.dense:.4f}"
    lexical = "not found by its words" if hit.lexical is None else f"bm25 {hit.lexical:.3f}"
    rest = [
        f"{name.replace('_', ' ')} {_short(value)}"
        for name, value in hit.explanation.items()
        if value not in (None, [], "") and name not in ("cosine", "bm25")  # said before
    ]
    relevant = "relevant" if hit.relevant else "not counted as relevant"
    return clean("; ".join([f"passage {hit.passage_id}", dense, lexical, *rest, relevant]))


def _short(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:.4f}" if isinstance(value, float) else str(value)
