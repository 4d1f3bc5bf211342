"""What memory slots remember of a text: the frozen decoder repeats it from them, and the two are compared by words.

It knows no library and no terminal.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ... import SlotragError
from .checkpoint import CompressorMissing, find_compressor, shipped_compressor
from .compressor import TrainedCompressor
from .reading import reading_form, reading_inputs, reading_prompt

if TYPE_CHECKING:
    from ...encoders.backbones.store import ModelStore
    from ..decoder import Decoder
    from .reading import Part
    from .slots import Slots

SAME, GONE, NEW = "same", "gone", "new"

_BEYOND = 16
"""Tokens that a repetition may be longer than the text."""

_WORD = re.compile(r"\s*\S+\s*")


class Difference(NamedTuple):
    """Words that text and repetition share (`SAME`), or that only the text (`GONE`) or the repetition (`NEW`) has."""

    kind: str
    text: str


@dataclass(frozen=True)
class Reconstruction:
    """A text and what the decoder says of its slots.

    Attributes
    ----------
    text, repeated : str
    compressor : str
        Hash.
    rate : float
    tokens, slots : int
        Of the text, and what stands for them.
    token_accuracy : float
        Share of the text's tokens that the decoder thinks likeliest after the slots and the text before them.
    stop_reason : str
        Why the repetition ended: ``eos``, ``length`` or ``loop``.
    differences : list of Difference
        In the order of reading.
    """

    text: str
    repeated: str
    compressor: str
    rate: float
    tokens: int
    slots: int
    token_accuracy: float
    stop_reason: str
    differences: list[Difference]


def compressor_for(
    decoder: str, models: ModelStore, *, hash: str | None = None, rate: float | None = None, **options: Any
) -> TrainedCompressor:
    """The compressor of that hash, or the one that ships for the decoder; `options` as for `FrozenLM.load`.

    Raises
    ------
    CompressorMissing
        None of that hash is here, or none ships for the decoder: the message names the command that trains one.
    CompressorMismatch
        It was made for another model.
    """
    found = hash or shipped_compressor(models.weights_sha256(decoder))
    if found is None:
        raise CompressorMissing(
            f"No compressor ships for {decoder}: train one with `slotrag train icae --base {decoder} --data FOLDER`, "
            "and name it by --compressor HASH."
        )
    return TrainedCompressor.load(find_compressor(found, models), models, decoder, rate=rate, **options)


def reconstruct(text: str, compressor: TrainedCompressor, decoder: Decoder) -> Reconstruction:
    """Compress `text` and let `decoder` repeat it, always choosing the likeliest token.

    Raises
    ------
    slotrag.SlotragError
        Slots and text together are longer than the decoder's window.
    """
    ids = compressor.token_ids(text)
    (slots,) = compressor.compress_ids([ids])
    parts = _asked(compressor, decoder, slots)
    positions = compressor.config.positions
    prompt = reading_prompt(parts, positions=positions)
    room = decoder.window - max(max(prompt.row_positions) + 1, len(prompt))
    if room < len(ids) + 1:
        raise SlotragError(
            f"The text has {len(ids)} tokens, and beside its slots the window of {decoder.name} has room for "
            f"{max(room - 1, 0)}: choose a shorter passage, or a decoder with a longer window."
        )
    generation = decoder.generate(prompt, max_tokens=min(len(ids) + _BEYOND, room))
    for _ in generation:
        pass
    return Reconstruction(
        text=text,
        repeated=generation.text,
        compressor=compressor.hash,
        rate=compressor.rate,
        tokens=len(ids),
        slots=len(slots),
        token_accuracy=token_accuracy(decoder, parts, ids, positions=positions),
        stop_reason=generation.stop_reason,
        differences=differences(text, generation.text),
    )


def token_accuracy(decoder: Decoder, parts: Sequence[Part], ids: Sequence[int], *, positions: str) -> float:
    """Share of `ids` that the decoder thinks likeliest, each after the prompt `parts` and the ids before it."""
    import torch

    if not ids:
        return 1.0
    # The last token is read by nobody.
    inputs = reading_inputs(decoder.module.get_input_embeddings(), [[*parts, list(ids[:-1])]], positions=positions)
    with torch.no_grad():
        logits = decoder.module(**inputs._asdict(), use_cache=False).logits[0, -len(ids) :]
    return float((logits.argmax(dim=-1).cpu() == torch.tensor(list(ids))).float().mean())


def differences(text: str, repeated: str) -> list[Difference]:
    """Where two texts differ, word by word; the space around words is not compared.

    Examples
    --------
    >>> [tuple(part) for part in differences("built in 1844 by sea", "built in 1848 by sea")]
    [('same', 'built in '), ('gone', '1844 '), ('new', '1848 '), ('same', 'by sea')]
    """
    ours, theirs = _WORD.findall(text), _WORD.findall(repeated)
    matcher = difflib.SequenceMatcher(None, _bare(ours), _bare(theirs), autojunk=False)
    found: list[Difference] = []
    for tag, begin, end, other_begin, other_end in matcher.get_opcodes():
        parts = (
            (SAME if tag == "equal" else GONE, ours[begin:end]),
            (NEW, [] if tag == "equal" else theirs[other_begin:other_end]),
        )
        found += [Difference(kind, "".join(words)) for kind, words in parts if words]
    return found


def _asked(compressor: TrainedCompressor, decoder: Decoder, slots: Slots) -> list[Part]:
    """The prompt that asks to repeat the slots' text, in the words that the compressor was trained with."""
    form = reading_form(compressor.config.prompt, decoder.template, None, compressor.module.special_row)
    return form.autoencoding(slots)


def _bare(words: Sequence[str]) -> list[str]:
    return [word.strip() for word in words]
