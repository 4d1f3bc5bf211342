"""Pairs from a library's own documents, their split by document, and their hard negatives."""

from __future__ import annotations

from pathlib import Path

import pytest
from libraries import open_library, write
from slotrag.rag.training.documents import heading_query, own_pairs
from slotrag.rag.training.hard_negatives import hard_negatives
from slotrag.rag.training.pairs import OwnPair, OwnPairs, OwnPassage

TOPICS = ["boiler", "tram", "orchard", "harbour", "library", "quarry", "bakery", "museum", "bridge", "mill"]


def document(topic: str) -> str:
    parts = [f"# The {topic} handbook", ""]
    for part, verb in (("Care", "cleaned"), ("Costs", "paid")):
        parts += [f"## {part} of the {topic}", ""]
        parts += [
            f"The {topic} is {verb} by trained people every {month}. Nobody else may touch the {topic} in {month} "
            f"unless the warden of the {topic} agrees in writing. Its {verb} parts of {month} are listed in the "
            f"{topic} ledger by the {office}."
            for month, office in (("March", "clerk"), ("June", "mayor"))
        ]
        parts.append("")
    return "\n".join(parts)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("docs"), {f"{topic}.md": document(topic) for topic in TOPICS})


@pytest.fixture(scope="module")
def library(folder: Path, tmp_path_factory: pytest.TempPathFactory, hashing_encoder: str):
    with open_library(tmp_path_factory.mktemp("library") / "library", passage_tokens=60) as opened:
        opened.index([folder])
        yield opened


def pairs_of(library, **options) -> OwnPairs:
    return own_pairs(library._catalog, library._catalog.collection(None), **options)


def test_each_kind_is_made_and_none_gives_itself_away(library) -> None:
    pairs = pairs_of(library)
    assert set(pairs.shares) == {"heading", "sentence", "neighbour"}
    assert sum(pairs.shares.values()) == len(pairs)
    assert pairs.shares["neighbour"] <= 0.2 * len(pairs)
    for pair in pairs.pairs:
        if pair.kind == "heading":
            assert pair.query not in pair.positive and "handbook" in pair.query and "handbook" not in pair.positive
        else:
            assert pair.query not in " ".join(pair.positive.split())
        assert pair.positive.strip() and pairs.passages[pair.passage_id].text_hash == pair.text_hash
    assert len({pair.query for pair in pairs.pairs}) == len(pairs)


def test_they_do_not_depend_on_the_order_of_indexing(library, folder: Path, tmp_path: Path) -> None:
    with open_library(tmp_path / "other", passage_tokens=60) as other:
        other.index([folder / f"{topic}.md" for topic in TOPICS[5:]])
        other.index([folder])
        theirs = pairs_of(other)
    ours = pairs_of(library)
    assert ours.sha256 == theirs.sha256 and len(ours) > 20
    assert pairs_of(library, seed=1).sha256 != ours.sha256


def test_their_number_is_bounded(library) -> None:
    few = pairs_of(library, most=7)
    assert len(few) == 7
    told = []
    pairs_of(library, report=lambda done, total: told.append((done, total)))
    assert told[-1][0] == told[-1][1] > 0


def test_a_split_keeps_documents_whole(library) -> None:
    pairs = pairs_of(library)
    training, held = pairs.split(0.3, seed=3)
    assert not set(training.groups) & set(held.groups)
    assert len(training) + len(held) == len(pairs)
    assert 0.15 * len(pairs) <= len(held) <= 0.6 * len(pairs)
    assert pairs.split(0.3, seed=3)[1].sha256 == held.sha256 != pairs.split(0.3, seed=4)[1].sha256


def test_copies_and_repeated_queries_are_not_held_out() -> None:
    passages = {
        n: OwnPassage(f"text {n}", f"document {n}", b"shared" if n in (1, 2) else bytes([n])) for n in range(1, 9)
    }
    pairs = OwnPairs(
        [
            OwnPair("sentence", "Same" if n > 6 else f"query {n}", f"text {n}", n, passage.group, passage.text_hash)
            for n, passage in passages.items()
        ],
        passages,
    )
    for seed in range(20):
        training, held = pairs.split(0.3, seed)
        known = {p.text_hash for p in passages.values() if p.group in training.groups}
        assert not {pair.text_hash for pair in held.pairs} & known
        assert not {pair.query for pair in held.pairs} & {pair.query for pair in training.pairs}


def test_one_document_is_all_to_train_on() -> None:
    one = OwnPairs([OwnPair("sentence", f"q{n}", "t", n, "document", bytes([n])) for n in range(5)])
    training, held = one.split(0.2, 0)
    assert (len(training), len(held)) == (5, 0)


def test_a_heading_query_is_the_title_and_the_nearest_heading(library) -> None:
    record = next(
        record
        for record in library._catalog.passages(library._catalog.passage_ids(1).tolist())
        if "Costs of the tram" in record.heading
    )
    query, body = heading_query(record)
    assert query == "The tram handbook Costs of the tram"
    assert "##" not in body and body.startswith("The tram is")


def test_hard_negatives_are_other_passages_of_documents_to_train_on(library) -> None:
    training, held = pairs_of(library).split(0.3, seed=3)
    collection = library._catalog.collection(None)
    found = hard_negatives(library._catalog, collection.id, training)
    assert len(found) == len(training) and sum(text is not None for text in found) > 0.9 * len(training)
    of_held = {passage.input for passage in held.passages.values() if passage.group in held.groups}
    by_input = {passage.input: number for number, passage in training.passages.items()}
    for pair, negative in zip(training.pairs, found, strict=True):
        if negative is not None:
            assert negative not in of_held and by_input[negative] != pair.passage_id
            assert pair.query not in negative
    # The words decide: a query about the tram meets another passage about the tram before one about the mill.
    for topic in TOPICS:
        about = [text for pair, text in zip(training.pairs, found, strict=True) if text and topic in pair.query]
        assert all(topic in text for text in about)


def test_a_copy_is_no_negative(tmp_path: Path, hashing_encoder: str) -> None:
    first = "Copper roofs turn green in the rain because a patina of salts forms on the metal over many long years."
    copy = first.replace("many long years.", "many long years!")
    other = "Copper pots are polished with lemon and salt before each of the feasts that the guild gives in winter."
    folder = write(tmp_path / "docs", {"a.txt": first, "b.txt": copy, "c.txt": other})
    with open_library(tmp_path / "library") as library:
        library.index([folder])
        catalog, collection = library._catalog, library._catalog.collection(None)
        records = catalog.passages(catalog.passage_ids(collection.id).tolist())
        passages = {r.id: OwnPassage(r.text, r.path, r.text_hash) for r in records}
        number = next(r.id for r in records if r.path == "a.txt")
        pair = OwnPair("question", "copper salts", first, number, "a.txt", passages[number].text_hash)
        everyone = [pair, *(OwnPair("sentence", "zzz", "zzz", n, p.group, p.text_hash) for n, p in passages.items())]
        found = hard_negatives(catalog, collection.id, OwnPairs(everyone, passages))
        assert found[0] == other and found[1] is None
