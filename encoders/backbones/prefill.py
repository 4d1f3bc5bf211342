"""Prompts and how a causal language model reads them: in chunks, with mask and positions. It chooses no token.

What many prompts begin with is read once (`SharedPrefix`); each batch goes on from a copy of its keys and values.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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


class SharedPrefix:
    """The common beginning of many prompts with its keys and values, computed once.

    Parameters
    ----------
    module : torch.nn.Module
        A causal language model of transformers; its weights are not changed.
    ids : sequence of int
        At least one token.
    chunk : int
        Tokens read in one forward pass.
    cancelled : callable, optional
        Asked before each chunk; `cache` is None when it said so.

    Attributes
    ----------
    ids : tuple of int
    cache : transformers.Cache or None
        For one row; never changed.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        ids: Sequence[int],
        *,
        chunk: int = 512,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self.ids = tuple(ids)
        reader = PromptReader(module, [Prompt([list(ids)])])
        self.cache: Any = None if reader.read(chunk, cancelled) is None else reader.cache

    def __len__(self) -> int:
        return len(self.ids)

    def copied(self, rows: int) -> Any:
        """A cache that holds the prefix for each of `rows` rows."""
        cache = copy.deepcopy(self.cache)
        cache.batch_repeat_interleave(rows)
        return cache


class PromptReader:
    """Runs a causal language model over a batch of prompts and over what follows them.

    Parameters
    ----------
    module : torch.nn.Module
        A causal language model of transformers; its weights are not changed.
    prompts : sequence of Prompt
        Several are left-padded to one length.
    prefix : SharedPrefix, optional
        Stands before every prompt; the prompts' own positions are counted from its end.

    Attributes
    ----------
    cache : transformers.Cache or None
        Keys and values of all rows read so far.
    mask : torch.Tensor
        int64, shape (prompts, columns): 1 where a row stands, 0 for padding.
    following : torch.Tensor
        int64, shape (prompts, 1): the position of each prompt's next row.
    """

    def __init__(
        self, module: torch.nn.Module, prompts: Sequence[Prompt], *, prefix: SharedPrefix | None = None
    ) -> None:
        import torch

        self._module, self._prompts = module, list(prompts)
        self._table: Any = module.get_input_embeddings()  # type: ignore[operator]
        self.device: torch.device = self._table.weight.device
        accepted = inspect.signature(module.forward).parameters
        self._last_only: dict[str, Any] = {"logits_to_keep": 1} if "logits_to_keep" in accepted else {}
        self._cache_name = "cache" if "cache" in accepted else "past_key_values"
        self._before = 0 if prefix is None else len(prefix)
        self.cache: Any = None if prefix is None else prefix.copied(len(self._prompts))
        self._width = max(len(prompt) for prompt in self._prompts)
        # The padding stands between the prefix and the prompt, masked.
        mask = torch.zeros(len(self._prompts), self._width, dtype=torch.long, device=self.device)
        self._positions = torch.zeros_like(mask)
        for row, prompt in enumerate(self._prompts):
            mask[row, self._width - len(prompt) :] = 1
            positions = torch.tensor(prompt.row_positions, device=self.device) + self._before
            self._positions[row, self._width - len(prompt) :] = positions
        self.mask = torch.cat([mask.new_ones(len(mask), self._before), mask], dim=1)
        self.following = self._positions.max(dim=1, keepdim=True).values + 1

    def read(self, chunk: int, cancelled: Callable[[], bool]) -> torch.Tensor | None:
        """Read the prompts, `chunk` columns at a time.

        Returns
        -------
        torch.Tensor or None
            Logits after each prompt, float32, shape (prompts, vocabulary); None when cancelled between two chunks.
        """
        logits = None
        for start in range(0, self._width, chunk):
            if cancelled():
                return None
            stop = min(self._width, start + chunk)
            rows = self._rows(start, stop)
            mask = self.mask[:, : self._before + stop]
            logits = self._forward(mask, self._positions[:, start:stop], rows, self._last_only)[:, -1]
        return logits

    def follow(self, tokens: torch.Tensor) -> torch.Tensor:
        """Read further columns of token ids.

        Parameters
        ----------
        tokens : torch.Tensor
            int64, shape (rows, columns).

        Returns
        -------
        torch.Tensor
            Logits after each token, float32, shape (rows, columns, vocabulary).
        """
        import torch

        self.mask = torch.cat([self.mask, torch.ones_like(tokens)], dim=1)
        positions = self.following + torch.arange(tokens.shape[1], device=self.device)[None]
        self.following = self.following + tokens.shape[1]
        return self._forward(self.mask, positions, {"input_ids": tokens}, {})

    def repeat(self, times: int) -> None:
        """Go on with `times` copies of the one prompt."""
        self.cache.batch_repeat_interleave(times)
        self.mask = self.mask.repeat_interleave(times, dim=0)
        self.following = self.following.repeat_interleave(times, dim=0)

    def take_back(self, columns: int, kept: torch.Tensor) -> None:
        """Forget some of the last `columns` columns read by `follow`: of each row all but its first ``kept[row]``.

        Parameters
        ----------
        kept : torch.Tensor
            int64, shape (rows,), 0 to `columns`.
        """
        import torch

        if columns < 1:
            return
        stays = torch.arange(columns, device=self.device)[None] < kept.to(self.device)[:, None]
        self.mask[:, -columns:] *= stays.long()
        self.following = self.following - columns + kept.to(self.device)[:, None]
        unused = columns - int(kept.max())
        if unused and self.cache.is_croppable:
            self.cache.crop(-unused)
            self.mask = self.mask[:, :-unused]

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with some of the rows only, after `read`."""
        import torch

        chosen = torch.tensor(list(rows), device=self.device)
        self.cache.batch_select_indices(chosen)
        self.mask, self.following = self.mask[chosen], self.following[chosen]

    def _rows(self, start: int, stop: int) -> dict[str, Any]:
        """The model's input for columns ``[start, stop)``: ids where all parts are ids, else embeddings."""
        import torch

        if all(not isinstance(part, torch.Tensor) for prompt in self._prompts for part in prompt.parts):
            ids = torch.zeros(len(self._prompts), stop - start, dtype=torch.long, device=self.device)
            for row, prompt in enumerate(self._prompts):
                flat = [token for part in prompt.parts for token in part]
                padding = self._width - len(flat)
                piece = flat[max(0, start - padding) : max(0, stop - padding)]
                if piece:
                    ids[row, -len(piece) :] = torch.tensor(piece, device=self.device)
            return {"input_ids": ids}
        weights = self._table.weight
        rows = torch.zeros(len(self._prompts), stop - start, weights.shape[1], device=self.device, dtype=weights.dtype)
        for row, prompt in enumerate(self._prompts):
            column = self._width - len(prompt) - start
            for part in prompt.parts:
                first, last = max(0, column), min(stop - start, column + len(part))
                if first < last:
                    rows[row, first:last] = self._embed(part[first - column : last - column])
                column += len(part)
        return {"inputs_embeds": rows}

    def _embed(self, part: Any) -> torch.Tensor:
        import torch

        with torch.no_grad():
            if isinstance(part, torch.Tensor):
                return part.to(self.device, self._table.weight.dtype)
            return self._table(torch.tensor(part, device=self.device))

    def _forward(self, mask: Any, positions: Any, rows: dict[str, Any], options: dict[str, Any]) -> torch.Tensor:
        import torch

        # Gradients are switched off here and not around a yield: the mode would leak into the caller's thread.
        with torch.no_grad():
            out = self._module(
                attention_mask=mask,
                position_ids=positions,
                use_cache=True,
                **{self._cache_name: self.cache},
                **rows,
                **options,
            )
        self.cache = getattr(out, self._cache_name)
        return out.logits.float()
