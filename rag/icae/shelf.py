"""Slots of passages, from the catalog's cache or made now. It knows no decoder and chooses no passages.

Slots made now are handed out as they will come from the cache, so that both are read alike. What is stored is trimmed
to a limit, the slots used longest ago first, and a text that was removed meanwhile is not stored: slots can be turned
back into text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ... import UsageError
from .compressor import Compressor
from .quantising import SlotsDamaged, form_of, from_bytes, require_form, to_bytes
from .slots import Slots

if TYPE_CHECKING:
    from ...storage import Catalog

MICRO_BATCH = 8
"""Passages compressed between two pauses; each batch is stored before the next one begins."""


class Passage(Protocol):
    """What the shelf needs of a passage, as the catalog gives it."""

    @property
    def text(self) -> str: ...

    @property
    def text_hash(self) -> bytes: ...


class Shelved(NamedTuple):
    """The slots of a passage, and whether they were in the cache."""

    slots: Slots
    cached: bool


class SlotShelf:
    """The slots of one compressor in a library's cache. May be used from several threads at once.

    Parameters
    ----------
    catalog : Catalog
        A read-only one is read from and never written to.
    compressor : Compressor
    form : str
        Of `quantising.FORMS`; slots cached in another one are made again and replaced.
    limit_bytes : int
        Most bytes that the cache keeps, of all compressors together; 0 stores nothing.

    Raises
    ------
    slotrag.UsageError
        There is no such form, or the limit is below zero.
    """

    def __init__(self, catalog: Catalog, compressor: Compressor, form: str = "float16", *, limit_bytes: int) -> None:
        require_form(form)
        if limit_bytes < 0:
            raise UsageError(f"A cache of slots keeps 0 bytes or more, not {limit_bytes}.")
        self._catalog, self._compressor = catalog, compressor
        self._form, self._limit = form, limit_bytes

    def slots(self, passages: Sequence[Passage], between: Callable[[], None] = lambda: None) -> list[Shelved]:
        """The slots of each passage, in the passages' order; equal texts are compressed once.

        Parameters
        ----------
        between : callable
            Called before each micro-batch: to pause there, or to end the work by raising. What was made until then is
            stored.
        """
        found = self._cached({passage.text_hash for passage in passages})
        missing = {passage.text_hash: passage.text for passage in passages if passage.text_hash not in found}
        # Texts of like length side by side: a batch is padded to its longest.
        waiting = sorted(missing, key=lambda key: len(missing[key]))
        for at in range(0, len(waiting), MICRO_BATCH):
            between()
            keys = waiting[at : at + MICRO_BATCH]
            made = self._made([missing[key] for key in keys])
            self._store(dict(zip(keys, made, strict=True)))
            found.update((key, Shelved(from_bytes(data), False)) for key, data in zip(keys, made, strict=True))
        return [found[passage.text_hash] for passage in passages]

    def _cached(self, keys: set[bytes]) -> dict[bytes, Shelved]:
        found: dict[bytes, Shelved] = {}
        for key, data in self._catalog.get_slots(self._compressor.fingerprint, keys).items():
            try:
                if form_of(data) == self._form:
                    found[key] = Shelved(from_bytes(data), True)
            except SlotsDamaged:
                continue  # a cache can be made again: they count as missing and are replaced
        return found

    def _made(self, texts: Sequence[str]) -> list[bytes]:
        return [to_bytes(slots, self._form) for slots in self._compressor.compress(texts)]

    def _store(self, made: dict[bytes, bytes]) -> None:
        if self._catalog.read_only or not self._limit:
            return
        self._catalog.put_slots(self._compressor.fingerprint, made, only_held=True)
        self._catalog.trim_slots(self._limit)
