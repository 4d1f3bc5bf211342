"""The catalog's cache of memory slots, in a file that can be thrown away. It knows no compressor: slots are bytes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import delete, func, select, update

from .library_models import Passage
from .part import Part
from .slots_models import SlotEntry
from .tables import table

_SLOTS = table(SlotEntry)
_CHUNK = 5_000


class SlotsPart(Part):
    """Slots by compressor fingerprint and sha256 of the passage's text."""

    def put_slots(self, fingerprint: str, slots: Mapping[bytes, bytes], *, only_held: bool = False) -> None:
        """Keep the slots of texts under a compressor; those kept before are replaced.

        Parameters
        ----------
        only_held : bool
            Leave out texts that no passage holds any more: a removal that ended while their slots were made has
            erased everything else of them, and slots can be turned back into text.
        """
        if not slots:
            return
        with self._slots.writing() as connection:
            # Pruning waits for this transaction: a text removed from here on is erased after it.
            held = self._held_texts(list(slots)) if only_held else slots.keys()
            now = time.time()
            rows = [(fingerprint, key, data, len(data), now) for key, data in slots.items() if key in held]
            if not rows:
                return
            connection.exec_driver_sql(
                "INSERT INTO slots(fingerprint, text_hash, data, size, used_at) VALUES (?, ?, ?, ?, ?) "
                "ON CONFLICT(fingerprint, text_hash) DO UPDATE SET data = excluded.data, size = excluded.size, "
                "used_at = excluded.used_at",
                rows,
            )

    def get_slots(self, fingerprint: str, text_hashes: Iterable[bytes]) -> dict[bytes, bytes]:
        """The slots kept of these texts under a compressor; texts without any are left out."""
        wanted = list(dict.fromkeys(text_hashes))
        found: dict[bytes, bytes] = {}
        with self._slots.reading() as connection:
            for at in range(0, len(wanted), _CHUNK):
                query = select(SlotEntry.text_hash, SlotEntry.data).where(
                    SlotEntry.fingerprint == fingerprint, SlotEntry.text_hash.in_(wanted[at : at + _CHUNK])
                )
                found.update((row.text_hash, row.data) for row in connection.execute(query))
        if found and not self.read_only:
            with self._slots.writing() as connection:
                connection.execute(
                    update(_SLOTS)
                    .where(SlotEntry.fingerprint == fingerprint, SlotEntry.text_hash.in_(list(found)))
                    .values(used_at=time.time())
                )
        return found

    def slots_bytes(self, fingerprint: str | None = None) -> int:
        """Bytes of all slots kept, or of one compressor's."""
        query = select(func.coalesce(func.sum(SlotEntry.size), 0))
        if fingerprint is not None:
            query = query.where(SlotEntry.fingerprint == fingerprint)
        with self._slots.reading() as connection:
            return int(connection.execute(query).scalar_one())

    def _prune_slots(self) -> int:
        """Erase the slots of texts that no passage holds: slots can be turned back into text."""
        if not (self.folder / "slots.db").exists():
            return 0
        with self._slots.writing() as connection:
            kept = set(connection.execute(select(SlotEntry.text_hash)).scalars())
            gone = list(kept - self._held_texts(list(kept)))
            for at in range(0, len(gone), _CHUNK):
                connection.execute(delete(_SLOTS).where(SlotEntry.text_hash.in_(gone[at : at + _CHUNK])))
        self._slots.checkpoint()
        return len(gone)

    def _held_texts(self, hashes: Sequence[bytes]) -> set[bytes]:
        found: set[bytes] = set()
        with self._library.reading() as connection:
            for at in range(0, len(hashes), _CHUNK):
                query = select(Passage.text_hash).where(Passage.text_hash.in_(hashes[at : at + _CHUNK]))
                found.update(connection.execute(query).scalars())
        return found

    def trim_slots(self, limit: int) -> int:
        """Erase the slots used longest ago until at most `limit` bytes are kept; the number erased."""
        with self._slots.writing() as connection:
            excess = int(connection.execute(select(func.coalesce(func.sum(SlotEntry.size), 0))).scalar_one()) - limit
            gone: list[int] = []
            oldest = select(SlotEntry.id, SlotEntry.size).order_by(SlotEntry.used_at, SlotEntry.id)
            for row in connection.execute(oldest):
                if excess <= 0:
                    break
                gone.append(row.id)
                excess -= row.size
            for at in range(0, len(gone), _CHUNK):
                connection.execute(delete(_SLOTS).where(SlotEntry.id.in_(gone[at : at + _CHUNK])))
            return len(gone)
