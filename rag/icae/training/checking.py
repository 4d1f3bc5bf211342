"""What a compressor is worth on held-out rows: losses and recovery, and texts and answers that are written out.

A check is made of cells (one objective, rate and length each), so that it can be put down between any two of them. It
trains nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ....encoders.backbones.generation import generate_batch
from ..reading import reading_prompt
from .drawing import AUTOENCODE, INSTRUCT, Drawer, Row
from .measures import NAME, NUMBER, answer_f1, bleu, exact_match, exact_prefix, recovery, token_kinds

if TYPE_CHECKING:
    from .objectives import Reader

_TOKENS_AT_ONCE = 4096
_BEYOND = 8
_ANSWER_TOKENS = 32
_BASELINES = ("text", "none")


@dataclass(frozen=True, slots=True)
class Cell:
    """One part of a check.

    Attributes
    ----------
    kind : str
        ``loss``, or ``written``.
    objective : str
    form : str
        ``slots``, ``text`` or ``none``: what is read in place of the passages.
    rate : float
        Of the slots; 1 for the others.
    length : int
        Tokens of a context.
    """

    kind: str
    objective: str
    form: str
    rate: float
    length: int

    @property
    def name(self) -> str:
        """A name of its own within a check."""
        shown = f"slots {self.rate:g}x" if self.form == "slots" else self.form
        return f"{self.kind} {self.objective} {self.length} {shown}"


class Checker:
    """Measures held-out rows.

    Parameters
    ----------
    reader : Reader
    drawer : Drawer
    rates : sequence of float
    lengths : sequence of int
        Tokens of the contexts.
    rows, written_rows : int
        Rows of each cell, and of those that are written out.
    stop_ids : collection of int
        Tokens that end a reply.
    """

    def __init__(
        self,
        reader: Reader,
        drawer: Drawer,
        *,
        rates: Sequence[float],
        lengths: Sequence[int],
        rows: int,
        written_rows: int,
        stop_ids: frozenset[int],
        tokenizer: Any,
    ) -> None:
        self._reader, self._drawer, self._tokenizer = reader, drawer, tokenizer
        self._rates, self._lengths = list(rates), list(lengths)
        self._rows, self._written_rows, self._stop_ids = rows, written_rows, stop_ids

    def baselines(self) -> list[Cell]:
        """What does not depend on the compressor: reading the text, and reading nothing."""
        cells = [*self.losses(), *(cell for cell in self.written() if cell.objective == INSTRUCT)]
        return list(dict.fromkeys(_baseline(cell, form) for cell in cells for form in _BASELINES))

    def losses(self) -> list[Cell]:
        """What is measured of slots by their losses."""
        return [
            Cell("loss", objective, "slots", rate, length)
            for objective in self._drawer.objectives
            for length in self._lengths
            for rate in self._rates
        ]

    def written(self) -> list[Cell]:
        """What is written out from slots."""
        return [
            Cell("written", objective, "slots", rate, self._lengths[-1])
            for objective in self._drawer.objectives
            if objective in (AUTOENCODE, INSTRUCT) and self._written_rows
            for rate in self._rates
        ]

    def measured(self, cell: Cell) -> dict[str, float]:
        """Measures of one cell by their names."""
        if cell.kind == "written":
            rows = self._drawer.held_out(cell.objective, cell.rate, cell.length, self._written_rows)
            return self._reproduced(rows, cell) if cell.objective == AUTOENCODE else self._answered(rows, cell)
        rows = self._drawer.held_out(cell.objective, cell.rate, cell.length, self._rows)
        return self._lost(rows, cell)

    def _lost(self, rows: Sequence[Row], cell: Cell) -> dict[str, float]:
        import torch

        losses: list[float] = []
        right: list[bool] = []
        kinds: list[str] = []
        for batch in _batches(rows, cell):
            with torch.no_grad():
                scores = self._reader.scores(batch, self._reader.contexts(batch, cell.form))
                losses += scores.losses().tolist()
                right += scores.right().tolist()
            if cell.objective == AUTOENCODE:
                for row in batch:
                    ids, skipped = self._reader.wording.target(row)
                    kinds += token_kinds([self._tokenizer.decode([token]) for token in ids])[skipped:]
        found = {"loss": _mean(losses), "accuracy": _mean(right), "tokens": float(len(losses))}
        for kind in (NUMBER, NAME) if kinds else ():
            of_kind = [hit for hit, is_of in zip(right, kinds, strict=True) if is_of == kind]
            if of_kind:
                found[f"{kind} accuracy"] = _mean(of_kind)
        return found

    def _replies(self, rows: Sequence[Row], cell: Cell, most: int) -> list[list[int]]:
        import torch

        with torch.no_grad():
            contexts = self._reader.contexts(rows, cell.form)
            positions = self._reader.module.config.positions
            prompts = [
                reading_prompt(self._reader.wording.prompt(row, context), positions=positions)
                for row, context in zip(rows, contexts, strict=True)
            ]
            done = generate_batch(
                self._reader.decoder, prompts, stop_ids=self._stop_ids, max_tokens=most, stop_on_loop=False
            )
        return [completion.ids for completion in done]

    def _reproduced(self, rows: Sequence[Row], cell: Cell) -> dict[str, float]:
        replies = self._replies(rows, cell, max(len(row.target) for row in rows) + _BEYOND)
        wanted = [self._words(row.target) for row in rows]
        written = [self._words(reply) for reply in replies]
        prefixes = [exact_prefix(row.target, reply) for row, reply in zip(rows, replies, strict=True)]
        return {"bleu": bleu([[one] for one in wanted], written), "exact prefix": _mean(prefixes)}

    def _answered(self, rows: Sequence[Row], cell: Cell) -> dict[str, float]:
        replies = [self._tokenizer.decode(ids) for ids in self._replies(rows, cell, _ANSWER_TOKENS)]
        pairs = [(reply.strip().split("\n")[0], row.answers) for reply, row in zip(replies, rows, strict=True)]
        return {
            "f1": _mean([answer_f1(reply, answers) for reply, answers in pairs]),
            "exact": _mean([exact_match(reply, answers) for reply, answers in pairs]),
        }

    def _words(self, ids: Sequence[int]) -> list[str]:
        return self._tokenizer.decode(list(ids)).split()


def summary(found: Mapping[str, Mapping[str, float]], cells: Sequence[Cell]) -> dict[str, dict[str, float]]:
    """The measures of the cells about slots by their names, beside them those of the text and of nothing.

    Parameters
    ----------
    found : mapping of str to mappings
        Measures of all cells so far, those of the text and of nothing among them.
    cells : sequence of Cell
        Those about slots.
    """
    measures = {}
    for cell in cells:
        own = measures[cell.name] = dict(found[cell.name])
        for form in _BASELINES:
            own |= {f"{form} {name}": value for name, value in found.get(_baseline(cell, form).name, {}).items()}
        if cell.kind == "loss":
            for form in _BASELINES:
                del own[f"{form} tokens"]
            recovered = recovery(none=own["none loss"], slots=own["loss"], text=own["text loss"])
            if recovered is not None:
                own["recovery"] = recovered
    return measures


def deciding(found: Mapping[str, Mapping[str, float]], cells: Sequence[Cell], mix: Mapping[str, float]) -> float:
    """The loss that says which check is the best: the mean of the cells, weighted by what is trained."""
    losses = [(mix[cell.objective], found[cell.name]["loss"]) for cell in cells if cell.kind == "loss"]
    return sum(weight * loss for weight, loss in losses) / sum(weight for weight, _ in losses)


def _baseline(cell: Cell, form: str) -> Cell:
    return replace(cell, form=form, rate=1.0)


def _batches(rows: Sequence[Row], cell: Cell) -> Iterator[Sequence[Row]]:
    size = max(1, _TOKENS_AT_ONCE // (2 * cell.length))
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def _mean(values: Sequence[float] | Sequence[bool]) -> float:
    return float(sum(values)) / len(values) if values else 0.0
