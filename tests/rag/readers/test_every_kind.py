"""What must hold for every kind of file: places, broken files among good ones, encodings, no text, names, limits."""

from __future__ import annotations

import unicodedata
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from file_kinds import BINARY, KINDS, OWN_LINES, PAGED, SECTIONS, TEXTS, WITHOUT_HEADINGS, html, write_kind
from libraries import documents, open_library
from slotrag.rag.documents import NoText, ReadError, UnsupportedFile
from slotrag.rag.library import Library
from slotrag.rag.readers import read
from slotrag.rag.readers.registry import readers
from slotrag.tui.cli import run

KOREAN = [("난방", ["보일러는 매년 구월에 점검합니다.", "펌프 두 대가 따뜻한 물을 올려 보냅니다."])]
WESTERN = [("Menü", ["Das Café öffnet um acht Uhr.", "Der Müller zahlt 20 € für die Straße."])]


@pytest.fixture
def library(tmp_path: Path, hashing_encoder: str) -> Iterator[Library]:
    with open_library(tmp_path / "library") as library:
        yield library


def test_every_reader_is_among_the_kinds() -> None:
    missing = [name for name, reader in readers().items() if not set(reader.suffixes) & set(KINDS)]
    assert not missing


@pytest.mark.parametrize("kind", KINDS)
def test_page_heading_and_lines_of_a_passage(tmp_path: Path, library: Library, kind: str) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    path = write_kind(docs / f"house{kind}")
    report = library.index([docs])
    assert (report.new, report.skipped) == (1, [])
    hit = library.search("apple tree planted by Anna", k=1).hits[0]
    assert "The apple tree was planted by Anna." in hit.text
    assert hit.page == (2 if kind in PAGED else None)
    if kind not in WITHOUT_HEADINGS:
        assert "Garden" in hit.heading and "Heating" not in hit.heading.split(" > ")[-1]
    document = read(path)
    assert document.text[slice(*hit.chars)] == hit.text
    first, last = hit.lines
    assert "\n".join(document.text.split("\n")[first - 1 : last]).strip() == hit.text
    if kind in OWN_LINES:
        lines = path.read_text(encoding="utf-8").split("\n")
        assert "\n".join(lines[first - 1 : last]).strip() == hit.text


@pytest.mark.parametrize("kind", sorted(TEXTS - {".eml", ".ipynb"}))
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp949", "euc-kr", "cp1252"])
def test_every_text_in_every_encoding_is_read_without_loss(tmp_path: Path, kind: str, encoding: str) -> None:
    sections = WESTERN if encoding == "cp1252" else KOREAN
    name = "Cafe" if kind == ".py" else sections[0][0]  # a definition's name
    text = "".join(read(write_kind(tmp_path / f"a{kind}", [(name, sections[0][1])], encoding=encoding)).text)
    for paragraph in sections[0][1]:
        assert paragraph in text


@pytest.mark.parametrize("kind", sorted(TEXTS - {".eml"}))
def test_bytes_that_no_encoding_explains_are_a_reason(tmp_path: Path, kind: str) -> None:
    path = write_kind(tmp_path / f"a{kind}")
    data = path.read_bytes()
    path.write_bytes(data[:40] + bytes(range(0x80, 0x100)) * 4 + data[40:])
    with pytest.raises(ReadError, match="encoding"):
        read(path)


def damaged(whole: bytes) -> dict[str, bytes]:
    """Cut off at several places, and overwritten in the middle."""
    third = len(whole) // 3
    return {
        "cut-third": whole[:third],
        "cut-two-thirds": whole[: 2 * third],
        "cut-head": whole[:100],
        "hole": whole[:third] + b"\xaa" * third + whole[2 * third :],
    }


def test_broken_files_of_every_kind_among_good_ones(
    tmp_path: Path, hashing_encoder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    broken = set()
    for kind in sorted(BINARY):
        whole = write_kind(docs / f"good{kind}").read_bytes()
        for name, data in damaged(whole).items():
            (docs / f"{name}{kind}").write_bytes(data)
            broken.add(f"{name}{kind}")
        with zipfile.ZipFile(docs / f"archive{kind}", "w") as archive:
            archive.writestr("words.txt", "words " * 100)
        (docs / f"text{kind}").write_text("These are plain words under another name.")
        broken.add(f"archive{kind}")
    code = run(["index", str(docs), "--encoder", hashing_encoder, "--quiet"])
    assert code == 4
    with Library.open(None) as library:
        states = {name: (status, reason) for name, status, reason in documents(library)}
        for kind in KINDS:
            if kind in BINARY:
                assert states[f"good{kind}"] == ("indexed", "")
                assert states[f"text{kind}"][0] == "indexed"  # chosen by content, not by suffix
        for name in broken:
            status, reason = states[name]
            assert status in ("failed", "partial_text") and reason, (name, status)
        found = {hit.path for hit in library.search("boiler serviced September", k=100).hits}
        copies = {Path(c).name for hit in library.search("boiler serviced September", k=100).hits for c in hit.copies}
        assert {f"good{kind}" for kind in BINARY} <= found | copies


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_is_told_so(tmp_path: Path, kind: str) -> None:
    for data in (b"", b" \n\t\r\n \n"):
        path = tmp_path / f"a{kind}"
        path.write_bytes(data)
        # A blank file named like a binary kind is not of that kind.
        with pytest.raises((NoText, ReadError) if kind in BINARY and data else NoText):
            read(path)
    blank = " " if kind in BINARY - {".xlsx"} else ""
    if kind in BINARY:
        with pytest.raises(NoText):
            read(write_kind(tmp_path / f"b{kind}", [(blank or "Sheet", ["", " "] if kind != ".xlsx" else [])]))


def test_the_summary_and_the_status_name_what_has_no_text(
    tmp_path: Path, hashing_encoder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    write_kind(docs / "scan.pdf", [("", [])] * 3)
    write_kind(docs / "half.pdf", [SECTIONS[0], ("", []), SECTIONS[1]])
    (docs / "empty.txt").write_bytes(b"")
    (docs / "blank.md").write_bytes(b" \n\t\n")
    assert run(["index", str(docs), "--encoder", hashing_encoder]) == 0
    shown = "".join(capsys.readouterr())
    assert run(["status"]) == 0
    status = "".join(capsys.readouterr())
    for name in ("scan.pdf", "empty.txt", "blank.md"):
        assert name in shown
    assert "page 2" in shown
    with Library.open(None) as library:
        states = {name: (state, reason) for name, state, reason in documents(library)}
    assert {name: state for name, (state, _) in states.items()} == {
        "scan.pdf": "no_text",
        "empty.txt": "no_text",
        "blank.md": "no_text",
        "half.pdf": "partial_text",
    }
    assert states["half.pdf"][1] == "no text on page 2"
    assert "3 without text" in status


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_korean_names_and_bodies_are_found_in_either_form(tmp_path: Path, library: Library, form: str) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    name = unicodedata.normalize(form, "회의록")
    expected = set()
    for kind in KINDS:
        shape = "NFC" if kind == ".pdf" else form  # the PDF library's font has no single letters of Hangul
        heading = "heating" if kind == ".py" else unicodedata.normalize(shape, KOREAN[0][0])
        body = [unicodedata.normalize(shape, paragraph) for paragraph in KOREAN[0][1]]
        expected.add(str(write_kind(docs / f"{name}{kind}", [(heading, body)])))
    library.index([docs])
    for spelling in ("NFC", "NFD"):
        for mode in ("hybrid", "lexical"):
            hits = library.search(unicodedata.normalize(spelling, "보일러 점검"), k=100, mode=mode).hits
            assert {path for hit in hits for path in (hit.absolute_path, *hit.copies)} == expected
        for kind in KINDS:
            pattern = unicodedata.normalize(spelling, f"회의록{kind}")
            (path,) = {hit.absolute_path for hit in library.search("구월에", path=pattern, k=1).hits}
            assert path == str(docs / f"{name}{kind}") and Path(path).exists()


@pytest.mark.parametrize("kind", KINDS)
def test_no_passage_exceeds_the_encoders_limit(tmp_path: Path, kind: str, hashing_encoder: str) -> None:
    from slotrag.rag.splitting import split

    endless = "word " * 700 + "가나다" * 300 + "x" * 3000
    document = read(write_kind(tmp_path / f"a{kind}", [("Heading", [endless, "A short one. " * 90])]))
    encoder = hashing_tokens()
    pieces = split(document, encoder, 50)
    assert pieces and max(len(encoder(piece.text)) for piece in pieces) <= 50
    kept = "".join("".join(piece.text.split()) for piece in pieces)
    assert kept == "".join(document.text.split())


def hashing_tokens():
    from importlib.metadata import entry_points

    from slotrag.encoders.spec import EncoderSpec

    (point,) = entry_points(group="slotrag.encoders", name="hashing")
    return point.load().from_spec(EncoderSpec.parse("hashing"), None).token_offsets


def test_the_content_counts_for_every_kind(tmp_path: Path) -> None:
    """A file under the suffix of another kind is read as what it is, if its content shows what that is."""
    for kind in sorted(BINARY | {".html"}):
        expected = read(write_kind(tmp_path / f"a{kind}"))
        for other in (".bin", ".txt", ".pdf", ".docx"):
            document = read(write_kind(tmp_path / f"a{kind}").rename(tmp_path / f"b{other}"))
            assert (document.reader, document.text) == (expected.reader, expected.text), (kind, other)


def test_kinds_that_nobody_reads_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    for data in (
        b"\x7fELF" + bytes(range(256)) * 9,
        b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 9,
        b"PK\5\6" + bytes(18),
    ):
        path.write_bytes(data)
        with pytest.raises(UnsupportedFile) as caught:
            read(path)
        assert caught.value.reason


def test_a_page_within_mail_is_read_as_a_page(tmp_path: Path) -> None:
    document = read(write_kind(tmp_path / "a.eml"))
    assert "<p>" not in document.text and html(SECTIONS[1:]).count("<p>") == 2
    assert document.blocks[-1].heading_path == "Heating > Attachment: page.html > Garden"
