"""Slots of passages: cached or made, trimmed to a limit, and gone with their text."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from compressors import compressor
from library_parts import new_collection, new_document, put
from slotrag import UsageError
from slotrag.encoders.backbones.frozen import FrozenLM
from slotrag.rag.icae.compressor import TrainedCompressor
from slotrag.rag.icae.quantising import FORMS, from_bytes, to_bytes
from slotrag.rag.icae.shelf import MICRO_BATCH, SlotShelf
from slotrag.rag.icae.slots import Slots
from slotrag.storage import Catalog
from slotrag.storage.records import PassageRecord
from tiny_models import CORPUS

TEXTS = [f"{text} Told {at} times." for at in range(4) for text in CORPUS[:5]]


class Watched:
    """A compressor that tells what it was asked for; `meanwhile` is called while it works."""

    def __init__(self, inner: TrainedCompressor) -> None:
        self.inner, self.asked = inner, list[list[str]]()
        self.fingerprint, self.rate = inner.fingerprint, inner.rate
        self.meanwhile: Callable[[], object] = lambda: None

    def compress(self, texts: Sequence[str]) -> list[Slots]:
        self.asked.append(list(texts))
        self.meanwhile()
        return self.inner.compress(texts)


@pytest.fixture
def watched(tiny_model: Callable[[str], Path]) -> Watched:
    folder = tiny_model("llama")
    return Watched(TrainedCompressor(FrozenLM.load(folder, causal=True), compressor(folder), "h"))


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with Catalog.open(tmp_path / "library") as catalog:
        collection = new_collection(catalog)
        put(catalog, collection.id, [new_document("a", TEXTS), new_document("b", [TEXTS[0], "Only here."])])
        yield catalog


def passages(catalog: Catalog) -> list[PassageRecord]:
    return catalog.passages(catalog.passage_ids(1))


@pytest.mark.parametrize("form", FORMS)
def test_slots_are_made_once_and_are_the_same_from_the_cache(catalog: Catalog, watched: Watched, form: str) -> None:
    shelf = SlotShelf(catalog, watched, form, limit_bytes=10**9)
    wanted = passages(catalog)
    pauses: list[int] = []
    made = shelf.slots(wanted, lambda: pauses.append(len(watched.asked)))
    assert len(wanted) == len(made) == 22 and not any(one.cached for one in made)
    asked = [text for texts in watched.asked for text in texts]
    assert sorted(asked) == sorted({passage.text for passage in wanted})
    assert max(map(len, watched.asked)) <= MICRO_BATCH and pauses == list(range(len(watched.asked)))
    cached = shelf.slots(list(reversed(wanted)))
    assert all(one.cached for one in cached) and len(watched.asked) == len(pauses)
    for passage, one, other in zip(wanted, made, reversed(cached), strict=True):
        (alone,) = watched.inner.compress([passage.text])
        stored = from_bytes(to_bytes(alone, form))
        np.testing.assert_array_equal(one.slots.rows, other.slots.rows)
        step = np.abs(alone.rows).max() / {"float16": 1000, "int8": 127, "int4": 7}[form]
        np.testing.assert_allclose(one.slots.rows, alone.rows, atol=step * 0.51)
        assert one.slots.positions.tolist() == other.slots.positions.tolist() == stored.positions.tolist()
        assert (one.slots.tokens, one.slots.span) == (alone.tokens, alone.span)


def test_only_what_is_missing_is_made(catalog: Catalog, watched: Watched) -> None:
    shelf = SlotShelf(catalog, watched, limit_bytes=10**9)
    wanted = passages(catalog)
    shelf.slots(wanted[:5])
    found = shelf.slots(wanted[3:9])
    assert [one.cached for one in found] == [True, True, False, False, False, False]
    assert shelf.slots([]) == []
    watched.fingerprint = "another"
    assert not shelf.slots(wanted[:1])[0].cached


def test_damaged_slots_and_those_of_another_form_are_made_again(catalog: Catalog, watched: Watched) -> None:
    (passage,) = passages(catalog)[:1]
    whole = SlotShelf(catalog, watched, limit_bytes=10**9)
    first = whole.slots([passage])[0]
    (data,) = catalog.get_slots("h", [passage.text_hash]).values()
    catalog.put_slots("h", {passage.text_hash: data[:-1]})
    again = whole.slots([passage])[0]
    assert not again.cached and whole.slots([passage])[0].cached
    np.testing.assert_array_equal(again.slots.rows, first.slots.rows)
    small = SlotShelf(catalog, watched, "int8", limit_bytes=10**9)
    assert [small.slots([passage])[0].cached for _ in range(2)] == [False, True]
    assert catalog.slots_bytes() < len(data)


def test_the_cache_is_trimmed_to_its_limit(catalog: Catalog, watched: Watched) -> None:
    wanted = passages(catalog)
    SlotShelf(catalog, watched, limit_bytes=10**9).slots(wanted)
    limit = catalog.slots_bytes() // 2
    catalog.trim_slots(0)
    shelf = SlotShelf(catalog, watched, limit_bytes=limit)
    assert len(shelf.slots(wanted)) == len(wanted)
    assert limit * 0.7 < catalog.slots_bytes() <= limit
    latest = [passage for passage in wanted if passage.text == watched.asked[-1][-1]]
    assert all(one.cached for one in shelf.slots(latest))
    catalog.trim_slots(0)
    assert len(SlotShelf(catalog, watched, limit_bytes=0).slots(wanted)) == len(wanted) and not catalog.slots_bytes()


def test_an_interruption_keeps_the_batches_before_it(catalog: Catalog, watched: Watched) -> None:
    shelf = SlotShelf(catalog, watched, limit_bytes=10**9)

    def stop() -> None:
        if watched.asked:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        shelf.slots(passages(catalog), stop)
    assert sum(one.cached for one in shelf.slots(passages(catalog))) >= MICRO_BATCH


def test_a_text_removed_while_its_slots_are_made_leaves_nothing(catalog: Catalog, watched: Watched) -> None:
    shelf = SlotShelf(catalog, watched, limit_bytes=10**9)
    wanted = passages(catalog)
    (gone,) = [passage for passage in wanted if passage.text == "Only here."]
    shared = wanted[0]

    def remove() -> None:
        catalog.remove_documents([gone.document_id])
        catalog.prune_vectors()

    watched.meanwhile = remove
    made = shelf.slots([gone, shared])
    assert [one.cached for one in made] == [False, False] and len(made[0].slots)
    assert set(catalog.get_slots("h", [gone.text_hash, shared.text_hash])) == {shared.text_hash}
    row = np.asarray(made[0].slots.rows)[0].astype("<f2").tobytes()
    assert not any(row in file.read_bytes() for file in catalog.folder.iterdir())


def test_slots_go_with_their_text(catalog: Catalog, watched: Watched) -> None:
    shelf = SlotShelf(catalog, watched, limit_bytes=10**9)
    wanted = passages(catalog)
    rows = [np.asarray(one.slots.rows)[0].astype("<f2").tobytes() for one in shelf.slots(wanted)]
    # The same of slots that gave way to the limit: the log may still hold them.
    catalog.trim_slots(catalog.slots_bytes() // 2)
    catalog.remove_documents(sorted({passage.document_id for passage in wanted}))
    catalog.prune_vectors()
    assert catalog.slots_bytes() == 0
    stored = b"".join(file.read_bytes() for file in catalog.folder.iterdir())
    assert not any(row in stored for row in rows)


def test_a_library_that_cannot_be_written_is_read_from(catalog: Catalog, watched: Watched, tmp_path: Path) -> None:
    wanted = passages(catalog)
    SlotShelf(catalog, watched, limit_bytes=10**9).slots(wanted[:3])
    catalog.close()
    shutil.copytree(catalog.folder, tmp_path / "copy")
    with Catalog.open(tmp_path / "copy") as copy:
        copy._library.read_only = True
        assert [one.cached for one in SlotShelf(copy, watched, limit_bytes=10**9).slots(wanted[2:4])] == [True, False]
        assert set(copy.get_slots("h", [passage.text_hash for passage in wanted])) == {
            passage.text_hash for passage in wanted[:3]
        }


def test_wrong_forms_and_limits_are_refused(catalog: Catalog, watched: Watched) -> None:
    with pytest.raises(UsageError, match="int2"):
        SlotShelf(catalog, watched, "int2", limit_bytes=1)
    with pytest.raises(UsageError, match="not -1"):
        SlotShelf(catalog, watched, limit_bytes=-1)
