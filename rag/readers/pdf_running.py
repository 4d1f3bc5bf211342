"""Running heads and page numbers of a PDF: which lines at the ends of its pages say nothing new. It opens no file.

Only two kinds of line may go: one that stands apart on most pages with the same text at the same height (its first
stays), and one whose only difference to those of other pages is the number of its page. A title, an amount or a
sentence that differs from page to page in a number stays.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from .pdf_lines import Line

LEAST_PAGES = 4
"""A line must recur on this many pages, and an unchanged one on more than half of those with text."""

HEIGHT = 0.5
"""Lines stand at the same height where their baselines differ by less than this multiple of their size."""

APART = 1.5
"""An unchanged line runs through the pages only where it is further from other lines than this multiple of its size:
the last line of a text or of a list is nearer."""

LARGEST_OFFSET = 1000
"""A page number is larger than the page's place in the file by less than this: the years of a chronicle are larger."""

_ONES = ("", "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix")
_TENS = ("", "x", "xx", "xxx", "xl", "l", "lx", "lxx", "lxxx", "xc")
_ROMAN = {ten + one: 10 * tens + ones for tens, ten in enumerate(_TENS) for ones, one in enumerate(_ONES) if ten + one}
_PAGE_WORDS = r"page|pages|pg\.?|p\.?|seite|s\.|página|pagina|pág\.?|pag\.?|стр\.?|쪽|면|페이지|제|第"
_NUMBER = re.compile(
    rf"[\W_]*(?:(?:{_PAGE_WORDS})[\W_]*)?(?P<number>\d{{1,4}}|[ivxl]{{1,8}})"
    r"[\W_]*(?:(?:쪽|면|페이지|頁|页|ページ)[\W_]*)?(?:(?:of|von|de|sur|di|/)\s*\d{1,4}[\W_]*)?",
    re.IGNORECASE,
)
_SIGNS = re.compile(r"\s*[|·•–—]\s*")  # that part a page number from the words beside it


@dataclass(slots=True)
class RunningLines:
    """The lines that run through a document's pages; of the unchanged ones the first is kept, so nothing is lost."""

    heads: dict[str, list[float]] = field(default_factory=dict)
    """Heights of an unchanged line, by its text."""
    numbers: set[tuple[str, int]] = field(default_factory=set)
    """Lines with a page number: (the other words of the line, the number less the page's place in the file)."""
    _seen: set[str] = field(default_factory=set)

    def drop(self, line: Line, page: int) -> bool:
        """Whether to leave `line` of page `page` (from 1) out."""
        if not line.edge:
            return False
        numbered = [rest for rest, offset in _numbered(line, page) if (rest, offset) in self.numbers]
        if numbered:
            return not numbered[0] or self._again(numbered[0])
        heights = self.heads.get(line.text)
        return bool(heights) and sum(_near(line, y) for y in heights) >= LEAST_PAGES and self._again(line.text)

    def _again(self, text: str) -> bool:
        if text in self._seen:
            return True
        self._seen.add(text)
        return False


def running_lines(pages: Sequence[Sequence[Line]]) -> RunningLines:
    """What runs through the pages, each a list of its lines."""
    heights: dict[str, dict[int, Line]] = defaultdict(dict)
    numbers: dict[tuple[str, int], set[int]] = defaultdict(set)
    body = _body_size(pages)
    for page, lines in enumerate(pages, 1):
        for line in lines:
            if line.edge:
                if _apart(line, lines):
                    heights[line.text][page] = line
                if line.size <= body:
                    for key in _numbered(line, page):
                        numbers[key].add(page)
    filled = sum(1 for lines in pages if lines)
    heads = {
        text: [line.y for line in found.values()]
        for text, found in heights.items()
        if len(found) >= LEAST_PAGES and 2 * len(found) > filled
    }
    return RunningLines(heads, {key for key, found in numbers.items() if len(found) >= LEAST_PAGES})


def _body_size(pages: Sequence[Sequence[Line]]) -> float:
    characters: dict[float, int] = defaultdict(int)
    for lines in pages:
        for line in lines:
            characters[line.size] += len(line.text)
    return max(characters, key=lambda size: (characters[size], size), default=0.0)


def _apart(line: Line, lines: Sequence[Line]) -> bool:
    """Whether more than a line's space parts a line from the rest of the page, as it does a running head."""
    distances = (abs(other.y - line.y) for other in lines if not _near(line, other.y))
    return min(distances, default=math.inf) > APART * line.size


def _near(line: Line, height: float) -> bool:
    return abs(line.y - height) < HEIGHT * max(line.size, 1.0)


def _numbered(line: Line, page: int) -> Iterator[tuple[str, int]]:
    """(the other words, the number less `page`) of a line that may bear a page number.

    The number is alone (``7``, ``- 7 -``, ``Page 7 of 20``) or parted from the words beside it by a wide gap or a sign
    such as ``|``: in ``Topic 7`` and ``Net pay: 7`` it belongs to what the page says.
    """
    parts = [part.text for part in line.parts] or _SIGNS.split(line.text)
    for place in {0, len(parts) - 1}:
        match = _NUMBER.fullmatch(parts[place].strip())
        number = _value(match["number"]) if match else None
        if number is not None and number - page < LARGEST_OFFSET:
            yield "\n".join([*parts[:place], *parts[place + 1 :]]).strip(), number - page


def _value(text: str) -> int | None:
    """The number that digits or a Roman numeral stand for."""
    if text.isdigit():
        return int(text)
    return _ROMAN.get(text.lower()) if text.islower() or text.isupper() else None
