"""Folders that are followed: every kind of change is searchable soon after, and nothing runs without one."""

from __future__ import annotations

import os
import queue
import shutil
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest
from libraries import assert_same, open_library, write
from slotrag.rag.events import CancelToken
from slotrag.rag.watching import Changes, follow

PATIENCE = 30.0
"""Seconds; far more than a change takes, for a machine that is busy."""


class Watched:
    """A library that follows paths in a thread of its own."""

    def __init__(self, folder: Path, *paths: Path, **options) -> None:
        self.library = open_library(folder)
        self.cancel = CancelToken()
        self.reports: queue.Queue = queue.Queue()
        self._arguments = (paths, options)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        paths, options = self._arguments
        try:
            for report in self.library.watch(list(paths), cancel=self.cancel, **options):
                self.reports.put(report)
        except BaseException as error:
            self.reports.put(error)

    def __enter__(self):
        self._thread.start()
        self.first = self.next()
        return self

    def __exit__(self, *details) -> None:
        self.cancel.cancel()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the watch did not end"
        self.library.close()

    def next(self, until=lambda report: True):
        """The next report that `until` accepts; those before it are kept in `passed`."""
        self.passed = []
        end = time.monotonic() + PATIENCE
        while (left := end - time.monotonic()) > 0:
            report = self.reports.get(timeout=left)
            if isinstance(report, BaseException):
                raise report
            if until(report):
                return report
            self.passed.append(report)
        raise AssertionError("no such report")

    def settle(self) -> list:
        """Wait until runs have stopped; what they reported."""
        found = []
        while True:
            try:
                found.append(self.reports.get(timeout=2.0))
            except queue.Empty:
                return found

    def finds(self, word: str) -> set[str]:
        return {Path(hit.path).name for hit in self.library.search(word, k=50, mode="lexical").hits}


@pytest.fixture
def docs(tmp_path):
    return write(tmp_path / "docs", {"a.md": "Copper mines.", "b.md": "Penguin rocks.", "deep/c.md": "Granite walls."})


@pytest.fixture
def watched(tmp_path, docs, hashing_encoder):
    with Watched(tmp_path / "library", docs) as watched:
        assert watched.first.new == 3
        yield watched


def saved_by_rename(path: Path, text: str) -> None:
    """What vim and many others do: write a new file, then put it in the old one's place."""
    new = path.with_name(path.name + ".tmp~")
    new.write_text(text)
    new.replace(path)


def test_edit_save_by_rename_and_new_file(watched, docs):
    (docs / "a.md").write_text("Silver mines.")
    assert watched.next(lambda report: report.changed).updated == 1
    assert watched.finds("silver") == {"a.md"}
    assert not watched.finds("copper")
    saved_by_rename(docs / "b.md", "Walrus rocks.")
    assert watched.next(lambda report: report.changed).updated == 1
    assert watched.finds("walrus") == {"b.md"}
    write(docs / "fresh" / "folder", {"d.md": "Basalt columns."})
    assert watched.next(lambda report: report.changed).new == 1
    assert watched.finds("basalt") == {"d.md"}
    (docs / "fresh" / "folder" / "d.md").write_text("Gneiss columns.")
    watched.next(lambda report: report.updated)
    assert watched.finds("gneiss") == {"d.md"}


def test_renames_of_files_and_folders_encode_nothing(watched, docs):
    (docs / "a.md").rename(docs / "renamed.md")
    report = watched.next(lambda report: report.changed)
    assert (report.renamed, report.removed, report.new, report.encoded) == (1, 0, 0, 0)
    (docs / "deep").rename(docs / "elsewhere")
    report = watched.next(lambda report: report.changed)
    assert (report.renamed, report.removed, report.new, report.encoded) == (1, 0, 0, 0)
    assert watched.finds("granite") == {"c.md"}
    (docs / "elsewhere" / "c.md").unlink()
    assert watched.next(lambda report: report.changed).removed == 1
    assert not watched.finds("granite")


def test_rules_are_followed_too(watched, docs):
    (docs / ".gitignore").write_text("deep/\n")
    assert watched.next(lambda report: report.changed).removed == 1
    (docs / ".gitignore").unlink()
    assert watched.next(lambda report: report.changed).new == 1


def test_many_changes_end_as_a_fresh_library(watched, docs, tmp_path):
    for number in range(40):
        write(docs / f"part{number % 4}", {f"{number}.md": f"Note {number} about copper."})
        if number % 3 == 0:
            (docs / f"part{number % 4}" / f"{number}.md").rename(docs / f"moved{number}.md")
        if number % 5 == 0:
            saved_by_rename(docs / "a.md", f"Version {number} about copper.")
    shutil.rmtree(docs / "part1")
    watched.settle()
    with open_library(tmp_path / "fresh") as fresh:
        fresh.index([docs])
        assert_same(watched.library, fresh, ["copper", "note 7"])


def test_nothing_runs_without_a_change(watched, docs):
    watched.settle()
    (docs / "a.md").read_text()
    write(docs / ".git", {"index": "x"})
    os.utime(docs / ".git" / "index")
    (docs / "a.md").stat()
    assert [r for r in watched.settle() if r.changed or r.encoded] == []


def test_library_inside_the_folder_is_no_change(tmp_path, docs, hashing_encoder):
    with Watched(docs / "library", docs) as watched:
        watched.settle()
        (docs / "a.md").write_text("Silver mines.")
        watched.next(lambda report: report.changed)
        watched.settle()
        assert watched.settle() == []


def test_folder_that_goes_and_comes_back(watched, docs, tmp_path):
    docs.rename(tmp_path / "unplugged")
    report = watched.next(lambda report: report.notices)
    assert "not there" in report.notices[0]
    assert report.removed == 0
    assert watched.finds("copper") == {"a.md"}
    (tmp_path / "unplugged").rename(docs)
    watched.next(lambda report: not report.notices)
    (docs / "a.md").write_text("Silver mines.")
    watched.next(lambda report: report.updated)
    assert watched.finds("silver") == {"a.md"}


def test_single_file(tmp_path, docs, hashing_encoder):
    with Watched(tmp_path / "library", docs / "a.md") as watched:
        saved_by_rename(docs / "a.md", "Silver mines.")
        watched.next(lambda report: report.updated)
        saved_by_rename(docs / "a.md", "Golden mines.")
        watched.next(lambda report: report.updated)
        assert watched.finds("golden") == {"a.md"}
        (docs / "b.md").write_text("Another.")
        assert [report for report in watched.settle() if report.changed] == []


def test_part_of_a_followed_folder_refreshes_its_source(tmp_path, docs, hashing_encoder):
    with open_library(tmp_path / "library") as library:
        library.index([docs])
    with Watched(tmp_path / "library", docs / "deep") as watched:
        shutil.rmtree(docs / "deep")
        watched.next(lambda report: report.removed)
        assert not watched.finds("granite")
        write(docs / "deep", {"e.md": "Marble floors."})
        watched.next(lambda report: report.new)
        assert watched.finds("marble") == {"e.md"}


def test_searchable_within_three_seconds(watched, docs):
    watched.settle()
    (docs / "a.md").write_text("Silver mines.")
    started = time.monotonic()
    watched.next(lambda report: report.changed)
    assert watched.finds("silver") == {"a.md"}
    assert time.monotonic() - started < 3


def test_errors_of_the_first_run_reach_the_caller(tmp_path, hashing_encoder):
    from slotrag import SlotragError, UsageError

    with open_library(tmp_path / "library") as library:
        with pytest.raises(UsageError, match="no file or folder"):
            next(library.watch([tmp_path / "none"]))
        with pytest.raises(SlotragError, match="name one"):
            next(library.watch())


def test_a_run_that_is_slow_is_followed_by_a_rest(tmp_path):
    write(tmp_path, {"a.md": "x"})
    cancel, starts = CancelToken(), []

    def run() -> None:
        starts.append(time.monotonic())
        (tmp_path / "a.md").write_text(str(len(starts)))  # a folder that never comes to rest
        time.sleep(0.4)
        if len(starts) == 3:
            cancel.cancel()

    for _ in follow(run, [str(tmp_path)], cancel=cancel):
        pass
    assert len(starts) == 3
    assert all(later - earlier > 1.1 for earlier, later in pairwise(starts))


def test_looks_by_itself_after_a_while(tmp_path):
    cancel, runs = CancelToken(), []
    for _ in follow(lambda: runs.append(1), [str(tmp_path)], cancel=cancel, rescan_seconds=0.5):
        if len(runs) == 3:
            cancel.cancel()
    assert len(runs) == 3


def test_waiting_ends_when_cancelled(tmp_path):
    cancel = CancelToken()
    threading.Timer(0.3, cancel.cancel).start()
    started = time.monotonic()
    with Changes([str(tmp_path)]) as changes:
        assert not changes.wait(cancel, 60)
    assert time.monotonic() - started < 5


def test_missing_folder_that_appears(tmp_path):
    later = tmp_path / "later"
    with Changes([str(later)]) as changes:
        threading.Timer(0.3, later.mkdir).start()
        assert changes.wait(CancelToken(), PATIENCE)
        (later / "a.md").write_text("x")
        assert changes.wait(CancelToken(), PATIENCE)


def test_command_prints_each_change_and_ends_with_ctrl_c(tmp_path, docs, plugin_path):
    import json
    import signal

    environment = os.environ | {
        "PYTHONPATH": str(plugin_path), "SLOTRAG_ENCODER": "hashing", "SLOTRAG_CONFIG": str(tmp_path / "none.toml"),
    }  # fmt: skip
    command = [
        sys.executable, "-c", "from slotrag.tui.cli import main; main()",
        "--library", str(tmp_path / "library"), "index", str(docs), "--watch", "--json",
    ]  # fmt: skip
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=tmp_path
    )
    try:
        assert json.loads(process.stdout.readline())["new"] == 3
        (docs / "a.md").write_text("Silver mines.")
        assert json.loads(process.stdout.readline())["updated"] == 1
        process.send_signal(signal.SIGINT)
        rest, said = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert rest == ""
    assert process.returncode == 130
    assert "watching for changes" in said
    assert "Traceback" not in said
