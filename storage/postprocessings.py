"""The catalog's post-processings: numbered settings of a collection, their statistics as bytes. It knows no algebra.

A number is never used again, so that an index built under another setting is known for what it is. The setting before
the present one is kept: a reader that took up the collection a moment ago still needs it.
"""

from __future__ import annotations

from sqlalchemy import Connection, delete, func, select, update

from .collections import _collection, add_postprocessing
from .library_models import Collection, Postprocessing
from .part import Part
from .records import CollectionRecord, NewPostprocessing, PostprocessingRecord
from .tables import table

_POSTPROCESSING = table(Postprocessing)


class PostprocessingsPart(Part):
    """Post-processings of collections."""

    def postprocessing(self, collection_id: int, number: int) -> PostprocessingRecord | None:
        """A collection's setting of this number; None where there is none (any more)."""
        mine = (Postprocessing.collection_id == collection_id) & (Postprocessing.number == number)
        with self._library.reading() as connection:
            row = connection.execute(select(_POSTPROCESSING).where(mine)).first()
        if row is None:
            return None
        return PostprocessingRecord(row.number, row.steps, row.origin, row.fitted_on, row.statistics)

    def next_postprocessing(self, collection_id: int) -> int:
        """The number that the collection's next setting gets."""
        with self._library.reading() as connection:
            return _last(connection, collection_id) + 1

    def set_postprocessing(
        self, collection_id: int, number: int, new: NewPostprocessing | None, *, noise_level: float | None
    ) -> CollectionRecord:
        """Let a collection have a setting, and the noise level measured under it, in one transaction.

        Parameters
        ----------
        number : int
            What `next_postprocessing` gave; 0 without a setting.
        new : NewPostprocessing or None
            None for vectors as the encoder gives them.

        Raises
        ------
        ValueError
            The number was used before, or does not go with `new`.
        """
        with self._library.writing() as connection:
            before = _collection(connection, collection_id)
            if (number == 0) != (new is None) or (number and number <= _last(connection, collection_id)):
                raise ValueError(f"post-processing number {number} was used before or does not fit")
            if new is not None:
                add_postprocessing(connection, collection_id, number, new)
            last = _last(connection, collection_id)
            kept = {number, before.postprocessing, last}
            mine = Postprocessing.collection_id == collection_id
            connection.execute(delete(_POSTPROCESSING).where(mine, Postprocessing.number.not_in(kept)))
            connection.execute(
                update(table(Collection))
                .where(Collection.id == collection_id)
                .values(postprocessing=number, noise_level=noise_level)
            )
            return _collection(connection, collection_id)


def _last(connection: Connection, collection_id: int) -> int:
    """The highest number that the collection has had."""
    mine = Postprocessing.collection_id == collection_id
    highest = connection.execute(select(func.max(Postprocessing.number)).where(mine)).scalar_one() or 0
    return max(highest, _collection(connection, collection_id).postprocessing)
