"""Plain text that is too large to hold: read in parts that join to the whole, found like any other file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from libraries import open_library, passages, write
from slotrag.rag import indexing
from slotrag.rag.documents import ReadError, normalise
from slotrag.rag.readers import read, read_parts
from slotrag.rag.readers import text as text_reader
from slotrag.rag.readers.decoding import decode, text_parts

WORDS = "The boiler is serviced in September.\nCafé 보일러는 구월에 점검합니다.\r\n\n"
PART = 400


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(text_reader, "WHOLE_BYTES", 1000)
    monkeypatch.setattr(text_reader, "text_parts", lambda path: text_parts(path, PART))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp949"])
def test_the_parts_join_to_the_whole(tmp_path: Path, encoding: str) -> None:
    text = (WORDS if encoding != "cp949" else WORDS.replace("é", "e")) * 300
    path = tmp_path / "a.txt"
    path.write_bytes(text.encode(encoding))
    parts = list(text_parts(path, PART))
    assert "".join(parts) == normalise(text) == normalise(decode(path.read_bytes()))
    assert all(len(part) <= PART for part in parts)
    assert all(part.endswith("\n") for part in parts)


@given(st.text("ab \n\r é가", max_size=300), st.integers(2, 40))
def test_any_text_joins(tmp_path_factory, text: str, characters: int) -> None:
    path = tmp_path_factory.mktemp("parts") / "a.txt"
    path.write_bytes(text.encode())
    assert "".join(text_parts(path, characters)) == normalise(text)


def test_what_cannot_be_decoded_far_into_the_file_is_a_reason(tmp_path: Path, small_parts) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"plain words\n" * 50_000 + bytes(range(128, 256)) * 500)
    with pytest.raises(ReadError, match="encoding"):
        list(read_parts(path))
    path.write_bytes("\ufeffwords\n".encode() * 50_000 + b"\xff\xff")
    with pytest.raises(ReadError, match="damaged"):
        list(read_parts(path))


def test_western_text_whose_first_sign_comes_late(tmp_path: Path, small_parts) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"plain words\n" * 50_000 + "un café à la crème\n".encode("cp1252") * 50)
    assert "".join(document.text for document in read_parts(path)).endswith("café à la crème\n")


def test_places_are_those_of_the_whole_file(tmp_path: Path, small_parts, hashing_encoder) -> None:
    lines = [f"Line {number} tells of copper." for number in range(1, 400)]
    lines[299] = "Here stands the marked place."
    docs = write(tmp_path / "docs", {"a.txt": "\n".join(lines), "b.txt": "Short note."})
    with open_library(tmp_path / "library", passage_tokens=20) as library:
        report = library.index([docs])
        assert (report.new, report.skipped) == (2, [])
        hit = library.search("marked place", mode="lexical").hits[0]
        assert hit.lines[0] <= 300 <= hit.lines[1]
        text = (docs / "a.txt").read_text()
        held = [row for row in passages(library) if row[0] == "a.txt"]
        assert all(text[row[5][0] : row[5][1]] == row[2] for row in held)
        assert "".join("".join(row[2] for row in held).split()) == "".join(text.split())
        assert [row[1] for row in held] == list(range(len(held)))
        assert library.index([docs]).encoded == 0
        assert not [finding for finding in library.doctor() if finding.severity == "error"]


def test_edits_leave_nothing_of_the_old_text(tmp_path: Path, small_parts, hashing_encoder) -> None:
    docs = write(tmp_path / "docs", {"a.txt": "\n".join(f"Line {n} of copper." for n in range(400))})
    with open_library(tmp_path / "library", passage_tokens=20) as library, open_library(tmp_path / "fresh") as fresh:
        library.index([docs])
        write(docs, {"a.txt": "\n".join(f"Line {n} of silver." for n in range(300))})
        assert library.index([docs]).updated == 1
        assert not library.search("copper", mode="lexical").hits
        fresh.settings = library.settings
        fresh.index([docs])
        assert passages(library) == passages(fresh)
        write(docs, {"a.txt": "Now it is short."})
        library.index([docs])
        assert [row[2] for row in passages(library)] == ["Now it is short."]


def test_a_file_that_changes_while_it_is_stored_is_not_stored(tmp_path, small_parts, hashing_encoder, monkeypatch):
    docs = write(tmp_path / "docs", {"a.txt": "\n".join(f"Line {n} of copper." for n in range(400))})
    looked = indexing.content_hash

    def changed(path: str, between) -> tuple[bytes | None, str]:
        write(docs, {"a.txt": "\n".join(f"Line {n} of silver." for n in range(400))})
        return looked(path, between)

    with open_library(tmp_path / "library") as library:
        monkeypatch.setattr(indexing, "content_hash", changed)
        report = library.index([docs])
        assert [(file.failed, "changed" in file.reason) for file in report.skipped] == [(True, True)]
        assert library.status().collections[0].passages == 0
        monkeypatch.setattr(indexing, "content_hash", looked)
        assert library.index([docs]).new == 1
        assert library.search("silver", mode="lexical").hits


def test_a_part_alone_is_no_document(tmp_path: Path, small_parts) -> None:
    path = tmp_path / "a.txt"
    path.write_text("words\n" * 1000)
    with pytest.raises(ReadError, match="too large"):
        read(path)


SCRIPT = """
import sys
from pathlib import Path
from libraries import open_library
from slotrag.rag.readers import text
text.WHOLE_BYTES = 1_000_000
with open_library(Path(sys.argv[1])) as library:
    report = library.index([Path(sys.argv[2])])
    assert report.new == 1, report
with open("/proc/self/status") as status:
    print(next(line.split()[1] for line in status if line.startswith("VmHWM")))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak memory from /proc")
def test_the_peak_does_not_grow_with_the_text(tmp_path: Path, hashing_encoder) -> None:
    """Three times the text, 10 MB more, which held at once take over 100 MB: the database fills its cache of 16 MB a
    connection, and the index has 256 bytes a passage."""
    import os

    peaks = []
    support = Path(__file__).parents[2] / "support"
    for size in (5_000_000, 15_000_000):
        path = tmp_path / f"{size}.txt"
        with path.open("w") as stream:
            for number in range(size // 100):
                stream.write(
                    f"Paragraph {number} tells at some length of copper, of tin and of the mines of {number * 7}.\n\n"
                )
        command = [sys.executable, "-c", SCRIPT, str(tmp_path / f"library{size}"), str(path)]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(support), str(support / "plugin")])}
        found = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, cwd=tmp_path)
        peaks.append(int(found.stdout))
    assert peaks[1] - peaks[0] < 60_000
