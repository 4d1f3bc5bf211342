"""After any change of the files a run leaves what a library built from scratch holds, and encodes only what is new."""

from pathlib import Path

import pytest
from edited_folder import (
    QUERIES,
    add,
    copy,
    counts,
    delete,
    delete_everything,
    edit,
    empty,
    folder_in_place_of_file,
    move,
    move_and_write_anew,
    overwrite_by_another,
    rename,
    rename_folder,
    shrink,
)
from libraries import write


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
