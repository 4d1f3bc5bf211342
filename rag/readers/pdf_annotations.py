"""What was written onto a PDF page after it was made: the values of a form, notes and comments.

They are no part of the page's text for PDFium. Values that only a script or an XFA form holds are not known here.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

MOST_ANNOTATIONS = 10_000
"""Annotations of a page that are looked at; links are most of them."""

_HIDDEN = 2
_PASSWORD = 1 << 13


@dataclass(slots=True)
class PageAnnotations:
    """The filled fields of a form as (name, value), and the texts of notes and comments."""

    fields: list[tuple[str, str]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    @property
    def holds_text(self) -> bool:
        return bool(self.fields or self.texts)


def page_annotations(page: Any) -> PageAnnotations:
    """The annotations of a page that hold text; fields in the file's order."""
    import pypdfium2.raw as raw

    found = PageAnnotations()
    notes = {
        raw.FPDF_ANNOT_TEXT, raw.FPDF_ANNOT_FREETEXT, raw.FPDF_ANNOT_HIGHLIGHT, raw.FPDF_ANNOT_UNDERLINE,
        raw.FPDF_ANNOT_SQUIGGLY, raw.FPDF_ANNOT_STRIKEOUT, raw.FPDF_ANNOT_STAMP, raw.FPDF_ANNOT_CARET,
    }  # fmt: skip
    for annotation in _annotations(page):
        kind = raw.FPDFAnnot_GetSubtype(annotation)
        if raw.FPDFAnnot_GetFlags(annotation) & _HIDDEN:
            continue
        if kind == raw.FPDF_ANNOT_WIDGET:
            value = _field_value(page, annotation)
            if value:
                found.fields.append(value)
        elif kind in notes and (text := _string(annotation, b"Contents")):
            found.texts.append(text)
    return found


def _annotations(page: Any) -> Iterator[Any]:
    import pypdfium2.raw as raw

    for number in range(min(raw.FPDFPage_GetAnnotCount(page), MOST_ANNOTATIONS)):
        annotation = raw.FPDFPage_GetAnnot(page, number)
        if annotation:
            try:
                yield annotation
            finally:
                raw.FPDFPage_CloseAnnot(annotation)


def _field_value(page: Any, annotation: Any) -> tuple[str, str] | None:
    """(name, value) of a form's field; None where nothing is filled in, or a secret."""
    import pypdfium2.raw as raw

    name, value = _string(annotation, b"TU") or _string(annotation, b"T"), _string(annotation, b"V")
    form = page.formenv
    if form is not None:
        if raw.FPDFAnnot_GetFormFieldFlags(form, annotation) & _PASSWORD:
            return None
        kind = raw.FPDFAnnot_GetFormFieldType(form, annotation)
        if kind in (raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON):
            if not raw.FPDFAnnot_IsChecked(form, annotation):
                return None
            value = _wide(raw.FPDFAnnot_GetFormFieldExportValue, form, annotation) or value
        elif kind == raw.FPDF_FORMFIELD_PUSHBUTTON:
            return None
        else:
            value = _wide(raw.FPDFAnnot_GetFormFieldValue, form, annotation) or value
        name = (
            _wide(raw.FPDFAnnot_GetFormFieldAlternateName, form, annotation)
            or _wide(raw.FPDFAnnot_GetFormFieldName, form, annotation)
            or name
        )
    return (" ".join(name.split()), " ".join(value.split())) if value.strip() and value != "Off" else None


def _string(annotation: Any, key: bytes) -> str:
    import pypdfium2.raw as raw

    return _wide(raw.FPDFAnnot_GetStringValue, annotation, key)


def _wide(function: Any, *arguments: Any) -> str:
    """The text that a function of PDFium writes into a buffer as UTF-16."""
    import pypdfium2.raw as raw

    size = function(*arguments, None, 0)
    if size <= 2:
        return ""
    buffer = ctypes.create_string_buffer(size)
    function(*arguments, ctypes.cast(buffer, ctypes.POINTER(raw.FPDF_WCHAR)), size)
    return buffer.raw.decode("utf-16-le", "replace").rstrip("\0").strip()
