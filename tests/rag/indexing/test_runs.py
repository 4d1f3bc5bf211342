"""What a run of the indexer does and costs, and what an interrupted, failing or dry one leaves."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from edited_folder import add, counts, delete, edit, rename_folder
from libraries import open_library, passages, write
from slotrag import SlotragError
from slotrag.rag import scanning
from slotrag.rag.events import Cancelled, CancelToken


def test_first_run(library, docs, calls):
    report = library.index([docs])
    assert counts(report) == {"new": 4}
    assert report.passages == report.encoded == calls() > 0
    assert not report.skipped and not report.notices
    hit = library.search("who built the old bridge").hits[0]
    assert (hit.path, hit.absolute_path) == ("bridges.md", str(docs / "bridges.md"))
    assert (docs / "bridges.md").read_text()[hit.chars[0] : hit.chars[1]] == hit.text


def test_second_run_encodes_nothing(library, docs, calls):
    library.index([docs])
    calls()
    report = library.index()
    assert counts(report) == {"unchanged": 4} and report.encoded == 0 == calls()
    assert report.passages > 0


def test_touched_files_are_not_encoded_and_not_opened_again(library, docs, calls, monkeypatch):
    library.index([docs])
    calls()
    for path in docs.rglob("*.*"):
        os.utime(path, (1_600_000_000, 1_600_000_000))
        path.chmod(0o640)
    settle(monkeypatch)
    assert counts(library.index()) == {"unchanged": 4} and calls() == 0
    opened = []
    monkeypatch.setattr("slotrag.rag.scanning.content_hash", lambda path, *_: opened.append(path))
    assert counts(library.index()) == {"unchanged": 4} and opened == []


def test_a_change_that_keeps_size_and_time_is_seen(library, docs, fresh, monkeypatch):
    """As of a copy that keeps times, and as of an editor that writes in place and puts the time back."""
    tin, other = docs / "metals/tin.txt", docs / "metals/other.txt"
    other.write_bytes(tin.read_bytes().replace(b"Tin", b"Tan"))
    for path in (tin, other):
        os.utime(path, (1_600_000_000, 1_600_000_000))
    settle(monkeypatch)
    library.index([docs])
    tin.rename(docs / "aside"), other.rename(tin), (docs / "aside").rename(other)
    assert counts(library.index()) == {"renamed": 2, "unchanged": 3}
    fresh(library, docs)
    tin.write_bytes(tin.read_bytes().replace(b"Tan", b"Ten"))
    os.utime(tin, (1_600_000_000, 1_600_000_000))
    assert counts(library.index()) == {"updated": 1, "unchanged": 4}
    fresh(library, docs)


@pytest.mark.parametrize("unknown", [None, 0])
def test_what_is_not_known_of_a_file_is_looked_up_once(library, docs, calls, monkeypatch, unknown):
    """Libraries of earlier versions hold no time of status; some file systems have none, or no numbers."""
    settle(monkeypatch)
    library.index([docs])
    calls()
    catalog = library._catalog
    held = catalog.documents(catalog.collection().id)
    catalog.touch_documents([(d.id, replace(d.stamp, ctime_ns=unknown, inode=unknown)) for d in held])
    opened, real = [], scanning.content_hash
    monkeypatch.setattr(scanning, "content_hash", lambda path, *rest: (opened.append(path), real(path, *rest))[1])
    for _ in range(2):
        assert counts(library.index()) == {"unchanged": 4} and calls() == 0
    assert len(opened) == (4 if unknown is None else 0)


def settle(monkeypatch):
    """Let no file count as changed just now."""
    monkeypatch.setattr(scanning, "_RECENT_NANOSECONDS", -(10**18))


def test_an_edit_of_the_same_size_within_the_clocks_step_is_seen(library, docs, fresh):
    library.index([docs])
    path = docs / "metals/tin.txt"
    stamp = path.stat().st_mtime_ns
    path.write_text(path.read_text().replace("232", "233"))
    os.utime(path, ns=(stamp, stamp))
    assert counts(library.index()) == {"updated": 1, "unchanged": 3}
    fresh(library, docs)


def test_dry_run_tells_and_does_nothing(library, docs, calls):
    planned = library.index([docs], dry_run=True)
    assert planned.new == 4 and calls() == 0 and library.status().collections == []
    library.index([docs])
    delete(docs), edit(write(docs, {"penguins.txt": "x"})), add(docs), rename_folder(docs)
    before = passages(library)
    report = library.index(dry_run=True)
    actions = {(action, Path(path).name) for action, path, _ in report.planned}
    assert {("new", "zinc.txt"), ("updated", "penguins.txt"), ("renamed", "tin.txt")} <= actions
    assert all(reason for _, _, reason in report.planned)
    assert passages(library) == before
    done = library.index()
    assert counts(done) == counts(report)


def test_progress_reaches_the_end_and_names_the_stages(library, docs):
    events = []
    library.index([docs], progress=events.append)
    assert {"scan", "read", "encode", "index"} <= {event.stage for event in events}
    encode = [event for event in events if event.stage == "encode"]
    assert encode[-1].done == encode[-1].total == 4


def test_cancelling_keeps_what_is_there_and_the_next_run_goes_on(library, tmp_path, calls, monkeypatch, fresh):
    from slotrag.rag import indexing

    monkeypatch.setattr(indexing, "BATCH_TEXTS", 5)
    docs = write(tmp_path / "many", {f"{n:03}.txt": f"Note {n} about topic {n * 7}." for n in range(40)})
    cancel = CancelToken()

    def listener(event):
        if event.stage == "encode" and event.done >= 10:
            cancel.cancel()

    with pytest.raises(Cancelled):
        library.index([docs], progress=listener, cancel=cancel)
    encoded = calls()
    assert 10 <= encoded < 40
    (status,) = library.collections()
    assert status.pending == 40
    report = library.index()
    assert report.new == 40 and report.encoded == calls() == 40 - encoded
    assert library.collections()[0].pending == 0
    fresh(library, docs)


def test_windows_and_transactions_of_any_size_give_the_same(tmp_path, docs, hashing_encoder, monkeypatch, fresh):
    from slotrag.rag import indexing

    for name in ("WINDOW_PASSAGES", "BATCH_TEXTS", "TRANSACTION_PASSAGES"):
        monkeypatch.setattr(indexing, name, 1)
    with open_library(tmp_path / "small-steps") as library:
        assert library.index([docs]).new == 4
        monkeypatch.undo()
        fresh(library, docs)


def test_a_killed_runs_pending_files_that_vanish_are_forgotten(library, docs, monkeypatch):
    from slotrag.rag.indexing import Indexer

    def die(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(Indexer, "_flush", die)
    with pytest.raises(KeyboardInterrupt):
        library.index([docs])
    assert library.collections()[0].pending == 4
    monkeypatch.undo()
    delete(docs)
    report = library.index()
    assert counts(report) == {"new": 3} and library.collections()[0].pending == 0


def test_a_failing_encoder_leaves_the_library_whole(library, docs, monkeypatch, fresh):
    encoder = library._shared().shelf.get("hashing")

    def fail(texts):
        raise SlotragError("the model broke")

    monkeypatch.setattr(encoder, "encode_documents", fail)
    with pytest.raises(SlotragError, match="broke"):
        library.index([docs])
    monkeypatch.undo()
    assert counts(library.index()) == {"new": 4}
    fresh(library, docs)


def test_a_file_that_changes_between_its_look_and_its_reading_is_looked_at_again(
    tmp_path, hashing_encoder, monkeypatch
):
    """Even where it changes back: what was stored is what was read, not what was hashed."""
    import slotrag.rag.readers as readers_module

    docs = write(tmp_path / "docs", {"a.md": "Copper mines."})
    read_parts = readers_module.read_parts

    def switched(path):
        write(docs, {"a.md": "Silver mines."})
        yield from list(read_parts(path))
        write(docs, {"a.md": "Copper mines."})
        monkeypatch.setattr(readers_module, "read_parts", read_parts)

    with open_library(tmp_path / "library") as library:
        monkeypatch.setattr(readers_module, "read_parts", switched)
        library.index([docs])
        assert library.search("silver", mode="lexical").hits
        library.index([docs])
        assert not library.search("silver", mode="lexical").hits
        assert library.search("copper", mode="lexical").hits
        assert library.index([docs]).encoded == 0


@pytest.mark.parametrize("moment", ["scanning.content_hash", "indexing.Indexer._prepare"])
def test_a_file_that_goes_while_a_run_is_at_it_is_not_told(library, docs, fresh, monkeypatch, moment):
    library.index([docs])
    write(docs, {"short.txt": "Not for long."})
    path, name = docs / "short.txt", f"slotrag.rag.{moment}"
    module, _, function = moment.partition(".")
    from slotrag.rag import indexing

    owner = scanning if module == "scanning" else indexing.Indexer
    real = getattr(owner, function.rpartition(".")[2])

    def after_it_went(*arguments):
        path.unlink(missing_ok=True)
        return real(*arguments)

    monkeypatch.setattr(name, after_it_went)
    report = library.index()
    assert report.skipped == [] and counts(report) == {"unchanged": 4}
    monkeypatch.undo()
    assert counts(library.index()) == {"unchanged": 4}
    fresh(library, docs)
