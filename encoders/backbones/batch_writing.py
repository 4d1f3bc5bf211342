"""Writes many sampled rows at once that begin with one shared prefix. It knows no tokenizer, no template and no text.

A row's tokens depend on its prompt and its key alone, whatever rows are beside it and however far it looks ahead: each
token is the largest of logit / temperature + Gumbel noise, and the noise comes from a counter-based generator at
(key, step). Rounding, which does depend on the batch, could decide only where two tokens lie closer than `_MARGIN`;
there the row's logits are computed again by a pass of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .generation import Completion, repeated_tail
from .prefill import Prompt, PromptReader, SharedPrefix

if TYPE_CHECKING:
    import numpy as np
    import torch

_MARGIN = 1e-3
"""Far above what the batch changes a float32 logit by, and rare: under one token in a thousand."""

_MASS = 1e-4
"""The same for the probability mass at which a nucleus (top-p) ends."""

_CHUNK = 512
"""Tokens of a prompt read in one pass."""

_MATCH = 2
"""Tokens at a row's end that are looked up in its source."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row to write.

    Attributes
    ----------
    ids : sequence of int
        What follows the shared prefix; at least one token.
    key : bytes
        At least 16; the noise is drawn by them.
    limit : int
        Most tokens written.
    source : sequence of int
        Tokens that the row may repeat; drafts are looked up there.
    lines : int
        Closing tokens until the row ends.
    """

    ids: Sequence[int]
    key: bytes
    limit: int
    source: Sequence[int] = ()
    lines: int = 1


def gumbel_noise(key: bytes, step: int, size: int) -> np.ndarray:
    """Standard Gumbel noise, float32 of shape (size,), the same on every machine for the same key and step."""
    import numpy as np

    # The raw bits of Philox are fixed by its definition; numpy's distributions may change between its versions.
    generator = np.random.Philox(key=int.from_bytes(key[:16], "little"), counter=step << 128)
    bits = generator.random_raw(-(-size // 2)).view(np.uint32)[:size]
    # 23 bits and a half: exact in float32, and never 0 or 1.
    uniform = ((bits >> 9).astype(np.float32) + np.float32(0.5)) * np.float32(2**-23)
    return -np.log(-np.log(uniform))


def looked_up(written: Sequence[int], source: Sequence[int], most: int) -> list[int]:
    """The tokens that follow the end of `written` where it stands in `source`, `most` at most.

    Examples
    --------
    >>> looked_up([9, 5, 6], [4, 5, 6, 7, 8], 3)
    [7, 8]
    >>> looked_up([9, 6], [4, 5, 6, 7, 8], 3)
    []
    """
    tail = list(written[-_MATCH:])
    if len(tail) < _MATCH or most < 1:
        return []
    for at in range(len(source) - _MATCH):
        if list(source[at : at + _MATCH]) == tail:
            return list(source[at + _MATCH : at + _MATCH + most])
    return []


class BatchWriter:
    """Writes batches of rows with one model.

    Parameters
    ----------
    module : torch.nn.Module
        A causal language model of transformers; its weights are not changed.
    stop_ids : collection of int
        Tokens that end a row and do not belong to it.
    closing_ids : collection of int
        Tokens that end a line of a row and belong to it (those with a line break in them).
    temperature, top_p : float
        Temperature 0 takes the likeliest token.
    lookup : int
        Most tokens of a draft looked up in a row's source and verified in one pass; 0 for one token at a time. It
        changes no row, only the time.

    Attributes
    ----------
    steps, decided_alone, accepted : int
        Forward passes after the prompts, tokens decided by a pass of their own, drafted tokens that were right.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        *,
        stop_ids: Collection[int],
        closing_ids: Collection[int] = (),
        temperature: float = 0.7,
        top_p: float = 1.0,
        lookup: int = 0,
    ) -> None:
        self._module = module
        self._stop_ids, self._closing_ids = frozenset(stop_ids), frozenset(closing_ids)
        self._temperature, self._top_p, self._lookup = temperature, top_p, lookup
        self.steps = self.decided_alone = self.accepted = 0

    def write(
        self, prefix: SharedPrefix, rows: Sequence[Row], check: Callable[[], None] = lambda: None
    ) -> list[Completion]:
        """Completions of `rows`, in their order.

        Parameters
        ----------
        check : callable
            Called before every pass; whatever it raises ends the work.

        Returns
        -------
        list of Completion
            `stop_reason` is ``eos`` (also after a closing token), ``length`` or ``loop``.
        """
        import torch

        reader = PromptReader(self._module, [Prompt([list(row.ids)]) for row in rows], prefix=prefix)
        completions = [Completion() for _ in rows]
        active, drafts = list(range(len(rows))), [[] for _ in rows]
        read = reader.read(_CHUNK, lambda: check() is not None)
        assert read is not None  # `check` ends the work by raising
        logits, fed = read[:, None], 0
        while True:
            kept = [
                self._take(prefix, rows[at], completions[at], logits[place], drafts[place])
                for place, at in enumerate(active)
            ]
            reader.take_back(fed, torch.tensor(kept))
            going = [place for place, at in enumerate(active) if not completions[at].stop_reason]
            if not going:
                return completions
            if 2 * len(going) <= len(active):
                reader.keep(going)
                active = [active[place] for place in going]
            drafts = [self._draft(rows[at], completions[at]) for at in active]
            fed = 1 + max(map(len, drafts))
            tokens = torch.zeros(len(active), fed, dtype=torch.long)
            for place, at in enumerate(active):
                fresh = [*completions[at].ids[-1:], *drafts[place]]
                tokens[place, : len(fresh)] = torch.tensor(fresh, dtype=torch.long)
            check()
            logits = reader.follow(tokens.to(reader.device))
            self.steps += 1

    def _draft(self, row: Row, completion: Completion) -> list[int]:
        if completion.stop_reason or not self._lookup:
            return []
        return looked_up(completion.ids, row.source, min(self._lookup, row.limit - len(completion.ids) - 1))

    def _take(
        self, prefix: SharedPrefix, row: Row, completion: Completion, logits: torch.Tensor, draft: Sequence[int]
    ) -> int:
        """Choose the next tokens of a row: one, and one more after every drafted token that is the one chosen.

        Returns
        -------
        int
            How many of the tokens just read are the row's own.
        """
        if completion.stop_reason:
            return 0
        for place in range(len(draft) + 1):
            token = self._choose(prefix, row, completion, logits[place])
            self._book(row, completion, token)
            if completion.stop_reason or place == len(draft) or token != draft[place]:
                return place + 1
            self.accepted += 1
        raise AssertionError("unreachable")

    def _book(self, row: Row, completion: Completion, token: int) -> None:
        if token in self._stop_ids:
            completion.stop_reason = "eos"
            return
        completion.ids.append(token)
        if token in self._closing_ids and self._lines(completion) >= row.lines:
            completion.stop_reason = "eos"
        elif repeated := repeated_tail(completion.ids):
            del completion.ids[-repeated:]
            completion.stop_reason = "loop"
        elif len(completion.ids) >= row.limit:
            completion.stop_reason = "length"

    def _lines(self, completion: Completion) -> int:
        return sum(token in self._closing_ids for token in completion.ids)

    def _choose(self, prefix: SharedPrefix, row: Row, completion: Completion, logits: torch.Tensor) -> int:
        import numpy as np

        noise = np.float32(0.0)
        if self._temperature > 0:
            noise = gumbel_noise(row.key, len(completion.ids), len(logits))
        token = self._drawn(logits.cpu().numpy(), noise, exact=False)
        if token is None:
            self.decided_alone += 1
            token = self._drawn(self._logits_alone([*prefix.ids, *row.ids, *completion.ids]), noise, exact=True)
        assert token is not None
        return token

    def _drawn(self, logits: np.ndarray, noise: np.ndarray | np.float32, *, exact: bool) -> int | None:
        """The token with the largest noisy logit; unless `exact`, None where rounding could decide it."""
        import numpy as np

        scaled = logits / np.float32(self._temperature or 1.0)
        scores = scaled + noise
        if self._top_p < 1 and self._temperature > 0:
            inner, outer = _nucleus(scaled, self._top_p - _MASS), _nucleus(scaled, self._top_p + _MASS)
            if exact:
                inner = outer = _nucleus(scaled, self._top_p)
            best = int(np.where(outer, scores, -np.inf).argmax())
            if not inner[best]:
                return None
            scores = np.where(inner, scores, -np.inf)
        best = int(scores.argmax())
        if not exact:
            largest = scores[best]
            scores[best] = -np.inf
            if largest - scores.max() < _MARGIN:
                return None
        return best

    def _logits_alone(self, ids: Sequence[int]) -> np.ndarray:
        read = PromptReader(self._module, [Prompt([list(ids)])]).read(_CHUNK, lambda: False)
        assert read is not None
        return read[0].cpu().numpy()


def _nucleus(scaled: np.ndarray, mass: float) -> np.ndarray:
    """Which tokens are the likeliest ones that together have `mass`, the one that reaches it included."""
    import numpy as np

    probabilities = np.exp((scaled - scaled.max()).astype(np.float64))
    probabilities /= probabilities.sum()
    order = np.argsort(-probabilities, kind="stable")
    ordered = probabilities[order]
    inside = np.zeros(len(scaled), dtype=bool)
    inside[order[np.cumsum(ordered) - ordered < mass]] = True
    return inside
