"""Files that are not indexed, or not now: told each time, and read again when they, or their readers, change."""

import os
from pathlib import Path

import pytest
from edited_folder import counts
from libraries import documents, write


def test_skipped_files_are_listed_each_time_and_are_no_documents(library, docs):
    (docs / "empty.txt").write_bytes(b"")
    (docs / "blank.txt").write_text(" \n\t\n")
    (docs / "noise.dat").write_bytes(bytes(range(256)) * 20)
    first = library.index([docs])
    again = library.index()
    names = {Path(file.path).name: file.reason for file in first.skipped}
    assert names.keys() == {"empty.txt", "blank.txt", "noise.dat"} and all(names.values())
    assert sorted(first.skipped, key=str) == sorted(again.skipped, key=str)
    (status,) = library.collections()
    assert status.documents["indexed"] == 4 and status.documents["no_text"] == 2 and status.documents["skipped"] == 1


def test_an_empty_file_gets_text(library, docs, fresh):
    (docs / "later.txt").write_bytes(b"")
    library.index([docs])
    (docs / "later.txt").write_text("Gold melts at 1064 degrees.")
    assert counts(library.index()) == {"new": 1, "unchanged": 4}
    fresh(library, docs)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything; test_library_faults.py does it as another user")
def test_an_unreadable_file_keeps_what_was_indexed(library, docs):
    library.index([docs])
    path = docs / "penguins.txt"
    path.write_text("Changed, and then locked away.")
    path.chmod(0)
    report = library.index()
    path.chmod(0o600)
    (skipped,) = report.skipped
    assert skipped.failed and "kept" in skipped.reason
    assert library.search("penguins fish").hits[0].path == "penguins.txt"


def test_a_file_that_cannot_be_opened_is_retried(library, docs, monkeypatch, fresh):
    from slotrag.rag import scanning

    real = scanning.content_hash
    monkeypatch.setattr(
        scanning,
        "content_hash",
        lambda path, between: (None, "cannot be opened: denied") if "tin" in path else real(path, between),
    )
    report = library.index([docs])
    assert [(Path(f.path).name, f.failed) for f in report.skipped] == [("tin.txt", True)] and report.new == 3
    monkeypatch.undo()
    assert counts(library.index()) == {"new": 1, "unchanged": 3}
    fresh(library, docs)


@pytest.mark.parametrize("reading", [1, 2, 3])
def test_a_file_that_takes_all_memory_fails_alone(library, docs, monkeypatch, reading):
    """Also one that is read in parts, whose second reading is for its vectors and third for its passages."""
    from slotrag.rag import readers
    from slotrag.rag.readers import text

    library.index([docs])
    real_parts = text.text_parts
    monkeypatch.setattr(text, "WHOLE_BYTES", 10_000)
    monkeypatch.setattr(text, "text_parts", lambda path: real_parts(path, 10_000))
    write(docs, {"huge.txt": "Zinc melts at 419 degrees.\n\n" * 1000, "zinc.txt": "Zinc is a metal.\n"})
    write(docs, {"penguins.txt": "Penguins swim.\n"})
    real, asked = readers.read_parts, []

    def read_parts(path):
        asked.append(path.name)
        if path.name == "penguins.txt" or (path.name == "huge.txt" and asked.count("huge.txt") == reading):
            raise MemoryError
        return real(path)

    monkeypatch.setattr(readers, "read_parts", read_parts)
    report = library.index()
    assert counts(report) == {"new": 1, "unchanged": 3}
    failed = {Path(file.path).name: file.reason for file in report.skipped if file.failed}
    assert set(failed) == {"huge.txt", "penguins.txt"} and all("memory" in reason for reason in failed.values())
    assert ("huge.txt", "failed") in [document[:2] for document in documents(library)]
    assert library.search("penguins eat fish", k=1).hits[0].path == "penguins.txt"  # what was indexed earlier


def test_only_what_another_version_of_its_reader_read_is_read_anew(library, docs, calls, monkeypatch, fresh):
    from slotrag.rag.readers import registry

    (docs / "odd.dat").write_bytes(bytes(range(256)) * 20)
    library.index([docs])
    calls()
    markdown = registry.readers()["markdown"]
    monkeypatch.setattr(type(markdown), "version", "next")
    report = library.index()
    assert counts(report) == {"updated": 1, "unchanged": 3} and calls() == 0
    assert counts(library.index()) == {"unchanged": 4}
    monkeypatch.setattr(registry, "_readers", {n: r for n, r in registry.readers().items() if n != "markdown"})
    assert counts(library.index()) == {"unchanged": 4}, "a reader that cannot be loaded wipes nothing"
