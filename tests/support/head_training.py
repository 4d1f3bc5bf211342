"""A tiny backbone, its cache and its fresh states, and examples with a signal planted in them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from slotrag.encoders.backbones.frozen import FrozenLM
from slotrag.encoders.heads.configuration import HeadConfig
from slotrag.encoders.heads.inputs import config_for, head_inputs
from slotrag.encoders.tokens import TextTokens
from slotrag.encoders.training.examples import Labelled, Queries, ScoredPairs
from slotrag.encoders.training.state_cache import StateCache

FACTS = {"weights": "w", "tokenizer": "t", "max_length": 48, "query_prefix": "ask ", "passage_prefix": ""}

# Words that the tiny models' tokenizers know whole.
NOISE = [
    "the",
    "and",
    "was",
    "with",
    "for",
    "when",
    "on",
    "its",
    "from",
    "what",
    "does",
    "it",
    "such",
    "as",
    "about",
    "them",
    "in",
    "a",
    "of",
    "your",
    "by",
    "own",
    "at",
    "say",
]
SIGNALS = ["boundary", "plate", "heat", "wind", "library", "wing"]


class FreshStates:
    """The inputs of texts, computed whenever they are asked for."""

    key = "fresh"
    query_prefix = str(FACTS["query_prefix"])
    passage_prefix = str(FACTS["passage_prefix"])

    def __init__(self, language_model: FrozenLM, config: HeadConfig) -> None:
        self._language_model, self._config = language_model, config
        self._tokens = TextTokens(
            language_model.tokenizer, int(FACTS["max_length"]), self.passage_prefix, self.query_prefix
        )

    def ensure(self, texts, *, prefix="", report=None, check=None) -> None:
        pass

    def batch(self, texts: Sequence[str], *, prefix: str = ""):
        return head_inputs(self._language_model, self._tokens.ids(texts, prefix), self._config)

    def lengths(self, texts: Sequence[str], *, prefix: str = "") -> list[int]:
        states, mask = self.batch(texts, prefix=prefix)
        if mask is None:
            return [states.shape[1]] * len(texts)
        return [count * (states.shape[1] if states.dim() == 4 else 1) for count in mask.sum(dim=1).tolist()]


def open_cache(folder: Path, language_model: FrozenLM, config: HeadConfig, **options) -> StateCache:
    """The cache of `config` with the facts of these tests."""
    return StateCache.open(folder, language_model, config, facts=FACTS, **options)


def configured(language_model: FrozenLM, method: str, **parameters) -> HeadConfig:
    """A small head over `language_model`."""
    small = {"glot": {"hidden": 16, "gat_layers": 1}, "ilse": {"hidden": 16}, "attention": {"hidden": 16}}
    return config_for(language_model, method, **{**small.get(method, {}), **parameters})


def noisy_text(word: str, generator: random.Random, length: int = 14) -> str:
    """`word` somewhere among words that say nothing."""
    words = [generator.choice(NOISE) for _ in range(length)]
    words[generator.randrange(length)] = word
    return " ".join(words)


def labelled(count: int, seed: int = 0) -> Labelled:
    """Texts whose label is one word among many."""
    generator = random.Random(seed)
    rows = [(noisy_text(word, generator), word) for word in (SIGNALS[n % len(SIGNALS)] for n in range(count))]
    return Labelled([text for text, _ in rows], [label for _, label in rows], name="planted", licence="CC0-1.0")


def scored(count: int, seed: int = 0) -> ScoredPairs:
    """Pairs that are alike where both hold the same of the words."""
    generator = random.Random(seed)
    first, second, scores = [], [], []
    for number in range(count):
        one = generator.choice(SIGNALS)
        other = one if number % 2 else generator.choice([word for word in SIGNALS if word != one])
        first.append(noisy_text(one, generator))
        second.append(noisy_text(other, generator))
        scores.append(5.0 if one == other else 0.0)
    return ScoredPairs(first, second, scores, name="planted pairs")


def asked(count: int, seed: int = 0, negatives: bool = True) -> Queries:
    """Queries whose passages hold the same pair of words."""
    generator = random.Random(seed)
    queries, positives, wrong = [], [], []
    pairs = [(one, other) for one in SIGNALS for other in SIGNALS if one != other]
    for number in range(count):
        one, other = pairs[number % len(pairs)]
        third = generator.choice([word for word in SIGNALS if word not in (one, other)])
        queries.append(f"{one} {other} {noisy_text(one, generator, 6)}")
        positives.append(f"{noisy_text(one, generator)} {other}")
        wrong.append(f"{noisy_text(third, generator)} {other}")
    return Queries(queries, positives, wrong if negatives else None, name="planted queries")
