"""Made-up texts that bury one relation between two words under distractors, without giving the label away otherwise.

A text holds pairs of an adjective and its noun, each pair side by side, strewn over distractor words:

    ... sealed harbour ... broken lantern ...

One noun is a target (one of `TARGETS`), the others are decoys. The label says whether the target is ``sealed`` or
``broken``; one decoy has the other adjective, further decoys either. Both adjectives are in every text, so which of
them stands next to the target, the distance between noun and adjective, is all that the label can be told from.

Texts come in twins: the second has the adjectives of target and decoy changed round and is word by word the same
otherwise. Twins have opposite labels, the same words, the same number of words and of characters: on whole twins
whatever looks only at length or at which words occur is right exactly every other time. The pairs stand in any order.

In the stress test that GLOT's authors publish (arXiv 2603.03389) texts of one class are eleven words longer than those
of the other, so that the length alone decides; this is a test of the same question without that.
It knows nothing of slotrag; `head_dilution.py` measures heads on it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

ADJECTIVES = ("sealed", "broken")
"""The labels."""

TARGETS = ("lantern", "mirror", "bottle", "basket")
DECOYS = ("window", "drawer", "bridge", "engine", "cabinet", "helmet", "wagon", "barrel")

# Nouns, verbs and small words, none of which says something about another.
_NEUTRAL = (
    "morning river paper music winter garden number village letter market summer table evening carry mountain island "
    "teacher dinner follow history corner forest minute student listen weather journey circle kitchen answer season "
    "remember between behind during under distance captain valley station picture reason family question country "
    "speak write learn study begin gather notice travel arrive consider office father sister doctor flower animal "
    "above across around through toward after before because while until Monday April north city money world water"
)
DISTRACTORS = tuple(_NEUTRAL.split())

_PAIRS = (2, 3, 4)


@dataclass(frozen=True)
class Diluted:
    """Texts and labels; the twins stand next to each other."""

    texts: list[str]
    labels: list[str]


def diluted_texts(twins: int, distractors: float, seed: int) -> Diluted:
    """Twice as many texts as `twins`, the same for the same seed.

    Parameters
    ----------
    distractors : float
        Share of a text's words that are distractors, at least 0 and below 1; rounded to whole words for each text.
    """
    chance = random.Random(f"{seed} {distractors}")
    texts, labels = [], []
    for _ in range(twins):
        one = chance.choice(ADJECTIVES)
        for label, text in zip((one, _other(one)), _twins(one, distractors, chance), strict=True):
            texts.append(text)
            labels.append(label)
    return Diluted(texts, labels)


def _twins(adjective: str, distractors: float, chance: random.Random) -> tuple[str, str]:
    """A text whose target has `adjective`, and its twin, whose target has the other."""
    count = chance.choice(_PAIRS)
    nouns = [chance.choice(TARGETS), *chance.sample(DECOYS, count - 1)]
    further = [chance.choice(ADJECTIVES) for _ in range(count - 2)]
    order = list(range(count))
    chance.shuffle(order)
    length = round(2 * count * distractors / (1 - distractors))
    strewn = [chance.choice(DISTRACTORS) for _ in range(length)]
    # Before which distractors the pairs stand.
    places = sorted(chance.randint(0, length) for _ in range(count))

    def text(first: str) -> str:
        adjectives = [first, _other(first), *further]
        words: list[str] = []
        done = 0
        for place, pair in zip(places, order, strict=True):
            words += [*strewn[done:place], adjectives[pair], nouns[pair]]
            done = place
        return " ".join([*words, *strewn[done:]])

    return text(adjective), text(_other(adjective))


def _other(adjective: str) -> str:
    return ADJECTIVES[1 - ADJECTIVES.index(adjective)]
