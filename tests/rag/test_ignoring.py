"""Ignore rules, compared with git's own where git is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from slotrag.rag.folders import FoundFile, walk
from slotrag.rag.ignore_rules import Rules, lines_of, parse

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

NAMES = [
    "a",
    "b",
    "ab",
    "abc",
    "x.txt",
    "y.md",
    "1.txt",
    "a b",
    "a ",
    "\x85",
    "\u2028",
    "é.md",
    "[a]",
    "!a",
    "#a",
    "a\\b",
]
PATHS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map("/".join)
PIECES = [
    "*", "**", "?", "/", "/**/", "**/", "/**", "!", "#", "\\", "\\ ", " ", "\t", "[a-c]", "[!a]", "[^b]", "[]a]", "[a",
    "[[:digit:]]", "[[:alpha:]x]", "[[:no:]]", "[z-a]", "[a-]", "[\\]]", "[[:x]", "*.txt", "*.md", "\r", "\0",
    *NAMES,
]  # fmt: skip
PATTERNS = st.one_of(
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=5).map("".join),
    st.sampled_from(
        ["*", "!*/", "!*.md", "!*.txt", "!a/", "abc/**", "!abc/**/x.txt", "**/a/**", "/*", "!/a", "a/", "!"]
    ),
)
RULES = st.lists(PATTERNS, max_size=6)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("repository")
    git(top, "init", "-q")
    return top


def git(top: Path, *arguments: str) -> list[str]:
    settled = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    command = ["git", "-c", f"core.excludesFile={os.devnull}", *arguments]
    run = subprocess.run(command, cwd=top, env=settled, stdout=subprocess.PIPE, check=True)
    return [os.fsdecode(name) for name in run.stdout.split(b"\0") if name]


def assert_as_git(top: Path, paths: set[str], ignore_files: dict[str, tuple[list[str], str]]) -> None:
    for entry in top.iterdir():
        if entry.name != ".git":
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    for name in sorted(paths, key=len, reverse=True):  # a file where a folder is meant to be is left out
        path = top / name
        if not path.exists() and not any(parent.is_file() for parent in path.parents):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("Words.")
    (top / ".git" / "info" / "exclude").write_bytes(b"")
    for folder, (lines, end) in ignore_files.items():
        target = top / folder / ".gitignore" if folder != "exclude" else top / ".git" / "info" / "exclude"
        if target.parent.is_dir():
            target.write_bytes("".join(line + end for line in lines).encode())
    ours = [found.relative_path for found in walk(top, hidden=True) if isinstance(found, FoundFile)]
    theirs = git(top, "ls-files", "-z", "--others", "--exclude-standard")
    assert sorted(ours) == sorted(theirs)


TREES = st.sets(PATHS, min_size=1, max_size=12)
FILES = st.dictionaries(
    st.sampled_from([".", "a", "abc", "a/b", "exclude"]), st.tuples(RULES, st.sampled_from(["\n", "\r\n"]))
)
QUIET = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]


@needs_git
@settings(max_examples=40, deadline=None, suppress_health_check=QUIET)
@given(paths=TREES, files=FILES)
def test_what_git_ignores(repository: Path, paths: set[str], files: dict[str, tuple[list[str], str]]) -> None:
    assert_as_git(repository, paths, files)


@needs_git
@pytest.mark.slow
@settings(max_examples=3000, deadline=None, suppress_health_check=QUIET)
@given(paths=TREES, files=FILES)
def test_what_git_ignores_many(repository: Path, paths: set[str], files: dict[str, tuple[list[str], str]]) -> None:
    assert_as_git(repository, paths, files)


@needs_git
@pytest.mark.parametrize(
    ("rules", "kept"),
    [
        (["*", "!*/", "!*.md"], "abc/d/z.md docs/a.md docs/deep/c.md h/y.md"),
        (["*", "!*.txt", "!h/"], "1.txt h/x.txt"),
        (["*", "!abc", "abc/**", "!abc/**/x.txt"], "abc/x.txt"),
        (["*", "!.gitignore"], ""),
        (["*.md", "docs", "[[:digit:]].txt", "x.txt\t"], "abc/d/x.txt abc/x.txt h/x.txt"),
        (["*.md", "docs\x85abc", "h\u2028abc"], "1.txt abc/d/x.txt abc/x.txt docs/b.txt h/x.txt"),
    ],
)
def test_idioms(repository: Path, rules: list[str], kept: str) -> None:
    paths = "docs/a.md docs/b.txt docs/deep/c.md h/x.txt h/y.md abc/x.txt abc/d/x.txt abc/d/z.md 1.txt"
    assert_as_git(repository, set(paths.split()), {".": (rules, "\n")})
    assert [found.relative_path for found in walk(repository) if isinstance(found, FoundFile)] == kept.split()


def test_a_repository_inside_another_brings_its_own_rules(tmp_path: Path) -> None:
    for name in ("a.log", "a.txt", "inner/a.log", "inner/b.txt", "inner/c.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("Words.")
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / "inner" / ".git" / "info").mkdir(parents=True)
    (tmp_path / "inner" / ".git" / "info" / "exclude").write_text("b.txt\n")
    assert [found.relative_path for found in walk(tmp_path)] == ["a.txt", "inner/c.txt"]


def test_a_source_in_an_ignored_folder_is_wanted(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("build/\n*.txt\n")
    docs = tmp_path / "build" / "docs"
    docs.mkdir(parents=True)
    (docs / "a.txt").write_text("Words.")
    assert [found.relative_path for found in walk(docs)] == ["a.txt"]


def test_patterns_of_many_stars_end_soon() -> None:
    rules = Rules(["*a" * 30 + "b", "x/" + "*a" * 30 + "b"])
    started = time.perf_counter()
    assert rules.verdict("a" * 250, False) is None and rules.verdict("x/" + "a" * 250, False) is None
    assert time.perf_counter() - started < 1


def test_lines_end_at_line_feeds_only() -> None:
    assert lines_of("a\x85b\n#c\nd  \r\ne\\  \nf\t\ng\u2028h") == ["a\x85b", "d", "e\\ ", "f\t", "g\u2028h"]


@pytest.mark.parametrize("pattern", ["", "!", "/", "a\\", "[a", "[[:no:]]"])
def test_what_can_fit_nothing(pattern: str) -> None:
    assert parse(pattern) is None
