"""Any sequence of edits, kills and removals, each step against a library built from scratch on the same folder.

The folder lies at one place for all examples, so that what a fresh library makes of a state of it is known for good
once that state was met. Where the machine has a file system in memory, everything lies there.
"""

import itertools
import os
import re
import shutil
import tempfile
import traceback
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from libraries import documents, open_library, passages, results
from slotrag import UsageError

ENCODER = "hashing:dimension=16"
PARAGRAPHS = [
    "Copper quuzvorp melts at 1085 degrees.",
    "Tin brimvakk melts at 232 degrees.",
    "# Birds\n\nPenguins chortwynd live in the south and eat fish.",
    "## Repairs\n\nThe old bridge drumpfex was repaired in 1950.",
    "도서관은 아침 아홉 시에 문을 연다 gwelfnork.",
    " ".join(f"Point {n} of the long report of the committee zibblecrax." for n in range(30)),
]
MARKERS = [b"quuzvorp", b"brimvakk", b"chortwynd", b"drumpfex", b"gwelfnork", b"zibblecrax"]
NAMES = ["a.txt", "b.md", "c.txt", "sub/a.txt", "sub/deep/d.md", "other/b.md", "한글.txt"]
QUERIES = ["copper tin bridge penguins", "도서관 아침"]
MODES = ("dense", "lexical", "hybrid")
TOLERANCE = 1e-3
MEMORY = Path("/dev/shm")
UNDECODABLE = bytes(range(1, 256)) * 8
CONTENTS = st.lists(st.sampled_from(PARAGRAPHS), max_size=4)
KILLED = 9


@dataclass(frozen=True)
class Picture:
    """What a library shows: its documents, its passages, and what searches find."""

    documents: list
    passages: list
    results: dict

    @classmethod
    def of(cls, library):
        found = {(query, mode): found_by(library, query, mode) for query in QUERIES for mode in MODES}
        return cls(documents(library), passages(library), found)

    def assert_same(self, other):
        assert self.documents == other.documents
        assert self.passages == other.passages
        for search, wanted in other.results.items():
            assert [row[:-1] for row in self.results[search]] == [row[:-1] for row in wanted], search
            scores = [[row[-1] for row in found] for found in (self.results[search], wanted)]
            assert np.allclose(*scores, rtol=0, atol=TOLERANCE), (search, scores)


def found_by(library, query, mode):
    """All results; of passages with the same words in another order, which fold, any may stand for the others."""
    orders = defaultdict(set)
    for row in passages(library):
        orders[tuple(sorted(words(row[2])))].add(tuple(words(row[2])))
    found = []
    for text, paths, score in results(library, query, mode):
        key = sorted(words(text))
        found.append((key, paths if len(orders[tuple(key)]) == 1 else (), score))
    return sorted(found)


def words(text):
    return re.findall(r"\w+", text.casefold())


class Machine(RuleBasedStateMachine):
    """The folder is edited at will; after each step the library is refreshed and equals a fresh one."""

    base: Path
    fresh: dict
    steps: Counter

    def __init__(self):
        super().__init__()
        for name in ("docs", "library"):
            shutil.rmtree(self.base / name, ignore_errors=True)
        self.docs = self.base / "docs"
        self.docs.mkdir()
        self.library = open_library(self.base / "library", encoder=ENCODER)
        self.earlier = []
        self.held = 0
        self.free = False
        self.taken_out = False  # what `remove` erased costs encoding when it comes back under another name
        self.vectors = {}
        self.clock = itertools.count(10**9)

    def teardown(self):
        self.library.close()

    def files(self):
        return sorted(path for path in self.docs.rglob("*") if path.is_file())

    def put(self, path, data):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        # An old time, so that what the time of the last change tells is not told by this one.
        os.utime(path, (next(self.clock),) * 2)
        self.earlier.append((path, data))
        self.free = False

    def file(self, data):
        return data.draw(st.sampled_from(self.files()))

    @initialize(names=st.sets(st.sampled_from(NAMES), min_size=2), data=st.data())
    def begin(self, names, data):
        for name in sorted(names):
            self.put(self.docs / name, "\n\n".join(data.draw(CONTENTS)).encode())
        self.library.index([self.docs])

    @rule(name=st.sampled_from(NAMES), paragraphs=CONTENTS)
    def write(self, name, paragraphs):
        self.put(self.docs / name, "\n\n".join(paragraphs).encode())

    @rule(name=st.sampled_from(NAMES), paragraph=st.sampled_from(PARAGRAPHS))
    def the_same_paragraph_twice(self, name, paragraph):
        self.put(self.docs / name, f"{paragraph}\n\n{PARAGRAPHS[0]}\n\n{paragraph}".encode())

    @precondition(lambda self: self.files())
    @rule(data=st.data())
    def truncate(self, data):
        path = self.file(data)
        held = path.read_bytes()
        self.put(path, held[: data.draw(st.integers(0, len(held)))])

    @precondition(lambda self: self.files())
    @rule(data=st.data())
    def empty(self, data):
        self.put(self.file(data), b"")

    @precondition(lambda self: self.files())
    @rule(data=st.data())
    def spoil(self, data):
        self.put(self.file(data), UNDECODABLE)

    @precondition(lambda self: self.earlier)
    @rule(data=st.data())
    def restore(self, data):
        self.put(*data.draw(st.sampled_from(self.earlier)))

    @precondition(lambda self: self.files())
    @rule(data=st.data())
    def delete(self, data):
        self.file(data).unlink()

    @precondition(lambda self: self.files())
    @rule(data=st.data(), name=st.sampled_from(NAMES))
    def move(self, data, name):
        path, target = self.file(data), self.docs / name
        target.parent.mkdir(parents=True, exist_ok=True)
        self.free = self.free and path.suffix == target.suffix
        path.replace(target)

    @precondition(lambda self: len(self.files()) > 1)
    @rule(data=st.data())
    def swap(self, data):
        first, second = data.draw(st.permutations(self.files()))[:2]
        self.free = self.free and first.suffix == second.suffix
        aside = self.docs / "aside"
        first.rename(aside), second.rename(first), aside.rename(second)

    @precondition(lambda self: len(self.files()) > 1)
    @rule(data=st.data())
    def swap_twins(self, data):
        """Two files of one size and one time change places: neither tells that they did."""
        first, second = data.draw(st.permutations(self.files()))[:2]
        length = max(first.stat().st_size, second.stat().st_size)
        for path in (first, second):
            self.put(path, path.read_bytes().ljust(length))
            os.utime(path, (10**9, 10**9))
        self.index()
        aside = self.docs / "aside"
        first.rename(aside), second.rename(first), aside.rename(second)

    @precondition(lambda self: self.files())
    @rule(data=st.data(), paragraphs=CONTENTS)
    def overwrite_in_place(self, data, paragraphs):
        """Other bytes, as many, and the time put back."""
        path = self.file(data)
        before = path.stat()
        text = "\n\n".join(paragraphs).encode()[: before.st_size].decode(errors="ignore").encode()
        with path.open("r+b") as stream:
            stream.write(text.ljust(before.st_size))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        self.free = False

    @precondition(lambda self: self.files())
    @rule(data=st.data(), name=st.sampled_from(NAMES))
    def copy(self, data, name):
        self.put(self.docs / name, self.file(data).read_bytes())

    @precondition(lambda self: self.files())
    @rule(data=st.data(), seconds=st.integers(1, 10**9))
    def touch(self, data, seconds):
        os.utime(self.file(data), (seconds, seconds))

    @rule(name=st.sampled_from(["sub", "other", "sub/deep"]), new=st.sampled_from(["moved", "other"]))
    def move_folder(self, name, new):
        if (self.docs / name).is_dir() and not (self.docs / new).exists():
            (self.docs / name).rename(self.docs / new)

    @precondition(lambda self: self.files())
    @rule(data=st.data(), monkeypatch=st.builds(pytest.MonkeyPatch))
    def lock(self, data, monkeypatch):
        """A file that cannot be opened for the length of one run keeps what was indexed of it."""
        from slotrag.rag import scanning

        path = self.file(data)
        os.utime(path, (next(self.clock),) * 2)
        real = scanning.content_hash

        def refused(opened, *rest):
            return (None, "cannot be opened: Permission denied") if opened == str(path) else real(opened, *rest)

        before = [row for row in passages(self.library) if row[0] == path.relative_to(self.docs).as_posix()]
        with monkeypatch.context() as patch:
            patch.setattr(scanning, "content_hash", refused)
            self.index()
        after = [row for row in passages(self.library) if row[0] == path.relative_to(self.docs).as_posix()]
        assert self.held or after == before
        self.free = False

    @rule(steps=st.integers(1, 3))
    def hold(self, steps):
        """Let the next edits gather before a run sees them."""
        self.held = steps + 1

    @rule()
    def reopen(self):
        self.library.close()
        self.library = open_library(self.base / "library", encoder=ENCODER)

    @rule()
    def rebuild(self):
        self.library.rebuild()

    @precondition(lambda self: self.files())
    @rule(data=st.data(), whole=st.booleans())
    def remove(self, data, whole):
        """The command of that name: a file, or the folder it is in."""
        path = self.file(data)
        try:
            self.library.remove(path.parent if whole else path)
        except UsageError:  # it has not been indexed yet, or was removed before
            unread = self.library._catalog.sources() and self.library.index(dry_run=True).new
            assert unread or not self.library.search("degrees", path=str(path)).hits
        self.free, self.taken_out = False, True

    @rule(
        after=st.integers(1, 70),
        way=st.sampled_from(["index", "index", "remove", "rebuild"]),
        name=st.sampled_from(NAMES),
        paragraphs=CONTENTS,
    )
    def kill(self, after, way, name, paragraphs):
        """Another process does it and is killed before its statement (or system call) of that number."""
        self.put(self.docs / name, "\n\n".join(paragraphs).encode())
        self.library.close()
        paths = self.files()
        child = os.fork()
        if not child:
            _die_after(after, lambda: self.in_child(way, paths))
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        assert code in (0, KILLED), code
        self.steps["killed"] += code == KILLED
        self.library = open_library(self.base / "library", encoder=ENCODER)
        assert self.library._catalog.integrity_check(full=True) == []
        for query in QUERIES[:1]:
            for hit in self.library.search(query, k=100).hits:
                assert any(hit.text == row[2] for row in passages(self.library))
        self.free = False

    def in_child(self, way, paths):
        with open_library(self.base / "library", encoder=ENCODER) as library:
            if way == "index":
                library.index([self.docs])
            elif way == "rebuild":
                library.rebuild()
            elif paths and self.sources(library):
                library.remove(paths[0].parent)

    @staticmethod
    def sources(library):
        """Those of the collection, not of one that a killed rebuild was making."""
        return library._catalog.sources(library._catalog.collection().id)

    def index(self):
        return self.library.index([] if self.sources(self.library) else [self.docs])

    @invariant()
    def equals_a_fresh_one(self):
        from slotrag_hashing import HashingEncoder

        self.held = max(0, self.held - 1)
        if self.held or not self.library._catalog.collections():
            return
        encoded = HashingEncoder.calls
        self.index()
        assert not self.free or HashingEncoder.calls == encoded, "a rename or another time cost encoding"
        picture = Picture.of(self.library)
        picture.assert_same(self.from_scratch())
        self.steps["compared"] += 1
        encoded = HashingEncoder.calls
        again = self.index()
        assert HashingEncoder.calls == encoded
        assert not (again.new or again.updated or again.removed or again.renamed)
        self.nothing_is_left(picture)
        self.free = not self.taken_out

    def from_scratch(self):
        """What a new library, in a new folder, makes of the folder as it is."""
        (source,) = self.sources(self.library)
        state = (source.exclude, *((path.relative_to(self.docs), path.read_bytes()) for path in self.files()))
        if state not in self.fresh:
            folder = self.base / "fresh"
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(self.base / "empty", folder)
            with open_library(folder, encoder=ENCODER) as library:
                library.index([self.docs], exclude=source.exclude)
                self.fresh[state] = Picture.of(library)
            self.steps["built"] += 1
        return self.fresh[state]

    def nothing_is_left(self, picture):
        """No text, word or vector of what went is in any file."""
        held = b"".join(file.read_bytes() for file in (self.base / "library").iterdir())
        shown = "\n".join(str(value) for row in picture.passages for value in row).encode()
        for marker in MARKERS:
            assert marker in shown or marker not in held, marker
        catalog = self.library._catalog
        for ids, vectors in catalog.vectors(catalog.collection().id):
            here = {vector.astype("<f2").tobytes(): vector.astype("<f4").tobytes() for vector in vectors}
            assert len(ids) == len(vectors)
            self.vectors |= here
        current = {v.astype("<f2").tobytes() for _, vs in catalog.vectors(catalog.collection().id) for v in vs}
        for half, single in self.vectors.items():
            assert half in current or (half not in held and single not in held), "a vector of a removed text is left"


def _die_after(after, work):
    """Do `work`, and end without a word before the statement or system call number `after`; never returns."""
    from sqlalchemy import Engine, event

    left = itertools.count(after, -1)

    def count(*_):
        if next(left) <= 0:
            os._exit(KILLED)

    try:
        for name in ("before_cursor_execute", "commit"):
            event.listen(Engine, name, count)
        for name in ("fsync", "replace", "write"):
            setattr(os, name, _counted(getattr(os, name), count))
        work()
        os._exit(0)
    except UsageError:  # nothing there is indexed any more
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def _counted(real, count):
    def call(*arguments, **options):
        count()
        return real(*arguments, **options)

    return call


@pytest.fixture
def machine(hashing_encoder, monkeypatch):
    """The machine with a folder of its own.

    A file that has just changed is hashed at every run; ours are to look settled at once, as users' mostly are.
    """
    monkeypatch.setattr("slotrag.rag.scanning._RECENT_NANOSECONDS", 20_000_000)
    base = Path(tempfile.mkdtemp(prefix="slotrag-machine-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None))
    open_library(base / "empty").close()
    steps = Counter()
    yield type("Bound", (Machine,), {"base": base, "fresh": {}, "steps": steps})
    shutil.rmtree(base)
    print(f"\n{steps}")


def run(machine, examples, steps):
    """Without shrinking, which takes many times as long as the run: a failure tells its steps anyway."""
    quiet = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    options = {"max_examples": examples, "stateful_step_count": steps, "deadline": None, "print_blob": True}
    phases = [phase for phase in Phase if phase not in (Phase.shrink, Phase.explain)]
    options |= {"phases": phases, "report_multiple_bugs": False, "suppress_health_check": quiet}
    run_state_machine_as_test(machine, settings=settings(**options))


def test_edits(machine):
    run(machine, examples=5, steps=10)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_many_edits(machine):
    run(machine, examples=500, steps=12)
    assert machine.steps["killed"] > 100
