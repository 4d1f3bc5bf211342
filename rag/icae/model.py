"""The compressor's network: segments of token ids in, memory slots out (ICAE, arXiv 2307.06945).

It runs the encoder's tree over text (and memory tokens) and turns states into slots. It knows no tokenizer, no text and
no decoder; it is a torch module, imported only where one is built.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

from ... import UsageError
from .configuration import SPECIAL_ROWS, CompressorConfig
from .geometry import Slotting, slotting
from .slots import Slots
from .weights_sharing import adapters, encoder_tree

if TYPE_CHECKING:
    from ...encoders.backbones.frozen import FrozenLM


class CompressorModule(torch.nn.Module):
    """The trained part over a frozen language model: LoRA, memory table and projection.

    Several threads may call it at once. It is always in evaluation mode: nothing in it drops out.

    Parameters
    ----------
    language_model : FrozenLM
        A decoder; gets another tree over the shared tensors, and nothing changes in the trees that others have.
    config : CompressorConfig
        Made for this model.
    seed : int
        Of the untrained values.

    Attributes
    ----------
    table : Parameter, float32, shape (memory rows + 3, width)
        Memory tokens, then the rows AE, LM and FT.
    projection : torch.nn.Linear or None
        From the encoder's state to what is added to the residual; zero at first. None with the authors' start.
    """

    def __init__(self, language_model: FrozenLM, config: CompressorConfig, *, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        generator = torch.Generator().manual_seed(seed)
        self.tree: Any = encoder_tree(language_model, config, generator)
        embeddings: torch.Tensor = self.tree.get_input_embeddings().weight
        self.device: torch.device = embeddings.device
        self.table = torch.nn.Parameter(_first_table(embeddings, config, generator))
        self.projection: torch.nn.Linear | None = None
        if config.start == "residual":
            self.projection = torch.nn.Linear(config.width, config.width, bias=False, device=self.device)
            torch.nn.init.zeros_(self.projection.weight)
        _require_window(self.tree, config, language_model.window)
        self.eval()

    def train(self, mode: bool = True) -> CompressorModule:
        """Do nothing: a frozen model's dropout would change the slots, and there is none to train with."""
        return super().train(False)

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        slot_counts: Sequence[int] | torch.Tensor | None = None,
        *,
        rate: float | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Slots of a batch of segments; a segment's do not depend on the others, their order or the padding.

        Parameters
        ----------
        input_ids : int64, shape (batch, tokens)
        attention_mask : shape (batch, tokens)
            Not 0 where a token of the text is; it may stand left, right, or with gaps.
        slot_counts : sequence of int, optional
            Slots of each segment; by default by `rate`, else by the configuration.
        rate : float, optional
            Tokens a slot.

        Returns
        -------
        slots : float32, shape (batch, most slots, width)
            Zero where `slot_mask` is False.
        slot_mask : bool, shape (batch, most slots)
        positions : int64, shape (batch, most slots)
            In a prompt, from the segment's beginning.

        Raises
        ------
        ValueError
            A segment is empty or longer than `config.segment_tokens`, or cannot have that many slots.
        """
        ids, lengths = _aligned(input_ids.to(self.device), attention_mask.to(self.device))
        counts = self._counts(lengths, slot_counts, rate)
        grouped = self.config.layout == "centred" or self.config.start == "residual" or self._pooled
        plan = slotting(lengths, counts, centred=self.config.layout == "centred", grouped=grouped)
        slot_mask = torch.from_numpy(plan.mask).to(self.device)
        weights = None if plan.weights is None else torch.from_numpy(plan.weights).to(self.device)
        embeddings = self.tree.get_input_embeddings()(ids)
        if self._pooled:
            assert weights is not None
            states = weights @ self._text_states(embeddings, lengths).float()
        else:
            states = self._memory_states(embeddings, lengths, counts, plan).float()
        if self.projection is not None:
            assert weights is not None
            states = weights @ embeddings.float() + self.projection(states)
        slots = states.masked_fill(~slot_mask[:, :, None], 0.0)
        return slots, slot_mask, torch.from_numpy(plan.positions).to(self.device)

    def slots(self, forwarded: tuple[torch.Tensor, torch.Tensor, torch.Tensor], lengths: Sequence[int]) -> list[Slots]:
        """What `forward` gave, one `Slots` a segment, with its gradient; `lengths` are the segments' tokens."""
        rows, mask, positions = forwarded
        counts, places = mask.sum(dim=1).tolist(), positions.cpu().numpy()
        centred = self.config.layout == "centred"
        return [
            Slots(rows[at, :count], places[at, :count], int(tokens), int(tokens) if centred else int(count))
            for at, (count, tokens) in enumerate(zip(counts, lengths, strict=True))
        ]

    def compressed(
        self,
        token_lists: Sequence[Sequence[int]],
        slot_counts: Sequence[int] | None = None,
        *,
        rate: float | None = None,
    ) -> list[Slots]:
        """The slots of segments that are lists of token ids, in one pass; the options are those of `forward`."""
        lengths = [len(ids) for ids in token_lists]
        ids = torch.zeros(len(lengths), max(lengths), dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, own in enumerate(token_lists):
            ids[row, : len(own)] = torch.tensor(list(own))
            mask[row, : len(own)] = 1
        return self.slots(self(ids, mask, slot_counts, rate=rate), lengths)

    def special_row(self, name: str) -> torch.Tensor:
        """The table's row ``AE``, ``LM`` or ``FT``, float32, shape (1, width)."""
        at = self.config.memory_rows + SPECIAL_ROWS.index(name)
        return self.table[at : at + 1]

    def trainable(self) -> dict[str, torch.nn.Parameter]:
        """All that is trained, by name; nothing else gets a gradient."""
        found = adapters(self.tree)
        found["table"] = self.table
        if self.projection is not None:
            found["projection"] = cast(torch.nn.Parameter, self.projection.weight)
        return found

    def weights(self) -> dict[str, np.ndarray]:
        """The values of `trainable`: float32 arrays of their own, on the CPU."""
        return {name: value.detach().float().cpu().numpy().copy() for name, value in self.trainable().items()}

    def load_weights(self, weights: Mapping[str, np.ndarray]) -> None:
        """Take over values as `weights` gives them.

        Raises
        ------
        ValueError
            Names or shapes are not those of `trainable`; nothing is changed then.
        """
        own = self.trainable()
        for name in sorted(own.keys() | weights.keys()):
            wanted = tuple(own[name].shape) if name in own else None
            found = tuple(weights[name].shape) if name in weights else None
            if wanted != found:
                raise ValueError(f"{name} is {found or 'missing'}, not {wanted or 'there'}")
        with torch.no_grad():
            for name, parameter in own.items():
                parameter.copy_(torch.from_numpy(np.asarray(weights[name], dtype=np.float32)))

    @property
    def _pooled(self) -> bool:
        return self.config.compressor == "pooled"

    def _counts(
        self, lengths: Sequence[int], slot_counts: Sequence[int] | torch.Tensor | None, rate: float | None
    ) -> list[int]:
        config = self.config
        if min(lengths, default=1) < 1 or max(lengths, default=1) > config.segment_tokens:
            raise ValueError(f"a segment has 1 to {config.segment_tokens} tokens, not {min(lengths)} to {max(lengths)}")
        if slot_counts is None:
            counts = [config.slots_for(tokens, rate) for tokens in lengths]
        else:
            counts = [int(count) for count in slot_counts]
        if len(counts) != len(lengths):
            raise ValueError(f"{len(counts)} numbers of slots for {len(lengths)} segments")
        for count, tokens in zip(counts, lengths, strict=True):
            if count < 1 or (config.capped and count > tokens):
                raise ValueError(f"a segment of {tokens} tokens cannot have {count} slots")
            if not self._pooled and count > config.memory_rows:
                raise ValueError(f"{count} slots need as many memory tokens; the table has {config.memory_rows}")
        return counts

    def _text_states(self, embeddings: torch.Tensor, lengths: Sequence[int]) -> torch.Tensor:
        """The tree's states of texts that stand left: shape (batch, tokens, width)."""
        columns = torch.arange(embeddings.shape[1], device=self.device)
        mask = columns[None] < torch.tensor(lengths, device=self.device)[:, None]
        return self._states(embeddings, mask.long(), columns[None].expand(mask.shape))

    def _memory_states(
        self, embeddings: torch.Tensor, lengths: Sequence[int], counts: Sequence[int], plan: Slotting
    ) -> torch.Tensor:
        """The tree's states of the memory tokens, each text's right behind it: shape (batch, most slots, width)."""
        texts, slots = np.asarray(lengths)[:, None], np.asarray(counts)[:, None]
        columns = np.arange(int((texts + slots).max()))[None]
        memory = (columns >= texts) & (columns < texts + slots)
        # Texts and memory rows side by side, and for each column which of them stands there.
        source = np.where(columns < texts, columns, np.where(memory, embeddings.shape[1] + columns - texts, 0))
        places = plan.positions if self.config.layout == "centred" else plan.positions + texts
        slot = np.clip(columns - texts, 0, plan.positions.shape[1] - 1)
        positions = np.where(memory, np.take_along_axis(places, slot, axis=1), np.where(columns < texts, columns, 0))
        table = self.table[: plan.positions.shape[1]].to(embeddings.dtype)
        both = torch.cat([embeddings, table.expand(len(embeddings), -1, -1)], dim=1)
        rows = torch.arange(len(embeddings), device=self.device)[:, None]
        mask: Any = torch.from_numpy(columns < texts + slots).to(self.device).long()
        if self.config.bidirectional:
            mask = _memory_mask(mask.bool(), torch.from_numpy(memory).to(self.device), embeddings.dtype)
        states = self._states(
            both[rows, torch.from_numpy(source).to(self.device)], mask, torch.from_numpy(positions).to(self.device)
        )
        at = np.clip(texts + np.arange(plan.positions.shape[1])[None], 0, columns.size - 1)
        return states[rows, torch.from_numpy(at).to(self.device)]

    def _states(self, embeddings: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        # Without a mask transformers takes positions with gaps for packed sequences and cuts the attention there.
        out = self.tree(inputs_embeds=embeddings, attention_mask=mask, position_ids=positions, use_cache=False)
        return out.last_hidden_state


def _aligned(ids: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, list[int]]:
    """The tokens of each row moved to the left, in their order, and how many there are."""
    if ids.shape != mask.shape or ids.dim() != 2:
        raise ValueError(f"ids of shape {tuple(ids.shape)} and a mask of shape {tuple(mask.shape)} are no batch")
    real = mask != 0
    lengths = [int(count) for count in real.sum(dim=1).tolist()]
    order = torch.argsort((~real).to(torch.int8), dim=1, stable=True)
    return torch.gather(ids, 1, order)[:, : max(lengths, default=0)], lengths


def _first_table(embeddings: torch.Tensor, config: CompressorConfig, generator: torch.Generator) -> torch.Tensor:
    """Rows drawn with the mean and the deviation that the token embeddings have in each dimension."""
    drawn = torch.randn(config.memory_rows + len(SPECIAL_ROWS), config.width, generator=generator)
    deviation, mean = torch.std_mean(embeddings.detach().float(), dim=0)
    return drawn.to(embeddings.device) * deviation + mean


def _memory_mask(real: torch.Tensor, memory: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Causal, and both ways among a row's memory tokens: added to the logits, shape (batch, 1, columns, columns)."""
    columns = torch.arange(real.shape[1], device=real.device)
    seen = (columns[None] <= columns[:, None])[None] | (memory[:, :, None] & memory[:, None, :])
    seen = seen & real[:, None, :]
    mask = torch.zeros(seen.shape, dtype=dtype, device=real.device).masked_fill(~seen, torch.finfo(dtype).min)
    return mask[:, None]


def _require_window(tree: Any, config: CompressorConfig, window: int) -> None:
    """Refuse segments that the model cannot see whole. Raises `slotrag.UsageError`."""
    slots = 0 if config.compressor == "pooled" else config.most_slots
    positions = config.segment_tokens + (slots if config.layout == "appended" else 0)
    if positions > window:
        raise UsageError(
            f"A segment takes up {positions} positions and the model's window is {window}: take shorter segments."
        )
    sliding = getattr(tree.config.get_text_config(), "sliding_window", None)
    if config.bidirectional and sliding and sliding < config.segment_tokens + slots:
        raise UsageError(
            f"The model's attention reaches {sliding} tokens back, less than a segment with its memory tokens: take "
            "shorter segments, or bidirectional=false."
        )
