"""Any sequence of edits to a folder, indexed now and then, against a library built from scratch."""

import itertools
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from libraries import assert_same, open_library

PARAGRAPHS = [
    "Copper melts at 1085 degrees.",
    "Tin melts at 232 degrees.",
    "# Birds\n\nPenguins live in the south and eat fish.",
    "## Repairs\n\nThe old bridge was repaired in 1950.",
    "도서관은 아침 아홉 시에 문을 연다.",
    "A long paragraph about the committee. " * 30,
]
NAMES = ["a.txt", "b.md", "c.txt", "sub/a.txt", "sub/deep/d.md", "other/b.md", "한글.txt"]
QUERIES = ["copper tin degrees", "old bridge penguins", "도서관 아침"]


class Edits(RuleBasedStateMachine):
    """The folder is edited at will; after each run the library equals a fresh collection over the same folder."""

    def __init__(self):
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="edits-"))
        self.docs = self.root / "docs"
        self.docs.mkdir()
        self.library = open_library(self.root / "library")
        self.reference = open_library(self.root / "reference")
        self.numbers = itertools.count()
        self.in_step = False

    def teardown(self):
        self.library.close()
        self.reference.close()
        shutil.rmtree(self.root)

    def files(self):
        return sorted(path for path in self.docs.rglob("*") if path.is_file())

    @initialize(names=st.sets(st.sampled_from(NAMES), min_size=2), data=st.data())
    def begin(self, names, data):
        for name in sorted(names):
            self.put(name, data.draw(CONTENTS))
        self.library.index([self.docs])
        self.in_step = True

    def put(self, name, paragraphs):
        path = self.docs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n\n".join(paragraphs), encoding="utf-8")
        self.in_step = False

    @rule(name=st.sampled_from(NAMES), paragraphs=st.deferred(lambda: CONTENTS))
    def write(self, name, paragraphs):
        self.put(name, paragraphs)

    @precondition(lambda self: self.files())
    @rule(data=st.data())
    def delete(self, data):
        data.draw(st.sampled_from(self.files())).unlink()
        self.in_step = False

    @precondition(lambda self: self.files())
    @rule(data=st.data(), name=st.sampled_from(NAMES))
    def move(self, data, name):
        target = self.docs / name
        target.parent.mkdir(parents=True, exist_ok=True)
        data.draw(st.sampled_from(self.files())).replace(target)
        self.in_step = False

    @precondition(lambda self: len(self.files()) > 1)
    @rule(data=st.data())
    def swap(self, data):
        first, second = data.draw(st.permutations(self.files()))[:2]
        aside = self.docs / "aside"
        first.rename(aside), second.rename(first), aside.rename(second)
        self.in_step = False

    @precondition(lambda self: self.files())
    @rule(data=st.data(), name=st.sampled_from(NAMES))
    def copy(self, data, name):
        source = data.draw(st.sampled_from(self.files()))
        target = self.docs / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(source.read_bytes())
        self.in_step = False

    @precondition(lambda self: self.files())
    @rule(data=st.data(), seconds=st.integers(1, 10**9))
    def touch(self, data, seconds):
        os.utime(data.draw(st.sampled_from(self.files())), (seconds, seconds))

    @rule(name=st.sampled_from(["sub", "other", "sub/deep"]), new=st.sampled_from(["moved", "other"]))
    def move_folder(self, name, new):
        if (self.docs / name).is_dir() and not (self.docs / new).exists():
            (self.docs / name).rename(self.docs / new)
            self.in_step = False

    @rule()
    def index(self):
        self.library.index()
        self.in_step = True

    @rule()
    def reopen(self):
        self.library.close()
        self.library = open_library(self.root / "library")

    @rule()
    def search(self):
        self.library.search(QUERIES[0])

    @rule()
    def rebuild(self):
        self.library.rebuild()
        self.in_step = True

    @invariant()
    def equals_a_fresh_one(self):
        if not self.in_step:
            return
        name = f"fresh-{next(self.numbers)}"
        self.reference.index([self.docs], collection=name)
        assert_same(self.library, self.reference, QUERIES, "default", name)
        report = self.library.index()
        assert report.encoded == 0 and not (report.new or report.updated or report.removed or report.renamed)


CONTENTS = st.lists(st.sampled_from(PARAGRAPHS), max_size=3)
QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def run(examples, steps):
    run_state_machine_as_test(
        Edits,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=QUIET,
            print_blob=True,
        ),
    )


def test_edits(hashing_encoder):
    run(examples=6, steps=12)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_many_edits(hashing_encoder):
    run(examples=60, steps=40)
