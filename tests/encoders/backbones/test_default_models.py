"""The three models of the catalogue that are pinned, as they lie in this machine's model cache."""

from __future__ import annotations

import pytest
import torch
from slotrag.encoders.backbones import catalogue
from slotrag.encoders.backbones.frozen import FrozenLM

PINNED = [entry.name for entry in catalogue.entries() if entry.sha256 is not None]


@pytest.mark.parametrize("name", PINNED)
def test_hashes_and_sizes_are_the_catalogues(models, name):
    entry = catalogue.find(name)
    assert models.weights_sha256(name) == entry.sha256
    assert models.tokenizer_sha256(name) == entry.tokenizer_sha256
    model = FrozenLM.load(models.resolve(name))
    assert model.hidden_size == entry.dimension and model.window >= entry.window
    # The catalogue counts MiniLM's pooler, which is not loaded.
    assert model.parameters == pytest.approx(entry.parameters, rel=0.01)


@pytest.mark.parametrize("name", PINNED)
def test_a_row_does_not_depend_on_its_batch(models, name):
    model = FrozenLM.load(models.resolve(name))
    texts = ["A short one.", "The boundary layer on a flat plate grows with the distance. " * 6, "안녕하세요 세계"]
    ids = [model.tokenizer(text).input_ids for text in texts]
    states, mask = model.token_states(ids)
    together = torch.nn.functional.normalize((states * mask[:, :, None]).sum(1), dim=1)
    for row, row_ids in enumerate(ids):
        alone = torch.nn.functional.normalize(model.token_states([row_ids])[0].sum(1), dim=1)[0]
        torch.testing.assert_close(together[row], alone, atol=1e-5, rtol=0)


def mean_vectors(model: FrozenLM, texts: list[str]) -> torch.Tensor:
    states, mask = model.token_states([model.tokenizer(text).input_ids for text in texts])
    return torch.nn.functional.normalize(states.sum(1) / mask.sum(1)[:, None], dim=1)


def test_e5_brings_korean_and_english_paraphrases_together(models):
    model = FrozenLM.load(models.resolve("e5-small"))
    texts = [
        "query: How much protein should a woman eat per day?",
        "query: 여성은 하루에 단백질을 얼마나 먹어야 하나요?",
        "query: The weather in Seoul is sunny today.",
        "query: 오늘 서울의 날씨는 맑습니다.",
    ]
    vectors = mean_vectors(model, texts)
    cosines = vectors @ vectors.T
    assert cosines[0, 1] > cosines[0, [2, 3]].max() + 0.05
    assert cosines[2, 3] > cosines[2, [0, 1]].max() + 0.05


def test_e5_tokenizer_is_xlm_robertas(models):
    tokenizer = FrozenLM.load(models.resolve("e5-small")).tokenizer
    assert tokenizer("query: 안녕  hello").input_ids == [0, 41, 1294, 12, 6888, 195269, 33600, 31, 2]
    encoding = tokenizer("ＡＢＣ ½", return_offsets_mapping=True)
    assert encoding.input_ids[0] == 0 and encoding.input_ids[-1] == 2
    assert encoding.offset_mapping[-2][1] == 5


def test_minilm_ranks_the_paraphrase_first(models):
    model = FrozenLM.load(models.resolve("minilm-l6"))
    vectors = mean_vectors(model, ["a cat sat on the mat", "the kitten is resting on a rug", "stock prices fell"])
    cosines = vectors @ vectors.T
    assert cosines[0, 1] > cosines[0, 2] + 0.3


def test_smollm_answers_through_its_template_and_ends(models):
    model = FrozenLM.load(models.resolve("smollm2-135m"), causal=True)
    tokenizer = model.tokenizer
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is the capital of France?"}], tokenize=False, add_generation_prompt=True
    )
    assert text.endswith("<|im_start|>assistant\n") and tokenizer.eos_token == "<|im_end|>"
    ids = tokenizer(text, add_special_tokens=False).input_ids
    assert ids[0] == tokenizer.convert_tokens_to_ids("<|im_start|>")
    tree = model.module()
    assert tree.generation_config.eos_token_id == tokenizer.eos_token_id == 2
    reply = tree.generate(torch.tensor([ids]), max_new_tokens=24, do_sample=False)[0, len(ids) :]
    assert "Paris" in tokenizer.decode(reply)
    assert reply[-1] == 2
