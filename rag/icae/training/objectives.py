"""The losses of a batch of rows: reproduction, continuation, answers, each read from slots by the frozen decoder.

Cross-entropy on the target tokens, and for continuations and answers also the divergence from the same decoder reading
the full text (distillation: Hinton et al., arXiv 1503.02531). It draws no rows and takes no steps; a torch module,
imported where something is trained.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from ....encoders.backbones.prefill import SharedPrefix
from ...decoder import Decoder
from ..geometry import segments
from ..model import CompressorModule
from ..reading import ReadingInputs, reading_inputs
from ..slots import Slots, joined
from .drawing import AUTOENCODE, Row
from .wording import Wording

if TYPE_CHECKING:
    import numpy as np

    from ....encoders.backbones.frozen import FrozenLM
    from ..configuration import CompressorConfig

SLOTS, TEXT, NONE = "slots", "text", "none"
"""What stands in place of the passages."""

_MOST_PREFIXES = 16


@dataclass(frozen=True, slots=True)
class Scores:
    """The decoder's scores of the scored target tokens of some rows, one after the other.

    Attributes
    ----------
    logits : float32, shape (tokens, vocabulary)
    targets : int64, shape (tokens,)
    rows : int64, shape (tokens,)
        To which row each belongs.
    """

    logits: torch.Tensor
    targets: torch.Tensor
    rows: torch.Tensor

    def losses(self) -> torch.Tensor:
        """Cross-entropy of each token: float32, shape (tokens,)."""
        return torch.nn.functional.cross_entropy(self.logits, self.targets, reduction="none")

    def right(self) -> torch.Tensor:
        """Whether each token is the likeliest one: bool, shape (tokens,)."""
        return self.logits.argmax(dim=-1) == self.targets


class Reader:
    """Lets the frozen decoder read rows, with the compressor's slots or without.

    Parameters
    ----------
    module : CompressorModule
    decoder : torch.nn.Module
        A tree of the same language model with its head; nothing in it gets a gradient.
    wording : Wording
    """

    def __init__(self, module: CompressorModule, decoder: Any, wording: Wording) -> None:
        self.module, self.decoder, self.wording = module, decoder, wording
        self._table: Any = decoder.get_input_embeddings()
        accepted = inspect.signature(decoder.forward).parameters
        self._keeps = "logits_to_keep" in accepted
        self._cache = "cache" if "cache" in accepted else "past_key_values"
        self._prefixes: dict[tuple[int, ...], SharedPrefix] = {}

    def contexts(self, rows: Sequence[Row], form: str = SLOTS) -> list[list[Any]]:
        """For each row what stands in place of its passages: slots, token ids, or no token."""
        if form != SLOTS:
            return [[list(context) if form == TEXT else [] for context in row.contexts] for row in rows]
        slots = iter(self.compressed([(context, row.rate) for row in rows for context in row.contexts]))
        return [[next(slots) for _ in row.contexts] for row in rows]

    def compressed(self, texts: Sequence[tuple[Sequence[int], float]]) -> list[Slots]:
        """The slots of texts, each with its rate, in one batch; gradients reach the compressor."""
        config = self.module.config
        pieces: list[Sequence[int]] = []
        counts: list[int] = []
        parts: list[int] = []
        for ids, rate in texts:
            cut = segments(len(ids), config.segment_tokens)
            parts.append(len(cut))
            pieces += [ids[place] for place in cut]
            fixed = config.slots_per_segment is not None
            counts += [config.slots_for(len(ids[place]), None if fixed else rate) for place in cut]
        found = iter(self.module.compressed(pieces, counts))
        return [joined([next(found) for _ in range(count)], config.width) for count in parts]

    def scores(self, rows: Sequence[Row], contexts: Sequence[Sequence[Any]]) -> Scores:
        """The scores of the rows' targets after their prompts with `contexts` in place of the passages.

        What prompts begin with is the same for all of one form: it is read once and never again.
        """
        alike: dict[tuple[int, ...], list[tuple[int, list[Any], list[int], int]]] = {}
        for at, (row, context) in enumerate(zip(rows, contexts, strict=True)):
            beginning, *parts = self.wording.prompt(row, context)
            ids, skipped = self.wording.target(row)
            if not isinstance(beginning, list) or not beginning:
                beginning, parts = [], [beginning, *parts]
            alike.setdefault(tuple(beginning), []).append((at, parts, ids, skipped))
        found = [self._scores(beginning, group) for beginning, group in alike.items()]
        if len(found) == 1:
            return found[0]
        taken = torch.cat([one.rows for one in found])
        order = torch.argsort(taken, stable=True)
        logits, targets = torch.cat([one.logits for one in found]), torch.cat([one.targets for one in found])
        return Scores(logits[order], targets[order], taken[order])

    def _scores(self, beginning: tuple[int, ...], group: Sequence[tuple[int, list[Any], list[int], int]]) -> Scores:
        """The scores of rows whose prompts begin with the same tokens."""
        # The last target token is read by nobody.
        prompts = [[*parts, ids[:-1]] for _, parts, ids, _ in group]
        inputs = reading_inputs(self._table, prompts, positions=self.module.config.positions)
        ends = inputs.attention_mask.sum(dim=1).tolist()
        # The logits at column c are of the token at c + 1: a target's first ones stand at the prompt's last row.
        begins = [end - len(ids) + skipped for end, (_, _, ids, skipped) in zip(ends, group, strict=True)]
        first, last = min(begins), max(ends)
        logits = self._logits(inputs, beginning, first, last)
        places = [
            (at, column - first)
            for at, (begin, end) in enumerate(zip(begins, ends, strict=True))
            for column in range(begin, end)
        ]
        device = logits.device
        rows, columns = torch.tensor(places, device=device).T
        targets = [token for _, _, ids, skipped in group for token in ids[skipped:]]
        own = torch.tensor([at for at, *_ in group], device=device)[rows]
        return Scores(logits[rows, columns].float(), torch.tensor(targets, device=device), own)

    def _logits(self, inputs: ReadingInputs, beginning: tuple[int, ...], first: int, last: int) -> torch.Tensor:
        options: dict[str, Any] = {}
        mask, positions = inputs.attention_mask, inputs.position_ids
        if self._keeps:
            options["logits_to_keep"] = torch.arange(first, last, device=mask.device)
        if beginning:
            mask = torch.cat([mask.new_ones(len(mask), len(beginning)), mask], dim=1)
            positions = positions + len(beginning)
            options[self._cache] = self._prefix(beginning).copied(len(mask))
        # Without a mask transformers takes positions with gaps for packed sequences and cuts the attention there.
        out = self.decoder(
            inputs_embeds=inputs.inputs_embeds, attention_mask=mask, position_ids=positions, use_cache=False, **options
        )
        return out.logits if self._keeps else out.logits[:, first:last]

    def _prefix(self, beginning: tuple[int, ...]) -> SharedPrefix:
        if beginning not in self._prefixes:
            if len(self._prefixes) >= _MOST_PREFIXES:
                self._prefixes.clear()
            self._prefixes[beginning] = SharedPrefix(self.decoder, beginning)
        return self._prefixes[beginning]


def make_reader(
    language_model: FrozenLM,
    config: CompressorConfig,
    weights: Mapping[str, np.ndarray] | None = None,
    *,
    seed: int = 0,
) -> tuple[Reader, Decoder]:
    """A frozen decoder that reads slots of a compressor with `weights`, or with untrained ones of `seed`."""
    module = CompressorModule(language_model, config, seed=seed)
    if weights is not None:
        module.load_weights(weights)
    decoder = Decoder(language_model, language_model.folder.name)
    eos = language_model.tokenizer.eos_token_id
    return Reader(module, decoder.module, Wording(config.prompt, decoder.template, eos, module.special_row)), decoder


@dataclass(frozen=True, slots=True)
class GroupLoss:
    """The loss of the rows of one objective.

    Attributes
    ----------
    loss : tensor
        What is minimised; a scalar with its gradient.
    entropy, divergence : float
        Its parts: mean cross-entropy, and mean divergence from the reader of the text (0 where none is taken).
    right : float
        Share of the target tokens that are the likeliest.
    tokens : int
    """

    loss: torch.Tensor
    entropy: float
    divergence: float
    right: float
    tokens: int


def group_loss(reader: Reader, rows: Sequence[Row], *, distil: float, top: int) -> GroupLoss:
    """The loss of rows of one objective.

    Parameters
    ----------
    distil : float
        Weight of the divergence beside the cross-entropy; a reproduction has none.
    top : int
        The full-text reader's likeliest tokens that are told apart; all others count as one.
    """
    scores = reader.scores(rows, reader.contexts(rows))
    entropy = scores.losses().mean()
    loss, divergence = entropy, 0.0
    if distil and rows[0].objective != AUTOENCODE:
        with torch.no_grad():
            taught = reader.scores(rows, reader.contexts(rows, TEXT)).logits
        apart = top_divergence(taught, scores.logits, top).mean()
        loss, divergence = entropy + distil * apart, float(apart.detach())
    return GroupLoss(
        loss, float(entropy.detach()), divergence, float(scores.right().float().mean()), len(scores.targets)
    )


def top_divergence(taught: torch.Tensor, learning: torch.Tensor, top: int) -> torch.Tensor:
    """Kullback-Leibler divergence of two predictions over the `top` likeliest tokens of the first and all the rest.

    Parameters
    ----------
    taught, learning : float32, shape (tokens, vocabulary)
        Logits.

    Returns
    -------
    float32, shape (tokens,)
        0 where they agree; at most the divergence over the whole vocabulary.
    """
    known, places = torch.log_softmax(taught, dim=-1).topk(min(top, taught.shape[-1]), dim=-1)
    own = torch.log_softmax(learning, dim=-1).gather(-1, places)
    among = (known.exp() * (known - own)).sum(dim=-1)
    return among + _rest(known) * (_rest(known).log() - _rest(own).log())


def _rest(logs: torch.Tensor) -> torch.Tensor:
    """The probability that is left beside those of `logs`, never 0."""
    return (1 - logs.exp().sum(dim=-1)).clamp(min=1e-6)
