"""The lexical index against BM25 computed straight from its formula."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from library_parts import new_collection, new_document, put
from slotrag import UsageError
from slotrag.storage import Catalog, lexical, tokenise
from slotrag.storage.records import CollectionRecord
from slotrag.storage.tokenise import query_tokens, tokens

WORDS = ["wing", "flow", "heat", "plate", "jet", "nose", "책을", "도서관", "layer", "the", "of"]
TEXTS = st.lists(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join), min_size=1, max_size=12)


def bm25(texts: dict[int, str], query: str) -> dict[int, float]:
    """Scores above zero by the formula: idf of Lucene, saturation K1, length norm B."""
    held = {key: Counter(tokens(text)) for key, text in texts.items()}
    lengths = {key: max(1, found.total()) for key, found in held.items()}
    average = sum(lengths.values()) / len(lengths)
    scores: dict[int, float] = {}
    for word, weight in Counter(query_tokens(query)).items():
        df = sum(word in found for found in held.values())
        idf = math.log(1 + (len(texts) - df + 0.5) / (df + 0.5))
        for key, found in held.items():
            if tf := found[word]:
                norm = lexical.K1 * (1 - lexical.B + lexical.B * lengths[key] / average)
                scores[key] = scores.get(key, 0) + weight * idf * tf * (lexical.K1 + 1) / (tf + norm)
    return scores


def check(catalog: Catalog, collection_id: int, query: str) -> None:
    ids = catalog.passage_ids(collection_id)
    texts = {record.id: record.text for record in catalog.passages(ids)}
    expected = bm25(texts, query)
    found = catalog.lexical_search(collection_id, query, len(texts) + 5)
    assert {passage_id for passage_id, _ in found} == set(expected)
    assert found == sorted(found, key=lambda item: (-item[1], item[0]))
    for passage_id, score in found:
        assert score == pytest.approx(expected[passage_id], rel=1e-4)
    assert catalog.lexical_search(collection_id, query, 2) == found[:2]


@settings(max_examples=40)
@given(before=TEXTS, after=TEXTS, query=st.lists(st.sampled_from([*WORDS, "unknown"]), min_size=1).map(" ".join))
def test_scores_are_bm25_whatever_was_there_before(
    full_catalog: Catalog, before: list[str], after: list[str], query: str
) -> None:
    catalog, collection = full_catalog, new_collection(full_catalog, "changing")
    put(catalog, collection.id, [new_document(f"{at}", [text]) for at, text in enumerate(before)])
    put(catalog, collection.id, [new_document(f"{at}", [text, text]) for at, text in enumerate(after)])
    catalog.remove_documents([document.id for document in catalog.documents(collection.id)[1::3]])
    check(catalog, collection.id, query)
    assert catalog.integrity_check() == []
    catalog.remove_collection(collection.id)


def test_over_several_segments(catalog: Catalog, collection: CollectionRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lexical, "_SEGMENT_BITS", 3)
    monkeypatch.setattr(lexical, "_SEGMENT", 8)
    random = np.random.default_rng(5)
    texts = [" ".join(random.choice(WORDS, 8)) for _ in range(61)]
    put(catalog, collection.id, [new_document(f"{at:02}", [text]) for at, text in enumerate(texts)])
    check(catalog, collection.id, "heat of the wing")
    catalog.remove_documents([document.id for document in catalog.documents(collection.id)[10:40]])
    check(catalog, collection.id, "heat of the wing")


def test_two_collections_have_their_own_statistics(catalog: Catalog, collection: CollectionRecord) -> None:
    other = new_collection(catalog, "other")
    put(catalog, collection.id, [new_document("a", ["wing flow", "wing", "heat"])])
    put(catalog, other.id, [new_document("a", ["wing heat heat"])])
    check(catalog, collection.id, "wing heat")
    check(catalog, other.id, "wing heat")
    assert catalog.token_counts(collection.id, ["wing", "none"]) == {"wing": 2, "none": 0}
    catalog.remove_collection(other.id)
    check(catalog, collection.id, "wing heat")


def test_one_passage_among_many_is_found_through_its_path(catalog: Catalog, collection: CollectionRecord) -> None:
    documents = [new_document(f"many/{at}", ["wing flow"]) for at in range(500)]
    *_, (wanted,) = put(catalog, collection.id, [*documents, new_document("one/x", ["wing and much else besides"])])
    assert wanted not in [found for found, _ in catalog.lexical_search(collection.id, "wing", 5)]
    assert [found for found, _ in catalog.lexical_search(collection.id, "wing", 5, path="one/*")] == [wanted]
    assert catalog.lexical_search(collection.id, "wing", 5, path="none/*") == []
    with pytest.raises(UsageError, match="is no pattern"):
        catalog.lexical_search(collection.id, "wing", 5, path="[z-a]")


@pytest.mark.parametrize("query", ["", " ", "?", "\u200b", '"', "'", "*", "(", ")", "AND", "OR NOT", "NEAR(a b)", "a:b",
    "wing*", '"wing', "col:wing", "wing\0flow", "'; DROP TABLE passages; --", "^wing", "-wing", "{wing}", "\ud800wing",
    "%", "_", "wing" * 50_000, "wing " * 50_000])  # fmt: skip
def test_a_query_is_plain_text(catalog: Catalog, collection: CollectionRecord, query: str) -> None:
    ((wing, _),) = put(catalog, collection.id, [new_document("a", ["wing", "flow"])])
    found = [passage_id for passage_id, _ in catalog.lexical_search(collection.id, query, 5)]
    assert (wing in found) == ("wing" in tokens(query))


@given(query=st.text())
def test_any_text_can_be_asked_for(full_catalog: Catalog, query: str) -> None:
    for _, score in full_catalog.lexical_search(1, query, 3):
        assert 0 < score < math.inf


@pytest.fixture(scope="module")
def full_catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    catalog = Catalog.open(tmp_path_factory.mktemp("full"))
    put(catalog, new_collection(catalog).id, [new_document("a", ["AND or not near * a b c 1 2", " ".join(WORDS)])])
    return catalog


def test_k_below_one_finds_nothing(catalog: Catalog, collection: CollectionRecord) -> None:
    put(catalog, collection.id, [new_document("a", ["wing"])])
    assert catalog.lexical_search(collection.id, "wing", 0) == []


def test_counts_beyond_what_a_posting_holds(catalog: Catalog, collection: CollectionRecord) -> None:
    ((many, few),) = put(catalog, collection.id, [new_document("a", ["wing " * 70_000, "wing flow"])])
    assert {found for found, _ in catalog.lexical_search(collection.id, "wing", 5)} == {many, few}
    assert catalog.remove_documents([1]) == 1
    assert catalog.lexical_search(collection.id, "wing", 5) == []


def test_another_tokeniser_rebuilds_before_it_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Catalog.open(tmp_path) as catalog:
        collection = new_collection(catalog)
        with monkeypatch.context() as earlier:
            earlier.setattr(tokenise, "VERSION", "0")
            earlier.setattr(lexical, "tokens", lambda text: [word.upper() for word in text.split()])
            kept = new_collection(catalog, "kept")
            put(catalog, kept.id, [new_document("a", ["wing"]), new_document("b", ["flow"])])
        assert catalog.lexical_search(kept.id, "wing", 5) == []
        catalog.remove_documents([catalog.documents(kept.id)[1].id])
        assert len(catalog.lexical_search(kept.id, "wing", 5)) == 1
        assert catalog.token_counts(kept.id, ["WING", "FLOW", "flow"]) == {"WING": 0, "FLOW": 0, "flow": 0}
        assert not catalog.refresh_lexical(kept.id)
        assert not catalog.refresh_lexical(collection.id)
