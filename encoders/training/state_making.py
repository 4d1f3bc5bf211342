"""Runs a frozen backbone over texts and packs the states that a head takes. It knows no file and keeps nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ..batching import batch_limits, batches
from ..tokens import TextTokens
from .state_file import packed

if TYPE_CHECKING:
    from ..backbones.frozen import FrozenLM
    from ..heads.configuration import HeadConfig

_TEXTS = 2048
"""Texts whose tokens are in memory at once; batches of like length are made among them."""


class StateMaker:
    """The backbone as one head's inputs need it.

    Parameters
    ----------
    language_model : FrozenLM
    config : HeadConfig
        Says which states are taken.
    tokens : TextTokens
    """

    def __init__(self, language_model: FrozenLM, config: HeadConfig, tokens: TextTokens) -> None:
        self._language_model, self._config, self._tokens = language_model, config, tokens

    def vectors(self, texts: list[str], prefix: str, check: Callable[[], None]) -> int:
        """How many vectors the states of `texts` are, without running the backbone."""
        count = 0
        for start in range(0, len(texts), _TEXTS):
            check()
            some = texts[start : start + _TEXTS]
            states = 1 if self._config.inputs == "tokens" else self._config.layers + 1
            tokens = len(some) if self._config.inputs == "layers" else sum(map(len, self._tokens.ids(some, prefix)))
            count += states * tokens
        return count

    def made(
        self, texts: list[str], prefix: str, check: Callable[[], None]
    ) -> Iterator[tuple[list[int], list[tuple[int, bytes]]]]:
        """Batch by batch the places of its texts, and of each the groups and the packed vectors (see `state_file`).

        Parameters
        ----------
        check : callable
            Called before each batch; it may raise to end the work.
        """
        budget, most = batch_limits(self._language_model.device.type)
        if self._config.inputs == "layer-tokens":
            budget = max(budget // (self._config.layers + 1), 1)
        for start in range(0, len(texts), _TEXTS):
            ids = self._tokens.ids(texts[start : start + _TEXTS], prefix)
            for places in batches([len(row) for row in ids], budget, most):
                check()
                yield [start + place for place in places], list(self._parts([ids[place] for place in places]))

    def _parts(self, token_lists: list[list[int]]) -> Iterator[tuple[int, bytes]]:
        from ..heads.inputs import head_inputs

        states, mask = head_inputs(self._language_model, token_lists, self._config)
        array = states.float().cpu().numpy()
        for row in range(len(token_lists)):
            if mask is None:
                yield 1, packed(array[row])
                continue
            # Padding stands at the right.
            kept = array[row, ..., : int(mask[row].sum()), :]
            yield (len(kept) if kept.ndim == 3 else 1), packed(kept.reshape(-1, kept.shape[-1]))
