"""The decoding loop over a frozen causal language model. It knows no tokenizer, no template and no document.

A prompt is a row of parts, each token ids or ready embeddings (memory slots), with a position for every row. It is read
in chunks with an explicit attention mask and explicit positions; then one token a step is chosen until a stop token,
the limit, a verbatim loop or the caller's wish ends it. One loop serves a single chat and left-padded batches.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch

    Part = Sequence[int] | torch.Tensor


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the model reads before it writes.

    Attributes
    ----------
    parts : sequence of (list of int or float tensor of shape (n, hidden size))
        Token ids, or rows that stand where token embeddings would.
    positions : sequence of int, optional
        Position of every row, all parts together; None counts 0, 1, 2, ... New tokens follow the highest.
    """

    parts: Sequence[Part]
    positions: Sequence[int] | None = None

    def __post_init__(self) -> None:
        if len(self) == 0:
            raise ValueError("a prompt needs at least one row")
        if self.positions is not None and len(self.positions) != len(self):
            raise ValueError(f"{len(self.positions)} positions for {len(self)} rows")

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts)

    @property
    def row_positions(self) -> list[int]:
        """The position of every row."""
        return list(range(len(self))) if self.positions is None else list(self.positions)


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
        self._module, self._prompts = module, list(prompts)
        self._stop_ids, self._max_tokens = frozenset(stop_ids), max_tokens
        self._sampling = sampling or Sampling()
        self._constraints = list(constraints) if constraints is not None else [None] * len(self._prompts)
        self._cancelled = cancelled or (lambda: False)
        self._chunk, self._stop_on_loop = chunk, stop_on_loop
        self._generator = torch.Generator().manual_seed(self._sampling.seed)
        self._device = module.get_input_embeddings().weight.device  # type: ignore[operator]
        accepted = inspect.signature(module.forward).parameters
        self._last_only: dict[str, Any] = {"logits_to_keep": 1} if "logits_to_keep" in accepted else {}
        self._cache_name = "cache" if "cache" in accepted else "past_key_values"

    def steps(self) -> Generator[list[int | None], None, None]:
        """Yield at each step the token every row wrote, None for a row that wrote none (it ended)."""
        import torch

        logits, cache, mask = self._prefill()
        if logits is None:
            return
        following = torch.tensor([[max(prompt.row_positions) + 1] for prompt in self._prompts], device=self._device)
        for step in range(self._max_tokens):
            if self._cancelled():
                self._end_all("cancelled")
                return
            chosen = self._choose(logits)
            yield [self._take(row, token) for row, token in enumerate(chosen)]
            if step + 1 == self._max_tokens:
                self._end_all("length")
            if all(completion.stop_reason for completion in self.completions):
                return
            mask = torch.cat([mask, mask.new_ones(len(chosen), 1)], dim=1)
            tokens = torch.tensor(chosen, device=self._device)[:, None]
            logits, cache = self._forward(mask, following, cache, input_ids=tokens)
            following = following + 1

    def run(self) -> list[Completion]:
        """Write until every row has ended."""
        for _ in self.steps():
            pass
        return self.completions

    def _prefill(self) -> tuple[Any, Any, Any]:
        """Logits after the prompts, the cache and the mask; logits None when cancelled."""
        import torch

        width = max(len(prompt) for prompt in self._prompts)
        mask = torch.zeros(len(self._prompts), width, dtype=torch.long, device=self._device)
        positions = torch.zeros_like(mask)
        for row, prompt in enumerate(self._prompts):
            mask[row, width - len(prompt) :] = 1
            positions[row, width - len(prompt) :] = torch.tensor(prompt.row_positions, device=self._device)
        logits = cache = None
        for start in range(0, width, self._chunk):
            if self._cancelled():
                self._end_all("cancelled")
                return None, None, None
            stop = min(width, start + self._chunk)
            logits, cache = self._forward(mask[:, :stop], positions[:, start:stop], cache, **self._rows(start, stop))
        return logits, cache, mask

    def _rows(self, start: int, stop: int) -> dict[str, Any]:
        """The model's input for columns ``[start, stop)``: ids where all parts are ids, else embeddings."""
        import torch

        width = max(len(prompt) for prompt in self._prompts)
        only_ids = all(not isinstance(part, torch.Tensor) for prompt in self._prompts for part in prompt.parts)
        if only_ids:
            ids = torch.zeros(len(self._prompts), stop - start, dtype=torch.long, device=self._device)
            for row, prompt in enumerate(self._prompts):
                flat = [token for part in prompt.parts for token in part]
                pad = width - len(flat)
                piece = flat[max(0, start - pad) : max(0, stop - pad)]
                if piece:
                    ids[row, -len(piece) :] = torch.tensor(piece, device=self._device)
            return {"input_ids": ids}
        table = self._module.get_input_embeddings()  # type: ignore[operator]
        rows = torch.zeros(len(self._prompts), stop - start, table.weight.shape[1], device=self._device)
        rows = rows.to(table.weight.dtype)
        for row, prompt in enumerate(self._prompts):
            column = width - len(prompt) - start
            for part in prompt.parts:
                first, last = max(0, column), min(stop - start, column + len(part))
                if first < last:
                    rows[row, first:last] = self._embed(part[first - column : last - column], table)
                column += len(part)
        return {"inputs_embeds": rows}

    def _embed(self, part: Any, table: Any) -> torch.Tensor:
        import torch

        with torch.no_grad():
            if isinstance(part, torch.Tensor):
                return part.to(self._device, table.weight.dtype)
            return table(torch.tensor(part, device=self._device))

    def _forward(self, mask: Any, positions: Any, cache: Any, **rows: Any) -> tuple[Any, Any]:
        import torch

        # Gradients are switched off here and not around a yield: the mode would leak into the caller's thread.
        with torch.no_grad():
            out = self._module(
                attention_mask=mask,
                position_ids=positions,
                use_cache=True,
                **{self._cache_name: cache},
                **rows,
                **self._last_only,
            )
        return out.logits[:, -1].float(), getattr(out, self._cache_name)

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
