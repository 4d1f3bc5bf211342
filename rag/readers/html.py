"""HTML: the main text without scripts, styles and navigation; headings, lists, code and tables kept.

It renders nothing and fetches nothing. The parser is lxml's own: a tree of Python objects of a
50 MB page would take several gigabytes.
"""

from __future__ import annotations

import codecs
import re
from importlib import import_module
from pathlib import Path
from typing import Any

from ..documents import Document, NoText, ReadError, normalise
from .base import Reader
from .builder import DocumentBuilder
from .decoding import decode, looks_like_text, read_bytes
from .html_repair import repaired
from .tables import table_lines

_START = re.compile(
    rb"\s*(?:<\?xml[^>]{0,200}>\s*)?(?:<!--.{0,4000}?-->\s*)?<(?:!doctype\s+html|html)[\s>]", re.I | re.S
)
_CHARSET = re.compile(
    rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w:.-]+)|<\?xml[^>]{0,100}encoding=["']([\w.-]+)""", re.I
)
_ALIASES = {
    "euc-kr": "cp949",
    "ks_c_5601-1987": "cp949",
    "ksc5601": "cp949",
    "iso-8859-1": "cp1252",
    "latin1": "cp1252",
}

_DROPPED = frozenset(
    (
        "script",
        "style",
        "noscript",
        "template",
        "nav",
        "svg",
        "iframe",
        "object",
        "button",
        "select",
        "head",
        "input",
        "rp",
        "annotation",
        "annotation-xml",
    )
)
_DROPPED_ROLES = frozenset(("navigation", "search", "menu", "menubar", "contentinfo"))
_FURNITURE = frozenset(("aside", "header", "footer"))
_FURNITURE_ROLES = frozenset(("banner", "complementary"))
_CONTENT = ("article", "main")
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BLOCKS = frozenset(
    re.findall(
        r"\w+",
        """
        address article aside blockquote body caption center dd details dialog div dl dt fieldset figcaption figure
        footer form header hr html legend li main ol p section summary table tbody td tfoot th thead tr ul
        """,
    )
)


MAXIMUM_TAGS = 5_000_000
"""Most tags of a page; their tree takes half a gigabyte for each million."""

_SIGNS_BEFORE = {"rt": "(", "math": " "}
_SIGNS_AFTER = {"rt": ")", "math": " "}
_MATH_SIGNS = {"mfrac": "/", "msup": "^", "msub": "_", "munder": "_", "mover": "^"}
"""What parts the two parts of a formula, which the page shows by their places."""


class HtmlReader(Reader):
    """Reads HTML and XHTML."""

    name = "HTML"
    version = "3"
    media_types = ("text/html", "application/xhtml+xml")
    suffixes = (".html", ".htm", ".xhtml")

    def sniff(self, head: bytes, path: Path) -> float:
        if not looks_like_text(head):
            return 0.0
        return 0.9 if _START.match(head.removeprefix(codecs.BOM_UTF8)) else 0.2

    def read(self, path: Path) -> Document:
        document = html_document(html_text(read_bytes(path)))
        if not document.text and document.partial:
            raise ReadError(f"no text can be read: {document.notes[0]}")
        if not document.text:
            raise NoText("no text in the page")
        return document


def html_text(data: bytes) -> str:
    """The page's text: byte order mark, the encoding it names, else as any text."""
    named = _CHARSET.search(data[:4096])
    if named and not data.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        name = (named.group(1) or named.group(2)).decode("ascii", "replace").lower()
        try:
            return data.decode(_ALIASES.get(name, name))
        except (LookupError, UnicodeDecodeError):
            pass
    return decode(data)


def html_document(source: str, *, furniture: bool = False) -> Document:
    """The document of an HTML text; its text is empty where there is none.

    Parameters
    ----------
    furniture : bool
        Whether to keep the page's own headers, footers and asides: in a book and in mail they are its text. Those of a
        web page repeat on every page of a site; they are left out unless nothing else holds text.
    """
    etree: Any = import_module("lxml.etree")
    builder = DocumentBuilder("text/html")
    if source.count("<") > MAXIMUM_TAGS:
        raise ReadError(f"refused: more than {MAXIMUM_TAGS // 1_000_000} million tags: split the page")
    source, notes = repaired(normalise(source))
    data = source.encode("utf-8")
    parser = etree.HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True, no_network=True)
    root = etree.fromstring(data, parser) if data.strip() else None
    if root is None:
        return builder.document()
    title = root.find("head/title")
    if title is not None:
        builder.title = "".join(title.itertext())
    top = _main(root)
    if not furniture:
        _add_heading_of_page(builder, root, top)
    _Renderer(builder, furniture).render(top)
    if not builder.length and not furniture:
        _Renderer(builder, True).render(top)
    if any("depth" in entry.message.lower() for entry in parser.error_log[:100]):
        builder.notes.append("parts nested too deeply were left out")
        builder.partial = True
    builder.notes += notes
    builder.partial = builder.partial or bool(notes)
    return builder.document()


def _main(root: Any) -> Any:
    """The element that holds the main text: one marked so with at least a quarter of the page's, else the body."""
    body = root.find("body")
    body = root if body is None else body
    marked = body.xpath("(.//main | .//*[@role='main'])[1]") or body.xpath("self::*[count(.//article)=1]//article")
    if not marked:
        return body
    return marked[0] if 4 * _text_length(marked[0]) >= _text_length(body) else body


def _add_heading_of_page(builder: DocumentBuilder, root: Any, top: Any) -> None:
    """Begin with the page's only h1 where it stands in what is left out, such as a page's header."""
    headings = list(root.iter("h1"))
    if len(headings) == 1 and not _kept(headings[0], top):
        builder.heading(_inline_text(headings[0]), 1)


def _kept(element: Any, top: Any) -> bool:
    """Whether rendering `top` without furniture renders `element`."""
    while element is not None and element is not top:
        if _dropped(element, element.tag) or _is_furniture(element, element.tag):
            return False
        element = element.getparent()
    return element is top


def _text_length(element: Any) -> int:
    return sum(
        len(part.strip())
        for part in element.xpath(".//text()[not(ancestor::script or ancestor::style or ancestor::nav)]")
    )


class _Renderer:
    """Walks the tree without recursion, gathers inline text and hands it on at each block's border."""

    def __init__(self, builder: DocumentBuilder, furniture: bool) -> None:
        self._builder = builder
        self._furniture = furniture
        self._inline: list[str] = []
        self._lists: list[list[Any]] = []
        self._item = ""

    def render(self, top: Any) -> None:
        etree: Any = import_module("lxml.etree")
        walker = etree.iterwalk(top, events=("start", "end"))
        for event, element in walker:
            tag = element.tag
            if event == "start":
                if self._start(element, tag, element is top):
                    walker.skip_subtree()
                else:
                    self._inline += (_sign_before(element), element.text or "")
            else:
                self._end(tag)
                self._inline.append(_SIGNS_AFTER.get(tag, ""))
                if element.tail and element is not top:
                    self._inline.append(element.tail)
        self._flush()

    def _start(self, element: Any, tag: str, is_top: bool) -> bool:
        """Begin an element; true if what is inside it is dealt with."""
        if not is_top and (_dropped(element, tag) or (not self._furniture and _is_furniture(element, tag))):
            return True
        if tag == "br":
            self._inline.append("\v")
        elif tag == "pre":
            self._flush()
            self._builder.add("code", "".join(element.itertext()))
            return True
        elif tag in _HEADINGS:
            self._flush()
            self._builder.heading(_inline_text(element), _HEADINGS[tag])
            return True
        elif tag == "table" and _is_data_table(element):
            self._flush()
            self._table(element)
            return True
        elif tag in _BLOCKS:
            self._flush()
            if tag in ("ul", "ol"):
                self._lists.append([tag, 0])
            elif tag == "li":
                self._begin_item()
        return False

    def _begin_item(self) -> None:
        depth = max(0, len(self._lists) - 1)
        mark = "- "
        if self._lists:
            self._lists[-1][1] += 1
            if self._lists[-1][0] == "ol":
                mark = f"{self._lists[-1][1]}. "
        self._item = "  " * min(depth, 10) + mark

    def _end(self, tag: str) -> None:
        if tag in _BLOCKS and tag not in _HEADINGS:
            self._flush()
            if tag in ("ul", "ol") and self._lists:
                self._lists.pop()

    def _flush(self) -> None:
        if not self._inline:
            return
        text = "".join(self._inline)
        self._inline.clear()
        text = "\n".join(line for part in text.split("\v") if (line := " ".join(part.split())))
        if not text:
            return
        if self._item:
            self._builder.add("list", self._item + text, join="\n")
            self._item = ""
        elif self._lists:
            self._builder.add("list", text, join="\n")
        else:
            self._builder.add("paragraph", text)

    def _table(self, table: Any) -> None:
        caption = table.find("caption")
        if caption is not None:
            self._builder.add("paragraph", _inline_text(caption))
        rows = [[_inline_text(cell) for cell in row if cell.tag in ("td", "th")] for row in table.iter("tr")]
        rows = [row for row in rows if any(row)]
        first = next(table.iter("tr"), None)
        marked = first is not None and len(first) > 1 and all(cell.tag == "th" for cell in first)
        self._builder.add("table", "\n".join(table_lines(rows, header=marked)))


def _dropped(element: Any, tag: object) -> bool:
    if not isinstance(tag, str) or tag in _DROPPED:
        return True
    attributes = element.attrib
    if not attributes:
        return False
    return (
        attributes.get("role") in _DROPPED_ROLES
        or "hidden" in attributes
        or "display:none" in attributes.get("style", "").replace(" ", "")
    )


def _is_furniture(element: Any, tag: object) -> bool:
    """Whether an element is a header, footer or aside of the page, and not of an article in it."""
    if tag not in _FURNITURE and element.get("role") not in _FURNITURE_ROLES:
        return False
    return next(element.iterancestors(*_CONTENT), None) is None and not any(
        ancestor.get("role") == "main" for ancestor in element.iterancestors()
    )


def _sign_before(element: Any) -> str:
    """What parts an inline element from the words before it; in the text they would be one."""
    if element.tag in _SIGNS_BEFORE:
        return _SIGNS_BEFORE[element.tag]
    if not str(element.tag).startswith("m") or element.getparent() is None or element.getprevious() is None:
        return ""
    return _MATH_SIGNS.get(element.getparent().tag, "")


def _inline_text(element: Any) -> str:
    """An element's text on one line, without what is dropped everywhere."""
    parts: list[str] = []
    etree: Any = import_module("lxml.etree")
    walker = etree.iterwalk(element, events=("start", "end"))
    for event, child in walker:
        if event == "start":
            if child is not element and _dropped(child, child.tag):
                walker.skip_subtree()
            else:
                parts += (_sign_before(child), child.text or "")
            if child.tag in _BLOCKS or child.tag == "br":
                parts.append(" ")
        elif child is not element:
            parts += (_SIGNS_AFTER.get(child.tag, ""), child.tail or "")
    return " ".join("".join(parts).split()).removesuffix("¶").rstrip()


def _is_data_table(table: Any) -> bool:
    """A table of short cells, and not one that only arranges the page."""
    if table.find(".//table") is not None or next(table.iter("h1", "h2", "h3", "pre", "ul", "ol"), None) is not None:
        return False
    row = next(table.iter("tr"), None)
    return row is not None and sum(cell.tag in ("td", "th") for cell in row) > 1
