"""Variants of texts as things to keep: their keys, the store that an encoder is given, and watching a long run.

It knows no model and no database. A variant holds a document's text: whoever stores one erases it with the document.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

_MOST_IN_MEMORY = 50_000


class VariantStore(Protocol):
    """Keeps what a generator has written; may be called from several threads.

    A value is ``[text, problem]``; `problem` is empty where the variant can be used.
    """

    def get(self, keys: Sequence[bytes]) -> dict[bytes, list[str]]:
        """What is kept of `keys`."""
        ...

    def put(self, variants: dict[bytes, list[str]], owners: Mapping[bytes, bytes]) -> None:
        """Keep `variants`, for good when it returns. `owners` gives for each key the sha256 of the text that the
        encoder was given (`text_hash`): the variant goes when no passage is encoded from that text any more."""
        ...


class MemoryVariants:
    """A store that ends with the process; the oldest go first."""

    def __init__(self, most: int = _MOST_IN_MEMORY) -> None:
        self._kept: dict[bytes, list[str]] = {}
        self._most, self._lock = most, threading.Lock()

    def get(self, keys: Sequence[bytes]) -> dict[bytes, list[str]]:
        with self._lock:
            return {key: self._kept[key] for key in keys if key in self._kept}

    def put(self, variants: dict[bytes, list[str]], owners: Mapping[bytes, bytes]) -> None:
        with self._lock:
            self._kept.update(variants)
            for key in list(self._kept)[: max(0, len(self._kept) - self._most)]:
                del self._kept[key]


def text_hash(text: str) -> bytes:
    """sha256 of a text, 32 bytes."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def variant_key(
    text: str, *, generator: str, prompt: str, temperature: float, top_p: float, seed: int, transformation: str,
    number: int,
) -> bytes:  # fmt: skip
    """What decides a variant, as 32 bytes: the store's key, and the key of its noise.

    Parameters
    ----------
    text : str
        The text that is rewritten.
    generator : str
        Hash of the generator's weights and tokenizer.
    prompt : str
        Version of the words around the text (`transformations.prompt_version`).
    number : int
        Counts the variants of one transformation.
    """
    facts = [text_hash(text).hex(), generator, prompt, temperature, top_p, seed, transformation, number]
    return hashlib.sha256(json.dumps(facts, ensure_ascii=True).encode("ascii")).digest()


@dataclass(frozen=True, slots=True)
class Step:
    """How far the variants of one call of an encoder are written.

    Attributes
    ----------
    done, total : int
        Variants that the call has to write (those found in the store not counted).
    share : float
        Of the work, by the lengths of the texts; 0 to 1.
    each : int
        Variants of each text.
    note : str
        What is known of the use of this encoder, to be said before hours go into it.
    """

    done: int
    total: int
    share: float
    each: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class Watch:
    """Follows a long call: `report` after every batch; `check` before every pass, and what it raises ends the call."""

    report: Callable[[Step], None]
    check: Callable[[], None]


_UNWATCHED = Watch(lambda step: None, lambda: None)
_watch: ContextVar[Watch | None] = ContextVar("watch", default=None)


@contextmanager
def watching(watch: Watch) -> Iterator[None]:
    """Let `watch` follow what encoders do within, in this thread."""
    token = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(token)


def current_watch() -> Watch:
    """The watch of this thread."""
    return _watch.get() or _UNWATCHED
