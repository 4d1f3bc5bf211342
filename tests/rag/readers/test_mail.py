"""Reading mail: headers, bodies, attachments, charsets, broken messages."""

from __future__ import annotations

from email.message import EmailMessage
from pathlib import Path

import pytest
from slotrag.rag.documents import Document, NoText, ReadError
from slotrag.rag.readers import read


def message(body: str | None = "The boiler is serviced.\n\nSee you on Monday.\n") -> EmailMessage:
    mail = EmailMessage()
    mail["From"] = "Kim <kim@example.org>"
    mail["To"] = "lee@example.org"
    mail["Date"] = "Mon, 05 Jan 2026 10:00:00 +0900"
    mail["Subject"] = "보일러 점검"
    if body is not None:
        mail.set_content(body)
    return mail


def write(folder: Path, mail: EmailMessage | bytes, name: str = "mail.eml") -> Path:
    path = folder / name
    path.write_bytes(mail if isinstance(mail, bytes) else mail.as_bytes())
    return path


def parts(document: Document) -> list[tuple[str, str, str]]:
    return [(b.kind, document.text[b.start : b.end], b.heading_path) for b in document.blocks]


def test_headers_then_paragraphs(tmp_path: Path) -> None:
    document = read(write(tmp_path, message()))
    shown = (
        "From: Kim <kim@example.org>\nTo: lee@example.org\nDate: Mon, 05 Jan 2026 10:00:00 +0900\nSubject: 보일러 점검"
    )
    assert document.title == "보일러 점검"
    assert parts(document) == [
        ("heading", "보일러 점검", "보일러 점검"),
        ("paragraph", shown, "보일러 점검"),
        ("paragraph", "The boiler is serviced.", "보일러 점검"),
        ("paragraph", "See you on Monday.", "보일러 점검"),
    ]


def test_plain_text_is_preferred_to_html(tmp_path: Path) -> None:
    mail = message("Plain words.")
    mail.add_alternative("<p>Marked <b>words</b>.</p>", subtype="html")
    document = read(write(tmp_path, mail))
    assert "Plain words." in document.text
    assert "Marked" not in document.text


def test_html_alone_is_read_as_html(tmp_path: Path) -> None:
    mail = message(None)
    mail.set_content("<html><body><h1>House</h1><p>Marked <b>words</b>.</p></body></html>", subtype="html")
    found = parts(read(write(tmp_path, mail)))
    assert ("paragraph", "Marked words.", "보일러 점검 > House") in found


def test_attachments_are_read_under_their_names(tmp_path: Path) -> None:
    mail = message()
    mail.add_attachment(b"# Costs\n\nWater is 20.\n", maintype="text", subtype="markdown", filename="costs.md")
    mail.add_attachment(b"\x89PNG\r\n\x1a\n" + bytes(64), maintype="image", subtype="png", filename="a.png")
    document = read(write(tmp_path, mail))
    above = "보일러 점검 > Attachment: costs.md"
    assert ("heading", "Attachment: costs.md", above) in parts(document)
    assert ("paragraph", "Water is 20.", f"{above} > Costs") in parts(document)
    assert any("a.png" in note for note in document.notes)
    assert not document.partial


def test_a_broken_attachment_leaves_the_message_readable(tmp_path: Path) -> None:
    mail = message()
    mail.add_attachment(b"%PDF-1.7 but no more", maintype="application", subtype="pdf", filename="bill.pdf")
    document = read(write(tmp_path, mail))
    assert "The boiler is serviced." in document.text
    assert document.partial
    assert any(note.startswith("attachment bill.pdf not read") for note in document.notes)


def test_an_attached_name_cannot_leave_the_temporary_folder(tmp_path: Path) -> None:
    mail = message()
    mail.add_attachment(b"Words.", maintype="text", subtype="plain", filename="../../../outside.txt")
    document = read(write(tmp_path, mail))
    assert "Attachment: outside.txt" in document.text
    assert [path.name for path in tmp_path.iterdir()] == ["mail.eml"]


def test_messages_within_messages_end_at_a_depth(tmp_path: Path) -> None:
    mail = message("innermost")
    for number in range(8):
        outer = message(f"level {number}")
        outer.add_attachment(mail)
        mail = outer
    document = read(write(tmp_path, mail))
    assert "level 7" in document.text
    assert "level 4" in document.text
    assert "innermost" not in document.text
    assert document.partial
    # the depth is counted anew for the next message
    assert not read(write(tmp_path, message(), "next.eml")).partial


@pytest.mark.parametrize("charset", ["euc-kr", "ks_c_5601-1987", "no-such-charset"])
def test_charsets_as_old_programs_write_them(tmp_path: Path, charset: str) -> None:
    text = "보일러는 해마다 점검합니다. 다음 점검은 사월에 있습니다."
    head = f"From: a@b.c\r\nTo: d@e.f\r\nSubject: x\r\nContent-Type: text/plain; charset={charset}\r\n"
    path = write(tmp_path, head.encode() + b"Content-Transfer-Encoding: 8bit\r\n\r\n" + text.encode("cp949"))
    assert text in read(path).text


def test_mail_is_known_by_its_content(tmp_path: Path) -> None:
    assert read(write(tmp_path, message(), "kept")).media_type == "message/rfc822"
    assert read(write(tmp_path, b"Subject: a talk\n\nWords.\n", "notes.txt")).media_type == "text/plain"


def test_multipart_by_its_header_alone(tmp_path: Path) -> None:
    source = b"From: a@b.c\nTo: d@e.f\nSubject: Only this\nContent-Type: multipart/mixed; boundary=x\n\nLoose words.\n"
    document = read(write(tmp_path, source))
    assert document.title == "Only this"


@pytest.mark.parametrize("source", [b"\x00\x01\x02 no mail", b"Nothing here is a header\n"])
def test_what_is_named_mail_but_is_none(tmp_path: Path, source: bytes) -> None:
    path = write(tmp_path, source)
    if b"\0" in source:
        with pytest.raises(ReadError, match="not mail"):
            read(path)
    else:
        assert read(path).media_type == "text/plain"


def test_empty(tmp_path: Path) -> None:
    with pytest.raises(NoText):
        read(write(tmp_path, b""))


@pytest.mark.parametrize("plain", ["", "\n \n", "\u00a0\n"])
def test_the_html_part_is_read_where_the_plain_one_is_blank(tmp_path: Path, plain: str) -> None:
    message = EmailMessage()
    message["Subject"] = "Boiler"
    message.set_content(plain)
    message.add_alternative("<p>It is serviced in <b>May</b>.</p>", subtype="html")
    path = tmp_path / "a.eml"
    path.write_bytes(message.as_bytes())
    assert "It is serviced in May." in read(path).text
