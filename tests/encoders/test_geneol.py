"""GenEOL over tiny random generators, and over a scripted one where it matters what the variants say."""

import numpy as np
import pytest
from slotrag import UsageError
from slotrag.encoders import registry
from slotrag.encoders.errors import EncoderUnavailable
from slotrag.encoders.spec import EncoderSpec
from slotrag.encoders.text_pieces import pieces, sentences, windows
from slotrag.encoders.transformations import DEMONSTRATIONS, SUMMARY, TRANSFORMATIONS, chosen, prompt_version
from slotrag.encoders.variant_filters import cleaned, duplicates, written_problem
from slotrag.encoders.variants import MemoryVariants, Watch, text_hash, variant_key, watching

TEXTS = ["The wing bends under load.", "Heat flows through the thin skin.", "A library lends books."]
CUSTOM = """
[[transformation]]
instruction = "Name the feeling."
demonstrations = [["I won!", "joy"], ["He left.", "grief"]]
"""


@pytest.fixture
def make(models, generator, hashing_encoder):
    def made(**parameters):
        values = {"generator": str(generator), "encoder": "hashing", "m": "2", "max_length": "40", **parameters}
        return registry.create(EncoderSpec("geneol", None, tuple(values.items())), models)

    return made


@pytest.fixture
def scripted(make, monkeypatch):
    """An encoder whose generator answers by a function of (text, transformation, number); the answers asked for."""

    def made(answer, **parameters):
        encoder, asked = make(**parameters), []

        class Prompts:
            most_rows = 4

            def write(self, tasks, check):
                check()
                asked.extend((task.transformation.name, task.number, task.text) for _, task in tasks)
                return {k: [(t := answer(task)), written_problem(t, "eos") or ""] for k, task in tasks}

        encoder._writer._prompts = Prompts()
        return encoder, asked

    return made


def mean_of(encoder, *texts):
    rows = encoder._inner.encode_documents(texts).astype(np.float64).mean(axis=0)
    return rows / np.linalg.norm(rows)


def test_the_vector_is_the_mean_over_text_and_variants(scripted):
    encoder, asked = scripted(lambda task: f"{task.text} {task.transformation.name}", m="4", least="-1")
    vectors = encoder.encode_documents(TEXTS)
    for text, vector in zip(TEXTS, vectors, strict=True):
        np.testing.assert_allclose(vector, mean_of(encoder, text, *(f"{text} T{n}" for n in (1, 2, 3, 4))), atol=1e-6)
    assert sorted(asked) == sorted((f"T{n}", 0, text) for n in (1, 2, 3, 4) for text in TEXTS)
    assert encoder.reasons == {"kept": 12}


def test_vectors_as_they_are_can_be_averaged(scripted, tiny_model):
    inner = f"prompteol@({tiny_model('llama')})"
    encoder, _ = scripted(lambda task: f"{task.text} Indeed.", m="1", least="-1", normalise="false", encoder=inner)
    vectors = encoder.encode_documents(TEXTS)
    for text, vector in zip(TEXTS, vectors, strict=True):
        rows = encoder._inner.raw_vectors([text, f"{text} Indeed."]).astype(np.float64)
        assert not np.allclose(np.linalg.norm(rows, axis=1), 1.0)
        np.testing.assert_allclose(vector, rows.sum(axis=0) / np.linalg.norm(rows.sum(axis=0)), atol=1e-5)


def test_variants_go_round_the_transformations(scripted):
    encoder, asked = scripted(lambda task: "x", m="6", kinds="T4+T2")
    encoder.encode_documents(TEXTS[:1])
    assert [entry[:2] for entry in asked] == [("T4", 0), ("T4", 1), ("T4", 2), ("T2", 0), ("T2", 1), ("T2", 2)]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("", "empty"),
        ("...", "empty"),
        ("I'm sorry, but I cannot do that.", "refusal"),
        ("Sure, here is a paraphrase:", "preamble"),
        ("the WING bends, under load", "duplicate"),
        ("Pancakes need three eggs.", "far"),
    ],
)
def test_what_cannot_stand_for_the_text_is_dropped(scripted, answer, reason):
    encoder, _ = scripted(lambda task: answer, m="1", least="0.5")
    vector = encoder.encode_documents(TEXTS[:1])
    assert encoder.reasons == {reason: 1}
    np.testing.assert_allclose(vector[0], mean_of(encoder, TEXTS[0]), atol=1e-6)


def test_a_variant_counts_once(scripted):
    encoder, _ = scripted(lambda task: "The wing bends a lot.", m="4", least="-1")
    vector = encoder.encode_documents(TEXTS[:1])[0]
    assert encoder.reasons == {"kept": 1, "duplicate": 3}
    np.testing.assert_allclose(vector, mean_of(encoder, TEXTS[0], "The wing bends a lot."), atol=1e-6)


def test_finished_variants_are_not_written_again(make):
    store = MemoryVariants()
    first = make()
    first.use_variants(store)
    wanted = first.encode_documents(TEXTS)
    assert first.variants_written == 6
    second = make()
    second.use_variants(store)
    assert (second.encode_documents(TEXTS) == wanted).all()
    assert second.variants_written == 0
    more = make(m="4")
    more.use_variants(store)
    more.encode_documents(TEXTS)
    assert more.variants_written == 6, "T1 and T2 were there"


def test_cancelled_between_batches_keeps_what_is_written(scripted):
    encoder, asked = scripted(lambda task: "other words", m="4")
    store, steps = MemoryVariants(), []
    encoder.use_variants(store)

    def check():
        if len(steps) >= 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), watching(Watch(steps.append, check)):
        encoder.encode_documents(TEXTS)
    written = len(asked)
    assert 0 < written < 12
    assert [step.done for step in steps] == [3, 6] and steps[-1].total == 12 and 0.4 < steps[-1].share < 0.6
    encoder.encode_documents(TEXTS)
    assert len(asked) == 12, "a finished variant was written again"


def test_a_generators_variants_are_the_same_in_any_company(make):
    texts = [*TEXTS, "wing", "Who wrote the report, when, and what does it say about the flutter of thin wings?"]
    together, alone = make(temperature="1.5"), make(temperature="1.5")
    first, second = MemoryVariants(), MemoryVariants()
    together.use_variants(first)
    alone.use_variants(second)
    together.encode_documents(texts)
    for text in reversed(texts):
        alone.encode_documents([text])
    assert first._kept == second._kept
    assert len({text for text, _ in first._kept.values()}) > 8
    seeded = make(temperature="1.5", seed="1")
    seeded.use_variants(third := MemoryVariants())
    seeded.encode_documents(texts)
    assert not set(third._kept) & set(first._kept)


def test_queries_get_variants_only_when_asked_for(scripted):
    encoder, asked = scripted(lambda task: "x")
    assert (encoder.encode_queries(TEXTS) == encoder._inner.encode_queries(TEXTS)).all() and not asked
    encoder, asked = scripted(lambda task: f"{task.text} x", query_m="3", least="-1")
    store = MemoryVariants()
    encoder.use_variants(store)
    encoder.encode_queries(TEXTS)
    assert len(asked) == 9
    assert not store._kept, "what people ask is not stored"


def test_adaptive_m_stops_when_the_mean_stays(scripted):
    encoder, asked = scripted(lambda task: f"{task.text} {'very ' * task.number}", m="40", epsilon="0.01", least="-1")
    encoder.encode_documents(TEXTS)
    assert 3 <= len(asked) < 60


def test_composition_puts_the_summary_in_the_variants_place(scripted):
    encoder, asked = scripted(lambda task: f"{task.text} {task.transformation.name}", compose="true", least="-1")
    vector = encoder.encode_documents(TEXTS[:1])[0]
    text = TEXTS[0]
    np.testing.assert_allclose(vector, mean_of(encoder, text, f"{text} T1 S", f"{text} T2 S"), atol=1e-6)
    assert ("S", 0, f"{text} T1") in asked


LONG = "The wing bends under load. Heat flows through the thin skin. A library lends many books to its readers."


def test_sentences_and_windows_are_varied_one_by_one(scripted):
    encoder, asked = scripted(lambda task: f"{task.text} x", m="1", strategy="sentences", least="-1")
    vector = encoder.encode_documents([LONG])[0].astype(np.float64)
    assert sorted((text for _, _, text in asked), key=LONG.index) == sentences(LONG)
    rows = encoder._inner.encode_documents([LONG, *(f"{s} x" for s in sentences(LONG))]).astype(np.float64)
    wanted = rows[0] + rows[1:].mean(axis=0)
    np.testing.assert_allclose(vector, wanted / np.linalg.norm(wanted), atol=1e-6)
    encoder, asked = scripted(lambda task: f"{task.text} x", m="1", strategy="window", window="8", least="-1")
    encoder.encode_documents([LONG])
    assert " ".join(sorted((text for _, _, text in asked), key=LONG.index)) == LONG
    assert all(len(encoder.token_offsets(text)) <= 9 for _, _, text in asked)


def test_a_long_text_is_summarised_first(scripted):
    encoder, asked = scripted(
        lambda task: "short" if task.transformation.name == "S" else f"{task.text} x",
        m="1", strategy="summarise", window="12", least="-1",
    )  # fmt: skip
    vector = encoder.encode_documents([LONG, TEXTS[0]])[0]
    assert asked == [("S", 0, LONG), ("T1", 0, TEXTS[0]), ("T1", 0, "short")]
    np.testing.assert_allclose(vector, mean_of(encoder, LONG, "short x"), atol=1e-6)


@pytest.mark.parametrize("text", [LONG, "no sentence end", "하나. 둘이 있다. 셋이 더 있다.", "a\n\nb\nc", "x" * 300])
def test_pieces_hold_the_whole_text(text):
    def letters(text):
        return [(place, place + 1) for place, letter in enumerate(text) if not letter.isspace()]

    for strategy in ("whole", "sentences", "window", "summarise"):
        found = pieces(text, strategy, 10, letters)
        assert "".join("".join(found).split()) == "".join(text.split())
    assert windows("", 10, []) == []


def test_custom_transformations_count_on(tmp_path, make):
    file = tmp_path / "mine.toml"
    file.write_text(CUSTOM, encoding="utf-8")
    assert [one.name for one in chosen("", str(file))] == ["T1", "T2", "T3", "T4", "T5"]
    plain = make(transformations=str(file), kinds="T5")
    file.write_text(CUSTOM.replace("feeling", "mood"), encoding="utf-8")
    assert make(transformations=str(file), kinds="T5").fingerprint != plain.fingerprint
    assert plain.spec == str(EncoderSpec.parse(plain.spec))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("x = ", "not TOML"),
        ("x = 1", "tables"),
        ('[[transformation]]\ninstruction = "a"', "no demonstrations"),
        ('[[transformation]]\ninstruction = "a"\ndemonstrations = [["only one"]]', "pair"),
        ('[[transformation]]\ninstruction = ""\ndemonstrations = [["a", "b"]]', "one line"),
        ('[[transformation]]\nprompt = "a"', "nothing else"),
        (None, "cannot be read"),
    ],
)
def test_a_wrong_file_of_transformations_is_refused(tmp_path, content, words):
    if content is not None:
        (tmp_path / "mine.toml").write_text(content, encoding="utf-8")
    with pytest.raises(UsageError, match=words):
        chosen("", str(tmp_path / "mine.toml"))


def test_wrong_parameters_are_refused(make, models, tiny_model):
    for wrong in ({"kinds": "T9"}, {"m": "-1"}, {"form": "poem"}, {"strategy": "none"}, {"normalise": "false"}):
        with pytest.raises(UsageError):
            make(**wrong)
    with pytest.raises(UsageError, match="generator="):
        registry.create("geneol@minilm-l6", models)
    with pytest.raises(EncoderUnavailable, match="cannot write"):
        make(generator=str(tiny_model("bert")))


def test_every_transformation_has_its_demonstrations():
    for one in (*TRANSFORMATIONS, SUMMARY):
        assert len(one.demonstrations) == DEMONSTRATIONS
        for text, written in one.demonstrations:
            assert written_problem(cleaned(written), "eos") is None
            assert not duplicates(text, [written])[0]
    originals = [text for one in TRANSFORMATIONS for text, _ in one.demonstrations]
    assert len(set(originals)) == len(originals)


def test_keys_tell_all_apart_that_decides_a_variant():
    facts = {
        "generator": "g",
        "prompt": "p",
        "temperature": 0.7,
        "top_p": 1.0,
        "seed": 0,
        "transformation": "T1",
        "number": 0,
    }
    others = {
        "generator": "h",
        "prompt": "q",
        "temperature": 0.8,
        "top_p": 0.9,
        "seed": 1,
        "transformation": "T2",
        "number": 1,
    }
    keys = {variant_key("a", **facts), variant_key("b", **facts)}
    keys |= {variant_key("a", **{**facts, name: value}) for name, value in others.items()}
    assert len(keys) == 2 + len(others)
    assert prompt_version(TRANSFORMATIONS, "chat") != prompt_version(TRANSFORMATIONS, "plain")
    assert text_hash("a") != text_hash("b")


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        (' "A dog runs."</s>', "A dog runs."),
        ("\n\n A dog\nText: a cat", "A dog"),
        ("<s>A dog<|im_end|>", "A dog"),
        ('"A" and "B"', '"A" and "B"'),
        ("“A dog”", "A dog"),
    ],
)
def test_cleaned(raw, clean):
    assert cleaned(raw) == clean
