"""The catalog's variants of passages' texts, by a key that their writer makes. It knows no generator.

A variant holds a document's text. It belongs to what an encoder was given for a passage and goes with it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from .part import Part
from .vectors import note_leftovers

_CHUNK = 5_000


class VariantsPart(Part):
    """Variants of texts."""

    def get_variants(self, keys: Sequence[bytes]) -> dict[bytes, list[str]]:
        """What is kept of `keys`."""
        found: dict[bytes, list[str]] = {}
        with self._library.reading() as connection:
            for at in range(0, len(keys), _CHUNK):
                chunk = tuple(keys[at : at + _CHUNK])
                marks = ", ".join("?" * len(chunk))
                rows = connection.exec_driver_sql(f"SELECT key, texts FROM variants WHERE key IN ({marks})", chunk)
                found.update((row[0], json.loads(row[1])) for row in rows)
        return found

    def put_variants(self, variants: Mapping[bytes, list[str]], owners: Mapping[bytes, bytes]) -> None:
        """Keep `variants` in one transaction; one kept before stays.

        Parameters
        ----------
        owners : mapping
            For each key the hash of the encoder's input (a passage's ``input_hash``) with which the variant goes.
        """
        if not variants:
            return
        rows = [(key, owners[key], json.dumps(texts, ensure_ascii=False)) for key, texts in variants.items()]
        with self._library.writing() as connection:
            note_leftovers(connection, removed=False)
            connection.exec_driver_sql(
                "INSERT INTO variants(key, input_hash, texts) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", rows
            )

    def count_variants(self) -> int:
        """How many variants are kept."""
        with self._library.reading() as connection:
            return connection.exec_driver_sql("SELECT count(*) FROM variants").scalar_one()
