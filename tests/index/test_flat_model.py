"""The index against a dictionary and numpy: any order of adding, removing, saving and searching."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from slotrag.index import IndexState, new_index, open_index

DIMENSION = 4
IDS = st.integers(min_value=0, max_value=30) | st.sampled_from([2**31, 2**62])
# Few directions, so that equal scores are common.
VECTORS = st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=DIMENSION, max_size=DIMENSION)


class IndexMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self._index = new_index(DIMENSION, IndexState(0, "f"))
        self.model: dict[int, list[float]] = {}

    @rule(entries=st.dictionaries(IDS, VECTORS, max_size=12))
    def add(self, entries: dict[int, list[float]]) -> None:
        vectors = np.array(list(entries.values()), dtype=np.float32).reshape(-1, DIMENSION)
        self._index.add(np.array(list(entries), dtype=np.int64), vectors)
        self.model |= entries

    @rule(ids=st.sets(IDS))
    def remove(self, ids: set[int]) -> None:
        assert self._index.remove(ids) == len(ids & set(self.model))
        self.model = {key: vector for key, vector in self.model.items() if key not in ids}

    @rule(state=st.integers(min_value=0, max_value=2**40))
    def save_and_open(self, state: int) -> None:
        path = Path(self._folder.name) / "x.index"
        self._index.state = IndexState(state, "f")
        self._index.save(path)
        self._index = open_index(path)
        assert self._index.state == IndexState(state, "f")

    @rule(
        queries=st.lists(VECTORS, min_size=1, max_size=3),
        k=st.integers(min_value=1, max_value=40),
        allowed=st.none() | st.sets(IDS),
    )
    def search(self, queries: list[list[float]], k: int, allowed: set[int] | None) -> None:
        chosen = None if allowed is None else np.array(sorted(allowed), dtype=np.int64)
        found = self._index.search(np.array(queries, dtype=np.float32), k, allowed=chosen)
        for query, (ids, scores) in zip(queries, found, strict=True):
            ranked = sorted(
                (-float(np.dot(query, vector)), key)
                for key, vector in self.model.items()
                if allowed is None or key in allowed
            )[:k]
            assert list(zip((-scores).tolist(), ids.tolist(), strict=True)) == ranked

    @invariant()
    def holds_the_model(self) -> None:
        assert len(self._index) == len(self.model)
        assert self._index.ids().tolist() == sorted(self.model)

    def teardown(self) -> None:
        self._folder.cleanup()


TestIndex = IndexMachine.TestCase
TestIndex.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
