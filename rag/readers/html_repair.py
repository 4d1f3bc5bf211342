"""HTML as people write it: text after the page's end tag, and elements that are never closed. It builds no tree.

A browser shows what follows ``</body>``, and an unclosed ``<nav>`` must not take the rest of the page along when
navigation is left out. What follows an unclosed script, style, title or comment is no text for a browser either: a note
says so.
"""

from __future__ import annotations

import re
from bisect import bisect_right

_PAGE_END = re.compile(r"</(?:body|html)\s{0,100}>(?=\s{0,1000}[^\s])", re.IGNORECASE)
_RAW = ("script", "style", "title", "textarea")
_LEFT_OUT = (
    "nav", "aside", "header", "footer", "select", "button", "svg", "object", "noscript", "template", "iframe"
)  # fmt: skip
_MARK = re.compile(
    rf"<!--|-->|<(?P<end>/?)(?P<name>{'|'.join((*_RAW, *_LEFT_OUT))})(?=[\s/>])[^<>]{{0,4000}}>", re.IGNORECASE
)


def repaired(source: str) -> tuple[str, list[str]]:
    """(The page without unclosed elements that are left out, and without early end tags; notes on what stays lost)."""
    opened, notes = _unclosed(source)
    if opened:
        parts, position = [], 0
        for start, end in opened:
            parts += (source[position:start], "<hr>")
            position = end
        source = "".join((*parts, source[position:]))
    return _PAGE_END.sub(" ", source), notes


def _unclosed(source: str) -> tuple[list[tuple[int, int]], list[str]]:
    """Places of the start tags without end tag, in order; notes."""
    opened: dict[str, list[tuple[int, int]]] = {}
    raw, raw_end = "", 0  # within a comment or an element whose content is no markup
    for match in _MARK.finditer(source):
        mark = match.group()
        name = (match["name"] or mark).lower()
        if raw:
            if (raw == "<!--" and name == "-->") or (raw == name and match["end"]):
                raw = ""
        elif match["end"]:
            if opened.get(name):
                opened[name].pop()
        elif mark.endswith("/>") or name == "-->":
            continue
        elif name in _RAW or name == "<!--":
            raw, raw_end = name, match.end()
        else:
            opened.setdefault(name, []).append(match.span())
    spans = sorted(span for found in opened.values() for span in found)
    if not raw or not source[raw_end:].strip():
        return spans, []
    what = "comment" if raw == "<!--" else f"<{raw}>"
    note = f"nothing after line {source.count(chr(10), 0, raw_end) + 1} was read: its {what} is never closed"
    return spans[: bisect_right(spans, (raw_end, 0))], [note]
