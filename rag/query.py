"""What is searched for: the words and the options of a search, checked. It knows no library."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, replace

from .. import UsageError

MODES = ("hybrid", "dense", "lexical")

_NOTHING = {"\u115f", "\u1160", "\u3164", "\uffa0", "\u2800"}
"""Letters by their category, but nothing is seen of them."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is searched for.

    Attributes
    ----------
    path : str or None
        Glob over the documents' paths.
    min_score : float or None
        Dense cosine that every result is at or above.
    diversity : float
        0 keeps the plain order; see `slotrag.rag.diversity.spread`.
    """

    query: str
    k: int = 5
    mode: str = "hybrid"
    path: str | None = None
    min_score: float | None = None
    diversity: float = 0.0
    explain: bool = False
    judge: bool = True

    def checked(self) -> Request:
        """The request with a clean query.

        Raises
        ------
        slotrag.UsageError
            No word in the query, ``k < 1``, an unknown mode, a number out of range.
        """
        if isinstance(self.k, bool) or not isinstance(self.k, int) or self.k < 1:
            raise UsageError(f"The number of results must be at least 1, not {self.k}.")
        if self.mode not in MODES:
            raise UsageError(f"There is no mode {self.mode!r}; choose one of {', '.join(MODES)}.")
        if not 0.0 <= self.diversity <= 1.0:
            raise UsageError(f"Diversity must lie between 0 and 1, not {self.diversity}.")
        if self.min_score is not None and not -1.0 <= self.min_score <= 1.0:
            raise UsageError(f"The least score is a cosine and must lie between -1 and 1, not {self.min_score}.")
        if self.path is not None and not self.path.strip():
            raise UsageError("The path pattern is empty; leave it out to search everything.")
        return replace(self, query=clean_query(self.query))


def clean_query(query: str) -> str:
    """`query` without what no encoder can read (control characters, unpaired surrogates) and outer white space.

    Raises
    ------
    slotrag.UsageError
        Nothing is left, or nothing but punctuation.

    Examples
    --------
    >>> clean_query("  what?\\x00 ")
    'what?'
    """
    kept = "".join(" " if unicodedata.category(c) in ("Cc", "Cs") else c for c in query).strip()
    seen = [c for c in kept if unicodedata.category(c)[0] not in "CZM" and c not in _NOTHING]
    if not seen:
        raise UsageError("The query is empty; type a word or a question.")
    if all(unicodedata.category(c)[0] == "P" or unicodedata.category(c) in ("Sm", "Sc", "Sk") for c in seen):
        raise UsageError("The query holds only punctuation; type a word or a question.")
    return kept
