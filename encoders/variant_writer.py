"""Has a generator write variants of texts: prompts, batches, store. It knows no vector and no average."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from .one_call import LINES, parted
from .transformations import SUMMARY, TRANSFORMATIONS
from .variant_prompts import EXTRA_TOKENS, Manner, Prompts, Task
from .variants import Step, VariantStore, current_watch, variant_key

if TYPE_CHECKING:
    from .backbones.frozen import FrozenLM

_FIRST_ROWS = 8
"""Rows of a call's first batch, from which its cost is told."""


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
        self._prompts: Prompts | None = None
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
        keys = [_key(task, self._manner) for task in tasks]
        with self._lock:
            kept = store.get(list(dict.fromkeys(keys)))
            missing = {key: task for key, task in zip(keys, tasks, strict=True) if key not in kept}
            if missing:
                kept |= self._write(missing, store, each, note)
        return [(kept[key][0], kept[key][1]) for key in keys]

    def _write(self, tasks: dict[bytes, Task], store: VariantStore, each: int, note: str) -> dict[bytes, list[str]]:
        """Write `tasks`, batch by batch: those of one transformation and of like length together.

        In the one-call form more may come of it: all transformations of a text.
        """
        watch = current_watch()
        if self._prompts is None:
            self._prompts = Prompts(self._load(), self._manner)
        prompts, done, work = self._prompts, dict[bytes, list[str]](), 0
        calls = self._calls(tasks)
        total = sum(len(TRANSFORMATIONS) if call.transformation is LINES else 1 for call in calls.values())
        whole = sum(map(_work, calls.values()))
        for keys in _batches(calls, prompts.most_rows):
            watch.check()
            started = time.perf_counter()
            batch, owners = dict[bytes, list[str]](), dict[bytes, bytes]()
            for key, written in prompts.write([(key, calls[key]) for key in keys], watch.check).items():
                variants = self._variants(key, calls[key], written)
                batch |= variants
                owners |= dict.fromkeys(variants, calls[key].owner)
            self.seconds += time.perf_counter() - started
            self.written += len(batch)
            store.put(batch, owners)
            done |= batch
            work += sum(_work(calls[key]) for key in keys)
            watch.report(Step(len(done), total, work / whole, each, note))
        return done

    def _calls(self, tasks: dict[bytes, Task]) -> dict[bytes, Task]:
        """What the generator is asked for `tasks`: one call each, or one for all transformations of a text."""
        if self._manner.form != "lines":
            return tasks
        calls: dict[bytes, Task] = {}
        for key, task in tasks.items():
            if task.transformation in TRANSFORMATIONS:
                task = replace(task, transformation=LINES)
                key = _key(task, self._manner)
            calls[key] = task
        return calls

    def _variants(self, key: bytes, call: Task, written: list[str]) -> dict[bytes, list[str]]:
        if call.transformation is not LINES:
            return {key: written}
        keys = [_key(replace(call, transformation=one), self._manner) for one in TRANSFORMATIONS]
        return dict(zip(keys, map(list, parted(*written)), strict=True))


def _key(task: Task, manner: Manner) -> bytes:
    return variant_key(
        task.text, generator=manner.generator, prompt=manner.prompt, temperature=manner.temperature,
        top_p=manner.top_p, seed=manner.seed, transformation=task.transformation.name, number=task.number,
    )  # fmt: skip


def _work(task: Task) -> int:
    return len(task.text) + 4 * EXTRA_TOKENS


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
