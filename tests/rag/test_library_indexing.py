"""Keeping an index true: what a run does, what it costs, and that the result is a fresh library's."""

import os
import shutil
from pathlib import Path

import pytest
from libraries import assert_same, documents, open_library, passages, write
from slotrag import SlotragError, UsageError
from slotrag.rag.errors import FingerprintMismatch, NothingToIndex
from slotrag.rag.events import Cancelled, CancelToken
from slotrag.rag.folders import SourceMissing

FILES = {
    "bridges.md": "# Bridges\n\nThe old bridge was built in 1873 by Anna Keller.\n\n## Repairs\n\nRepaired in 1950.\n",
    "penguins.txt": "Penguins live in the south and eat fish.\n",
    "metals/copper.txt": "Copper melts at 1085 degrees.\n\nIron melts at 1538 degrees.\n",
    "metals/tin.txt": "Tin melts at 232 degrees.\n",
}
QUERIES = ["old bridge repaired", "melts at degrees", "penguins fish south"]


@pytest.fixture
def docs(tmp_path):
    return write(tmp_path / "docs", FILES)


@pytest.fixture
def library(tmp_path, hashing_encoder):
    with open_library(tmp_path / "library") as library:
        yield library


@pytest.fixture
def fresh(tmp_path, hashing_encoder):
    """Checks a library against one built from scratch."""
    made = []

    def check(library, *folders):
        with open_library(tmp_path / f"fresh-{len(made)}") as other:
            made.append(other)
            other.index(folders)
            assert_same(library, other, QUERIES)

    return check


@pytest.fixture
def calls(hashing_encoder):
    """Number of texts encoded since it was last asked."""
    from importlib.metadata import entry_points

    (point,) = entry_points(group="slotrag.encoders", name="hashing")
    encoder = point.load()
    encoder.calls = 0

    def since():
        count, encoder.calls = encoder.calls, 0
        return count

    return since


def counts(report):
    return {
        name: getattr(report, name)
        for name in ("new", "updated", "unchanged", "removed", "renamed")
        if getattr(report, name)
    }


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


def test_touched_files_are_not_encoded_and_not_opened_again(library, docs, calls, fresh):
    library.index([docs])
    calls()
    for path in docs.rglob("*.*"):
        os.utime(path, (1_600_000_000, 1_600_000_000))
    assert counts(library.index()) == {"unchanged": 4} and calls() == 0
    for path in docs.rglob("*.*"):
        content = path.read_bytes()
        path.write_bytes(b"x" * len(content))
        os.utime(path, (1_600_000_000, 1_600_000_000))
    assert counts(library.index()) == {"unchanged": 4}, "same size and an old time: taken for unchanged"


def test_an_edit_of_the_same_size_within_the_clocks_step_is_seen(library, docs, fresh):
    library.index([docs])
    path = docs / "metals/tin.txt"
    stamp = path.stat().st_mtime_ns
    path.write_text(path.read_text().replace("232", "233"))
    os.utime(path, ns=(stamp, stamp))
    assert counts(library.index()) == {"updated": 1, "unchanged": 3}
    fresh(library, docs)


def edit(docs):
    (docs / "penguins.txt").write_text("Penguins live in the north now.\n\nThey eat krill.\n")


def shrink(docs):
    (docs / "metals/copper.txt").write_text("Copper melts at 1085 degrees.\n")


def empty(docs):
    (docs / "penguins.txt").write_text("")


def delete(docs):
    (docs / "penguins.txt").unlink()


def delete_everything(docs):
    shutil.rmtree(docs)
    docs.mkdir()


def add(docs):
    write(docs, {"new/zinc.txt": "Zinc melts at 420 degrees."})


def overwrite_by_another(docs):
    (docs / "metals/tin.txt").replace(docs / "penguins.txt")


def move_and_write_anew(docs):
    (docs / "penguins.txt").rename(docs / "birds.txt")
    (docs / "penguins.txt").write_text("Not about birds any more.")


def copy(docs):
    shutil.copy(docs / "penguins.txt", docs / "metals/penguins.txt")


def folder_in_place_of_file(docs):
    (docs / "penguins.txt").unlink()
    write(docs, {"penguins.txt/real.txt": "Penguins live in the south and eat fish.\n"})


@pytest.mark.parametrize(
    ("change", "expected", "encoded"),
    [
        (edit, {"updated": 1, "unchanged": 3}, None),
        (shrink, {"updated": 1, "unchanged": 3}, None),
        (empty, {"updated": 1, "unchanged": 3}, 0),
        (delete, {"removed": 1, "unchanged": 3}, 0),
        (delete_everything, {"removed": 4}, 0),
        (add, {"new": 1, "unchanged": 4}, 1),
        (overwrite_by_another, {"renamed": 1, "removed": 1, "unchanged": 2}, 0),
        (move_and_write_anew, {"renamed": 1, "new": 1, "unchanged": 3}, 1),
        (copy, {"new": 1, "unchanged": 4}, 0),
        (folder_in_place_of_file, {"renamed": 1, "unchanged": 3}, 0),
    ],
)
def test_a_change_gives_what_a_fresh_library_holds(library, docs, calls, fresh, change, expected, encoded):
    library.index([docs])
    library.search("warm up the index that is kept open")
    calls()
    change(docs)
    report = library.index()
    assert counts(report) == expected
    assert report.encoded == calls()
    if encoded is not None:
        assert report.encoded == encoded
    fresh(library, docs)
    assert counts(library.index()).keys() <= {"unchanged"}


def rename(docs):
    (docs / "penguins.txt").rename(docs / "birds.txt")
    return "penguins.txt"


def move(docs):
    (docs / "metals/tin.txt").rename(docs / "tin.txt")
    return "metals/tin.txt"


def rename_folder(docs):
    (docs / "metals").rename(docs / "elements")
    return "metals/*"


@pytest.mark.parametrize("change", [rename, move, rename_folder])
def test_renaming_costs_nothing_and_the_old_path_is_never_cited(library, docs, calls, fresh, change):
    library.index([docs])
    calls()
    old = change(docs)
    report = library.index()
    assert report.renamed == (2 if "*" in old else 1) and not report.new and not report.removed
    assert report.encoded == 0 == calls()
    for query in QUERIES:
        for mode in ("hybrid", "dense", "lexical"):
            for hit in library.search(query, k=100, mode=mode).hits:
                assert Path(hit.absolute_path).exists() and all(Path(copy).exists() for copy in hit.copies)
    fresh(library, docs)


def test_swapping_two_files(library, docs, calls, fresh):
    library.index([docs])
    calls()
    first, second, aside = docs / "penguins.txt", docs / "metals/tin.txt", docs / "aside.txt"
    first.rename(aside), second.rename(first), aside.rename(second)
    report = library.index()
    assert counts(report) == {"renamed": 2, "unchanged": 2} and calls() == 0
    assert library.search("penguins fish").hits[0].path == "metals/tin.txt"
    fresh(library, docs)


def test_another_suffix_may_mean_another_reader(library, docs, calls, fresh):
    library.index([docs])
    (docs / "bridges.md").rename(docs / "bridges.txt")
    assert counts(library.index()) == {"renamed": 1, "unchanged": 3}
    fresh(library, docs)


def test_one_edit_in_a_hundred_keeps_the_others_ids(library, tmp_path, fresh):
    docs = write(tmp_path / "many", {f"{n:03}.txt": f"Note number {n} about topic {n * 7}." for n in range(100)})
    library.index([docs])
    before = {hit.path: hit.passage_id for hit in library.search("note topic", k=100, mode="dense").hits}
    (docs / "042.txt").write_text("Something else entirely, at last.")
    report = library.index()
    assert counts(report) == {"updated": 1, "unchanged": 99} and report.encoded == 1
    after = {hit.path: hit.passage_id for hit in library.search("note topic", k=100, mode="dense").hits}
    assert len(after) == 100 and all(after[path] == before[path] for path in after if path != "042.txt")
    fresh(library, docs)


def test_equal_texts_share_a_vector_and_every_file_is_named(library, tmp_path, calls):
    paragraph = "Penguins live in the south and eat fish."
    docs = write(tmp_path / "twins", {"a.txt": paragraph, "b.txt": paragraph, "sub/c.txt": paragraph})
    assert library.index([docs]).encoded == 1 == calls()
    (hit,) = library.search("penguins").hits
    assert {hit.absolute_path, *hit.copies} == {str(docs / name) for name in ("a.txt", "b.txt", "sub/c.txt")}


def test_the_same_paragraph_twice_in_a_file_is_encoded_once(library, tmp_path, calls):
    table = "## Fees\n\nThe fee is 100 won.\n\n"
    docs = write(tmp_path / "twice", {"a.md": table + "## Rules\n\nNo dogs.\n\n" + table})
    report = library.index([docs])
    assert report.passages == 3 and report.encoded == 2 == calls()


def test_same_names_in_two_folders_are_two_documents(library, tmp_path):
    docs = write(
        tmp_path / "docs2", {"a/README.md": "Install the apple tool.", "b/README.md": "Install the pear tool."}
    )
    library.index([docs])
    assert {hit.path for hit in library.search("install tool").hits} == {"a/README.md", "b/README.md"}


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


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
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


def test_a_missing_folder_is_declined_and_nothing_is_forgotten(library, docs, tmp_path):
    library.index([docs])
    docs.rename(tmp_path / "away")
    report = library.index()
    assert any(str(docs) in notice and "kept" in notice for notice in report.notices)
    assert len(passages(library)) > 0
    with pytest.raises(SourceMissing, match="slotrag remove"):
        library.index([docs])
    (tmp_path / "away").rename(docs)
    assert counts(library.index()) == {"unchanged": 4}


def test_a_path_that_never_was(library, docs):
    with pytest.raises(UsageError, match="no file or folder"):
        library.index([docs / "nothing"])
    library.index([docs])
    with pytest.raises(UsageError, match="no file or folder"):
        library.index([docs / "nothing"])


def test_nothing_followed_yet(library):
    with pytest.raises(NothingToIndex, match="slotrag index FOLDER"):
        library.index()


def test_a_single_file_as_a_source(library, docs, fresh):
    path = docs / "penguins.txt"
    library.index([path])
    assert [name for name, _, _ in documents(library)] == ["penguins.txt"]
    edit(docs)
    assert counts(library.index()) == {"updated": 1}
    fresh(library, path)
    path.unlink()
    assert counts(library.index()) == {"removed": 1}
    assert documents(library) == [] and library.collections()[0].sources == []


def test_patterns_hold_for_named_files_as_a_shell_gives_them(library, docs, fresh):
    named = sorted(docs.iterdir())
    report = library.index(named, exclude=["*.txt"])
    assert counts(report) == {"new": 1} and "3 excluded" in report.notices[0], "also inside the folder metals"
    assert {Path(source.path).name for source in library.collections()[0].sources} == {"bridges.md", "metals"}
    assert counts(library.index()) == {"unchanged": 1}
    assert counts(library.index([docs / "penguins.txt"], include=["*.txt"])) == {"new": 1}
    report = library.index([docs / "penguins.txt"], include=["*.md"])
    assert counts(report) == {"removed": 1} and "1 not included" in report.notices[0]
    assert counts(library.index()) == {"unchanged": 1}


def test_a_file_moves_from_one_source_to_another(library, tmp_path, calls, fresh):
    one = write(tmp_path / "one", {"a.txt": "Copper melts at 1085 degrees."})
    two = write(tmp_path / "two", {"b.txt": "Tin melts at 232 degrees."})
    library.index([one, two])
    calls()
    (one / "a.txt").rename(two / "a.txt")
    assert counts(library.index([two])) == {"renamed": 1, "unchanged": 1} and calls() == 0
    assert counts(library.index()) == {"unchanged": 2}
    fresh(library, one, two)


def test_a_path_inside_a_source_refreshes_that_part(library, docs):
    library.index([docs])
    edit(docs), shrink(docs)
    assert counts(library.index([docs / "metals"])) == {"updated": 1, "unchanged": 1}
    assert counts(library.index([docs / "penguins.txt"])) == {"updated": 1}
    assert [source.path for source in library.collections()[0].sources] == [str(docs)]
    (docs / "metals/tin.txt").unlink()
    assert counts(library.index([docs / "metals/tin.txt"])) == {"removed": 1}


def test_a_parent_takes_its_child_in(library, docs, calls, fresh):
    library.index([docs / "metals"])
    calls()
    report = library.index([docs])
    assert counts(report) == {"new": 2, "unchanged": 2}
    assert [source.path for source in library.collections()[0].sources] == [str(docs)]
    fresh(library, docs)
    assert counts(library.index()) == {"unchanged": 4}


def test_a_child_with_rules_of_its_own_keeps_its_files(library, docs):
    library.index([docs / "metals"], exclude=["tin.txt"])
    library.index([docs])
    assert [name for name, _, _ in documents(library)] == ["bridges.md", "copper.txt", "penguins.txt"]
    assert counts(library.index()) == {"unchanged": 3}


def test_include_and_exclude_are_remembered(library, docs):
    library.index([docs], exclude=["metals/"])
    write(docs, {"metals/new.txt": "New metal.", "new.txt": "New text."})
    assert counts(library.index()) == {"new": 1, "unchanged": 2}
    assert counts(library.index([docs], include=["*.md"])) == {"unchanged": 1, "removed": 2}
    assert counts(library.index([docs])) == {"unchanged": 1}


def test_hidden_files_on_demand(library, docs):
    write(docs, {".secret.txt": "A hidden note."})
    assert library.index([docs]).new == 4
    assert counts(library.index([docs], hidden=True)) == {"new": 1, "unchanged": 4}
    assert counts(library.index()) == {"unchanged": 5}


def test_the_library_folder_is_never_indexed(docs, hashing_encoder):
    with open_library(docs / "library") as library:
        write(docs, {"library/notes.txt": "Inside the library."})
        assert library.index([docs]).new == 4


def test_an_explicitly_named_part_that_rules_leave_out_is_said_so(library, docs):
    write(docs, {".hidden/a.txt": "x"})
    library.index([docs])
    report = library.index([docs / ".hidden"])
    assert any("leave it out" in notice for notice in report.notices)


def test_links_and_spellings_lead_to_one_source(library, docs, tmp_path, monkeypatch):
    (tmp_path / "link").symlink_to(docs)
    library.index([tmp_path / "link"])
    monkeypatch.chdir(docs)
    assert counts(library.index(["."])) == {"unchanged": 4}
    assert counts(library.index([docs, docs / "metals", docs])) == {"unchanged": 4}


def test_names_that_are_no_unicode_or_in_another_form(library, tmp_path):
    docs = tmp_path / "names"
    docs.mkdir()
    decomposed = "회의록.txt"
    (docs / decomposed).write_text("Minutes of the meeting about copper.")
    odd = os.fsencode(docs) + b"/caf\xe9.txt"
    Path(os.fsdecode(odd)).write_bytes(b"Coffee about tin.")
    assert library.index([docs]).new == 2
    (hit,) = library.search("minutes meeting", path="회의록.txt").hits
    assert hit.absolute_path == str(docs / decomposed) and Path(hit.absolute_path).exists()
    hit = library.search("coffee").hits[0]
    assert os.fsencode(hit.absolute_path) == odd
    assert counts(library.index()) == {"unchanged": 2}


def test_another_encoder_is_refused_with_both_fingerprints_and_the_command(library, docs):
    library.index([docs])
    before = passages(library)
    with pytest.raises(FingerprintMismatch) as caught:
        library.index([docs], encoder="hashing:seed=1")
    stored = library.collections()[0].fingerprint
    message = str(caught.value)
    assert stored in message and "slotrag rebuild --collection default --encoder hashing:seed=1" in message
    assert len({word for word in message.replace(")", " ").split() if len(word) == 64}) == 2
    assert passages(library) == before
    library.index([docs], encoder="hashing")


def test_another_splitting_is_refused(library, docs, tmp_path):
    library.index([docs])
    library.close()
    with open_library(tmp_path / "library", passage_tokens=50) as other:
        with pytest.raises(FingerprintMismatch, match="slotrag rebuild --collection default"):
            other.index()
        assert other.search("bridge").hits
        assert other.rebuild().passages > 0
        assert counts(other.index()) == {"unchanged": 4}


def test_an_encoder_that_changed_under_its_name_is_refused(library, docs, monkeypatch):
    library.index([docs])
    encoder = library._shared().shelf.get("hashing")
    monkeypatch.setattr(encoder, "fingerprint", "f" * 64)
    with pytest.raises(FingerprintMismatch, match="f" * 64):
        library.search("bridge")
    with pytest.raises(FingerprintMismatch, match="f" * 64):
        library.index()
    assert library.search("bridge", mode="lexical").hits


@pytest.mark.parametrize("name", ["", " x", ".rebuild-1", "a\nb", "x" * 101])
def test_names_that_no_collection_can_have(library, docs, name):
    with pytest.raises(UsageError):
        library.index([docs], collection=name)


def test_several_collections(library, docs):
    library.index([docs], collection="one")
    library.index([docs / "metals"], collection="둘", encoder="hashing:dimension=32")
    assert [(c.name, c.is_default, c.dimension) for c in library.collections()] == [
        ("one", True, 64),
        ("둘", False, 32),
    ]
    assert {h.collection for h in library.search("tin", collection="둘").hits} == {"둘"}
    assert counts(library.index()) == {"unchanged": 4}


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
