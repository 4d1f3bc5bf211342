"""A loaded generator and what it is given around a text: demonstrations as lines or as a conversation, batch by batch.

It knows no store and no vector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from .one_call import LINES, WAYS
from .tokens import readable
from .transformations import Transformation
from .variant_filters import cleaned, written_problem

if TYPE_CHECKING:
    from .backbones.batch_writing import Completion, Row
    from .backbones.frozen import FrozenLM
    from .backbones.prefill import SharedPrefix

FORMS = ("plain", "chat", "lines")
"""``plain`` goes on after lines of demonstrations, ``chat`` is a conversation in the model's own template, ``lines``
writes all transformations of a text in one call, plainly (`one_call`)."""

EXTRA_TOKENS = 16
"""Tokens that a variant may have beyond a quarter more than its text."""

_CPU_ROWS, _GPU_ROWS = 16, 256
_PROBES = ("a", "7 b", "“The")
"""Texts that begin so differently that their prompts have only the transformation's own words in common."""


@dataclass(frozen=True, slots=True)
class Task:
    """One variant to write: of `text`, for the encoder's input of hash `owner`, of at most `limit` tokens (None: what
    suits a text of this length)."""

    owner: bytes
    text: str
    transformation: Transformation
    number: int
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Manner:
    """How the generator writes; all of it but `lookup` decides what is written.

    Attributes
    ----------
    generator : str
        Hash of its weights and tokenizer.
    prompt : str
        `transformations.prompt_version`.
    form : str
        One of `FORMS`.
    compose : bool
        Whether every variant is summarised once more.
    lookup : int
        See `backbones.batch_writing.BatchWriter`.
    """

    generator: str
    prompt: str
    form: str = "plain"
    temperature: float = 0.7
    top_p: float = 1.0
    seed: int = 0
    compose: bool = False
    lookup: int = 0


class Prompts:
    """A loaded generator with its prompts; the keys and values of a transformation's demonstrations are computed
    once."""

    def __init__(self, model: FrozenLM, manner: Manner) -> None:
        from .backbones.batch_writing import BatchWriter
        from .backbones.chat_template import ChatTemplate

        self._template = ChatTemplate(model.tokenizer)
        self._chat = manner.form == "chat" and not self._template.plain
        self._module = model.module()
        self._window = model.window
        self._prefixes: dict[str, SharedPrefix] = {}
        self.most_rows = _CPU_ROWS if model.device.type == "cpu" else _GPU_ROWS
        tokens = model.tokenizer.batch_decode([[index] for index in range(len(model.tokenizer))])
        self.writer = BatchWriter(
            self._module,
            stop_ids=_stop_ids(model, self._module, self._template.end_ids),
            closing_ids={index for index, text in enumerate(tokens) if "\n" in text},
            temperature=manner.temperature,
            top_p=manner.top_p,
            lookup=manner.lookup,
        )

    def write(self, tasks: Sequence[tuple[bytes, Task]], check: Callable[[], None]) -> dict[bytes, list[str]]:
        """What is written for tasks of one transformation, as [variant, problem] by key; for `LINES` it is
        [completion, stop reason], for `parted`."""
        prefix = self._prefix(tasks[0][1].transformation, check)
        done: dict[bytes, list[str]] = {}
        rows: list[Row] = []
        for key, task in tasks:
            row = self._row(key, task)
            if len(row.ids) + row.limit > self._window:
                done[key] = ["", "too long"]
            else:
                rows.append(row)
        for shared, some in self._apart(prefix, rows):
            after = [replace(row, ids=row.ids[len(shared) :]) for row in some]
            for row, completion in zip(some, self.writer.write(shared, after, check), strict=True):
                text = self._template.tokens.decode(completion.ids)
                done[row.key] = [text, completion.stop_reason] if row.lines > 1 else judged(text, completion)
        return done

    def _row(self, key: bytes, task: Task) -> Row:
        """The task as a row with its whole prompt."""
        from .backbones.batch_writing import Row

        text = on_one_line(task.text)
        source = self._template.tokens.plain(" " + text)
        lines = WAYS if task.transformation is LINES else 1
        limit = lines * (EXTRA_TOKENS + len(source) * 5 // 4) if task.limit is None else task.limit
        return Row(self._ids(task.transformation, text), key, limit, source, lines)

    def _apart(self, prefix: SharedPrefix, rows: Sequence[Row]) -> list[tuple[SharedPrefix, list[Row]]]:
        """Rows with what they share: a template may tokenise the end of its words together with a text's beginning."""
        from .backbones.prefill import SharedPrefix

        begin = [tuple(row.ids[: len(prefix)]) == prefix.ids for row in rows]
        parts = [
            (SharedPrefix(self._module, row.ids[:1]), [row]) for row, fits in zip(rows, begin, strict=True) if not fits
        ]
        fitting = [row for row, fits in zip(rows, begin, strict=True) if fits]
        return [(prefix, fitting), *parts] if fitting else parts

    def _prefix(self, transformation: Transformation, check: Callable[[], None]) -> SharedPrefix:
        from .backbones.prefill import SharedPrefix

        if transformation.name not in self._prefixes:
            shared = _common_beginning([self._ids(transformation, probe) for probe in _PROBES])
            self._prefixes[transformation.name] = SharedPrefix(
                self._module, shared, cancelled=lambda: check() is not None
            )
        return self._prefixes[transformation.name]

    def _ids(self, transformation: Transformation, text: str) -> list[int]:
        """The whole prompt. What stands before the text is tokenised apart from it, so that it is always the same."""
        from .backbones.chat_template import Message

        tokens = self._template.tokens
        if not self._chat:
            shown = [f"Text: {t}\n{transformation.label}: {w}" for t, w in transformation.demonstrations]
            head = "\n\n".join([transformation.instruction, *shown, "Text:"])
            return [
                *tokens.opening(),
                *tokens.marked(head),
                *tokens.plain(" " + text),
                *tokens.marked(f"\n{transformation.label}:"),
            ]
        turns = [Message("system", transformation.instruction)]
        for demonstration, written in transformation.demonstrations:
            turns += [Message("user", demonstration), Message("assistant", written)]
        return self._template.render([*turns, Message("user", text)])


def judged(text: str, completion: Completion) -> list[str]:
    """A completion as [variant, problem]."""
    variant = cleaned(text)
    return [variant, written_problem(variant, completion.stop_reason) or ""]


def on_one_line(text: str) -> str:
    """`text` as a prompt of lines can hold it."""
    return " ".join(readable(text).split())


def _common_beginning(rows: Sequence[list[int]]) -> list[int]:
    shortest = min(rows, key=len)
    for place, token in enumerate(shortest):
        if any(row[place] != token for row in rows):
            return shortest[:place]
    return shortest


def _stop_ids(model: FrozenLM, module: Any, end_ids: frozenset[int]) -> set[int]:
    """End tokens of the template, the tokenizer and the configurations, all together."""
    found = set(end_ids)
    configured = getattr(getattr(module, "generation_config", None), "eos_token_id", None)
    for ends in (model.tokenizer.eos_token_id, model.config.eos_token_id, configured):
        if ends is not None:
            found.update(ends if isinstance(ends, list | tuple) else [ends])
    return {int(index) for index in found}
