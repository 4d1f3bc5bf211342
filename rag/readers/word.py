"""Word documents (docx): headings, paragraphs, lists, tables and formulas in document order, then notes and comments.

It walks the XML itself, for python-docx passes over content controls, insertions under review and text boxes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..documents import Document, NoText
from .archives import check_archive, office_score
from .base import Reader
from .builder import DocumentBuilder
from .tables import table_lines

_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_MATH = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_MATH_SIGNS = {_MATH + "den": "/", _MATH + "sup": "^", _MATH + "sub": "_", _MATH + "deg": "root "}
"""What parts the parts of a formula, which the page shows by their places."""
_FORMULA = _MATH + "oMath"
_WRAPPERS = frozenset(_WORD + name for name in ("sdt", "sdtContent", "ins", "moveTo", "customXml", "smartTag"))
_SKIPPED = frozenset((_FALLBACK, _WORD + "del", _WORD + "moveFrom", _WORD + "instrText"))


class WordReader(Reader):
    """Reads docx. Foot- and endnotes stand at the end, then headers and footers, each once, and comments."""

    name = "Word"
    version = "2"
    media_types = ("application/vnd.openxmlformats-officedocument.wordprocessingml.document",)
    suffixes = (".docx",)

    def sniff(self, head: bytes, path: Path) -> float:
        return office_score(head, path, "word/document.xml", self.suffixes)

    def read(self, path: Path) -> Document:
        check_archive(path)
        import docx

        source = docx.Document(str(path))
        builder = DocumentBuilder(self.media_types[0])
        builder.title = source.core_properties.title or ""
        styles = {style.style_id: style for style in source.styles}
        for element in _unwrapped(source.element.body, "p", "tbl"):
            if element.tag == _WORD + "p":
                _add_paragraph(builder, element, styles)
            else:
                _add_table(builder, element)
        for text in _notes(source.part):
            builder.add("paragraph", text)
        builder.new_section()  # what follows belongs to no chapter
        for text in _furniture(source.part):
            builder.add("paragraph", text)
        if not builder.length:
            raise NoText("no text in the document")
        return builder.document()


def _unwrapped(parent: Any, *names: str) -> Iterator[Any]:
    """Children by their names, also those inside content controls and insertions."""
    wanted = {_WORD + name for name in names}
    stack = [iter(parent)]
    while stack:
        child = next(stack[-1], None)
        if child is None:
            stack.pop()
        elif child.tag in wanted:
            yield child
        elif child.tag in _WRAPPERS:
            stack.append(iter(child))


def _add_paragraph(builder: DocumentBuilder, element: Any, styles: dict[str, Any]) -> None:
    text = _text(element)
    if not text.strip():
        return
    properties = element.find(_WORD + "pPr")
    level, is_list = _style(properties, styles)
    if level:
        builder.heading(text, level)
    elif is_list:
        builder.add("list", "- " + " ".join(text.split()), join="\n")
    else:
        builder.add("paragraph", text)


def _style(properties: Any, styles: dict[str, Any]) -> tuple[int, bool]:
    """(heading level or 0, whether it is a list item) by a paragraph's own properties and its styles'."""
    if properties is None:
        return 0, False
    numbered = properties.find(_WORD + "numPr") is not None
    outline = properties.find(_WORD + "outlineLvl")
    level = _outline_level(outline)
    style_id = properties.find(_WORD + "pStyle")
    style = styles.get(style_id.get(_WORD + "val")) if style_id is not None else None
    for _ in range(10):  # a chain of base styles may be a ring in a broken file
        if style is None or level:
            break
        name = (style.name or "").lower()
        if name == "title":
            level = 1
        elif name.startswith("heading ") and name[8:].isdigit():
            level = int(name[8:])
        else:
            level = _outline_level(style.element.find(f"{_WORD}pPr/{_WORD}outlineLvl"))
        numbered = numbered or name.startswith("list ")
        style = getattr(style, "base_style", None)
    return level, numbered


def _outline_level(element: Any) -> int:
    value = element.get(_WORD + "val") if element is not None else None
    return int(value) + 1 if value is not None and value.isdigit() and int(value) < 9 else 0


def _text(element: Any) -> str:
    """The text of a paragraph: runs, links, insertions, formulas and text boxes; nothing deleted."""
    parts: list[str] = []
    stack = [(iter(element), "")]
    while stack:
        children, after = stack[-1]
        child = next(children, None)
        if child is None:
            stack.pop()
            parts.append(after)
        elif child.tag in (_WORD + "t", _MATH + "t"):
            parts.append(child.text or "")
        elif child.tag == _WORD + "tab":
            parts.append("\t")
        elif child.tag in (_WORD + "br", _WORD + "cr"):
            parts.append("\n")
        elif child.tag == _WORD + "noBreakHyphen":
            parts.append("-")
        elif child.tag not in _SKIPPED and child.tag != _WORD + "pPr" and isinstance(child.tag, str):
            if child.tag == _WORD + "p":
                parts.append("\n")
            beside = " " if child.tag == _FORMULA else ""
            parts.append(beside or _MATH_SIGNS.get(child.tag, ""))
            stack.append((iter(child), beside))
    return "".join(parts)


def _add_table(builder: DocumentBuilder, table: Any) -> None:
    rows = [[_text(cell) for cell in _unwrapped(row, "tc")] for row in _unwrapped(table, "tr")]
    first = table.find(_WORD + "tr")
    marked = first is not None and first.find(f"{_WORD}trPr/{_WORD}tblHeader") is not None
    builder.add("table", "\n".join(table_lines(rows, header=True if marked else None)))


def _notes(part: Any) -> Iterator[str]:
    """Texts of the foot- and endnotes."""
    for _, root in _parts(part, ("footnotes", "endnotes")):
        for note in root:
            if note.get(_WORD + "type") in (None, "normal"):
                yield _text(note)


def _furniture(part: Any) -> Iterable[str]:
    """Headers and footers, each text once however many sections and pages show it, and comments with their authors."""
    found: dict[str, None] = {}
    for kind, root in _parts(part, ("header", "footer")):
        text = " ".join(_text(root).split())
        if any(map(str.isalpha, text)):  # not a page number alone
            found[f"{kind.capitalize()}: {text}"] = None
    for _, root in _parts(part, ("comments",)):
        for comment in root.iterchildren(_WORD + "comment"):
            text, author = _text(comment).strip(), comment.get(_WORD + "author") or ""
            if text:
                found[f"Comment by {author}: {text}" if author else f"Comment: {text}"] = None
    return found


def _parts(part: Any, kinds: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """(kind, root element) of the document's other parts of these kinds."""
    from docx.oxml.parser import parse_xml

    for relation in part.rels.values():
        kind = relation.reltype.rsplit("/", 1)[-1]
        if not relation.is_external and kind in kinds:
            yield kind, parse_xml(relation.target_part.blob)
