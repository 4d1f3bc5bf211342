"""Echo: the mean over the second time, against the definition, for every family; its cuts and refusals."""

from __future__ import annotations

import numpy as np
import pytest
from slotrag import SlotragError, UsageError
from slotrag.encoders import registry
from slotrag.encoders.backbones.frozen import FrozenLM
from slotrag.encoders.prompts import ECHO_PROMPTS

TEXTS = ["The wing bends under load.", "What does heat do?", "a", 'He said "stop" </s>', "회의는 화요일에"]
CAUSAL = ["llama", "qwen2", "gemma2", "mistral", "gpt2", "opt", "gpt-neox"]


@pytest.mark.parametrize("kind", CAUSAL)
@pytest.mark.parametrize(("prompt", "layer"), [("rewrite", 3), ("plain", 2)])
def test_equals_the_definition(tiny_model, models, kind, prompt, layer):
    folder = tiny_model(kind)
    encoder = registry.create(f"echo@({folder}):prompt={prompt},layer={layer}", models)
    model, template, wanted = FrozenLM.load(folder), ECHO_PROMPTS[prompt], []
    texts = [text for text in TEXTS if "</s>" not in text]
    for text in texts:
        whole = f"{template.before} {text}{template.between} {text}"
        found = model.tokenizer(whole, return_offsets_mapping=True)
        second = len(whole) - len(text)
        own = [place for place, (_, end) in enumerate(found.offset_mapping) if end > second]
        states, _ = model.states_at([found.input_ids], layer)
        mean = states[0, own].mean(dim=0).numpy()
        wanted.append(mean / np.linalg.norm(mean))
    np.testing.assert_allclose(encoder.encode_documents(texts), wanted, atol=1e-5)


def test_the_two_times_hold_the_same_text_within_the_window(tiny_model, models, monkeypatch):
    from slotrag.encoders.backbones.prefixed import PrefixedLM

    encoder = registry.create(f"echo@({tiny_model('llama')})", models)
    tokenizer = FrozenLM.load(tiny_model("llama")).tokenizer
    seen: list[list[int]] = []
    real = PrefixedLM.states

    def kept(self, token_lists):
        seen.extend(token_lists)
        return real(self, token_lists)

    monkeypatch.setattr(PrefixedLM, "states", kept)
    for text in (" ".join(["heat", "flows"] * 100), "가" * 200, "." * 400, "ab." * 100):
        seen.clear()
        encoder.encode_documents([text])
        first, second = tokenizer.decode(seen[0]).split(", rewritten sentence:")
        assert first == second and text.startswith(first.strip())
        assert len(seen[0]) + encoder._model.head_length <= 128


@pytest.mark.parametrize(
    ("parameters", "message"),
    [("prompt=eol", "rewrite, repeat, plain"), ("layer=4", "between 0 and 3"), ("exit=1", "no parameter 'exit'")],
)
def test_wrong_parameters_are_refused(parameters, message, tiny_model, models):
    with pytest.raises(UsageError, match=message):
        registry.create(f"echo@({tiny_model('llama')}):{parameters}", models)


def test_what_leaves_no_room_or_is_no_decoder_is_refused(tiny_model, models):
    with pytest.raises(SlotragError, match="larger max_length"):
        registry.create(f"echo@({tiny_model('llama')}):max_length=20", models)
    with pytest.raises(UsageError, match="not a causal language model"):
        registry.create(f"echo@({tiny_model('bert')})", models)
