"""Texts in, memory slots out: a compressor at work. It knows no store of slots and no decoder.

Long texts are cut into segments, segments of all texts are compressed in batches of like length, and the slots are put
together again, so that what a text gets does not depend on what is compressed beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ... import UsageError
from ...encoders.backbones.chat_template import PlainTokenizer
from .checkpoint import CompressorCheckpoint, CompressorDamaged
from .geometry import segments
from .slots import Slots, joined

if TYPE_CHECKING:
    from ...encoders.backbones.frozen import FrozenLM
    from ...encoders.backbones.store import ModelStore
    from .configuration import CompressorConfig
    from .model import CompressorModule

BATCH_TOKENS = 2048
"""Most tokens, padding included, of one forward pass."""


class Compressor(Protocol):
    """What makes memory slots of texts.

    Attributes
    ----------
    fingerprint : str
        Changes with everything that changes slots.
    rate : float
        Tokens that one slot stands for.
    """

    @property
    def fingerprint(self) -> str: ...

    @property
    def rate(self) -> float: ...

    def compress(self, texts: Sequence[str]) -> list[Slots]:
        """The slots of each text, in the texts' order."""
        ...


class TrainedCompressor:
    """A compressor over a frozen language model. May be used from several threads.

    Parameters
    ----------
    language_model : FrozenLM
        Whose tensors the module uses.
    module : CompressorModule
    hash : str
        Of the checkpoint.
    rate : float, optional
        Another rate than the configured one; it is part of the fingerprint.
    """

    def __init__(
        self, language_model: FrozenLM, module: CompressorModule, hash: str, *, rate: float | None = None
    ) -> None:
        config = module.config
        if rate is not None:
            _require_rate(config, rate)
        # The configured number of slots may be a fixed one, which a rate would override.
        self._rate = None if rate is None or (rate == config.rate and not config.slots_per_segment) else float(rate)
        self.rate = config.rate if self._rate is None else self._rate
        self.fingerprint = hash if self._rate is None else f"{hash}-rate={self._rate:g}"
        self.hash = hash
        self.module = module
        self._language_model = language_model
        self._tokens = PlainTokenizer(language_model.tokenizer)

    @classmethod
    def load(
        cls,
        checkpoint: CompressorCheckpoint,
        models: ModelStore,
        base: str,
        *,
        rate: float | None = None,
        **options: Any,
    ) -> TrainedCompressor:
        """The compressor of a checkpoint over the model called `base`; `options` as for `FrozenLM.load`.

        Raises
        ------
        CompressorMismatch
            It was made for another model.
        CompressorDamaged
            The weights are not those of the configuration's module.
        """
        from ...encoders.backbones.frozen import FrozenLM
        from .model import CompressorModule

        folder = models.resolve(base)
        checkpoint.require_for(base_weights=models.weights_sha256(base), tokenizer=models.tokenizer_sha256(base))
        language_model = FrozenLM.load(folder, causal=True, **options)
        module = CompressorModule(language_model, checkpoint.config)
        try:
            module.load_weights(checkpoint.weights)
        except ValueError as error:
            raise CompressorDamaged(
                f"The weights of the compressor {checkpoint.hash} do not fit its configuration ({error}); train it "
                "again."
            ) from error
        module.requires_grad_(False)
        return cls(language_model, module, checkpoint.hash, rate=rate)

    @property
    def config(self) -> CompressorConfig:
        """The configuration of the module."""
        return self.module.config

    def at_rate(self, rate: float) -> TrainedCompressor:
        """The same compressor at another rate; it shares the module."""
        return TrainedCompressor(self._language_model, self.module, self.hash, rate=rate)

    def token_ids(self, text: str) -> list[int]:
        """A text's tokens as they are compressed: plain, without special tokens."""
        return self._tokens.plain(text)

    def compress(self, texts: Sequence[str], between: Callable[[], None] = lambda: None) -> list[Slots]:
        """The slots of each text, in the texts' order; an empty text has none.

        Parameters
        ----------
        between : callable
            Called before each batch: to pause there, or to end the work by raising.

        Returns
        -------
        list of Slots
            With float32 arrays.
        """
        return self.compress_ids([self.token_ids(text) for text in texts], between)

    def compress_ids(
        self, token_lists: Sequence[Sequence[int]], between: Callable[[], None] = lambda: None
    ) -> list[Slots]:
        """As `compress`, of texts that are token ids."""
        longest = self.config.segment_tokens
        pieces = [(at, ids[cut]) for at, ids in enumerate(token_lists) for cut in segments(len(ids), longest)]
        made: list[Slots | None] = [None] * len(pieces)
        for batch in _batches([len(piece) for _, piece in pieces]):
            between()
            for place, slots in zip(batch, self._compressed([pieces[place][1] for place in batch]), strict=True):
                made[place] = slots
        by_text: list[list[Slots]] = [[] for _ in token_lists]
        for (at, _), slots in zip(pieces, made, strict=True):
            assert slots is not None
            by_text[at].append(slots)
        return [joined(own, self.config.width) for own in by_text]

    def _compressed(self, token_lists: Sequence[Sequence[int]]) -> list[Slots]:
        import torch

        with self._language_model.timed(), torch.no_grad():
            made = self.module.compressed(token_lists, rate=self._rate)
        return [Slots(_array(slots.rows), slots.positions, slots.tokens, slots.span) for slots in made]


def _require_rate(config: CompressorConfig, rate: float) -> None:
    if not 1 <= rate < float("inf"):
        raise UsageError(f"A rate is a number from 1 on, not {rate!r}.")
    if config.compressor == "memory-tokens" and config.slots_for(config.segment_tokens, rate) > config.memory_rows:
        lowest = config.segment_tokens / config.memory_rows
        raise UsageError(f"This compressor has {config.memory_rows} memory tokens: the rate is at least {lowest:g}.")


def _array(rows: Any) -> Any:
    """The rows as an array of their own: a view would keep the whole batch in memory."""
    return rows.float().cpu().numpy().copy()


def _batches(lengths: Sequence[int]) -> list[list[int]]:
    """Places of pieces, grouped by like length, each group within `BATCH_TOKENS` when padded (or one piece)."""
    found: list[list[int]] = []
    for place in sorted(range(len(lengths)), key=lambda at: -lengths[at]):
        if not found or (len(found[-1]) + 1) * lengths[found[-1][0]] > BATCH_TOKENS:
            found.append([])
        found[-1].append(place)
    return found
