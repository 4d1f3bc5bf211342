"""Reading e-books made here: chapters in reading order under their titles, and books that cannot be read."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest
from books import Entry, write_epub
from slotrag.rag.documents import Document, NoText, ReadError
from slotrag.rag.readers import archives, read

CHAPTERS = [
    ("cover.xhtml", '<div><img src="cover.jpg"/></div>'),
    (
        "heating.xhtml",
        "<h1>1. Heating</h1><p>The boiler hums softly.</p><h2>Pumps</h2><p>Two pumps run.</p>",
    ),
    ("the water.xhtml", "<p>The main valve is in the cellar.</p><aside><p>It turns left.</p></aside>"),
    ("rest.xhtml", "<p>The valve was changed in May.</p>"),
    ("last.xhtml", "<header><h1>Power</h1></header><p>The fuse box hangs in the hall.</p>"),
]
CONTENTS: list[Entry] = [
    ("Part one", "", [("HEATING!", "heating.xhtml", []), ("Water", "the%20water.xhtml", [])]),
    ("Electricity", "last.xhtml", []),
]


def headings(document: Document) -> dict[str, str]:
    """The heading path of each paragraph."""
    return {document.text[b.start : b.end]: b.heading_path for b in document.blocks if b.kind == "paragraph"}


@pytest.mark.parametrize("version", [2, 3])
def test_chapters_in_reading_order_under_their_titles(tmp_path: Path, version: int) -> None:
    contents: list[Entry] = [("Part one", "heating.xhtml" if version == 2 else "", CONTENTS[0][2]), CONTENTS[1]]
    document = read(write_epub(tmp_path / "a.epub", CHAPTERS, contents, version=version))
    assert document.title == "The house" and document.reader.startswith("epub/") and not document.partial
    found = headings(document)
    assert found["The boiler hums softly."] == "Part one > 1. Heating"
    assert found["Two pumps run."] == "Part one > 1. Heating > Pumps"
    assert found["The main valve is in the cellar."] == "Part one > Water"
    assert found["It turns left."] == "Part one > Water"
    assert found["The valve was changed in May."] == "Part one > Water"  # a page that the contents do not name
    assert found["The fuse box hangs in the hall."] == "Electricity > Power"
    order = [document.text.index(words) for words in ("boiler", "cellar", "in May", "fuse box")]
    assert order == sorted(order)
    assert "Water" in document.text and document.text.count("Heating") == 1 and "Contents" not in document.text


def test_several_chapters_on_a_page_are_told_apart_by_their_headings(tmp_path: Path) -> None:
    page = '<h2 id="a">Oaks</h2><p>Oaks grow slowly.</p><h2 id="b">Elms</h2><p>Elms fell ill.</p>'
    contents: list[Entry] = [("Oaks", "trees.xhtml#a", []), ("Elms", "trees.xhtml#b", [])]
    document = read(write_epub(tmp_path / "a.epub", [("trees.xhtml", page)], contents))
    assert headings(document) == {"Oaks grow slowly.": "Oaks", "Elms fell ill.": "Elms"}


def test_a_book_without_contents_is_read_by_its_headings(tmp_path: Path) -> None:
    path = write_epub(tmp_path / "a.epub", CHAPTERS[1:2])
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist() if not name.endswith("nav.xhtml")}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    assert headings(read(path))["Two pumps run."] == "1. Heating > Pumps"


def test_recognised_under_any_suffix_and_without_its_mark(tmp_path: Path) -> None:
    path = write_epub(tmp_path / "a.zip", CHAPTERS, CONTENTS)
    assert read(path).reader.startswith("epub/")
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist() if name != "mimetype"}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    assert read(path).reader.startswith("epub/")


def encryption(method: str, part: str) -> tuple[str, str]:
    data = (
        '<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container" xmlns:e="http://www.w3.org/2001/04/xmlenc#">'
        f'<e:EncryptedData><e:EncryptionMethod Algorithm="{method}"/><e:CipherData><e:CipherReference URI="{part}"/>'
        "</e:CipherData></e:EncryptedData></encryption>"
    )
    return "META-INF/encryption.xml", data


def test_a_protected_book_is_named_so(tmp_path: Path) -> None:
    extra = [encryption("http://www.w3.org/2001/04/xmlenc#aes128-cbc", "OEBPS/the%20water.xhtml")]
    with pytest.raises(ReadError, match="DRM"):
        read(write_epub(tmp_path / "a.epub", CHAPTERS, CONTENTS, extra=extra))


def test_scrambled_fonts_are_no_protection(tmp_path: Path) -> None:
    extra = [encryption("http://www.idpf.org/2008/embedding", "OEBPS/fonts/serif.otf")]
    assert "boiler" in read(write_epub(tmp_path / "a.epub", CHAPTERS, CONTENTS, extra=extra)).text


def test_a_missing_chapter_makes_it_partial(tmp_path: Path) -> None:
    path = write_epub(tmp_path / "a.epub", CHAPTERS, CONTENTS)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist() if not name.endswith("rest.xhtml")}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    document = read(path)
    assert document.partial and any("rest.xhtml" in note for note in document.notes)
    assert "fuse box" in document.text


def test_broken_books_fail_with_a_reason(tmp_path: Path) -> None:
    whole = write_epub(tmp_path / "a.epub", CHAPTERS, CONTENTS).read_bytes()
    cut = tmp_path / "cut.epub"
    cut.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ReadError, match="broken"):
        read(cut)
    for missing in ("META-INF/container.xml", "OEBPS/book.opf"):
        path = tmp_path / "missing.epub"
        with zipfile.ZipFile(tmp_path / "a.epub") as source, zipfile.ZipFile(path, "w") as archive:
            for name in source.namelist():
                if name != missing:
                    archive.writestr(name, source.read(name))
        with pytest.raises(ReadError, match="broken e-book"):
            read(path)


def test_pictures_alone_are_no_text(tmp_path: Path) -> None:
    with pytest.raises(NoText):
        read(write_epub(tmp_path / "a.epub", CHAPTERS[:1]))


def test_entities_are_not_expanded_and_no_file_is_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("the secret word")
    path = write_epub(tmp_path / "a.epub", CHAPTERS, CONTENTS, title="The house")
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    declared = f'<!DOCTYPE package [<!ENTITY x SYSTEM "{secret.as_uri()}"><!ENTITY y "yyyyyyyyyy">]>'.encode()
    package = parts["OEBPS/book.opf"].replace(b'"1.0"?>', b'"1.0"?>' + declared, 1).replace(b"The house", b"&x;&y;")
    parts["OEBPS/book.opf"] = package
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    document = read(path)
    assert "secret" not in document.title + document.text and "yyy" not in document.title


def test_a_book_that_unpacks_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAXIMUM_XML", 2_000_000)
    path = write_epub(tmp_path / "a.epub", CHAPTERS, CONTENTS, extra=[("OEBPS/more.xhtml", " " * 2_100_000)])
    assert path.stat().st_size < 100_000
    with pytest.raises(ReadError, match="refused"):
        read(path)


def test_a_chapter_that_is_named_twice_is_read_once(tmp_path: Path) -> None:
    path = write_epub(tmp_path / "a.epub", CHAPTERS, CONTENTS)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    package = next(name for name in parts if name.endswith(".opf"))
    parts[package] = re.sub(rb"<itemref[^>]*/>", rb"\g<0>\g<0>", parts[package])
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    assert read(path).text.count("The boiler hums softly.") == 1
