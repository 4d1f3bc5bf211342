"""The catalog against a dictionary: any order of changes, by any number of steps, in one collection or two."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from library_parts import new_collection, new_document, put
from slotrag.storage import Catalog
from slotrag.storage.records import FileStamp

PATHS = st.sampled_from(["a", "b", "c/d", "e", "é"])
TEXTS = st.lists(st.sampled_from(["one", "two", "three wings", "넷"]), max_size=3)


class CatalogMachine(RuleBasedStateMachine):
    """`self.model` maps (collection, path) to the document's texts; `self.seen` is an index that catches up."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self._catalog = Catalog.open(Path(self._folder.name))
        self._collections = [new_collection(self._catalog, name).id for name in ("first", "second")]
        self.model: dict[tuple[int, str], list[str]] = {}
        self.seen = {collection: (0, set[int]()) for collection in self._collections}
        self.used: set[int] = set()

    @initialize()
    def reopen(self) -> None:
        self._catalog.close()
        self._catalog = Catalog.open(Path(self._folder.name))

    @rule(second=st.booleans(), documents=st.dictionaries(PATHS, TEXTS, max_size=3))
    def put(self, second: bool, documents: dict[str, list[str]]) -> None:
        collection = self._collections[second]
        before = set(self._catalog.passage_ids(collection).tolist())
        ids = put(self._catalog, collection, [new_document(path, texts) for path, texts in documents.items()])
        assert [len(found) for found in ids] == [len(texts) for texts in documents.values()]
        new = {passage_id for found in ids for passage_id in found} - before
        assert not new & self.used
        self.used |= new
        self.model |= {(collection, path): texts for path, texts in documents.items()}

    @rule(second=st.booleans(), renames=st.dictionaries(PATHS, PATHS, max_size=3))
    def rename(self, second: bool, renames: dict[str, str]) -> None:
        collection = self._collections[second]
        ids = {document.relative_path: document.id for document in self._catalog.documents(collection)}
        targets: dict[str, str] = {}
        for old, new in renames.items():
            if old in ids and new not in targets.values():
                targets[old] = new
        self._catalog.rename_documents(
            [(ids[old], None, f"/source/{new}", new, FileStamp(1, 2)) for old, new in targets.items()]
        )
        moved = {(collection, new): self.model[collection, old] for old, new in targets.items()}
        for old in targets:
            del self.model[collection, old]
        self.model |= moved

    @rule(second=st.booleans(), removed=st.sets(PATHS))
    def remove(self, second: bool, removed: set[str]) -> None:
        collection = self._collections[second]
        ids = [d.id for d in self._catalog.documents(collection) if d.relative_path in removed]
        assert self._catalog.remove_documents(ids) == len(ids)
        for path in removed:
            self.model.pop((collection, path), None)

    @rule()
    def prune(self) -> None:
        self._catalog.prune_vectors()

    @precondition(lambda self: len(self.model) > 2)
    @rule()
    def remove_second_collection(self) -> None:
        self._catalog.remove_collection(self._collections[1])
        self.model = {key: texts for key, texts in self.model.items() if key[0] == self._collections[0]}
        del self.seen[self._collections[1]]
        self._collections[1] = new_collection(self._catalog, "second").id
        self.seen[self._collections[1]] = (0, set())

    @rule(second=st.booleans())
    def catch_up(self, second: bool) -> None:
        collection = self._collections[second]
        state, ids = self.seen[collection]
        changes = self._catalog.changes_since(collection, state)
        assert changes is not None
        added, removed = set(changes.added.tolist()), set(changes.removed.tolist())
        assert removed <= ids
        assert not added & ids
        now = next(record.state for record in self._catalog.collections() if record.id == collection)
        self.seen[collection] = (now, (ids | added) - removed)
        assert self.seen[collection][1] == set(self._catalog.passage_ids(collection).tolist())

    @invariant()
    def equal_to_the_model(self) -> None:
        for collection in self._collections:
            expected = {path: texts for (owner, path), texts in self.model.items() if owner == collection}
            documents = self._catalog.documents(collection)
            assert {document.relative_path: document.passage_count for document in documents} == {
                path: len(texts) for path, texts in expected.items()
            }
            found: dict[str, list[tuple[int, str]]] = {path: [] for path in expected}
            ids = self._catalog.passage_ids(collection)
            for record in self._catalog.passages(ids):
                found[record.path].append((record.position, record.text))
            assert {path: [text for _, text in sorted(rows)] for path, rows in found.items()} == expected
            assert sum(len(chunk) for chunk, _ in self._catalog.vectors(collection)) == len(ids)

    def teardown(self) -> None:
        assert self._catalog.integrity_check() == []
        self._catalog.close()
        self._folder.cleanup()


TestCatalog = CatalogMachine.TestCase
TestCatalog.settings = settings(max_examples=15, stateful_step_count=20, deadline=None)
