"""Adapting a head to a library's own documents: kept only where it is better, gone on with, nothing left behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from slotrag import UsageError
from slotrag.encoders.heads.checkpoint import find_head
from slotrag.encoders.training.settings import TrainingSettings
from slotrag.rag.events import Cancelled, CancelToken, Progress
from slotrag.rag.library import Library
from slotrag.rag.training import portions
from slotrag.rag.training.adapting import adapt_collection
from slotrag.rag.training.outcomes import HeadOutcome

SETTINGS = TrainingSettings(epochs=6, patience=6, candidates=200, held_out=0.25, learning_rate=5e-3, batch=16)


def adapt(library: Library, head: str = "ilse:hidden=16", **options) -> HeadOutcome:
    parts, record = library._shared(), library._catalog.collection(None)
    return adapt_collection(parts, library.models, record, head, **{"settings": SETTINGS, "minutes": 5, **options})


def test_a_head_is_kept_where_it_is_better(own_library: Library, tmp_path: Path) -> None:
    told: list[Progress] = []
    before = own_library.search("the wing 10", mode="dense").hits
    outcome = adapt(own_library, run=tmp_path / "run", progress=told.append)
    assert outcome.against == own_library.status().collections[0].encoder
    # A head that never left its start is not kept either, whatever rounding makes of it.
    assert not outcome.kept or outcome.gain > 0
    overall = outcome.comparisons[0]
    assert overall.items >= 10 and overall.gain.low <= overall.gain.value <= overall.gain.high
    assert overall.gain.value == pytest.approx(overall.after.value - overall.before.value)
    assert outcome.pairs["sentence"] > 20 and outcome.data[0].judged == overall.items
    assert {"read", "negatives", "train", "evaluate"} <= {event.stage for event in told}
    assert any("watched" in event.message for event in told if event.stage == "train")
    assert not list(own_library.folder.rglob("states.bin")) and outcome.state_bytes > 0
    assert {"config.json", "metrics.jsonl", "result.json"} <= {path.name for path in (tmp_path / "run").iterdir()}
    # Nothing has changed for whoever searches meanwhile.
    assert [hit.score for hit in own_library.search("the wing 10", mode="dense").hits] == [h.score for h in before]
    if outcome.kept:
        assert outcome.spec and outcome.command and outcome.spec in outcome.command.replace("'", "")
        hash = outcome.spec.rpartition("head=")[2]
        head = find_head(hash, own_library.models)
        assert head.measured["against"] == outcome.against and head.training["data"][0]["sha256"]
    json.dumps(outcome.to_json(), allow_nan=False)


def test_one_that_is_no_better_is_not_kept(own_library: Library, tmp_path: Path) -> None:
    """Steps so small that nothing moves: the untrained head has the cosines of mean pooling, and so no gain."""
    heads = sorted(own_library.models.folder.glob("heads/*"))
    still = TrainingSettings(**{**vars_of(SETTINGS), "learning_rate": 1e-12, "epochs": 1})
    outcome = adapt(own_library, run=tmp_path / "run", settings=still)
    assert not outcome.kept and outcome.spec is None and outcome.command is None
    # Vectors and states are stored as float16, so that nearly equal scores may change places.
    assert outcome.gain == pytest.approx(0.0, abs=0.03)
    assert sorted(own_library.models.folder.glob("heads/*")) == heads


def vars_of(settings: TrainingSettings) -> dict[str, object]:
    return {name: getattr(settings, name) for name in TrainingSettings.__slots__}


def test_a_run_that_was_broken_off_goes_on(own_library: Library, tmp_path: Path) -> None:
    token, checks = CancelToken(), []

    def listen(event: Progress) -> None:
        if event.stage == "train" and event.message:
            checks.append(event.message)
            if len(checks) == 2:
                token.cancel()

    with pytest.raises(Cancelled):
        adapt(own_library, run=tmp_path / "run", progress=listen, cancel=token)
    assert (tmp_path / "run" / "plan.json").is_file() and not (tmp_path / "run" / "states").exists()
    assert list(own_library.folder.rglob("states.bin"))
    gone_on = adapt(own_library, run=tmp_path / "run")
    whole = adapt(own_library, run=tmp_path / "other")
    assert gone_on.comparisons == whole.comparisons and gone_on.curve == whole.curve
    assert gone_on.spec == whole.spec


def test_the_collection_says_where_a_run_lies(own_library: Library) -> None:
    outcome = adapt(own_library, head="pooled:hidden=8")
    assert outcome.run.parent == own_library.folder / "training" and outcome.method == "attention"
    again = adapt(own_library, head="pooled:hidden=8")
    assert again.comparisons == outcome.comparisons


def test_time_bounds_the_pairs(own_library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portions, "CHUNK", 16)
    outcome = adapt(own_library, run=tmp_path / "run", minutes=1e-6)
    assert outcome.data[0].trained_on == 16
    assert any("there was no more time" in notice for notice in outcome.notices)


def test_why_there_are_no_questions_is_said(own_library: Library, tmp_path: Path) -> None:
    outcome = adapt(own_library, run=tmp_path / "run", minutes=1e-6)
    assert any("none-such is not on this machine" in notice for notice in outcome.notices)
    silent = adapt(own_library, run=tmp_path / "other", minutes=1e-6, questions=False)
    assert not any("none-such" in notice for notice in silent.notices)


def test_wrong_use(own_library: Library, documents: Path, tmp_path: Path) -> None:
    for head in ("mean", "glot:tua=0.5", "pooled:pooling=max"):
        with pytest.raises(UsageError):
            adapt(own_library, head=head)
    with Library.open(tmp_path / "small", settings=own_library.settings, models=own_library.models) as small:
        small.index([documents / "1.md"])
        with pytest.raises(UsageError, match="pairs to train on, of 1 documents"):
            adapt(small)
