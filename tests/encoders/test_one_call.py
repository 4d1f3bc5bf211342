"""The one-call form: every transformation of a text as numbered lines of one completion."""

from __future__ import annotations

import pytest
from slotrag import UsageError
from slotrag.encoders import registry
from slotrag.encoders.one_call import LINES, WAYS, parted
from slotrag.encoders.spec import EncoderSpec
from slotrag.encoders.transformations import DEMONSTRATIONS, TRANSFORMATIONS
from slotrag.encoders.variant_prompts import Task
from slotrag.encoders.variants import MemoryVariants

TEXTS = ["The boiler is serviced in May.", "Two dogs run over the field."]
FOUR = " 1. first way\n2. second way\n3. third way\n4. fourth way\n"


@pytest.mark.parametrize(
    ("completion", "wanted"),
    [
        (FOUR, ["first way", "second way", "third way", "fourth way"]),
        ("1) a b\n\n3. c d\nText: x\n4. e f", ["a b", "", "c d", "e f"]),
        ("1. a b\n2. c d\n1. from another text\n3. e f\n7. g", ["a b", "c d", "e f", ""]),
        ("no number\nat all", ["", "", "", ""]),
        ("", ["", "", "", ""]),
    ],
)
def test_lines_are_told_by_their_numbers(completion, wanted):
    found = parted(completion, "eos")
    assert [text for text, _ in found] == wanted
    assert [problem for _, problem in found] == ["" if text else "empty" for text in wanted]


def test_only_the_line_that_was_cut_off_is_truncated():
    assert [problem for _, problem in parted("1. a b\n2. c d\n3. e", "length")] == ["", "", "truncated", "empty"]
    assert parted("", "too long") == [("", "too long")] * WAYS


def test_the_demonstrations_answer_as_the_completion_is_read():
    assert len(LINES.demonstrations) == DEMONSTRATIONS
    for text, written in LINES.demonstrations:
        found = parted(" " + written, "eos")
        assert all(variant and not problem and variant != text for variant, problem in found)


@pytest.fixture
def made(tiny_model, hashing_encoder, models, monkeypatch):
    """An encoder in this form whose generator completes as told; the calls that it got."""

    def make(complete, **parameters):
        values = {"generator": str(tiny_model("llama")), "encoder": "hashing", "form": "lines", "least": "-1"}
        encoder = registry.create(EncoderSpec("geneol", None, tuple({**values, **parameters}.items())), models)
        calls: list[Task] = []

        class Prompts:
            most_rows = 4

            def write(self, tasks, check):
                calls.extend(task for _, task in tasks)
                return {key: complete(task) for key, task in tasks}

        encoder._writer._prompts = Prompts()
        return encoder, calls

    return make


def test_one_call_gives_all_variants_of_a_text(made):
    encoder, calls = made(lambda task: [FOUR.replace("way", f"of {task.text}"), "eos"], m="8")
    encoder.encode_documents(TEXTS)
    assert [(call.transformation, call.text, call.number) for call in calls] == [
        (LINES, text, number) for text in TEXTS for number in (0, 1)
    ]
    assert encoder.variants_written == 16
    assert encoder.reasons == {"kept": 8, "duplicate": 8}  # the second call of a text says the same


def test_what_was_written_beyond_m_is_kept_for_a_larger_one(made):
    store = MemoryVariants()
    answer = lambda task: [FOUR.replace("way", f"of {task.text}"), "eos"]  # noqa: E731
    few, calls = made(answer, m="2")
    few.use_variants(store)
    few.encode_documents(TEXTS)
    assert len(calls) == 2 and few.reasons == {"kept": 4}
    more, calls = made(answer, m="4")
    more.use_variants(store)
    more.encode_documents(TEXTS)
    assert not calls and more.reasons == {"kept": 8}


def test_a_composed_variant_is_summarised_by_a_call_of_its_own(made):
    encoder, calls = made(
        lambda task: [FOUR, "eos"] if task.transformation is LINES else [f"short {task.text}", ""],
        m="4",
        compose="true",
    )
    encoder.encode_documents(TEXTS[:1])
    assert [call.transformation.name for call in calls] == ["lines", "S", "S", "S", "S"]


def test_a_real_model_writes_the_same_whatever_stands_beside(tiny_model, hashing_encoder, models):
    parameters = {"generator": str(tiny_model("llama")), "encoder": "hashing", "form": "lines", "m": "4"}
    spec = EncoderSpec("geneol", None, tuple({**parameters, "max_length": "20"}.items()))
    stores = []
    for batches in ([TEXTS], [[text] for text in TEXTS]):
        encoder, store = registry.create(spec, models), MemoryVariants()
        encoder.use_variants(store)
        for texts in batches:
            encoder.encode_documents(texts)
        stores.append(store._kept)
    assert stores[0] == stores[1] and len(stores[0]) == WAYS * len(TEXTS)


def test_it_has_no_other_transformations(tiny_model, hashing_encoder, models):
    spec = f"geneol:generator=({tiny_model('llama')}),encoder=hashing,form=lines"
    plain = registry.create(spec.replace("lines", "plain"), models)
    assert registry.create(spec, models).fingerprint != plain.fingerprint
    with pytest.raises(UsageError, match="T1 to T4"):
        registry.create(f"{spec},kinds=T1+T2", models)
    assert len(TRANSFORMATIONS) == WAYS
