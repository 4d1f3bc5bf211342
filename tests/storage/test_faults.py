"""Every system call of the databases fails once, or is the process's last: nothing committed is lost or torn.

The whole library under faults is in ``tests/rag/test_library_faults.py``; here are conversations and slots.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

KINDS = ("ENOSPC", "EIO", "EACCES", "kill", "torn")
BEGIN = """
from slotrag.storage import Catalog
with Catalog.open(library) as catalog:
    session = catalog.create_session("kept")
    catalog.add_message(session, "user", "the first question", citations=[], details={})
    catalog.put_slots("c", {b"a" * 32: b"old slots" * 500})
"""
CHANGE = """
from slotrag.storage import Catalog
with Catalog.open(library) as catalog:
    session = next(one.id for one in catalog.sessions() if one.title == "kept")
    catalog.add_message(session, "assistant", "an answer " * 500, citations=[], details={})
    print("answered", flush=True)
    catalog.put_slots("c", {b"b" * 32: b"new slots" * 500})
    print("kept slots", flush=True)
    catalog.delete_session(catalog.create_session("for a moment"))
    print("deleted", flush=True)
"""
LOOK = """
import json
from slotrag.storage import Catalog
with Catalog.open(library) as catalog:
    (session,) = [catalog.session(one.id) for one in catalog.sessions() if one.title == "kept"]
    print(json.dumps({
        "problems": catalog.integrity_check(full=True),
        "messages": [message.text for message in session.messages],
        "slots": {
            key.decode(): value.decode() for key, value in catalog.get_slots("c", [b"a" * 32, b"b" * 32]).items()
        },
    }))
"""


class Scene:
    """A library with a conversation and slots, and how many system calls a change of them takes."""

    def __init__(self, folder: Path, server: Any) -> None:
        self.folder, self.server = folder, server
        shutil.rmtree(folder, ignore_errors=True)
        assert server.run(folder / "library", "python", BEGIN).code == 0
        shutil.copytree(folder / "library", folder / "stored")
        self.calls = server.run(folder / "library", "python", CHANGE, fault=("kill", 0)).count

    def check(self, kind: str, number: int) -> None:
        library = self.folder / "library"
        shutil.rmtree(library)
        shutil.copytree(self.folder / "stored", library)
        ended = self.server.run(library, "python", CHANGE, fault=(kind, number))
        told = f"{kind} {number}: {ended}"
        assert ended.code in ((0, -9) if kind in ("kill", "torn") else (0, 1)), told
        assert "Traceback" not in ended.err and "unexpected" not in ended.err, told
        done = ended.out.split("\n")
        looked = self.server.run(library, "python", LOOK)
        assert looked.code == 0, (told, looked.err)
        found = json.loads(looked.out)
        assert found["problems"] == [], told
        messages = ["the first question", "an answer " * 500]
        assert found["messages"] in ([messages] if "answered" in done else [messages[:1], messages]), told
        slots = {"a" * 32: "old slots" * 500, "b" * 32: "new slots" * 500}
        assert found["slots"].items() <= slots.items() and len(found["slots"]) >= 1 + ("kept slots" in done), told
        again = self.server.run(library, "python", CHANGE)
        assert again.code == 0 and again.out.split() == ["answered", "kept", "slots", "deleted"], (told, again)


@pytest.fixture(scope="module")
def scene(memory_folder: Path, fault_server: Any) -> Scene:
    return Scene(memory_folder / "storage", fault_server)


@pytest.mark.parametrize("kind", KINDS)
def test_some_calls(scene: Scene, kind: str) -> None:
    for number in range(1 + KINDS.index(kind), scene.calls + 1, max(1, scene.calls // 3)):
        scene.check(kind, number)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", KINDS)
def test_every_call(scene: Scene, kind: str) -> None:
    for number in range(1, scene.calls + 1):
        scene.check(kind, number)
    print(f"\n{scene.calls} faults: storage {kind}")
