"""How the frozen decoder reads slots: text and slots mixed in one prompt, each row with its position.

It knows no compressor and runs no model. What it makes serves training (embeddings of a batch, with the slots'
gradient) and answering (a `Prompt` for the decoding loop) alike.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from ...encoders.backbones.chat_template import ChatTemplate, Message
from ..prompting import SMALL_FORM, PromptForm, messages
from .geometry import starts
from .slots import Slots

if TYPE_CHECKING:
    import torch

    from ...encoders.backbones.prefill import Prompt

REPEAT = "Repeat the following text exactly:\n\n{}"
CONTINUE = "Continue the following text:\n\n{}"


@dataclass(frozen=True)
class Beside:
    """Several passages of one prompt; with ``parallel`` positions they all begin at the same one.

    Attributes
    ----------
    blocks : sequence of sequences of parts
        Each passage with what belongs to it (its number, its title).
    """

    blocks: Sequence[Sequence[Part]]


if TYPE_CHECKING:
    Part = Sequence[int] | Slots | torch.Tensor | Beside


class ReadingInputs(NamedTuple):
    """What a decoder's forward pass takes; always all three of them.

    Attributes
    ----------
    inputs_embeds : tensor of the decoder's dtype, shape (batch, rows, width)
    attention_mask : int64, shape (batch, rows)
    position_ids : int64, shape (batch, rows)
    """

    inputs_embeds: torch.Tensor
    attention_mask: torch.Tensor
    position_ids: torch.Tensor


class Placed(NamedTuple):
    """A part that is no `Beside`, and the position of each of its rows."""

    part: Sequence[int] | Slots | torch.Tensor
    positions: Sequence[int]


def placed(parts: Sequence[Part], *, parallel: bool, base: int = 0) -> tuple[list[Placed], int]:
    """The parts of a prompt in the order of their rows, and the first position after them.

    Token ids and tensors are numbered one after the other; slots carry their own positions and take up their span.
    """
    found: list[Placed] = []
    for part in parts:
        if isinstance(part, Beside):
            spans = [placed(block, parallel=parallel)[1] for block in part.blocks]
            begins, after = starts(spans, base, parallel=parallel)
            for block, begin in zip(part.blocks, begins, strict=True):
                found += placed(block, parallel=parallel, base=begin)[0]
            base = after
        elif isinstance(part, Slots):
            found.append(Placed(part, [base + int(position) for position in part.positions]))
            base += part.span
        else:
            found.append(Placed(part, range(base, base + len(part))))
            base += len(part)
    return found, base


def reading_inputs(
    table: torch.nn.Module,
    prompts: Sequence[Sequence[Part]],
    *,
    positions: str = "parallel",
    padding: str = "right",
) -> ReadingInputs:
    """The inputs of a batch of prompts; gradients reach the slots.

    Parameters
    ----------
    table : torch.nn.Embedding
        The decoder's token embeddings.
    prompts : sequence of sequences of parts
        At least one row each.
    positions : str
        ``parallel`` or ``sequential``, as in the compressor's configuration.
    padding : str
        ``right`` or ``left``; padded rows are zero and masked.
    """
    import torch

    weight: Any = table.weight
    laid = [placed(parts, parallel=_is_parallel(positions))[0] for parts in prompts]
    lengths = [sum(len(one.positions) for one in row) for row in laid]
    if not lengths or min(lengths) < 1:
        raise ValueError("every prompt needs at least one row")
    longest = max(lengths)
    mask = torch.zeros(len(laid), longest, dtype=torch.long)
    places = torch.zeros_like(mask)
    rows = []
    for at, (row, length) in enumerate(zip(laid, lengths, strict=True)):
        columns = slice(longest - length, longest) if padding == "left" else slice(0, length)
        mask[at, columns] = 1
        places[at, columns] = torch.tensor([place for one in row for place in one.positions])
        filler = weight.new_zeros(longest - length, weight.shape[1])
        own = [_embedded(table, one.part) for one in row]
        rows.append(torch.cat([filler, *own] if padding == "left" else [*own, filler]))
    return ReadingInputs(torch.stack(rows), mask.to(weight.device), places.to(weight.device))


def reading_prompt(parts: Sequence[Part], *, positions: str = "parallel") -> Prompt:
    """The same for the decoding loop; it ends with token ids or a table's row, which the reply follows.

    Raises
    ------
    ValueError
        The last rows are slots with a span beyond their last position: the reply's position would be lost.
    """
    import torch

    from ...encoders.backbones.prefill import Prompt

    laid, after = placed(parts, parallel=_is_parallel(positions))
    places = [place for one in laid for place in one.positions]
    if not places or max(places) + 1 != after:
        raise ValueError("a prompt ends with text: what follows slots directly has no position")
    rows: list[Any] = []
    for one in laid:
        values = one.part.rows if isinstance(one.part, Slots) else one.part
        values = torch.from_numpy(values) if isinstance(values, np.ndarray) else values
        rows.append(values.detach() if isinstance(values, torch.Tensor) else list(values))
    return Prompt([part for part in rows if len(part)], places)


def conversation(
    template: ChatTemplate,
    build: Callable[[str], Sequence[Message]],
    fillings: Sequence[Sequence[Part]],
    reply_prefix: str = "",
) -> list[Part]:
    """The parts of a conversation in the decoder's chat template, with parts in place of words.

    Parameters
    ----------
    build : callable
        Given a word that stands for the fillings, in their order, the conversation.
    fillings : sequence of sequences of parts
        One for every time that the word is used.
    """
    gap = f"gap{secrets.token_hex(8)}gap"
    pieces = template.render_around(build(gap), gap, reply_prefix)
    if len(pieces) != len(fillings) + 1:
        raise ValueError(f"{len(fillings)} fillings for {len(pieces) - 1} gaps of a conversation")
    parts: list[Part] = [pieces[0]]
    for filling, piece in zip(fillings, pieces[1:], strict=True):
        parts += [*filling, piece]
    return parts


class ReadingForm(Protocol):
    """The words around the slots for each thing that the decoder is asked to do; the reply follows the last part.

    Attributes
    ----------
    ending : list of int
        What ends a reply in training.
    """

    ending: list[int]

    def autoencoding(self, slots: Slots) -> list[Part]:
        """To say the text again."""
        ...

    def continuation(self, slots: Slots) -> list[Part]:
        """To go on with the text."""
        ...

    def instruction(self, context: Sequence[Part], question: str) -> list[Part]:
        """To answer a question from the context."""
        ...


class ChatForm:
    """Plain instructions in the decoder's own chat template, which it follows before any training.

    Parameters
    ----------
    template : ChatTemplate
    eos : int or None
        The tokenizer's end token.
    form : PromptForm
        Of questions.
    """

    def __init__(self, template: ChatTemplate, eos: int | None, form: PromptForm = SMALL_FORM) -> None:
        self.ending = [] if eos is None else [eos]
        self._template, self._form = template, form

    def autoencoding(self, slots: Slots) -> list[Part]:
        """A user's turn that asks to repeat the slots' text."""
        return conversation(self._template, lambda gap: [Message("user", REPEAT.format(gap))], [[slots]])

    def continuation(self, slots: Slots) -> list[Part]:
        """A user's turn that asks to continue it."""
        return conversation(self._template, lambda gap: [Message("user", CONTINUE.format(gap))], [[slots]])

    def instruction(self, context: Sequence[Part], question: str) -> list[Part]:
        """The turns in which `ask` puts a question, the context in place of the passages' text."""

        def build(gap: str) -> list[Message]:
            return messages(self._form, question, [(1, "", gap)])

        return conversation(self._template, build, [context], self._form.reply_prefix)


class AuthorsForm:
    """The authors' prompts: the table's rows AE and FT say what is asked for (METHODS of arXiv 2307.06945, section 3).

    Parameters
    ----------
    special_row : callable
        The table's row of a name, shape (1, width).
    """

    def __init__(self, template: ChatTemplate, eos: int | None, special_row: Callable[[str], torch.Tensor]) -> None:
        self.ending = [] if eos is None else [eos]
        self._tokens, self._special_row = template.tokens, special_row

    def autoencoding(self, slots: Slots) -> list[Part]:
        """``slots [AE]``."""
        return [slots, self._special_row("AE")]

    def continuation(self, slots: Slots) -> list[Part]:
        """``slots``: the text goes on without a word."""
        return [slots]

    def instruction(self, context: Sequence[Part], question: str) -> list[Part]:
        """``BOS [INST] slots [FT] question [/INST]``."""
        tokens = self._tokens
        opened = [*tokens.opening(), *tokens.marked("[INST]")]
        return [opened, *context, self._special_row("FT"), tokens.plain(question), tokens.marked("[/INST]")]


def reading_form(
    name: str, template: ChatTemplate, eos: int | None, special_row: Callable[[str], torch.Tensor]
) -> ReadingForm:
    """The form that a configuration's ``prompt`` names."""
    if name == "authors":
        return AuthorsForm(template, eos, special_row)
    return ChatForm(template, eos)


def _is_parallel(positions: str) -> bool:
    if positions not in ("parallel", "sequential"):
        raise ValueError(f"positions are parallel or sequential, not {positions!r}")
    return positions == "parallel"


def _embedded(table: Any, part: Any) -> torch.Tensor:
    """A part's rows in the decoder's dtype, shape (rows, width)."""
    import torch

    values = part.rows if isinstance(part, Slots) else part
    values = torch.from_numpy(values) if isinstance(values, np.ndarray) else values
    if isinstance(values, torch.Tensor):
        return values.to(table.weight.device, table.weight.dtype)
    return table(torch.tensor(list(values), dtype=torch.long, device=table.weight.device))
