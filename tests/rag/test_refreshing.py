"""Runs without a path: each collection's sources, in one run or while they are watched."""

import pytest
from libraries import open_library, write
from slotrag import SlotragError, UsageError
from slotrag.rag import refreshing
from slotrag.rag.events import CancelToken
from slotrag.rag.results import IndexReport
from slotrag.storage.errors import DiskFull


@pytest.fixture
def docs(tmp_path):
    return write(tmp_path / "docs", {"one/a.txt": "Copper melts.", "two/b.txt": "Tin melts."})


@pytest.fixture
def library(tmp_path, docs, hashing_encoder):
    with open_library(tmp_path / "library") as library:
        library.index([docs / "one"], collection="one")
        library.index([docs / "two"], collection="two", encoder="hashing:dimension=32")
        write(docs, {"one/more.txt": "Iron melts.", "two/more.txt": "Lead melts."})
        yield library


def test_every_collection_is_refreshed(library):
    assert [(r.collection, r.new, r.unchanged) for r in library.refresh()] == [("one", 1, 1), ("two", 1, 1)]


def test_one_collection_is_refreshed(library):
    assert [(r.collection, r.new) for r in library.refresh("two", dry_run=True)] == [("two", 1)]


def test_an_error_in_one_collection_keeps_no_other_from_being_refreshed(library):
    reports = []
    with pytest.raises(SlotragError):
        reports.extend(library.refresh(encoder="hashing:dimension=32"))  # not that of the first
    assert [report.collection for report in library.refresh(dry_run=True) if report.new] == ["one"]


def test_watching_follows_every_collection(library, docs):
    cancel = CancelToken()
    reports = library.watch(cancel=cancel)
    assert [(r.collection, r.new) for r in (next(reports), next(reports))] == [("one", 1), ("two", 1)]
    write(docs, {"two/late.txt": "Zinc melts."})
    later = next(report for report in reports if report.changed)
    assert (later.collection, later.new) == ("two", 1)
    cancel.cancel()
    reports.close()


@pytest.mark.parametrize("path", ["", "a\0b"])
def test_an_empty_path_is_never_the_working_directory(library, docs, path, monkeypatch):
    monkeypatch.chdir(docs / "one")
    for call in (library.remove, library.index):
        with pytest.raises(UsageError, match="empty"):
            call(path)
    assert [r.new for r in library.refresh()] == [1, 1]


def test_the_librarys_own_folder_is_declined(library):
    for path in (library.folder, library.folder / "below"):
        with pytest.raises(UsageError, match="never indexed"):
            library.index([path])


def test_a_full_disk_is_told_and_waited_for(monkeypatch):
    monkeypatch.setattr(refreshing, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(refreshing, "LONGEST_PAUSE_SECONDS", 0.02)
    left = [DiskFull("the disk is full")] * 3

    def run():
        if left:
            raise left.pop()
        return IndexReport("notes", new=1)

    *told, last = refreshing.patiently(run, "notes", CancelToken())
    assert last.new == 1 and len(told) == 3
    assert all("disk is full" in report.notices[0] and "again" in report.notices[0] for report in told)


def test_waiting_for_room_ends_when_it_is_cancelled():
    cancel = CancelToken()

    def run():
        raise DiskFull("the disk is full")

    reports = refreshing.patiently(run, None, cancel)
    assert next(reports).notices
    cancel.cancel()
    assert list(reports) == []
