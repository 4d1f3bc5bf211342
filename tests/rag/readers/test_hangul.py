"""Reading documents of the Korean word processor, hwp and hwpx: what both hold, and files that cannot be read."""

from __future__ import annotations

import contextlib
import random
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from compound_files import write_compound
from hangul_files import (
    control,
    deflated,
    hwp_part,
    paragraph,
    record,
    table,
    write_hwp,
    write_hwpx,
    xml_paragraph,
    xml_table,
    xml_text,
)
from slotrag.rag.documents import Document, NoText, ReadError, UnsupportedFile
from slotrag.rag.readers import hwp_records, read

PARTS = [
    ("heading", 1, "난방"),
    ("text", "보일러는 매년 구월에 점검합니다."),
    ("heading", 2, "요금"),
    ("table", [["항목", "금액"], ["물", "20"], ["전기", "35"]]),
    ("bullet", "현관"),
    ("bullet", "부엌"),
    ("note", "밸브는 지하실에 있습니다.", "왼쪽으로 돌립니다."),
    ("box", "비상 연락처는 경비실입니다."),
    ("text", "낱말\t사이"),
]
Writer = Callable[[Path, Sequence[Any]], Path]


def blocks(document: Document) -> list[tuple[str, str, str]]:
    return [(block.kind, document.text[block.start : block.end], block.heading_path) for block in document.blocks]


@pytest.mark.parametrize(("writer", "kind"), [(write_hwp, "hwp"), (write_hwpx, "hwpx")])
def test_blocks_in_reading_order(tmp_path: Path, writer: Writer, kind: str) -> None:
    document = read(writer(tmp_path / f"a.{kind}", PARTS))
    assert document.title == "난방" and document.reader.startswith(f"{kind}/") and not document.notes
    assert blocks(document) == [
        ("heading", "난방", "난방"),
        ("paragraph", "보일러는 매년 구월에 점검합니다.", "난방"),
        ("heading", "요금", "난방 > 요금"),
        ("table", "항목 | 금액\n항목: 물 | 금액: 20\n항목: 전기 | 금액: 35", "난방 > 요금"),
        ("list", "- 현관\n- 부엌", "난방 > 요금"),
        ("paragraph", "밸브는 지하실에 있습니다.", "난방 > 요금"),
        ("paragraph", "왼쪽으로 돌립니다.", "난방 > 요금"),
        ("paragraph", "비상 연락처는 경비실입니다.", "난방 > 요금"),
        ("paragraph", "낱말\t사이", "난방 > 요금"),
    ]


@pytest.mark.parametrize(("writer", "kind"), [(write_hwp, "hwp"), (write_hwpx, "hwpx")])
def test_recognised_under_any_suffix(tmp_path: Path, writer: Writer, kind: str) -> None:
    for name in ("a.bin", "a.docx", "a.hwp", "a.hwpx"):
        assert read(writer(tmp_path / name, PARTS)).reader.startswith(f"{kind}/")


def test_a_table_that_only_arranges_the_page_is_read_as_its_text(tmp_path: Path) -> None:
    rows = [["이름", "값"], ["물", "20"]]
    frame = paragraph("안내", 2) + paragraph(control(11, b"tbl "), 2) + table(rows, 3)
    body = paragraph(control(11, b"tbl ")) + table([[frame, paragraph("끝.", 2)]], 1)
    xml = xml_paragraph(
        xml_table([[xml_paragraph(xml_text("안내")) + xml_paragraph(xml_table(rows)), xml_paragraph(xml_text("끝."))]])
    )
    expected = [("paragraph", "안내"), ("table", "이름 | 값\n이름: 물 | 값: 20"), ("paragraph", "끝.")]
    for path in (
        write_hwp(tmp_path / "a.hwp", sections=[body]),
        write_hwpx(tmp_path / "a.hwpx", [], body=xml),
    ):
        assert [(kind, text) for kind, text, _ in blocks(read(path))] == expected


def test_sections_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    bodies = [paragraph(f"{number}번째 구역입니다.") for number in range(12)]
    document = read(write_hwp(tmp_path / "a.hwp", sections=bodies))
    assert document.text.split("\n\n") == [f"{n}번째 구역입니다." for n in range(11)] + ["11번째 구역입니다.\n"]


def test_uncompressed_and_long_records(tmp_path: Path) -> None:
    text = "보일러는 매년 구월에 점검합니다. " * 400
    assert len(text) * 2 > 0xFFF
    for flags in (0, 1):
        document = read(write_hwp(tmp_path / "a.hwp", [("text", text)], flags=flags))
        assert document.text.count("점검합니다.") == 400


def test_control_characters_take_no_text_with_them(tmp_path: Path) -> None:
    field = control(3, b"%hlk") + "누리집".encode("utf-16-le") + control(4, b"%hlk")
    signs = "앞".encode("utf-16-le") + b"\x0a\0" + "뒤".encode("utf-16-le") + b"\x18\0" + "끝😀".encode("utf-16-le")
    path = write_hwp(tmp_path / "a.hwp", sections=[paragraph(field) + paragraph(signs)])
    assert read(path).text == "누리집\n\n앞\n뒤-끝😀\n"


def test_deleted_text_is_left_out(tmp_path: Path) -> None:
    run = "<hp:t>남은 <hp:deleteBegin/>지운</hp:t><hp:t>것<hp:deleteEnd/>글</hp:t>"
    assert read(write_hwpx(tmp_path / "a.hwpx", [], body=xml_paragraph(run))).text == "남은 글\n"


@pytest.mark.parametrize(
    ("flags", "reason"), [(0b11, "password"), (0b101, "distribution"), (1 << 4 | 1, "DRM"), (1 << 8 | 1, "DRM")]
)
def test_protected_files_are_named_so(tmp_path: Path, flags: int, reason: str) -> None:
    with pytest.raises(ReadError, match=reason):
        read(write_hwp(tmp_path / "a.hwp", PARTS, flags=flags))


def test_an_encrypted_hwpx_is_named_so(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="password"):
        read(write_hwpx(tmp_path / "a.hwpx", PARTS, encrypted=True))


def test_old_and_unknown_versions_are_named_so(tmp_path: Path) -> None:
    old = tmp_path / "old.hwp"
    old.write_bytes(b"HWP Document File V3.00 \x1a\1\2\3\4\5" + bytes(200))
    with pytest.raises(ReadError, match="Hangul 3"):
        read(old)
    with pytest.raises(ReadError, match="version 6"):
        read(write_hwp(tmp_path / "a.hwp", PARTS, version=6))


def test_every_cut_gives_a_document_or_a_reason(tmp_path: Path) -> None:
    whole = write_hwp(tmp_path / "whole.hwp", [*PARTS, ("text", "끝까지 읽습니다. " * 3000)], flags=0).read_bytes()
    path = tmp_path / "cut.hwp"
    for share in range(1, 20):
        path.write_bytes(whole[: len(whole) * share // 20])
        with pytest.raises(ReadError):
            read(path)


@pytest.mark.parametrize("size", [8, 100, 511, 512, 513, 1999, 5000])
@pytest.mark.parametrize("suffix", [".hwp", ".doc", ".xlsx"])
def test_a_compound_file_without_anything_in_it_fails(tmp_path: Path, size: int, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes((b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(size))[:size])
    with pytest.raises((ReadError, UnsupportedFile)):
        read(path)


def test_a_stream_that_ends_early_gives_what_is_there(tmp_path: Path) -> None:
    body = b"".join(map(hwp_part, PARTS * 200))
    path = write_hwp(tmp_path / "a.hwp", sections=[body])
    header = b"HWP Document File".ljust(32, b"\0") + bytes((0, 3, 0, 5, 1, 0, 0, 0))
    packed = deflated(body)
    streams = {"FileHeader": header, "DocInfo": deflated(b""), "BodyText/Section0": packed[: len(packed) // 2]}
    document = read(write_compound(path, streams))
    assert document.partial and "cut off" in document.notes[0] and "보일러" in document.text


def test_a_broken_hwpx_fails(tmp_path: Path) -> None:
    path = write_hwpx(tmp_path / "a.hwpx", PARTS)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(ReadError, match="broken"):
        read(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mimetype", "application/hwp+zip")
        archive.writestr("Contents/section0.xml", "<sec><p>")
    with pytest.raises(ReadError, match="broken"):
        read(path)


def test_no_text_at_all(tmp_path: Path) -> None:
    for path in (write_hwp(tmp_path / "a.hwp"), write_hwpx(tmp_path / "a.hwpx", [])):
        with pytest.raises(NoText):
            read(path)


def test_what_unpacks_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_hwp(tmp_path / "a.hwp", sections=[record(99, 0, bytes(1_100_000))])
    monkeypatch.setattr(hwp_records, "MAXIMUM_STREAM", 1_000_000)
    with pytest.raises(ReadError, match="refused"):
        read(path)
    monkeypatch.undo()
    monkeypatch.setattr(hwp_records, "MAXIMUM_RECORDS", 100)
    path = write_hwp(tmp_path / "b.hwp", sections=[paragraph("가") + record(99, 1, b"") * 200])
    with pytest.raises(ReadError, match="refused"):
        read(path)


def test_nesting_without_end_gives_a_reason(tmp_path: Path) -> None:
    deep = b"".join(record(66 if level % 2 else 72, level, bytes(24)) for level in range(1023))
    with pytest.raises((ReadError, NoText)):
        read(write_hwp(tmp_path / "a.hwp", sections=[deep]))


def test_random_damage_gives_a_document_or_a_reason(tmp_path: Path) -> None:
    chance = random.Random(1)
    whole = write_hwp(tmp_path / "a.hwp", PARTS, flags=0).read_bytes()
    path = tmp_path / "damaged.hwp"
    for _ in range(200):
        data = bytearray(whole)
        for _ in range(chance.randrange(1, 8)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        path.write_bytes(data)
        with contextlib.suppress(ReadError, NoText, UnsupportedFile):
            assert read(path).text.strip()


def test_a_formula_is_parted_from_the_words_beside_it(tmp_path: Path) -> None:
    run = "<hp:t>비율은</hp:t><hp:equation><hp:script>a over b</hp:script></hp:equation><hp:t>입니다.</hp:t>"
    text = read(write_hwpx(tmp_path / "a.hwpx", [], body=xml_paragraph(run))).text
    assert text == "비율은 a over b 입니다.\n"
