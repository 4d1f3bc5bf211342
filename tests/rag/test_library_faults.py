"""Every system call that changes a library fails once, or is the process's last: what is said, and what is left.

The default run takes one call for each command and kind of failure, the slow one every call.
"""

import os
import shutil
import subprocess

import pytest
from libraries import write

NOBODY = 65534
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
        found = self.server.verify(self.library, *self.arguments)
        left = found["left"]
        assert left["integrity"] == [], (told, left["integrity"])
        if ended.code == 0:
            assert same(left, self.wanted), told
        self.check_documents(by_document(left), told)
        assert found["code"] == 0 or (found["code"], self.name) == (2, "remove"), (told, found["code"])
        assert same(found["after"], self.wanted), told

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
def scenes(memory_folder, fault_server):
    made = {}

    def scene(name):
        if name not in made:
            made[name] = Scene(memory_folder, fault_server, name)
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


@pytest.mark.parametrize("kibibytes", [1, 40, 130, 170, 260])
def test_no_file_may_grow_beyond_a_limit(scenes, kibibytes):
    scene = scenes("index")
    scene.restore()
    write(scene.docs, {"long.txt": "\n\n".join(f"Paragraph {n} tells of topic {n * 7}." for n in range(2000))})
    try:
        ended = scene.run(*scene.arguments, limit=kibibytes * 1024)
        scene.check_words(ended, "EFBIG", ended)
        assert ended.code == 1, ended
        left = scene.server.picture(scene.library)
        assert left["integrity"] == []
        assert scene.run(*scene.arguments).code == 0
        (scene.docs / "long.txt").unlink()
        assert scene.run(*scene.arguments).code == 0
        assert same(scene.server.picture(scene.library), scene.wanted)
    finally:
        (scene.docs / "long.txt").unlink(missing_ok=True)


@pytest.mark.parametrize("kibibytes", [150, 280, 420])
def test_a_small_disk_fills(memory_folder, fault_server, tmp_path, kibibytes):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kibibytes}k", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a small disk")
    try:
        docs = write(tmp_path / "docs", {f"{n}.txt": f"Note {n} about topic {n * 7}. " * 40 for n in range(60)})
        ended = fault_server.run(disk / "library", "index", str(docs), "--quiet")
        Scene.check_words(ended, "ENOSPC", ended)
        assert ended.code == 1 and ("full" in ended.err or "room" in ended.err), ended
        subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
        assert fault_server.run(disk / "library", "index", str(docs), "--quiet").code == 0
        assert fault_server.run(tmp_path / "fresh", "index", str(docs), "--quiet").code == 0
        assert same(fault_server.picture(disk / "library"), fault_server.picture(tmp_path / "fresh"))
    finally:
        subprocess.run(["umount", str(disk)], check=True)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs the right to become another user")


@pytest.fixture
def shared(scenes):
    """A library of root's that everyone may read, and a function that runs commands on it as another user."""
    scene = scenes("remove")
    scene.restore()
    scene.library.chmod(0o755)
    for path in scene.library.iterdir():
        path.chmod(0o644)
    return scene, lambda *arguments: scene.run(*arguments, uid=NOBODY)


@needs_root
def test_another_user_may_search_and_not_change(shared):
    scene, run = shared
    before = {path.name: path.read_bytes() for path in scene.library.iterdir()}
    found = run("search", "copper")
    assert found.code == 0 and "renamed.txt" in found.out, found
    for arguments in (("index", str(scene.docs)), ("rebuild",), ("remove", str(scene.docs)), ("doctor", "--fix")):
        ended = run(*arguments, "--quiet")
        assert ended.code == 1, ended
        Scene.check_words(ended, "EACCES", ended)
    assert {path.name: path.read_bytes() for path in scene.library.iterdir()} == before


@needs_root
@pytest.mark.parametrize("name", [".", "library.db"])
def test_another_user_may_not_read(shared, name):
    scene, run = shared
    (scene.library / name).chmod(0o700 if name == "." else 0o600)
    for arguments in (("search", "copper"), ("index", str(scene.docs)), ("status",)):
        ended = run(*arguments, "--quiet")
        assert ended.code == 1, ended
        Scene.check_words(ended, "EACCES", ended)


@needs_root
def test_an_index_file_that_may_not_be_read_is_built_in_memory(shared):
    scene, run = shared
    (index,) = scene.library.glob("*.index")
    index.chmod(0o600)
    found = run("search", "copper", "--mode", "dense")
    assert found.code == 0 and "renamed.txt" in found.out, found


@needs_root
def test_files_that_may_not_be_read(memory_folder, fault_server):
    place = memory_folder / "unreadable"
    docs = write(
        place / "docs", {"a.txt": "Copper melts.", "locked.txt": "Tin.", "sub/b.txt": "Iron.", "c.txt": "Zinc."}
    )
    library = place / "library"
    library.mkdir()
    os.chown(library, NOBODY, NOBODY)
    (docs / "locked.txt").chmod(0o600)
    (docs / "sub").chmod(0o700)
    ended = fault_server.run(library, "index", str(docs), uid=NOBODY)
    assert ended.code == 4, ended
    assert "locked.txt" in ended.out + ended.err and "sub" in ended.out + ended.err, ended
    assert {row[0] for row in fault_server.picture(library)["passages"]} == {"a.txt", "c.txt"}
    (docs / "locked.txt").chmod(0o644)
    (docs / "sub").chmod(0o755)
    assert fault_server.run(library, "index", uid=NOBODY).code == 0
    assert fault_server.run(place / "fresh", "index", str(docs)).code == 0
    assert same(fault_server.picture(library), fault_server.picture(place / "fresh"))
    (docs / "sub").chmod(0o700)
    (docs / "a.txt").write_text("Copper melts at 1085 degrees.")
    (docs / "a.txt").chmod(0o600)
    ended = fault_server.run(library, "index", uid=NOBODY)
    assert ended.code == 4, ended
    assert len(fault_server.picture(library)["passages"]) == 4, "what cannot be read now is kept"
