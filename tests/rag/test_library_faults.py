"""Every system call that changes a library fails once, or is the process's last: what is said, and what is left.

The default run takes one call for each command and kind of failure, the slow one every call.
"""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from faults import Server, Unavailable
from libraries import write

MEMORY = Path("/dev/shm")
BEFORE = {
    "kept.txt": "Tin melts at 232 degrees.",
    "edited.md": "# Bridges\n\nThe old bridge was built in 1873.\n\n# Ferry\n\nThe ferry leaves at nine.",
    "deleted.txt": "Penguins eat fish.",
    "renamed.txt": "Copper melts at 1085 degrees.",
}
KINDS = ("ENOSPC", "EIO", "EACCES", "kill", "torn")
COMMANDS = {
    "index": ("index", "--quiet"),
    "rebuild": ("rebuild", "--quiet"),
    "remove": ("remove", "{docs}/kept.txt", "--quiet"),
    "search": ("search", "copper", "--quiet"),
    "doctor": ("doctor", "--fix", "--quiet"),
}


@pytest.fixture(scope="module")
def place():
    folder = Path(tempfile.mkdtemp(prefix="slotrag-faults-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def server(place, plugin_path):
    try:
        server = Server(place, plugin_path)
    except Unavailable as error:
        pytest.skip(str(error))
    yield server
    server.close()


class Scene:
    """A library as it was before a command, and what the command leads to when nothing fails."""

    def __init__(self, place, server, name):
        self.server, self.name = server, name
        self.folder = place / name
        self.docs, self.library = self.folder / "docs", self.folder / "library"
        self.arguments = [part.format(docs=self.docs) for part in COMMANDS.get(name, ("index", str(self.docs)))]
        write(self.docs, BEFORE)
        if name != "first":
            assert self.run("index", str(self.docs), "--quiet").code == 0
        if name == "index":
            write(self.docs, {"edited.md": BEFORE["edited.md"].replace("1873", "1950"), "new.txt": "An orchard."})
            (self.docs / "deleted.txt").unlink()
            (self.docs / "renamed.txt").rename(self.docs / "other name.txt")
        if name in ("search", "doctor"):
            (self.library / "collection-1.index").write_bytes(b"broken")
        self.stored = self.folder / "stored"
        if name != "first":
            shutil.copytree(self.library, self.stored)
        self.before = [] if name == "first" else self.server.picture(self.library)["passages"]
        self.restore()
        counted = self.run(*self.arguments, fault=("kill", 0))
        assert counted.code == 0, counted.err
        self.calls = counted.count
        self.wanted = self.server.picture(self.library)
        assert self.wanted["integrity"] == []

    def run(self, *arguments, **options):
        return self.server.run(self.library, *arguments, **options)

    def restore(self):
        shutil.rmtree(self.library, ignore_errors=True)
        if self.stored.exists():
            shutil.copytree(self.stored, self.library)

    def check(self, kind, number):
        """One fault: what was said, what is left, and that another run completes it."""
        self.restore()
        ended = self.run(*self.arguments, fault=(kind, number))
        told = f"{self.name} {kind} {number}: exit {ended.code}, {ended.err!r}"
        self.check_words(ended, kind, told)
        left = self.server.picture(self.library)
        assert left["integrity"] == [], (told, left["integrity"])
        if ended.code == 0:
            assert same(left, self.wanted), told
        self.check_documents(by_document(left), told)
        again = self.run(*self.arguments)
        assert again.code in (0, 2 if self.name == "remove" else 0), (told, again)
        assert same(self.server.picture(self.library), self.wanted), told

    def check_documents(self, left, told):
        """Each document is what it was or what it becomes; none is lost, none half there, none doubled."""
        before, wanted = by_document({"passages": self.before}), by_document(self.wanted)
        assert before.keys() & wanted.keys() <= left.keys() <= before.keys() | wanted.keys(), told
        for path, rows in left.items():
            assert rows in (before.get(path), wanted.get(path)), (told, path)

    @staticmethod
    def check_words(ended, kind, told):
        if kind in ("kill", "torn"):
            assert ended.code in (-9, 0), told
            return
        assert ended.code in (0, 1, 5), told
        assert "Traceback" not in ended.err and "unexpected" not in ended.err, told
        if ended.code:
            lines = ended.err.strip().splitlines()
            assert len(lines) == 1 and lines[0].startswith("slotrag: "), told


def by_document(picture):
    found = {}
    for row in picture["passages"]:
        found.setdefault(row[0], []).append(row)
    return found


def same(picture, wanted):
    return all(picture[key] == wanted[key] for key in ("integrity", "documents", "passages", "results", "pending"))


@pytest.fixture(scope="module")
def scenes(place, server):
    made = {}

    def scene(name):
        if name not in made:
            made[name] = Scene(place, server, name)
        return made[name]

    return scene


NAMES = ["first", *COMMANDS]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_one_call(scenes, name, kind):
    scene = scenes(name)
    place = (NAMES.index(name) * len(KINDS) + KINDS.index(kind) * 7 + 3) % 30 / 30
    scene.check(kind, 1 + int(place * scene.calls))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_every_call(scenes, name, kind):
    scene = scenes(name)
    wrong = []
    for number in range(1, scene.calls + 1):
        try:
            scene.check(kind, number)
        except AssertionError as error:
            wrong.append(str(error)[:600])
    print(f"\n{scene.calls} faults: {name} {kind}")
    assert not wrong, f"{len(wrong)} of {scene.calls}: " + "\n".join(wrong[:20])
