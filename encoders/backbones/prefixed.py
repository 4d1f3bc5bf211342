"""A causal model that reads one constant head once and then batches of what follows it. It knows no tokenizer.

The head's keys and values are kept and shared by all batches. Token Prepending (arXiv 2412.11556) runs here: its
placeholder stands right after the head, which therefore does not depend on it.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from .layers import accepted, prepend, prepending, run_to_stop

if TYPE_CHECKING:
    import torch

    from .frozen import FrozenLM

PLACEHOLDERS = ("zeros", "mean")


class PrefixedLM:
    """The states of a batch of token lists that all stand behind the same head.

    May be used from several threads.

    Parameters
    ----------
    language_model : FrozenLM
        A decoder; gets a tree of its own over the shared tensors.
    head : sequence of int
        Token ids, at least one.
    layer : int
        Whose states are given, 0 to `language_model.layers`; the layers above are not run.
    copied : range
        Layers (counted from 0, never 0) before which each row's last state is copied to its placeholder.
    placeholder : str, optional
        ``zeros`` or ``mean`` (of all token embeddings): what stands in place of the first token of every list. None:
        the first token is a token.
    share_head : bool
        False reads the head anew with every row: the same states, slower.
    padding : str
        ``right`` or ``left``: the same states. Right is what an attention window counts rightly.
    """

    def __init__(
        self,
        language_model: FrozenLM,
        head: Sequence[int],
        layer: int,
        *,
        copied: range = range(0),
        placeholder: str | None = None,
        share_head: bool = True,
        padding: str = "right",
    ) -> None:
        if not head:
            raise ValueError("the head needs at least one token")
        if copied and (copied.start < 1 or placeholder is None):
            raise ValueError("states are copied to a placeholder, and never before layer 0")
        self._language_model, self._head, self._layer = language_model, list(head), layer
        self._copied = range(copied.start, min(copied.stop, layer))
        self._placeholder, self._padding = placeholder, padding
        # The embeddings alone have no keys and values.
        self._share = share_head and layer > 0
        self._tree: Any = language_model.tree_to(layer)
        if self._copied:
            prepend(self._tree, self._copied)
        self._lock = threading.Lock()
        self._cache: Any = None
        self._row: torch.Tensor | None = None

    @property
    def head_length(self) -> int:
        """Tokens of the head."""
        return len(self._head)

    def states(self, token_lists: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """The states of what stands behind the head.

        Parameters
        ----------
        token_lists : sequence of sequences of int
            At least one token each; with a placeholder the first id is not looked at.

        Returns
        -------
        states : float32, shape (batch, longest, width)
            Zero where `mask` is False.
        mask : bool, shape (batch, longest)
        """
        states, mask = self._run(token_lists)
        return states.float().masked_fill(~mask[:, :, None], 0.0), mask

    def last_states(self, token_lists: Sequence[Sequence[int]]) -> torch.Tensor:
        """The state of each list's last token: float32, shape (batch, width)."""
        import torch

        states, mask = self._run(token_lists)
        return states[torch.arange(len(states), device=states.device), _last(mask)].float()

    def last_states_of_all_layers(self, token_lists: Sequence[Sequence[int]]) -> torch.Tensor:
        """The state of each list's last token at every layer of one full pass.

        Needs `layer` to be the model's last.

        Returns
        -------
        float32, shape (layers + 1, batch, hidden size)
            Indexed as transformers' ``hidden_states``.
        """
        import torch

        if self._layer != self._language_model.layers:
            raise ValueError("the states of all layers need a tree with all layers")
        collected: list[torch.Tensor] = []
        # transformers collects the layers' states in ways that are not safe for two threads on one tree.
        with self._lock:
            _, mask = self._run(token_lists, collected)
        rows = torch.arange(mask.shape[0], device=mask.device)
        last = _last(mask)
        return torch.stack([states[:, -mask.shape[1] :][rows, last].float() for states in collected])

    def _run(
        self, token_lists: Sequence[Sequence[int]], collected: list[torch.Tensor] | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        import torch

        ids, mask = self._batch(token_lists)
        size, length = ids.shape
        head = torch.ones(size, len(self._head), dtype=torch.long, device=ids.device)
        whole = torch.cat([head, mask.long()], dim=1)
        positions = (whole.cumsum(dim=1) - 1).clamp(min=0)
        if not self._share:
            ids = torch.cat([head * torch.tensor(self._head, device=ids.device), ids], dim=1)
        first, last = _first(mask) + ids.shape[1] - length, _last(mask) + ids.shape[1] - length
        inputs: dict[str, Any] = {"attention_mask": whole, "position_ids": positions[:, -ids.shape[1] :]}
        with self._language_model.timed(), torch.no_grad():
            if self._share:
                inputs |= {"cache": self._head_cache(size, locked=collected is not None), "use_cache": True}
            else:
                inputs |= {"use_cache": False}
            inputs |= self._rows(ids, first)
            with prepending(first, last) if self._copied else nullcontext():
                states = self._forward(inputs, collected)
        return states[:, -length:], mask

    def _forward(self, inputs: dict[str, Any], collected: list[torch.Tensor] | None = None) -> torch.Tensor:
        if self._layer < self._language_model.layers:
            return run_to_stop(self._tree, inputs)
        if collected is not None:
            inputs = {**inputs, "output_hidden_states": True}
        output = self._tree(**accepted(self._tree, inputs))
        if collected is not None:
            collected.extend(output.hidden_states)
        return output.last_hidden_state

    def _batch(self, token_lists: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        import torch

        model = self._language_model
        lengths = [len(ids) for ids in token_lists]
        if not lengths or min(lengths) < 1:
            raise ValueError("every list needs at least one token")
        if len(self._head) + max(lengths) > model.window:
            raise ValueError(f"head and text are longer than the model's window of {model.window} tokens")
        ids = torch.full((len(lengths), max(lengths)), model.pad_id, dtype=torch.long)
        mask = torch.zeros(ids.shape, dtype=torch.bool)
        for row, own in enumerate(token_lists):
            place = slice(len(own)) if self._padding == "right" else slice(ids.shape[1] - len(own), None)
            ids[row, place] = torch.as_tensor(own, dtype=torch.long)
            mask[row, place] = True
        return ids.to(model.device), mask.to(model.device)

    def _rows(self, ids: torch.Tensor, first: torch.Tensor) -> dict[str, torch.Tensor]:
        """The model's input: ids, or embeddings where a placeholder that is no token stands among them."""
        import torch

        if self._placeholder is None:
            return {"input_ids": ids}
        # A clone: some embeddings are views of the table.
        embeddings = self._tree.get_input_embeddings()(ids).clone()
        embeddings[torch.arange(len(ids), device=ids.device), first] = self._placeholder_row(embeddings)
        return {"inputs_embeds": embeddings}

    def _placeholder_row(self, like: torch.Tensor) -> torch.Tensor:
        import torch

        if self._row is not None:
            return self._row
        row = torch.zeros(like.shape[-1], dtype=torch.float64, device=like.device)
        if self._placeholder == "mean":
            # Through the module, not from its table: some models scale their embeddings in it.
            table = self._tree.get_input_embeddings()
            size = table.weight.shape[0]
            for start in range(0, size, 4096):
                row += table(torch.arange(start, min(size, start + 4096), device=like.device)).double().sum(dim=0)
            row /= size
        row = row.to(like.dtype)
        self._row = row
        return row

    def _head_cache(self, size: int, *, locked: bool) -> Any:
        """A cache of its own for a batch of `size`, filled with the head's keys and values."""
        with nullcontext() if locked else self._lock:
            if self._cache is None:
                self._cache = self._read_head()
        cache = copy.deepcopy(self._cache)
        cache.batch_repeat_interleave(size)
        return cache

    def _read_head(self) -> Any:
        import torch
        from transformers import DynamicCache

        cache = DynamicCache(config=self._tree.config)
        ids = torch.tensor([self._head], device=self._language_model.device)
        positions = torch.arange(len(self._head), device=ids.device)[None]
        mask = torch.ones_like(ids)
        self._forward(
            {"input_ids": ids, "attention_mask": mask, "position_ids": positions, "cache": cache, "use_cache": True}
        )
        return cache


def _first(mask: torch.Tensor) -> torch.Tensor:
    """The first column of each row that is True."""
    return mask.int().argmax(dim=1)


def _last(mask: torch.Tensor) -> torch.Tensor:
    """The last column of each row that is True."""
    return mask.shape[1] - 1 - mask.flip(1).int().argmax(dim=1)
