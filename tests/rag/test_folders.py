"""Walking folders: ignore rules, links, what is no file, names in any spelling and bytes."""

from __future__ import annotations

import os
import unicodedata
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from slotrag import UsageError
from slotrag.rag.folders import FoundFile, SourceMissing, walk
from slotrag.rag.ignoring import MAXIMUM_RULES
from slotrag.rag.results import SkippedFile
from slotrag.storage.records import FileStamp


def make(top: Path, *names: str, text: str = "Words.\n") -> None:
    for name in names:
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def names(top: Path, **options: Any) -> list[str]:
    return [found.relative_path for found in walk(top, **options) if isinstance(found, FoundFile)]


def skipped(top: Path, **options: Any) -> list[SkippedFile]:
    return [found for found in walk(top, **options) if isinstance(found, SkippedFile)]


def test_files_in_the_order_of_their_names(tmp_path: Path) -> None:
    make(tmp_path, "b.txt", "a/z.txt", "a/b/c.txt", "c.md", "B.txt")
    assert names(tmp_path) == ["B.txt", "a/b/c.txt", "a/z.txt", "b.txt", "c.md"]


def test_what_is_known_of_a_file(tmp_path: Path) -> None:
    make(tmp_path, "a.txt")
    (found,) = walk(tmp_path)
    status = (tmp_path / "a.txt").stat()
    assert found == FoundFile.of(str(tmp_path / "a.txt"), "a.txt", status)
    assert found.stamp == FileStamp(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def test_a_file_as_the_source_is_taken_whatever_its_name_unless_patterns_leave_it_out(tmp_path: Path) -> None:
    make(tmp_path, ".gitignore", ".hidden.png", text="*.png")
    source = tmp_path / ".hidden.png"
    assert names(source) == [".hidden.png"]
    assert names(source, include=["*.png"], exclude=["*.md"]) == [".hidden.png"]
    for reason, rules in {"excluded": {"exclude": ["*.png"]}, "not included": {"include": ["*.md"]}}.items():
        left_out: Counter[str] = Counter()
        assert list(walk(source, **rules, left_out=left_out)) == [] and left_out == {reason: 1}


def test_hidden_names_and_folders_made_by_tools(tmp_path: Path) -> None:
    make(tmp_path, ".notes.txt", ".git/config", "node_modules/x/readme.md", "__pycache__/a.txt", "photo.png", "a.txt")
    left_out: Counter[str] = Counter()
    assert names(tmp_path, left_out=left_out) == ["a.txt"]
    assert left_out == {"hidden": 1, "version control": 1, "made by tools": 2, "binary by its name": 1}
    assert names(tmp_path, hidden=True) == [".notes.txt", "a.txt"]


def test_nested_ignore_files_and_negation(tmp_path: Path) -> None:
    make(
        tmp_path, "a.log", "keep.log", "sub/b.log", "sub/deep/c.log", "sub/deep/d.txt", "build/x.txt", "sub/build/y.txt"
    )
    (tmp_path / ".gitignore").write_text("*.log\n!keep.log\n/build/\n")
    (tmp_path / "sub" / ".gitignore").write_text("!b.log\ndeep/*.txt\n")
    assert names(tmp_path) == ["keep.log", "sub/b.log", "sub/build/y.txt"]


def test_nothing_below_an_ignored_folder_comes_back(tmp_path: Path) -> None:
    make(tmp_path, "out/keep.txt", "a.txt")
    (tmp_path / ".gitignore").write_text("out/\n!out/keep.txt\n")
    assert names(tmp_path) == ["a.txt"]


def test_ignore_rules_above_the_source_hold_in_a_repository_only(tmp_path: Path) -> None:
    make(tmp_path, "docs/a.log", "docs/a.txt")
    (tmp_path / ".gitignore").write_text("*.log\n")
    assert names(tmp_path / "docs") == ["a.log", "a.txt"]
    (tmp_path / ".git").mkdir()
    assert names(tmp_path / "docs") == ["a.txt"]


def test_a_broken_pattern_leaves_the_others_in_force(tmp_path: Path) -> None:
    make(tmp_path, "a.log", "a.txt")
    (tmp_path / ".gitignore").write_bytes(b"!\n[z-a].log\n*.log\nb\\\n\xff\xfe\n")
    assert names(tmp_path) == ["a.txt"]


def test_an_ignore_file_that_is_none_is_passed_over(tmp_path: Path) -> None:
    make(tmp_path, "fifo/a.log", "device/a.log", "folder/a.log", "large/a.log", "linked/a.log")
    os.mkfifo(tmp_path / "fifo" / ".gitignore")
    (tmp_path / "device" / ".gitignore").symlink_to("/dev/zero")
    (tmp_path / "folder" / ".gitignore").mkdir()
    (tmp_path / "large" / ".gitignore").write_bytes(b"*.log\n" + b"\n" * MAXIMUM_RULES)
    (tmp_path / "rules").write_text("*.log\n")
    (tmp_path / "linked" / ".gitignore").symlink_to("../rules")
    assert names(tmp_path) == ["device/a.log", "fifo/a.log", "folder/a.log", "large/a.log", "rules"]


@pytest.mark.parametrize("pattern", ["!", "a\\", "[z-a]"])
@pytest.mark.parametrize("option", ["include", "exclude"])
def test_a_broken_pattern_of_the_user_is_named(tmp_path: Path, pattern: str, option: str) -> None:
    with pytest.raises(UsageError, match="is no pattern"):
        walk(tmp_path, **{option: ["*.txt", pattern]})


def test_include_and_exclude(tmp_path: Path) -> None:
    make(tmp_path, "a.txt", "b.md", "sub/c.md", "drafts/d.md")
    assert names(tmp_path, include=["*.md"], exclude=["drafts/"]) == ["b.md", "sub/c.md"]


def test_links_that_loop_end(tmp_path: Path) -> None:
    make(tmp_path, "sub/a.txt")
    (tmp_path / "sub" / "up").symlink_to(tmp_path)
    (tmp_path / "self").symlink_to("self")
    (tmp_path / "nothing").symlink_to("missing.txt")
    for follow in (False, True):
        left_out: Counter[str] = Counter()
        assert names(tmp_path, follow_links=follow, left_out=left_out) == ["sub/a.txt"]
        assert left_out == {"link to a place in the folder": 1, "link to nothing": 2}


def test_links_that_leave_the_folder(tmp_path: Path) -> None:
    top, other = tmp_path / "top", tmp_path / "other"
    make(top, "a.txt")
    make(other, "b.txt", "sub/c.txt")
    (other / "back").symlink_to(top)
    (top / "file").symlink_to(other / "b.txt")
    (top / "folder").symlink_to(other)
    reported = skipped(top)
    assert [Path(item.path).name for item in reported] == ["file", "folder"]
    assert not any(item.failed for item in reported)
    assert [str(other / "b.txt") in reported[0].reason, str(other) in reported[1].reason] == [True, True]
    assert names(top) == ["a.txt"]
    followed = [os.path.realpath(item.path) for item in walk(top, follow_links=True) if isinstance(item, FoundFile)]
    assert {Path(path).name for path in followed} == {"a.txt", "b.txt", "c.txt"}


def test_a_name_that_begins_like_another_is_not_inside_it(tmp_path: Path) -> None:
    """Neither for a link in the folder, nor for one to a folder beside it, nor for one to a file."""
    make(tmp_path, "notes/sub/a.txt", "notes-old/b.txt", "notes.txt", "notes/sub-two/c.txt")
    top = tmp_path / "notes"
    (top / "sub" / "older").symlink_to(tmp_path / "notes-old")
    (top / "sub" / "file.txt").symlink_to(tmp_path / "notes.txt")
    (top / "sub-link").symlink_to(top / "sub-two")
    assert {Path(item.path).name for item in skipped(top)} == {"older", "file.txt"}
    assert names(top) == ["sub/a.txt", "sub-two/c.txt"]
    assert sorted(names(top, follow_links=True)) == ["sub-two/c.txt", "sub/a.txt", "sub/file.txt", "sub/older/b.txt"]


def test_whatever_rules_leave_out_comes_when_a_pattern_names_it(tmp_path: Path) -> None:
    left_out = {
        ".github/flow.yml": [".github/**"],
        ".env.txt": [".env.txt"],
        "node_modules/pad/readme.md": ["node_modules/pad/readme.md"],
        ".git/description": [".git/description"],
        "build/notes.txt": ["build/**"],
        "sub/photo.png": ["*.png"],
    }
    make(tmp_path, *left_out, "a.txt")
    (tmp_path / ".gitignore").write_text("build/\n")
    assert names(tmp_path) == ["a.txt"]
    for name, patterns in left_out.items():
        assert names(tmp_path, include=patterns) == [name]
        assert name in names(tmp_path, include=[*patterns, "a.txt"], hidden=True)


def test_followed_links_give_no_real_file_twice(tmp_path: Path) -> None:
    top, other = tmp_path / "top", tmp_path / "other"
    make(top, "a.txt")
    make(other, "b.txt")
    for name in ("one", "two"):
        (top / name).symlink_to(other)
    (top / "file").symlink_to(other / "b.txt")
    followed = [os.path.realpath(item.path) for item in walk(top, follow_links=True) if isinstance(item, FoundFile)]
    assert sorted(followed) == sorted(set(followed))


def test_a_link_to_a_folder_above_is_not_followed(tmp_path: Path) -> None:
    make(tmp_path, "top/a.txt", "outside.txt")
    (tmp_path / "top" / "above").symlink_to(tmp_path)
    assert names(tmp_path / "top", follow_links=True) == ["a.txt"]


@pytest.mark.timeout(20)
def test_a_pipe_is_never_opened(tmp_path: Path) -> None:
    make(tmp_path, "a.txt")
    os.mkfifo(tmp_path / "pipe.txt")
    left_out: Counter[str] = Counter()
    assert names(tmp_path, left_out=left_out) == ["a.txt"]
    assert left_out == {"not a regular file": 1}
    with pytest.raises(SourceMissing):
        walk(tmp_path / "pipe.txt")


def test_a_folder_that_cannot_be_listed_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, "a.txt", "closed/b.txt")
    scandir = os.scandir

    def refusing(path: str) -> Any:
        if str(path).rstrip("/").endswith("closed"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    (item,) = skipped(tmp_path)
    assert (item.path, item.failed) == (str(tmp_path / "closed"), True)
    assert names(tmp_path) == ["a.txt"]


def test_a_folder_that_vanishes_is_passed_over(tmp_path: Path) -> None:
    make(tmp_path, "a.txt", "b/c.txt")
    found = walk(tmp_path)
    first = next(found)
    (tmp_path / "b" / "c.txt").unlink()
    (tmp_path / "b").rmdir()
    assert [first, *found] == [first]


def test_names_keep_their_spelling(tmp_path: Path) -> None:
    composed, parted = (unicodedata.normalize(form, "회의록-é.txt") for form in ("NFC", "NFD"))
    make(tmp_path, composed, parted)
    assert set(names(tmp_path)) == set(os.listdir(tmp_path))  # noqa: PTH208 - the system's own spelling
    assert {composed, parted} >= set(names(tmp_path))


def test_names_that_are_no_unicode_can_be_opened(tmp_path: Path) -> None:
    raw = os.fsencode(tmp_path) + b"/caf\xe9"
    try:
        os.mkdir(raw)  # noqa: PTH102 - the name is bytes
        Path(os.fsdecode(raw + b"/\xff\xfe.txt")).write_text("Words.")
    except OSError:
        pytest.skip("this file system takes only names in Unicode")
    (found,) = walk(tmp_path)
    assert isinstance(found, FoundFile)
    assert os.fsencode(found.relative_path) == b"caf\xe9/\xff\xfe.txt"
    assert Path(found.path).read_text() == "Words."


def test_a_deep_tree(tmp_path: Path) -> None:
    deep = "/".join(["d"] * 500)
    make(tmp_path, f"{deep}/a.txt")
    assert names(tmp_path) == [f"{deep}/a.txt"]


def test_a_source_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SourceMissing, match="cannot be read"):
        walk(tmp_path / "missing")
