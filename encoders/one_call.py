"""GenEOL's one-call form: one completion gives every transformation of a text, as numbered lines.

The text is read once, not once for each transformation, and each line sees those before it. It knows no model.
"""

from __future__ import annotations

import re

from .transformations import TRANSFORMATIONS, Transformation
from .variant_filters import cleaned, written_problem

WAYS = len(TRANSFORMATIONS)
"""Lines of a call, in the order of `TRANSFORMATIONS`."""

_NUMBER = re.compile(r"\s*(\d+)[.)]\s*")

_DEMONSTRATIONS = (
    (
        "The shop on the corner closes at six on weekdays because few people come later.",
        "On weekdays the corner shop shuts at six, as hardly anyone comes after that.",
        "Since customers are rare in the evening, the store at the corner is open until six from Monday to Friday.",
        "The shop is not open late on weekdays.",
        "The corner shop closes at six on weekdays.",
    ),
    (
        "A girl in a red coat is feeding the ducks at the pond.",
        "A young girl wearing a red coat gives food to the ducks by the pond.",
        "Ducks at the pond are being fed by a child who has a red coat on.",
        "A child is outdoors with some birds.",
        "A girl is feeding ducks.",
    ),
    (
        "Heavy rain delayed the start of the tennis final by two hours, the organisers said on Sunday.",
        "The tennis final began two hours late because of heavy rain, according to the organisers on Sunday.",
        "On Sunday the hosts reported that a downpour had put off the deciding match by two hours.",
        "The weather was bad on the day of the final.",
        "Rain delayed the tennis final by two hours.",
    ),
    (
        "How often does the valve of the pump have to be replaced?",
        "At what intervals must the pump's valve be changed?",
        "When is it time to put a new valve into the pump?",
        "Somebody wants to know about the upkeep of the pump.",
        "How often is the valve replaced?",
    ),
    (
        "The committee rejected the proposal, although nobody had read the whole report.",
        "Although no member had read the full report, the committee turned the proposal down.",
        "Without anyone having gone through all of the paper, the plan was refused by the panel.",
        "The proposal did not pass.",
        "The committee rejected the proposal without reading the report.",
    ),
)
"""Text, then one line for each of `TRANSFORMATIONS`."""


def _numbered(lines: list[str]) -> str:
    return "\n".join(f"{number}. {line}" for number, line in enumerate(lines, start=1))


LINES = Transformation(
    "lines",
    "Rewrite the text in four ways: 1. with the same meaning, 2. in another structure with other words, 3. as a "
    "sentence that follows from it, 4. in fewer words.",
    "Rewritten",
    tuple((text, _numbered(lines)) for text, *lines in _DEMONSTRATIONS),
)
"""What the generator is given; it goes on with the first line."""


def parted(completion: str, stop_reason: str) -> list[tuple[str, str]]:
    """The variants of one completion, in the order of `TRANSFORMATIONS`, as (text, problem).

    Examples
    --------
    >>> parted(" 1. A dog runs.\\n2. Sure, here is one:\\n4. A dog", "length")
    [('A dog runs.', ''), ('Sure, here is one:', 'preamble'), ('', 'empty'), ('A dog', 'truncated')]
    """
    if stop_reason == "too long":
        return [("", stop_reason)] * WAYS
    found, last = [""] * WAYS, -1
    for line in completion.splitlines():
        number = _NUMBER.match(line)
        place = int(number[1]) - 1 if number else -1
        # Only forwards: what comes after is no longer an answer to the text.
        if number and last < place < WAYS:
            found[place], last = cleaned(line[number.end() :]), place
    reasons = [stop_reason if place == last else "eos" for place in range(WAYS)]
    return [(text, written_problem(text, reason) or "") for text, reason in zip(found, reasons, strict=True)]
