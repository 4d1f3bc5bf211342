"""Mail messages (eml): who, when, subject, the body, and the attachments that our readers read."""

from __future__ import annotations

import re
import tempfile
import threading
from collections.abc import Iterator
from email import policy
from email.message import EmailMessage, Message
from email.parser import BytesParser
from pathlib import Path, PurePath

from ..documents import Document, NoText, ReadError, UnsupportedFile, normalise
from .base import Reader
from .builder import DocumentBuilder
from .decoding import decode, read_bytes
from .html import html_document
from .text import paragraphs

MAXIMUM_DEPTH = 4
"""Messages attached to messages are opened to this depth."""

MAXIMUM_ATTACHMENTS = 200

_HEADER = re.compile(
    rb"^(?:from|to|cc|date|subject|message-id|mime-version|received|return-path|delivered-to|content-type"
    rb"|dkim-signature|reply-to):[ \t]*\S",
    re.IGNORECASE | re.MULTILINE,
)
_FIRST_HEADER = re.compile(rb"\s*[A-Za-z][A-Za-z-]{1,40}:[ \t]*\S|From \S+@")
_SHOWN = ("From", "To", "Cc", "Date", "Subject")
_depth = threading.local()


class MailReader(Reader):
    """Reads a message in its internet format. Attachments that cannot be read are named in the notes."""

    name = "mail"
    version = "2"
    media_types = ("message/rfc822",)
    suffixes = (".eml",)

    def sniff(self, head: bytes, path: Path) -> float:
        if b"\0" in head or not _FIRST_HEADER.match(head):
            return 0.0
        top = re.split(rb"\r?\n\r?\n", head, maxsplit=1)[0]
        return 0.8 if len({match.group().split(b":")[0].lower() for match in _HEADER.finditer(top)}) >= 3 else 0.2

    def read(self, path: Path) -> Document:
        message = BytesParser(policy=policy.default).parsebytes(read_bytes(path))
        assert isinstance(message, EmailMessage)
        builder = DocumentBuilder(self.media_types[0])
        builder.title = _header(message, "Subject")
        builder.heading(builder.title, 1)
        shown = [(name, _header(message, name)) for name in _SHOWN]
        builder.add("paragraph", "\n".join(f"{name}: {value}" for name, value in shown if value))
        _add_body(builder, message)
        depth = getattr(_depth, "value", 0)
        _depth.value = depth + 1
        try:
            for part in _attachments(message):
                _add_attachment(builder, part, depth)
        finally:
            _depth.value = depth
        if not builder.length:
            raise NoText("an empty message")
        return builder.document()


def _header(message: EmailMessage, name: str) -> str:
    try:
        return " ".join(str(message.get(name, "")).split())
    except Exception:  # broken headers make the standard parser raise in many ways
        return ""


def _content(part: EmailMessage) -> str:
    """The text of a text part, also where its charset is missing or wrong."""
    payload = part.get_payload(decode=True)
    data = payload if isinstance(payload, bytes) else b""
    charset = part.get_content_charset() or "utf-8"
    charset = {"ks_c_5601-1987": "cp949", "euc-kr": "cp949", "iso-8859-1": "cp1252"}.get(charset, charset)
    try:
        return data.decode(charset)
    except (LookupError, UnicodeDecodeError):
        return decode(data)


def _add_body(builder: DocumentBuilder, message: EmailMessage) -> None:
    try:
        found = [body for kind in ("plain", "html") if (body := message.get_body((kind,))) is not None]
        texts = [normalise(_content(body)) for body in found if isinstance(body, EmailMessage)]
    except (ReadError, KeyError, AttributeError) as error:
        builder.notes.append(f"the body cannot be read: {error}")
        builder.partial = True
        return
    filled = next((place for place, text in enumerate(texts) if text.strip()), None)  # some write a blank plain part
    if filled is None:
        return
    body, text = found[filled], texts[filled]
    if body.get_content_type() == "text/html":
        document = html_document(text, furniture=True)
        builder.add_all(document.text, document.blocks)
        builder.notes.extend(document.notes)
        builder.partial = builder.partial or document.partial
    else:
        for block in paragraphs(text):
            builder.add("paragraph", text[block.start : block.end])


def _attachments(message: EmailMessage) -> Iterator[EmailMessage]:
    try:
        for number, part in enumerate(message.iter_attachments()):
            if number >= MAXIMUM_ATTACHMENTS:
                return
            if isinstance(part, EmailMessage):
                yield part
    except (AttributeError, KeyError):  # multipart by its header, but without parts
        return


def _add_attachment(builder: DocumentBuilder, part: EmailMessage, depth: int) -> None:
    from .registry import read

    name = PurePath((part.get_filename() or "").replace("\\", "/")).name or part.get_content_type()
    if depth >= MAXIMUM_DEPTH:
        builder.notes.append(f"attachment {name} not read: a message within too many others")
        builder.partial = True
        return
    if part.get_content_type() == "message/rfc822":
        inner = part.get_payload()
        first = inner[0] if isinstance(inner, list) and inner else None
        data = first.as_bytes() if isinstance(first, Message) else b""
        suffix = ".eml"
    else:
        payload = part.get_payload(decode=True)
        data = payload if isinstance(payload, bytes) else b""
        suffix = PurePath(name).suffix[:20]
    if not data:
        return
    with tempfile.TemporaryDirectory(prefix="slotrag-") as folder:
        file = Path(folder) / f"attachment{_safe(suffix)}"
        file.write_bytes(data)
        try:
            document = read(file)
        except (NoText, UnsupportedFile) as error:
            builder.notes.append(f"attachment {name} not read: {error.reason}")
            return
        except ReadError as error:
            builder.notes.append(f"attachment {name} not read: {error.reason}")
            builder.partial = True
            return
    builder.heading(f"Attachment: {name}", 2)
    builder.add_all(document.text, document.blocks)
    builder.notes.extend(f"attachment {name}: {note}" for note in document.notes)
    builder.partial = builder.partial or document.partial


def _safe(suffix: str) -> str:
    return suffix if re.fullmatch(r"\.[A-Za-z0-9]+", suffix) else ""
