"""What an interrupted adaptation leaves goes with the documents it is of; one that runs is not torn."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from slotrag.encoders.backbones.store import ModelStore
from slotrag.encoders.training.run_folder import RunBusy, RunFolder
from slotrag.encoders.training.settings import TrainingSettings
from slotrag.rag.events import Cancelled, CancelToken, Progress
from slotrag.rag.library import Library
from slotrag.rag.settings import Settings

SETTINGS = TrainingSettings(epochs=2, candidates=100, held_out=0.25, batch=16)


@pytest.fixture
def folder(documents: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(documents, tmp_path / "documents"))


@pytest.fixture
def library(folder: Path, tiny_model: Callable[[str], Path], tmp_path: Path) -> Iterator[Library]:
    settings = Settings(encoder=f"mean@({tiny_model('bert')})", decoder="none-such", passage_tokens=60)
    models = ModelStore(tmp_path / "models", offline=True)
    with Library.open(tmp_path / "library", settings=settings, models=models) as library:
        library.index([folder])
        yield library


def adapt(library: Library, **options):
    return library.adapt(head="pooled:hidden=8", settings=SETTINGS, minutes=5, questions=False, **options)


def at_the_first_check(action: Callable[[], None]) -> Callable[[Progress], None]:
    done = []

    def listen(event: Progress) -> None:
        if event.stage == "train" and event.message and not done:
            done.append(None)
            action()

    return listen


def broken_off(library: Library, meanwhile: Callable[[], object] = lambda: None, **options) -> None:
    token = CancelToken()

    def act() -> None:
        meanwhile()
        token.cancel()

    with pytest.raises(Cancelled):
        adapt(library, progress=at_the_first_check(act), cancel=token, **options)


def left(library: Library) -> list[str]:
    """Files below the folder of trainings."""
    return sorted(path.name for path in (library.folder / "training").rglob("*") if path.is_file())


def removed(library: Library, folder: Path) -> None:
    library.remove(folder / "3.md")


def changed(library: Library, folder: Path) -> None:
    (folder / "3.md").write_text("# Another thing\n\nIt stands alone.\n")
    library.index()


def gone(library: Library, folder: Path) -> None:
    (folder / "3.md").unlink()
    library.index()


def rebuilt(library: Library, folder: Path) -> None:
    library.rebuild()


@pytest.mark.parametrize("change", [removed, changed, gone, rebuilt])
def test_states_go_with_the_documents_they_are_of(library, folder, change):
    broken_off(library)
    assert {"states.bin", "plan.json", "state.safetensors"} <= set(left(library))
    change(library, folder)
    assert left(library) == [".lock"]
    assert adapt(library).comparisons


def test_they_stay_while_the_collection_is_as_it_was(library, folder):
    broken_off(library)
    there = left(library)
    library.index()
    library.doctor(fix=True)
    assert left(library) == there
    adapt(library)
    assert "states.bin" not in left(library) and "result.json" in left(library)
    # What has come to its end holds no states, and its curve may stay.
    removed(library, folder)
    assert "result.json" in left(library)


def test_those_of_a_run_that_the_user_keeps_elsewhere_go_too(library, folder, tmp_path):
    broken_off(library, run=tmp_path / "run")
    assert "states.bin" in left(library) and not (tmp_path / "run" / "states").exists()
    removed(library, folder)
    assert left(library) == [".lock"]


def test_an_adaptation_that_runs_is_not_torn(library, folder):
    seen = []

    def meanwhile() -> None:
        removed(library, folder)
        seen.extend(left(library))

    outcome = adapt(library, progress=at_the_first_check(meanwhile))
    assert "states.bin" in seen and outcome.steps > 0
    assert "states.bin" not in left(library)


def test_one_that_is_broken_off_after_a_removal_erases_what_it_made(library, folder):
    seen = []

    def meanwhile() -> None:
        removed(library, folder)
        seen.extend(left(library))

    broken_off(library, meanwhile)
    assert "states.bin" in seen
    assert left(library) == [".lock"]


def test_what_a_killed_one_leaves_is_erased_by_the_next_run_or_by_doctor(library, folder):
    broken_off(library)
    (run,) = (library.folder / "training").iterdir()
    with RunFolder(run).held():  # as the killed one did, when the document was removed
        removed(library, folder)
        assert "states.bin" in left(library)
    kept = shutil.copytree(run, library.folder.parent / "kept")
    library.index()
    assert left(library) == [".lock"]
    shutil.copytree(kept, run, dirs_exist_ok=True)
    (finding,) = [found for found in library.doctor() if found.check == "training"]
    assert not finding.fixed and finding.command == "slotrag doctor --fix" and "states.bin" in left(library)
    assert [found.fixed for found in library.doctor(fix=True) if found.check == "training"] == [True]
    assert left(library) == [".lock"]
    assert not [found for found in library.doctor() if found.check == "training"]


@pytest.mark.parametrize("note", [None, b"{", b"[]", json.dumps({"collection": 99, "state": 1}).encode()])
def test_states_of_which_nothing_is_known_are_erased(library, folder, note):
    broken_off(library)
    (path,) = (library.folder / "training").glob("*/collection.json")
    path.unlink() if note is None else path.write_bytes(note)
    library.index()
    assert left(library) == [".lock"]


def test_two_at_once_are_refused(library):
    refused = []

    def second() -> None:
        with pytest.raises(RunBusy, match="Another process trains"):
            adapt(library)
        refused.append(None)

    assert adapt(library, progress=at_the_first_check(second)).steps > 0
    assert refused
