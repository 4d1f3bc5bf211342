"""The decoding loop over a frozen causal language model. It knows no tokenizer, no template and no document.

A prompt is a row of parts, each token ids or ready embeddings (memory slots), with a position for every row. It is read
in chunks with an explicit attention mask and explicit positions; then one token a step is chosen until a stop token,
the limit, a verbatim loop or the caller's wish ends it. One loop serves a single chat and left-padded batches.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from .prefill import Prompt, PromptReader

__all__ = ["Completion", "Constraint", "DecodingLoop", "Prompt", "Sampling", "generate_batch", "repeated_tail"]

if TYPE_CHECKING:
    import torch


class Constraint(Protocol):
    """Says which tokens may come next."""

    def allowed(self, written: Sequence[int]) -> Collection[int] | None:
        """Ids that may follow `written` (stop tokens included); None allows every token, an empty answer ends."""
        ...


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is chosen: the likeliest one (temperature 0) or drawn with a generator of its own seed."""

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0


@dataclass(slots=True)
class Completion:
    """What one prompt's row has written so far.

    Attributes
    ----------
    ids : list of int
        Without the stop token; after a loop without the repeated part.
    stop_reason : str
        ``eos``, ``length``, ``loop``, ``cancelled``, or empty while it runs.
    log_probability : float
        Sum over the written tokens and the stop token, under the model's own distribution.
    """

    ids: list[int] = field(default_factory=list)
    stop_reason: str = ""
    log_probability: float = 0.0


def repeated_tail(ids: Sequence[int], longest: int = 160) -> int:
    """Length of the part at the end of `ids` that only repeats what stands before it, 0 without a verbatim loop.

    A long unit counts as a loop when it comes twice in a row, a middling one three times, a unit of a few tokens (rules
    of dashes, digits, laughter) only after 24 tokens.

    Examples
    --------
    >>> repeated_tail([9, 8] + list(range(24)) * 2)
    24
    >>> repeated_tail([9] + [1, 2, 3, 4, 5] * 3)
    10
    >>> repeated_tail([1, 2, 3, 1, 2, 3])
    0
    """
    size = len(ids)
    for unit in range(1, min(longest, size // 2) + 1):
        needed = 2 if unit >= 20 else 3 if unit >= 5 else -(-24 // unit)
        span = unit * needed
        if span > size or ids[-1] != ids[-1 - unit]:
            continue
        if all(ids[-i] == ids[-i - unit] for i in range(1, span - unit + 1)):
            return span - unit
    return 0


class DecodingLoop:
    """Reads a batch of prompts and writes one token a step for each.

    Parameters
    ----------
    module : torch.nn.Module
        A causal language model of transformers; its weights are not changed.
    prompts : sequence of Prompt
        Several are left-padded to one length; a row's result does not depend on its neighbours (but for rounding).
    stop_ids : collection of int
        Tokens that end a row.
    max_tokens : int
        Most tokens a row writes.
    constraints : sequence of (Constraint or None), optional
        One for each prompt.
    cancelled : callable, optional
        Asked before each chunk of the prompts and before each token.
    chunk : int
        Rows of the prompts read in one forward pass.
    stop_on_loop : bool
        Whether a verbatim loop ends a row.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        prompts: Sequence[Prompt],
        *,
        stop_ids: Collection[int],
        max_tokens: int,
        sampling: Sampling | None = None,
        constraints: Sequence[Constraint | None] | None = None,
        cancelled: Callable[[], bool] | None = None,
        chunk: int = 512,
        stop_on_loop: bool = True,
    ) -> None:
        import torch

        if max_tokens < 1 or chunk < 1:
            raise ValueError("max_tokens and chunk must be at least 1")
        self.completions = [Completion() for _ in prompts]
        self._prompts = list(prompts)
        self._stop_ids, self._max_tokens = frozenset(stop_ids), max_tokens
        self._sampling = sampling or Sampling()
        self._constraints = list(constraints) if constraints is not None else [None] * len(self._prompts)
        self._cancelled = cancelled or (lambda: False)
        self._chunk, self._stop_on_loop = chunk, stop_on_loop
        self._generator = torch.Generator().manual_seed(self._sampling.seed)
        self._reader = PromptReader(module, self._prompts)

    def steps(self) -> Generator[list[int | None], None, None]:
        """Yield at each step the token every row wrote, None for a row that wrote none (it ended)."""
        import torch

        logits = self._reader.read(self._chunk, self._cancelled)
        for step in range(self._max_tokens):
            if logits is None or self._cancelled():
                self._end_all("cancelled")
                return
            chosen = self._choose(logits)
            yield [self._take(row, token) for row, token in enumerate(chosen)]
            if step + 1 == self._max_tokens:
                self._end_all("length")
            if all(completion.stop_reason for completion in self.completions):
                return
            logits = self._reader.follow(torch.tensor(chosen, device=self._reader.device)[:, None])[:, -1]

    def run(self) -> list[Completion]:
        """Write until every row has ended."""
        for _ in self.steps():
            pass
        return self.completions

    def _choose(self, logits: torch.Tensor) -> list[int]:
        """The next token of each row; a row that has ended gets a stop token or 0."""
        import torch

        filler = min(self._stop_ids, default=0)
        log_probabilities = torch.log_softmax(logits, dim=-1).cpu()
        chosen = []
        for row, completion in enumerate(self.completions):
            if completion.stop_reason:
                chosen.append(filler)
                continue
            scores = self._constrained(row, log_probabilities[row])
            token = filler if scores is None else self._draw(scores)
            if scores is None:
                completion.stop_reason = "eos"
            else:
                completion.log_probability += float(log_probabilities[row, token])
            chosen.append(token)
        return chosen

    def _constrained(self, row: int, scores: torch.Tensor) -> torch.Tensor | None:
        """`scores` with what the row's constraint forbids at minus infinity, None where nothing is allowed."""
        import torch

        constraint = self._constraints[row]
        allowed = None if constraint is None else constraint.allowed(self.completions[row].ids)
        if allowed is None:
            return scores
        if not allowed:
            return None
        ids = torch.tensor(sorted(allowed))
        kept = torch.full_like(scores, float("-inf"))
        kept[ids] = scores[ids]
        return kept

    def _draw(self, scores: torch.Tensor) -> int:
        import torch

        if self._sampling.temperature <= 0:
            return int(scores.argmax())
        probabilities = torch.softmax(scores / self._sampling.temperature, dim=-1)
        if self._sampling.top_p < 1:
            ordered, order = probabilities.sort(descending=True)
            beyond = ordered.cumsum(0) - ordered >= self._sampling.top_p
            probabilities[order[beyond]] = 0
        return int(torch.multinomial(probabilities, 1, generator=self._generator))

    def _take(self, row: int, token: int) -> int | None:
        """Book `token` in its row's completion; None when the row has ended or ends with it."""
        completion = self.completions[row]
        if completion.stop_reason:
            return None
        if token in self._stop_ids:
            completion.stop_reason = "eos"
            return None
        completion.ids.append(token)
        repeated = repeated_tail(completion.ids) if self._stop_on_loop else 0
        if repeated:
            del completion.ids[-repeated:]
            completion.stop_reason = "loop"
        return token

    def _end_all(self, reason: str) -> None:
        for completion in self.completions:
            completion.stop_reason = completion.stop_reason or reason


def generate_batch(
    module: torch.nn.Module, prompts: Sequence[Prompt], *, stop_ids: Collection[int], max_tokens: int, **options: Any
) -> list[Completion]:
    """Completions of several prompts, in their order; `options` as for `DecodingLoop`."""
    if not prompts:
        return []
    return DecodingLoop(module, prompts, stop_ids=stop_ids, max_tokens=max_tokens, **options).run()
