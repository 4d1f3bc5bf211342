"""Which folders and files a run is about: sources, parts of them, nested ones, rules, names."""

import os
from pathlib import Path

import pytest
from edited_folder import counts, edit, shrink
from libraries import documents, open_library, passages, write
from slotrag import UsageError
from slotrag.rag.errors import NothingToIndex
from slotrag.rag.folders import SourceMissing


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
