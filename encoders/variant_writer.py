"""Has a generator write variants of texts: prompts, batches, store. It knows no vector and no average."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from .tokens import readable
from .transformations import SUMMARY, Transformation
from .variant_filters import cleaned, written_problem
from .variants import Step, VariantStore, current_watch, variant_key

if TYPE_CHECKING:
    from .backbones.batch_writing import Row
    from .backbones.frozen import FrozenLM
    from .backbones.prefill import SharedPrefix

FORMS = ("plain", "chat")
"""``plain`` goes on after lines of demonstrations, ``chat`` is a conversation in the model's own template."""

_CPU_ROWS, _GPU_ROWS = 16, 256
_FIRST_ROWS = 8
"""Rows of a call's first batch, from which its cost is told."""

_EXTRA_TOKENS = 16
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


class VariantWriter:
    """Writes variants with one generator, loaded when first needed.

    Parameters
    ----------
    load : callable
        Gives the causal language model.
    """

    def __init__(self, load: Callable[[], FrozenLM], manner: Manner) -> None:
        self._load, self._manner = load, manner
        self._lock = threading.Lock()
        self._prompts: _Prompts | None = None
        self.seconds = 0.0
        self.written = 0

    def write(self, tasks: Sequence[Task], store: VariantStore, *, each: int, note: str = "") -> list[tuple[str, str]]:
        """The variants of `tasks`, from the store or newly written, as (text, problem).

        Every batch is in the store before the next is begun.

        Parameters
        ----------
        each, note
            For the reports, see `variants.Step`.
        """
        found = self._written(tasks, store, each, note)
        if not self._manner.compose:
            return found
        # The summary takes the variant's place where it is fit to.
        usable = [place for place, (_, problem) in enumerate(found) if not problem]
        again = [Task(tasks[at].owner, found[at][0], SUMMARY, tasks[at].number) for at in usable]
        for place, (text, problem) in zip(usable, self._written(again, store, each, note), strict=True):
            if not problem:
                found[place] = (text, "")
        return found

    def summaries(self, owners: Sequence[bytes], texts: Sequence[str], store: VariantStore) -> list[tuple[str, str]]:
        """A summary of each text, as (text, problem)."""
        return self._written([Task(o, t, SUMMARY, 0) for o, t in zip(owners, texts, strict=True)], store, 1, "")

    def _written(self, tasks: Sequence[Task], store: VariantStore, each: int, note: str) -> list[tuple[str, str]]:
        keys = [self._key(task) for task in tasks]
        with self._lock:
            kept = store.get(list(dict.fromkeys(keys)))
            missing = {key: task for key, task in zip(keys, tasks, strict=True) if key not in kept}
            if missing:
                kept |= self._write(missing, store, each, note)
        return [(kept[key][0], kept[key][1]) for key in keys]

    def _key(self, task: Task) -> bytes:
        manner = self._manner
        return variant_key(
            task.text, generator=manner.generator, prompt=manner.prompt, temperature=manner.temperature,
            top_p=manner.top_p, seed=manner.seed, transformation=task.transformation.name, number=task.number,
        )  # fmt: skip

    def _write(self, tasks: dict[bytes, Task], store: VariantStore, each: int, note: str) -> dict[bytes, list[str]]:
        """Write `tasks`, batch by batch: those of one transformation and of like length together."""
        watch = current_watch()
        if self._prompts is None:
            self._prompts = _Prompts(self._load(), self._manner)
        prompts, done, work = self._prompts, dict[bytes, list[str]](), 0
        whole = sum(map(_work, tasks.values()))
        for keys in _batches(tasks, prompts.most_rows):
            watch.check()
            started = time.perf_counter()
            batch = prompts.write([(key, tasks[key]) for key in keys], watch.check)
            self.seconds += time.perf_counter() - started
            self.written += len(batch)
            store.put(batch, {key: tasks[key].owner for key in keys})
            done |= batch
            work += sum(_work(tasks[key]) for key in keys)
            watch.report(Step(len(done), len(tasks), work / whole, each, note))
        return done


def _work(task: Task) -> int:
    return len(task.text) + 4 * _EXTRA_TOKENS


def _batches(tasks: dict[bytes, Task], rows: int) -> list[list[bytes]]:
    groups: dict[str, list[bytes]] = {}
    for key, task in tasks.items():
        groups.setdefault(task.transformation.name, []).append(key)
    batches = []
    for keys in groups.values():
        ordered = sorted(keys, key=lambda key: -len(tasks[key].text))
        batches += [ordered[at : at + rows] for at in range(0, len(ordered), rows)]
    first = batches[0]
    return [first[:_FIRST_ROWS], *([first[_FIRST_ROWS:]] if len(first) > _FIRST_ROWS else []), *batches[1:]]


class _Prompts:
    """A loaded generator with its prompts; the keys and values of a transformation's demonstrations are computed
    once."""

    def __init__(self, model: FrozenLM, manner: Manner) -> None:
        from .backbones.batch_writing import BatchWriter
        from .backbones.chat_template import ChatTemplate

        self._template = ChatTemplate(model.tokenizer)
        self._form = "plain" if self._template.plain else manner.form
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
        """The variants of tasks of one transformation."""
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
                text = cleaned(self._template.tokens.decode(completion.ids))
                done[row.key] = [text, written_problem(text, completion.stop_reason) or ""]
        return done

    def _row(self, key: bytes, task: Task) -> Row:
        """The task as a row with its whole prompt."""
        from .backbones.batch_writing import Row

        text = on_one_line(task.text)
        source = self._template.tokens.plain(" " + text)
        limit = _EXTRA_TOKENS + len(source) * 5 // 4 if task.limit is None else task.limit
        return Row(self._ids(task.transformation, text), key, limit, source)

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
        if self._form == "plain":
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
