"""A causal model that writes a given text, to test what surrounds a decoder. Loop, tokenizer and template are real."""

from __future__ import annotations

import time
from types import SimpleNamespace

import tiny_models
import torch

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


class ScriptedModule(torch.nn.Module):
    """Gives the next id of the script the highest logit; its only state is the cache, so several threads may use it.

    `fails_at` raises at that step, `seconds` is slept before each.
    """

    def __init__(
        self, script: list[int], vocabulary: int, *, fails_at: int | None = None, seconds: float = 0.0
    ) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(vocabulary, 4)
        self.script, self.fails_at, self.seconds = script, fails_at, seconds
        self.forwards = 0
        self.longest_prompt = 0

    def get_input_embeddings(self) -> torch.nn.Module:
        return self.table

    def forward(self, input_ids=None, attention_mask=None, position_ids=None, use_cache=None, past_key_values=None):
        del position_ids, use_cache
        self.forwards += 1
        time.sleep(self.seconds)
        step = 0 if past_key_values is None or input_ids.shape[1] > 1 else past_key_values + 1
        if step == 0:
            self.longest_prompt = max(self.longest_prompt, attention_mask.shape[1])
        if step == self.fails_at:
            raise RuntimeError("out of memory")
        logits = torch.zeros(*input_ids.shape, self.table.num_embeddings)
        logits[..., self.script[min(step, len(self.script) - 1)]] = 10.0
        return SimpleNamespace(logits=logits, past_key_values=step)


def tokenizer(template: str | None = CHATML):
    """A byte-level tokenizer with ChatML's control tokens; `template` None makes it that of a base model."""
    made = tiny_models.train_byte_bpe(begins=False)
    made.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    made.chat_template = template
    return made


def model(text: str, *, template: str | None = CHATML, window: int = 2048, ends: bool = True, **options):
    """What `Decoder` needs of a FrozenLM, writing `text`."""
    words = tokenizer(template)
    script = words(text, add_special_tokens=False)["input_ids"]
    if ends:
        script = [*script, words.convert_tokens_to_ids("<|im_end|>") if template else words.eos_token_id]
    module = ScriptedModule(script, len(words), **options)
    config = SimpleNamespace(eos_token_id=words.eos_token_id)
    return SimpleNamespace(module=lambda: module, tokenizer=words, window=window, config=config)
