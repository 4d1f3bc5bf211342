"""The catalog's collections and sources. It knows no passage and no vector."""

from __future__ import annotations

import secrets
import time
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from .. import UsageError
from . import lexical, paths, tokenise
from .errors import UnknownCollection
from .library_models import Collection, Document, Postprocessing, Source
from .part import Part
from .records import CollectionRecord, NewPostprocessing, SourceRecord
from .tables import table
from .vectors import note_leftovers

_STATE_STEP = 1 << 20
_UPDATABLE = {
    "encoder", "fingerprint", "dimension", "splitting", "noise_level", "postprocessing", "is_default", "name",
}  # fmt: skip
_OF_VECTORS = {"fingerprint", "dimension"}
_COLLECTION = table(Collection)
_SOURCE = table(Source)


class CollectionsPart(Part):
    """Collections and the sources they follow."""

    def create_collection(
        self,
        name: str,
        *,
        encoder: str,
        fingerprint: str,
        dimension: int,
        splitting: dict[str, Any],
        postprocessing: NewPostprocessing | None = None,
    ) -> CollectionRecord:
        """Make an empty collection, its `postprocessing` as number 1; the first one becomes the default.

        Raises
        ------
        UsageError
            There is one of that name.
        """
        with self._library.writing() as connection:
            if connection.execute(select(Collection.id).where(Collection.name == name)).first():
                raise UsageError(f"there is a collection {name!r} already: choose another name")
            first = connection.execute(select(func.count()).select_from(_COLLECTION)).scalar_one() == 0
            result = connection.execute(
                insert(_COLLECTION).values(
                    name=name, encoder=encoder, fingerprint=fingerprint, dimension=dimension, splitting=splitting,
                    noise_level=None, postprocessing=int(postprocessing is not None), is_default=first, state=0,
                    log_start=0, lexical_version=tokenise.VERSION, created_at=time.time(),
                )
            )  # fmt: skip
            assert result.inserted_primary_key is not None
            collection_id = result.inserted_primary_key[0]
            if postprocessing is not None:
                add_postprocessing(connection, collection_id, 1, postprocessing)
            return _collection(connection, collection_id)

    def collections(self) -> list[CollectionRecord]:
        """All collections, oldest first."""
        with self._library.reading() as connection:
            return [_collection_record(row) for row in connection.execute(select(_COLLECTION).order_by("id"))]

    def collection(self, name: str | None = None) -> CollectionRecord:
        """The collection of that name, or the default one.

        Raises
        ------
        UnknownCollection
            There is none; the message names those there are.
        """
        chosen = Collection.is_default if name is None else Collection.name == name
        with self._library.reading() as connection:
            row = connection.execute(select(_COLLECTION).where(chosen)).first()
            if row is not None:
                return _collection_record(row)
            names = [n for (n,) in connection.execute(select(Collection.name).order_by("name"))]
        if not names:
            raise UnknownCollection("the library has no collection yet: run `slotrag index FOLDER` first")
        wanted = "no default collection" if name is None else f"no collection {name!r}"
        raise UnknownCollection(f"there is {wanted}: the library has {', '.join(names)}")

    def update_collection(self, collection_id: int, **fields: Any) -> CollectionRecord:
        """Change fields of a collection: encoder, fingerprint, dimension, splitting, noise_level, postprocessing,
        is_default, name. Another fingerprint or dimension makes every index file of it out of date.

        Raises
        ------
        TypeError
            A field that cannot be changed.
        ValueError
            The new name is taken (`UsageError`), or ``is_default=False`` (make another one the default).
        """
        if unknown := set(fields) - _UPDATABLE:
            raise TypeError(f"a collection has no field {', '.join(sorted(unknown))} to change")
        if fields.get("is_default") is False:
            raise ValueError("make another collection the default instead")
        with self._library.writing() as connection:
            before = _collection(connection, collection_id)
            same_name = select(Collection.id).where(
                Collection.name == fields.get("name"), Collection.id != collection_id
            )
            if connection.execute(same_name).first():
                raise UsageError(f"there is a collection {fields['name']!r} already: choose another name")
            if fields.get("is_default"):
                connection.execute(update(_COLLECTION).values(is_default=False))
            if any(name in fields and fields[name] != getattr(before, name) for name in _OF_VECTORS):
                fields |= {"state": before.state + 1, "log_start": before.state + 1}
            if fields:
                connection.execute(update(_COLLECTION).where(Collection.id == collection_id).values(**fields))
            return _collection(connection, collection_id)

    def remove_collection(self, collection_id: int) -> None:
        """Remove a collection with its sources, documents and lexical index; an oldest one left becomes the default.
        Its vectors go with `prune_vectors`."""
        with self._library.writing() as connection:
            was = _collection(connection, collection_id)
            note_leftovers(connection)
            lexical.drop(connection, collection_id)
            connection.execute(delete(table(Document)).where(Document.collection_id == collection_id))
            connection.execute(delete(_COLLECTION).where(Collection.id == collection_id))
            if was.is_default:
                oldest = select(func.min(Collection.id)).scalar_subquery()
                connection.execute(update(_COLLECTION).where(Collection.id == oldest).values(is_default=True))

    def replace_collection(self, collection_id: int, replacement_id: int) -> CollectionRecord:
        """Put one collection in the place of another, in one transaction: it takes the other's name and standing, and
        the other is removed as by `remove_collection`."""
        with self._library.writing() as connection:
            was = _collection(connection, collection_id)
            note_leftovers(connection)
            lexical.drop(connection, collection_id)
            connection.execute(delete(table(Document)).where(Document.collection_id == collection_id))
            connection.execute(delete(_COLLECTION).where(Collection.id == collection_id))
            renamed = update(_COLLECTION).where(Collection.id == replacement_id)
            connection.execute(renamed.values(name=was.name, is_default=was.is_default))
            return _collection(connection, replacement_id)

    def put_source(
        self,
        collection_id: int,
        path: str,
        *,
        include: tuple[str, ...] | list[str] = (),
        exclude: tuple[str, ...] | list[str] = (),
        hidden: bool = False,
    ) -> SourceRecord:
        """Let a collection follow `path`; where it does already, its options are replaced."""
        options = {"include": list(include), "exclude": list(exclude), "hidden": hidden}
        key = paths.to_bytes(path)
        mine = (Source.collection_id == collection_id) & (Source.path == key)
        with self._library.writing() as connection:
            _collection(connection, collection_id)
            if connection.execute(update(_SOURCE).where(mine).values(**options)).rowcount == 0:
                connection.execute(
                    insert(_SOURCE).values(
                        collection_id=collection_id, path=key, display_path=paths.display(path), **options
                    )
                )
            return _source_record(connection.execute(select(_SOURCE).where(mine)).one())

    def sources(self, collection_id: int | None = None) -> list[SourceRecord]:
        """The sources of a collection, or all, oldest first."""
        query = select(_SOURCE).order_by("id")
        if collection_id is not None:
            query = query.where(Source.collection_id == collection_id)
        with self._library.reading() as connection:
            return [_source_record(row) for row in connection.execute(query)]


def _collection(connection: Connection, collection_id: int) -> CollectionRecord:
    row = connection.execute(select(_COLLECTION).where(Collection.id == collection_id)).first()
    if row is None:
        raise UnknownCollection(f"there is no collection with id {collection_id}")
    return _collection_record(row)


def add_postprocessing(connection: Connection, collection_id: int, number: int, new: NewPostprocessing) -> None:
    """Store a post-processing setting inside the transaction that `connection` is in."""
    connection.execute(
        insert(table(Postprocessing)).values(
            collection_id=collection_id, number=number, steps=new.steps, origin=new.origin,
            fitted_on=new.fitted_on, statistics=new.statistics,
        )
    )  # fmt: skip


def bump_state(connection: Connection, collection_id: int) -> int:
    """Count one more change of a collection inside the transaction that makes it; the new state.

    It is higher by a random number: a library that was put back from a copy goes on with other states than it had
    before, so that an index file of the lost ones is known for what it is (`PassagesPart.had_state`).
    """
    state = connection.exec_driver_sql(
        "UPDATE collections SET state = state + ? WHERE id = ? RETURNING state",
        (1 + secrets.randbelow(_STATE_STEP), collection_id),
    ).first()
    if state is None:
        raise UnknownCollection(f"there is no collection with id {collection_id}")
    return state[0]


def _collection_record(row: Row[Any]) -> CollectionRecord:
    if not isinstance(row.splitting, dict):
        raise TypeError(f"a collection's splitting is {row.splitting!r}")
    return CollectionRecord(
        id=row.id, name=row.name, encoder=row.encoder, fingerprint=row.fingerprint, dimension=row.dimension,
        splitting=row.splitting, noise_level=row.noise_level, postprocessing=row.postprocessing,
        is_default=row.is_default, state=row.state, created_at=row.created_at,
    )  # fmt: skip


def _source_record(row: Row[Any]) -> SourceRecord:
    return SourceRecord(
        row.id, row.collection_id, paths.from_bytes(row.path), tuple(row.include), tuple(row.exclude), row.hidden
    )
