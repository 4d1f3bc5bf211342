"""A dry run tells exactly what the next run does, encodes nothing and writes nothing."""

import os
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from libraries import open_library, write
from slotrag import SlotragError, UsageError
from slotrag.rag.library import Library
from slotrag.rag.settings import Settings

COUNTS = ("new", "updated", "unchanged", "removed", "renamed", "skipped", "notices")
NAMES = ["a.txt", "b.md", "c.html", "d.pdf", "e.docx", "f", "sub/a.txt", "sub/g.csv", "sub/h.bin"]
CONTENTS = [
    b"Copper melts at 1085 degrees.\n",
    b"# Tin\n\nTin melts at 232 degrees.\n",
    b"<html><body><nav>Home</nav><p>Iron is heavy.</p></body></html>",
    b"<html><body><script>1</script></body></html>",
    b"",
    b" \n\t\n",
    b"%PDF-1.4\nbroken",
    b"PK\x03\x04 broken as well",
    b"\x00\x01\x02\x03" * 40,
    "표 하나\n".encode("cp949"),
]
EDITS = st.one_of(
    st.tuples(st.just("write"), st.sampled_from(NAMES), st.sampled_from(CONTENTS)),
    st.tuples(st.just("move"), st.sampled_from(NAMES), st.sampled_from(NAMES)),
    st.tuples(st.just("copy"), st.sampled_from(NAMES), st.sampled_from(NAMES)),
    st.tuples(st.just("delete"), st.sampled_from(NAMES), st.none()),
    st.tuples(st.just("touch"), st.sampled_from(NAMES), st.integers(1, 10**9)),
)


def make(docs: Path, edits) -> None:
    for kind, name, other in edits:
        path = docs / name
        if kind == "write":
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(other)
        elif path.exists():
            if kind == "delete":
                path.unlink()
            elif kind == "touch":
                os.utime(path, (other, other))
            else:
                (docs / other).parent.mkdir(exist_ok=True)
                content = path.read_bytes()
                if kind == "move":
                    path.unlink()
                (docs / other).write_bytes(content)


def told(report):
    return {name: getattr(report, name) for name in COUNTS}


@settings(max_examples=20)
@given(st.lists(EDITS, min_size=1, max_size=8), st.lists(EDITS, max_size=8), st.lists(EDITS, max_size=8))
def test_it_tells_what_the_next_run_does(hashing_encoder, first, second, third):
    from slotrag_hashing import HashingEncoder

    with tempfile.TemporaryDirectory() as folder, open_library(Path(folder) / "library") as library:
        docs = Path(folder) / "docs"
        docs.mkdir()
        for paths, edits in (([docs], first), ([], second), ([], third)):
            make(docs, edits)
            calls = HashingEncoder.calls
            expected = library.index(paths, dry_run=True)
            assert HashingEncoder.calls == calls and expected.encoded == 0
            report = library.index(paths)
            assert told(expected) == {**told(report), "notices": expected.notices}
            assert set(report.notices) <= {*expected.notices, *index_notices(report)}
            rows = Counter(action for action, _, _ in expected.planned)
            assert rows.pop("skipped", 0) == len(report.skipped)
            assert dict(rows) == {name: getattr(report, name) for name in COUNTS[:5] if getattr(report, name)}


def index_notices(report):
    """Those of the encoder and the index, which a dry run does not come to."""
    return [notice for notice in report.notices if "encoder" in notice or "index" in notice]


def content(folder: Path):
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("*") if path.is_file()}


def test_nothing_is_written(tmp_path, hashing_encoder):
    docs = write(tmp_path / "docs", {"a.txt": "Copper melts.", "b.txt": "Tin melts."})
    with open_library(tmp_path / "library") as library:
        library.index([docs])
    before = content(tmp_path / "library")
    (docs / "a.txt").write_text("Copper melts at 1085 degrees.")
    (docs / "b.txt").unlink()
    with open_library(tmp_path / "library") as library:
        report = library.index(dry_run=True)
        assert (report.updated, report.removed) == (1, 1)
    assert content(tmp_path / "library") == before


@pytest.mark.parametrize("place", ["new", "sub/new", "docs/inside"])
def test_a_library_that_is_not_there_is_not_made(tmp_path, place):
    docs = write(tmp_path / "docs", {"a.txt": "Copper melts."})
    before = sorted(tmp_path.rglob("*"))
    with Library.open(
        tmp_path / place, dry=True, settings=Settings(encoder="mean@someone/model-never-fetched")
    ) as library:
        report = library.index([docs], dry_run=True)
        assert report.new == 1
        with pytest.raises(UsageError, match="no encoder 'none-such'"):
            library.index([docs], encoder="none-such", dry_run=True)
        with pytest.raises(SlotragError, match="cannot be written"):
            library._catalog.create_collection("x", encoder="x", fingerprint="0", dimension=1, splitting={})
    assert sorted(tmp_path.rglob("*")) == before


def test_an_open_library_is_the_one_that_is_there(tmp_path, hashing_encoder):
    docs = write(tmp_path / "docs", {"a.txt": "Copper melts."})
    with open_library(tmp_path / "library") as library:
        library.index([docs])
    with Library.open(tmp_path / "library", dry=True) as library:
        assert library.index(dry_run=True).unchanged == 1
