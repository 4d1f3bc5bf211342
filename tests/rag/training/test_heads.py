"""Training on labelled files: what is told of a head is measured on texts that its training has not seen."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from head_training import labelled, scored
from slotrag.encoders.backbones.store import ModelStore
from slotrag.encoders.registry import create
from slotrag.encoders.training.examples import TooFewExamples
from slotrag.encoders.training.measures import spearman
from slotrag.encoders.training.settings import TrainingSettings
from slotrag.rag.training.heads import train_from_file
from slotrag.rag.training.labelled import read_examples
from slotrag.rag.training.parting import in_three

SETTINGS = TrainingSettings(epochs=20, batch=32, learning_rate=1e-2, held_out=0.25, patience=99)


@pytest.fixture
def models(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "models", offline=True)


def write(path: Path, header: list[str], rows) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
    return path


def pairs_file(path: Path, count: int) -> Path:
    pairs = scored(count)
    return write(path, ["sentence1", "sentence2", "score"], zip(pairs.first, pairs.second, pairs.scores, strict=True))


def test_the_gain_is_that_of_pairs_which_neither_training_nor_its_end_saw(models, tiny_model, tmp_path):
    path = pairs_file(tmp_path / "pairs.csv", 384)
    spec = f"pooled@({tiny_model('bert')}):hidden=16,layer=0"
    outcome = train_from_file(spec, [path], models, settings=SETTINGS, run=tmp_path / "run", device="cpu")
    parts = in_three(read_examples(path), 0.25, 0, most=2000)
    (data,) = json.loads((tmp_path / "run" / "config.json").read_text())["data"]
    assert data["trained_on"] == {"examples": len(parts.training), "sha256": parts.training.content_sha256()}
    assert data["held_out"] == {"examples": len(parts.watched), "sha256": parts.watched.content_sha256()}
    (used,), (compared,) = outcome.data, outcome.comparisons
    assert (used.trained_on, used.watched, used.judged) == tuple(
        map(len, (parts.training, parts.watched, parts.judged))
    )
    assert compared.items == len(parts.judged) == 96
    # The planted signal is strong enough for every seed and model: see the training's own tests.
    assert outcome.kept and outcome.spec is not None
    encoder = create(outcome.spec, models, device="cpu")
    one, other = encoder.encode_documents(parts.judged.first), encoder.encode_documents(parts.judged.second)
    found = spearman((one * other).sum(axis=1), np.asarray(parts.judged.scores))
    assert compared.after.value == pytest.approx(found, abs=0.01)
    assert outcome.gain == pytest.approx(compared.after.value - compared.before.value)


def test_labels_are_judged_by_what_was_learned_with_the_head(models, tiny_model, tmp_path):
    examples = labelled(160)
    path = write(tmp_path / "labels.csv", ["text", "label"], zip(examples.texts, examples.labels, strict=True))
    spec = f"pooled@({tiny_model('bert')}):hidden=16,layer=0"
    arguments = {"settings": SETTINGS, "run": tmp_path / "run", "device": "cpu"}
    outcome = train_from_file(spec, [path], models, **arguments)
    (compared,) = outcome.comparisons
    assert compared.items == outcome.data[0].judged == 40
    assert compared.after.value == round(compared.after.value * 40) / 40
    # One label of six, by chance.
    assert compared.after.value > 0.3
    assert outcome.kept == (outcome.gain > 0) and compared.gain.low <= compared.gain.value <= compared.gain.high
    # A run that is at its end judges by the classifiers that it kept.
    again = train_from_file(spec, [path], models, **arguments)
    assert again.comparisons == outcome.comparisons


def test_a_small_file_works_and_a_smaller_one_is_refused_with_the_reason(models, tiny_model, tmp_path):
    spec = f"pooled@({tiny_model('bert')}):hidden=8"
    outcome = train_from_file(spec, [pairs_file(tmp_path / "60.csv", 60)], models, device="cpu")
    assert (outcome.data[0].trained_on, outcome.data[0].watched, outcome.data[0].judged) == (34, 11, 15)
    with pytest.raises(TooFewExamples, match=r"the 30 examples of 30 only 8 .*at least 10 are needed"):
        train_from_file(spec, [pairs_file(tmp_path / "30.csv", 30)], models, device="cpu")
