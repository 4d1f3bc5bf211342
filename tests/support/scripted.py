"""A causal model that writes a given text, to test what surrounds a decoder. Loop, tokenizer and template are real."""

from __future__ import annotations

import time
from dataclasses import dataclass
from types import SimpleNamespace

import tiny_models
import torch

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


@dataclass
class Steps:
    """A cache that only counts; after `batch_repeat_interleave` further columns are given text, not a prompt."""

    step: int = 0
    repeated: bool = False

    def batch_repeat_interleave(self, times: int) -> None:
        del times
        self.repeated = True


class ScriptedModule(torch.nn.Module):
    """Gives the next id of the script the highest logit; its only state is the cache, so several threads may use it.

    `fails_at` raises at that step, `seconds` is slept before each, `confidence` is the logit.
    """

    def __init__(
        self,
        script: list[int],
        vocabulary: int,
        *,
        fails_at: int | None = None,
        seconds: float = 0.0,
        confidence: float = 10.0,
    ) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(vocabulary, 4)
        self.script, self.fails_at, self.seconds = script, fails_at, seconds
        self.confidence = confidence
        self.forwards = 0
        self.longest_prompt = 0

    def get_input_embeddings(self) -> torch.nn.Module:
        return self.table

    def forward(self, input_ids=None, attention_mask=None, position_ids=None, use_cache=None, past_key_values=None):
        del position_ids, use_cache
        self.forwards += 1
        time.sleep(self.seconds)
        rows, columns = input_ids.shape
        cache = past_key_values or Steps()
        reading = past_key_values is None or (columns > 1 and not cache.repeated)
        step = 0 if reading else cache.step + 1
        if reading:
            self.longest_prompt = max(self.longest_prompt, attention_mask.shape[1])
        if step == self.fails_at:
            raise RuntimeError("out of memory")
        logits = torch.zeros(rows, columns, self.table.num_embeddings)
        for column in range(columns):
            place = step if reading else step + column
            logits[:, column, self.script[min(place, len(self.script) - 1)]] = self.confidence
        return SimpleNamespace(logits=logits, past_key_values=Steps(step, cache.repeated))


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
