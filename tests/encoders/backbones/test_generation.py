"""The decoding loop over tiny random models: equal to transformers' own greedy search, alone, in batches and chunks."""

import threading

import pytest
import torch
from slotrag.encoders.backbones.generation import (
    Completion,
    DecodingLoop,
    Prompt,
    Sampling,
    generate_batch,
    repeated_tail,
)
from slotrag.encoders.backbones.scoring import score_continuations

KINDS = ["llama", "qwen2", "gpt2", "opt"]
PROMPTS = [[5, 6, 7, 8, 9, 10, 11], [5, 6, 7], list(range(20, 60)), [9]]


@pytest.fixture(scope="module")
def load(tiny_model):
    from transformers import AutoModelForCausalLM

    made = {}

    def loaded(kind, attention="sdpa"):
        if (kind, attention) not in made:
            model = AutoModelForCausalLM.from_pretrained(tiny_model(kind), attn_implementation=attention)
            made[kind, attention] = model.eval()
        return made[kind, attention]

    return loaded


def prompts():
    return [Prompt([ids]) for ids in PROMPTS]


def written(module, what=None, **options):
    options = {"stop_ids": [1], "max_tokens": 12, "stop_on_loop": False, **options}
    return [completion.ids for completion in generate_batch(module, what or prompts(), **options)]


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("kind", KINDS)
def test_greedy_equals_transformers(load, kind, attention):
    module = load(kind, attention)
    for ids in PROMPTS:
        theirs = module.generate(
            torch.tensor([ids]),
            attention_mask=torch.ones(1, len(ids), dtype=torch.long),
            max_new_tokens=12,
            do_sample=False,
            eos_token_id=1,
            pad_token_id=1,
        )[0, len(ids) :].tolist()
        ours = written(module, [Prompt([ids])])[0]
        assert theirs[: len(ours)] == ours
        assert theirs[len(ours) :] in ([], [1])


@pytest.mark.parametrize("kind", KINDS)
def test_batch_and_chunks_change_nothing(load, kind):
    module = load(kind)
    alone = [written(module, [prompt])[0] for prompt in prompts()]
    assert written(module) == alone
    assert written(module, chunk=3) == alone
    assert written(module, chunk=1) == alone


@pytest.mark.parametrize("kind", ["llama", "qwen2"])
def test_embeddings_stand_for_their_tokens(load, kind):
    module = load(kind)
    table = module.get_input_embeddings()
    mixed = [Prompt([table(torch.tensor(ids[:2])).detach(), ids[2:]]) for ids in PROMPTS]
    assert written(module, mixed, chunk=3) == written(module)


def test_positions_are_explicit(load):
    module = load("llama")
    ids = list(range(20, 40))
    plain = written(module, [Prompt([ids])])
    assert written(module, [Prompt([ids], list(range(20)))]) == plain
    # Rotary positions are relative: a shift of all of them changes nothing, stretching them does.
    assert written(module, [Prompt([ids], list(range(7, 27)))]) == plain
    assert written(module, [Prompt([ids], list(range(0, 100, 5)))]) != plain


def test_wrong_prompts_are_refused():
    with pytest.raises(ValueError, match="at least one row"):
        Prompt([[]])
    with pytest.raises(ValueError, match="2 positions for 3 rows"):
        Prompt([[1, 2, 3]], [0, 1])


def test_constraint_is_kept(load):
    class Copy:
        def allowed(self, written):
            return [30 + len(written)] if len(written) < 4 else []

    done = generate_batch(load("llama"), prompts(), stop_ids=[1], max_tokens=9, constraints=[Copy()] * 4)
    assert [completion.ids for completion in done] == [[30, 31, 32, 33]] * 4
    assert {completion.stop_reason for completion in done} == {"eos"}


def test_sampling_repeats_with_its_seed(load):
    module = load("llama")
    one = [Prompt([PROMPTS[0]])]

    def drawn(seed):
        return written(module, one, max_tokens=30, sampling=Sampling(temperature=1.0, top_p=0.95, seed=seed))

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    assert drawn(1) != written(module, one, max_tokens=30)


def test_limit_and_log_probability(load):
    module = load("qwen2")
    (completion,) = generate_batch(module, [Prompt([PROMPTS[0]])], stop_ids=[], max_tokens=5, stop_on_loop=False)
    assert (completion.stop_reason, len(completion.ids)) == ("length", 5)
    (scored,) = score_continuations(module, Prompt([PROMPTS[0]]), [completion.ids], end_ids=[1])
    assert completion.log_probability == pytest.approx(float(scored.tokens.sum()), abs=1e-3)


@pytest.mark.parametrize("after", [0, 1, 4])
def test_cancelling_stops_within_two_tokens(load, after):
    flag = threading.Event()
    loop = DecodingLoop(load("llama"), [Prompt([PROMPTS[2]])], stop_ids=[], max_tokens=50, cancelled=flag.is_set)
    if after == 0:
        flag.set()
    for count, _ in enumerate(loop.steps(), start=1):
        if count == after:
            flag.set()
    assert loop.completions[0].stop_reason == "cancelled"
    assert len(loop.completions[0].ids) == after


def test_cancelling_between_chunks_reads_no_further(load):
    asked = []
    loop = DecodingLoop(
        load("llama"),
        [Prompt([list(range(20, 80))])],
        stop_ids=[],
        max_tokens=5,
        chunk=10,
        cancelled=lambda: asked.append(1) or len(asked) > 2,
    )
    assert loop.run() == [Completion([], "cancelled", 0.0)]
    assert len(asked) <= 4


def test_gradients_stay_as_the_caller_has_them(load):
    for _ in DecodingLoop(load("llama"), prompts(), stop_ids=[], max_tokens=2).steps():
        assert torch.is_grad_enabled()


def test_scores_are_those_of_one_pass(load):
    module = load("opt")
    rows = [[4, 5, 6], [7], [8, 9]]
    for most in (16, 2, 1):
        scored = score_continuations(module, Prompt([PROMPTS[0]]), rows, end_ids=[1, 2], most=most, chunk=3)
        with torch.no_grad():
            opening = module(torch.tensor([PROMPTS[0]])).logits[0, -1]
        likeliest = sorted(range(3), key=lambda place: -float(opening[rows[place][0]]))[:most]
        assert [score.place for score in scored] == sorted(likeliest)
        for score in scored:
            row = rows[score.place]
            with torch.no_grad():
                whole = torch.log_softmax(module(torch.tensor([PROMPTS[0] + row])).logits[0], -1)
            start = len(PROMPTS[0])
            expected = [float(whole[start - 1 + i, token]) for i, token in enumerate(row)]
            ends = [float(whole[start + i, [1, 2]].logsumexp(0)) for i in range(len(row))]
            assert score.tokens.tolist() == pytest.approx(expected, abs=1e-4)
            assert score.ends.tolist() == pytest.approx(ends, abs=1e-4)
    assert score_continuations(module, Prompt([[5]]), rows, end_ids=[1], cancelled=lambda: True) is None
    assert score_continuations(module, Prompt([[5]]), [], end_ids=[1]) == []


@pytest.mark.parametrize(
    ("unit", "times", "cut"),
    [
        ([1, 2, 3, 4, 5, 6], 3, 12),
        (list(range(30)), 2, 30),
        ([7], 24, 23),
        ([1, 2], 12, 22),
        ([1, 2, 3, 4, 5, 6], 2, 0),
        ([7], 10, 0),
        (list(range(200)), 2, 0),
    ],
)
def test_repeated_tail(unit, times, cut):
    assert repeated_tail([90, 91, 92, *unit * times]) == cut


def test_loop_is_cut_and_named(load):
    class Circle:
        def allowed(self, written):
            return [40 + len(written) % 6]

    (completion,) = generate_batch(load("llama"), [Prompt([[5]])], stop_ids=[1], max_tokens=90, constraints=[Circle()])
    assert completion.stop_reason == "loop"
    assert completion.ids == [40, 41, 42, 43, 44, 45]


def test_threads_write_the_same_tokens(load):
    module = load("llama")
    alone = [written(module, [prompt])[0] for prompt in prompts()]
    found = {}

    def work(number):
        found[number] = written(module, [prompts()[number % 4]])[0]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[number] for number in range(8)] == alone * 2
