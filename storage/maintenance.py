"""The catalog's figures and checks. It changes nothing."""

from __future__ import annotations

from sqlalchemy import LargeBinary, cast, func, select

from .database import Database
from .errors import LibraryDamaged
from .library_models import Collection, Document, Passage, Source
from .records import CollectionStatistics
from .repair import RepairPart
from .tables import table
from .vectors import _JOIN


class MaintenancePart(RepairPart):
    """Statistics and integrity."""

    def statistics(self, collection_id: int) -> CollectionStatistics:
        """Sizes of a collection."""
        with self._library.reading() as connection:
            documents = connection.execute(
                select(Document.status, func.count())
                .where(Document.collection_id == collection_id)
                .group_by(Document.status)
            )
            by_status = {row[0]: row[1] for row in documents}
            sources = connection.execute(
                select(func.count()).select_from(table(Source)).where(Source.collection_id == collection_id)
            ).scalar_one()
            passages, text_bytes = connection.execute(
                select(func.count(), func.coalesce(func.sum(func.length(cast(Passage.text, LargeBinary))), 0)).where(
                    Passage.collection_id == collection_id
                )
            ).one()
            vectors, vector_bytes = connection.exec_driver_sql(
                "SELECT count(*), coalesce(sum(size), 0) FROM (SELECT length(vectors.data) AS size "
                f"{_JOIN} WHERE passages.collection_id = ? GROUP BY vectors.id)",
                (collection_id,),
            ).one()
        return CollectionStatistics(by_status, passages, sources, vectors, vector_bytes, text_bytes)

    def integrity_check(self, full: bool = False) -> list[str]:
        """What is wrong with the databases, one sentence each; empty where nothing is. `full` reads every page."""
        problems = [line for database in self._present() for line in _file_problems(database, full)]
        if problems:
            return problems
        with self._library.reading() as connection:
            rows = connection.exec_driver_sql(
                "SELECT collections.name, count(*) FROM passages "
                "JOIN collections ON collections.id = passages.collection_id WHERE NOT EXISTS ("
                "SELECT 1 FROM vectors JOIN encoder_fingerprints ON encoder_fingerprints.id = vectors.encoder_id "
                "WHERE encoder_fingerprints.fingerprint = collections.fingerprint "
                "AND vectors.input_hash = passages.input_hash) GROUP BY collections.id"
            )
            problems += [f"collection {name}: {count} passages have no stored vector" for name, count in rows]
            collections = connection.execute(select(Collection.id, Collection.name)).all()
        for collection_id, name in collections:
            if self.lexical_damage(collection_id):
                problems.append(f"collection {name}: the lexical index does not hold its passages")
        return problems

    def _present(self) -> list[Database]:
        """The databases whose files there are."""
        databases = [self._library]
        if (self.folder / "sessions.db").exists():
            databases.append(self._sessions)
        if (self.folder / "slots.db").exists():
            databases.append(self._slots)
        return databases


def _file_problems(database: Database, full: bool) -> list[str]:
    pragma = "integrity_check" if full else "quick_check"
    try:
        with database.reading() as connection:
            lines = [row[0] for row in connection.exec_driver_sql(f"PRAGMA {pragma}")]
            orphans = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
    except LibraryDamaged as error:
        return [f"{database.path.name}: {error}"]
    problems = [f"{database.path.name}: {line}" for line in lines if line != "ok"]
    problems += [f"{database.path.name}: a row of {row[0]} refers to nothing in {row[2]}" for row in orphans]
    return problems
