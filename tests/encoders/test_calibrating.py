"""Calibrating: what is tried, that the figures are those of real encoders, resuming, and calls that are wrong."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tiny_models
from slotrag import SlotragError, UsageError
from slotrag.encoders import calibration_scan, registry
from slotrag.encoders.backbones.errors import UnusableModel
from slotrag.encoders.backbones.store import ModelStore
from slotrag.encoders.calibrating import Choices, calibrate
from slotrag.encoders.calibration import find_calibration
from slotrag.encoders.errors import PromptTooLong
from slotrag.rag.evaluation.beir import CorpusDocument, Dataset
from slotrag.rag.evaluation.calibration_tasks import PairsTask, RetrievalTask
from slotrag.rag.evaluation.correlation import spearman
from slotrag.rag.evaluation.pairs import Pairs

SENTENCE = "the wing of an aircraft bends under load while heat flows through its thin skin at high speed"
WORDS = tuple(SENTENCE.split())
FEW = Choices(
    prompts=("eol", "cot"), exits=(1, 2), demonstrations=("orchard",), steps=("none", "mean+top=1", "whiten=4")
)


def sentence(number: int, length: int = 6) -> list[str]:
    return [WORDS[(number * 5 + place * place) % len(WORDS)] for place in range(length)]


@pytest.fixture(scope="module")
def pairs() -> Pairs:
    """Pairs of sentences that share more or fewer words."""
    first, second, gold = [], [], []
    for number in range(40):
        words, other = sentence(number), sentence(number + 7)
        shared = number % 6
        first.append(" ".join(words))
        second.append(" ".join(words[:shared] + other[shared:]))
        gold.append(float(shared))
    return Pairs("made", first, second, gold, "ab" * 32)


@pytest.fixture
def store(tmp_path) -> ModelStore:
    return ModelStore(tmp_path / "models", offline=True)


@pytest.fixture(scope="module")
def found(tiny_model, pairs, tmp_path_factory):
    """A finished calibration of ``tp``, the store it was written to, and what it reported."""
    models = ModelStore(tmp_path_factory.mktemp("models"), offline=True)
    reports = []
    outcome = calibrate(
        f"tp@({tiny_model('llama')})", PairsTask(pairs), models, choices=FEW, data={"licence": "CC0-1.0"},
        report=lambda *report: reports.append(report),
    )  # fmt: skip
    return outcome, models, reports


def test_every_prompt_exit_and_demonstration_is_tried(found):
    tried = {(row.encoder, *sorted(row.parameters.items())) for row in found[0].rows}
    for prompt in FEW.prompts:
        assert ("prompteol", ("prompt", prompt)) in tried
        for exit in FEW.exits:
            assert ("tp", ("exit", str(exit)), ("prompt", prompt)) in tried
    demonstrated = [row for row in found[0].rows if "demonstration" in row.parameters]
    assert sorted(row.encoder for row in demonstrated) == ["prompteol", "tp"]
    for row in demonstrated:  # with the best of its encoder among those without
        rest = {key: text for key, text in row.parameters.items() if key != "demonstration"}
        plain = [
            other for other in found[0].rows if other.encoder == row.encoder and len(other.parameters) == len(rest)
        ]
        assert rest == max(plain, key=lambda other: other.chosen).parameters
    assert [row.chosen for row in found[0].rows] == sorted((row.chosen for row in found[0].rows), reverse=True)


def test_progress_ends_at_its_total(found, pairs):
    reports = found[2]
    texts = len({*pairs.first, *pairs.second})
    assert reports[-1][0] == reports[-1][1] == texts * (1 + 6 + 2)
    assert all(done <= total for done, total, _ in reports)


def score_of(spec: str, models: ModelStore, pairs: Pairs, half: slice, postprocessing=None) -> float:
    encoder = registry.create(spec, models)
    vectors = encoder.encode_documents([*pairs.first, *pairs.second])
    if postprocessing is not None:
        vectors = postprocessing.apply(vectors)
    cosines = (vectors[: len(pairs)] * vectors[len(pairs) :]).sum(axis=1)
    return spearman(cosines[half], np.asarray(pairs.gold)[half])


def test_the_figures_are_those_of_the_encoder_that_the_spec_names(found, pairs):
    outcome, models, _ = found
    encoder = registry.create(outcome.spec, models)
    best = outcome.rows[0]
    own = encoder.postprocessing
    assert (own.steps if own is not None else "none") == best.steps == outcome.steps
    assert score_of(outcome.spec, models, pairs, slice(0, None, 2), own) == pytest.approx(best.chosen, abs=1e-3)
    held = score_of(outcome.spec, models, pairs, slice(1, None, 2), own)
    assert held == pytest.approx(best.held_out, abs=1e-3) == pytest.approx(outcome.winner.value, abs=1e-3)
    plain = score_of(outcome.uncalibrated_spec, models, pairs, slice(1, None, 2))
    assert plain == pytest.approx(outcome.uncalibrated.value, abs=1e-3)
    assert outcome.gain.value == pytest.approx(outcome.winner.value - outcome.uncalibrated.value)
    assert outcome.winner.low < outcome.winner.value < outcome.winner.high
    assert outcome.items == (20, 20)


def test_each_encoder_of_the_table_gets_its_file(found, tiny_model):
    outcome, models, _ = found
    specs = [outcome.spec, *outcome.others.values()]
    assert {spec.partition("@")[0] for spec in specs} == {"tp", "prompteol"}
    for spec in specs:
        name, encoder = spec.partition("@")[0], registry.create(spec, models)
        calibration = find_calibration(spec.rpartition("=")[2], models)
        best = next(row for row in outcome.rows if row.encoder == name)
        assert calibration.parameters == {**best.parameters, "layer": str(best.layer)}
        assert calibration.data["licence"] == "CC0-1.0" and calibration.data["sha256"] == "ab" * 32
        assert calibration.measured["held_out"] == pytest.approx(best.held_out, abs=1e-6)
        assert encoder.spec == spec


def test_an_interrupted_run_goes_on_after_its_last_pass(tiny_model, pairs, store, monkeypatch):
    scanned = []
    scan = calibration_scan.scan

    def counted(states, *arguments, **options):
        scanned.append(1)
        return scan(states, *arguments, **options)

    monkeypatch.setattr("slotrag.encoders.calibration_passes.scan", counted)
    choices = Choices(prompts=("eol", "cot"), demonstrations=(), steps=("none",))
    spec, task = f"prompteol@({tiny_model('qwen2')})", PairsTask(pairs)

    class Stopped(Exception):
        pass

    def stop_in_the_second_pass(done, total, message):
        if "cot" in message and done < total:
            raise Stopped

    with pytest.raises(Stopped):
        calibrate(spec, task, store, choices=choices, report=stop_in_the_second_pass)
    before = len(scanned)
    first = calibrate(spec, task, store, choices=choices)
    assert len(scanned) - before == 2  # the interrupted pass, and the encoder as it was
    again = calibrate(spec, task, ModelStore(store.folder.parent / "others", offline=True), choices=choices)
    assert (first.spec, first.winner, [row.chosen for row in first.rows]) == (
        again.spec, again.winner, [row.chosen for row in again.rows],
    )  # fmt: skip
    assert [file.name for file in (store.folder / "calibrations").iterdir()] == [first.file.name]


def test_a_damaged_memory_costs_time_only(tmp_path):
    memory = calibration_scan.Memory(tmp_path, {"a": 1})
    cell = calibration_scan.Cell(3, "none", 0.5)
    found = calibration_scan.Pass(1.0, 3, [cell], cell, b"\x00\xff", [0.1, 0.2])
    memory.put("one", found)
    assert calibration_scan.Memory(tmp_path, {"a": 1}).get("one") == found
    assert calibration_scan.Memory(tmp_path, {"a": 2}).get("one") is None
    (file,) = tmp_path.iterdir()
    file.write_text(json.dumps({"one": {"seconds": 1}}))
    assert calibration_scan.Memory(tmp_path, {"a": 1}).get("one") is None
    file.write_text("no json")
    assert calibration_scan.Memory(tmp_path, {"a": 1}).get("one") is None


def test_parameters_of_the_spec_are_not_varied(tiny_model, pairs, store):
    outcome = calibrate(
        f"prompteol@({tiny_model('gpt2')}):prompt=cot,layer=2,demonstration=none", PairsTask(pairs), store,
        choices=Choices(steps=("none", "mean")),
    )  # fmt: skip
    (row,) = outcome.rows
    assert (row.parameters, row.layer) == ({"prompt": "cot"}, -2)
    assert "prompt=cot" in outcome.spec and "layer=2" in outcome.spec
    assert registry.create(outcome.spec, store).spec == outcome.spec


@pytest.mark.parametrize("name", ["echo", "mean"])
def test_layers_of_other_encoders(name, tiny_model, pairs, store):
    choices = Choices(prompts=("plain",), steps=("none", "mean+top=1"))
    outcome = calibrate(f"{name}@({tiny_model('llama')})", PairsTask(pairs), store, choices=choices)
    (row,) = outcome.rows
    encoder = registry.create(outcome.spec, store)
    own = getattr(encoder, "postprocessing", None)
    if name == "mean":
        assert outcome.file is None and outcome.spec.endswith(f"layer={row.layer}")
        if row.steps != "none":
            return
    assert score_of(outcome.spec, store, pairs, slice(0, None, 2), own) == pytest.approx(row.chosen, abs=1e-3)


def test_an_encoder_without_an_unembedding(tiny_model, pairs, store):
    outcome = calibrate(
        f"mean@({tiny_model('bert')})", PairsTask(pairs), store, choices=Choices(steps=("embedfilter",))
    )
    assert [row.steps for row in outcome.rows] == ["none"]


def test_a_test_collection_calibrates_too(tiny_model, store):
    documents = [CorpusDocument(str(number), "", " ".join(sentence(number))) for number in range(30)]
    queries = {f"q{number}": " ".join(sentence(number, 3)) for number in range(16)}
    dataset = Dataset("made", documents, queries, {f"q{number}": {str(number): 1} for number in range(16)})
    task = RetrievalTask(dataset, 10)
    assert (task.items, task.facts["documents"]) == (10, 20)
    choices = Choices(prompts=("eol",), demonstrations=(), steps=("none", "mean+top=1"))
    outcome = calibrate(f"prompteol@({tiny_model('llama')})", task, store, choices=choices)
    assert outcome.measure == "ndcg@10"
    encoder = registry.create(outcome.spec, store)
    vectors = encoder.encode_documents(task.texts)
    vectors = encoder.postprocessing.apply(vectors) if encoder.postprocessing else vectors
    outcomes = task.outcomes(vectors)
    assert task.score(outcomes, np.arange(1, 10, 2)) == pytest.approx(outcome.winner.value, abs=1e-3)
    names = list(queries)[:1]
    places = [task._ids.index(name) for name in ["0"]]
    ranks = (vectors[:20] @ vectors[20] > vectors[places[0]] @ vectors[20]).sum()
    assert outcomes[0] == pytest.approx(1 / np.log2(ranks + 2) if ranks < 10 else 0.0), names


@pytest.mark.parametrize("spec", ["hashing", "st@minilm-l6", "nothing"])
def test_what_cannot_be_calibrated_is_said(spec, pairs, store):
    with pytest.raises(UsageError, match="calibrate tp, prompteol, echo, mean"):
        calibrate(spec, PairsTask(pairs), store)


@pytest.mark.parametrize(
    "choices",
    [
        Choices(prompts=("no-such-prompt",)),
        Choices(prompts=("eol",), demonstrations=("no-such",)),
        Choices(steps=("whitening",)),
    ],
)
def test_unknown_choices_are_said(choices, tiny_model, pairs, store):
    with pytest.raises(UsageError, match=r"no-such|whitening"):
        calibrate(f"prompteol@({tiny_model('llama')}):layer=-1", PairsTask(pairs), store, choices=choices)


@pytest.fixture(scope="module")
def narrow(tmp_path_factory):
    """A model whose window holds the shortest prompt with a sentence, and neither a long prompt nor a demonstration."""
    folder = tmp_path_factory.mktemp("narrow") / "llama"
    return tiny_models.write("llama", folder, max_position_embeddings=60)


def test_a_prompt_that_does_not_fit_is_left_out(narrow, pairs, store):
    reports = []
    choices = Choices(prompts=("eol", "knowledge"), demonstrations=("orchard",), steps=("none",))
    outcome = calibrate(
        f"prompteol@({narrow})", PairsTask(pairs), store, choices=choices, report=lambda *report: reports.append(report)
    )
    assert [row.parameters for row in outcome.rows] == [{"prompt": "eol"}]
    assert len(outcome.left_out) == 2
    for spec, reason in outcome.left_out.items():
        assert "prompt=knowledge" in spec or "demonstration=orchard" in spec
        assert "leaves none for the text" in reason
        with pytest.raises(PromptTooLong):
            registry.create(spec, store)
    assert reports[-1][0] == reports[-1][1]


def test_nothing_is_left_out_where_all_fits(found):
    assert not found[0].left_out


@pytest.mark.parametrize("parameters", ["", ":prompt=knowledge"])
def test_where_no_prompt_fits_that_is_the_error(narrow, parameters, pairs, store):
    choices = Choices(prompts=("knowledge",), demonstrations=(), steps=("none",))
    with pytest.raises(SlotragError, match="leaves none for the text"):
        calibrate(f"prompteol@({narrow}){parameters}", PairsTask(pairs), store, choices=choices)


@pytest.mark.parametrize("error", [UnusableModel("no layers"), RuntimeError("a fault")])
def test_only_what_the_backbone_cannot_do_is_left_out(error, tiny_model, pairs, store, monkeypatch):
    create = registry.create

    def refusing(spec, *arguments, **options):
        if "prompt=cot" in str(spec):
            raise error
        return create(spec, *arguments, **options)

    monkeypatch.setattr(registry, "create", refusing)
    choices = Choices(prompts=("cot", "eol"), demonstrations=(), steps=("none",))
    arguments = (f"prompteol@({tiny_model('llama')})", PairsTask(pairs), store)
    if isinstance(error, RuntimeError):
        with pytest.raises(RuntimeError):
            calibrate(*arguments, choices=choices)
        return
    outcome = calibrate(*arguments, choices=choices)
    assert list(outcome.left_out.values()) == ["no layers"] and "prompt=cot" in next(iter(outcome.left_out))
    assert len(outcome.rows) == 1
