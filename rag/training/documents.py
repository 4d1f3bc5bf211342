"""Makes pairs to train on out of a collection's own passages, without labels. It loads no model and trains nothing.

A sentence for its passage without it: the inverse cloze task (Lee, Chang and Toutanova, ACL 2019). Title and headings
for the text below them, and a sentence for what follows it, say in other ways what a passage is about.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from ..context_line import is_title
from ..documents import Document, title_from
from ..passages import encoder_input
from ..sentences import one_line, sentences, without_markers
from ..words import content_tokens
from .pairs import OwnPair, OwnPairs, OwnPassage, holds, normal_form

if TYPE_CHECKING:
    from ...storage import Catalog
    from ...storage.records import CollectionRecord, PassageRecord

MOST_PASSAGES = 20_000
"""Passages that are looked at, by whole documents; what a head learns from more is little."""

MOST_PAIRS = 8_000

_MOST_SHARE = {"neighbour": 0.2}
"""Of all pairs; what follows a sentence answers it only now and then."""

_CHUNK = 1_000
_BETWEEN = " > "
_SENTENCE_TOKENS = range(3, 41)
"""Index tokens of a sentence, those that every text has left out, that may stand for a query."""

_REST_TOKENS = 8
"""Least content tokens of what is left of a passage."""

_START = 250


def own_pairs(
    catalog: Catalog,
    collection: CollectionRecord,
    *,
    most: int = MOST_PAIRS,
    seed: int = 0,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> OwnPairs:
    """Pairs of a collection, the same for the same documents and seed in whatever order they were indexed.

    Parameters
    ----------
    most : int
        Most pairs.
    report : callable
        Told (passages read, all of them); it may raise to cancel.

    Returns
    -------
    OwnPairs
        Without repeated queries and passages, in the order of the documents' hashes; `OwnPairs.shares` tells how many
        there are of each kind.
    """
    documents = _documents(catalog, collection, seed, report)
    pairs: list[OwnPair] = []
    passages: dict[int, OwnPassage] = {}
    seen: set[bytes] = set()
    for group in sorted(documents):
        records = documents[group]
        for place, record in enumerate(records):
            passages[record.id] = OwnPassage(encoder_input(record.context, record.text), group, record.text_hash)
            if record.text_hash not in seen:
                seen.add(record.text_hash)
                following = records[place + 1] if place + 1 < len(records) else None
                pairs += _pairs_of(record, following, group, random.Random(f"{seed} {record.text_hash.hex()}"))
    return OwnPairs(_bounded(_telling(pairs), most, seed), passages)


def _documents(
    catalog: Catalog, collection: CollectionRecord, seed: int, report: Callable[[int, int], None]
) -> dict[str, list[PassageRecord]]:
    """The passages of each document in their order, by the hash of their texts; equal documents once."""
    ids = catalog.passage_ids(collection.id).tolist()
    chosen = _chosen(catalog, collection, seed) if len(ids) > MOST_PASSAGES else None
    found: dict[int, list[PassageRecord]] = defaultdict(list)
    for at in range(0, len(ids), _CHUNK):
        for record in catalog.passages(ids[at : at + _CHUNK]):
            if chosen is None or record.document_id in chosen:
                found[record.document_id].append(record)
        report(min(at + _CHUNK, len(ids)), len(ids))
    ordered = [sorted(records, key=lambda record: record.position) for records in found.values()]
    return {_group(records): records for records in ordered}


def _chosen(catalog: Catalog, collection: CollectionRecord, seed: int) -> set[int]:
    """Documents drawn until they hold `MOST_PASSAGES`."""
    documents = catalog.documents(collection.id)
    random.Random(seed).shuffle(documents)
    chosen, passages = set(), 0
    for document in documents:
        if passages < MOST_PASSAGES:
            chosen.add(document.id)
            passages += document.passage_count
    return chosen


def _group(records: Sequence[PassageRecord]) -> str:
    return hashlib.sha256(b"".join(record.text_hash for record in records)).hexdigest()


def _pairs_of(
    record: PassageRecord, following: PassageRecord | None, group: str, draw: random.Random
) -> Iterator[OwnPair]:
    def pair(kind: str, query: str, positive: str, of: PassageRecord = record) -> OwnPair:
        return OwnPair(kind, query, positive, of.id, group, of.text_hash)

    heading, body = heading_query(record)
    if heading and _says_enough(body):
        yield pair("heading", heading, body)
    fit = _fit_sentences(record.text)
    # The first that will do in a random order: looking at all of them would read the passage once for each.
    drawn = draw.sample(fit, len(fit))
    inner = next(((query, rest) for query, rest in drawn if _says_enough(rest) and not holds(rest, query)), None)
    if inner is not None:
        query, rest = inner
        yield pair("sentence", query, encoder_input(record.context, rest))
    if fit and following is not None and following.heading == record.heading and _says_enough(following.text):
        query, positive = fit[-1][0], encoder_input(following.context, following.text)
        if not holds(positive, query):
            yield pair("neighbour", query, positive, following)


def heading_query(record: PassageRecord) -> tuple[str, str]:
    """Title and nearest heading of a passage as somebody would type them, and its text without them."""
    titled = is_title(Document(record.title, "", "text/plain"))
    headings = [part for part in record.heading.split(_BETWEEN) if part]
    parts = dict.fromkeys(([record.title] if titled else []) + headings[-1:])
    if not parts:
        return "", record.text
    known = {normal_form(title_from(part)) for part in (*parts, *headings)}
    lines = record.text.splitlines()
    while lines and (normal_form(title_from(lines[0])) in known or not any(map(str.isalnum, lines[0]))):
        del lines[0]
    return " ".join(parts), "\n".join(lines)


def _fit_sentences(text: str) -> list[tuple[str, str]]:
    """The sentences of `text` that may stand for a query, each with the text around it."""
    found = []
    for start, end in sentences(text):
        query = " ".join(one_line(without_markers(text[start:end])).split())
        if len(content_tokens(query)) in _SENTENCE_TOKENS:
            before, after = text[:start].rstrip(), text[end:].lstrip()
            found.append((query, f"{before} {after}".strip()))
    return found


def _says_enough(text: str) -> bool:
    # The start of nearly every passage says enough already.
    return any(len(content_tokens(part)) >= _REST_TOKENS for part in (text[:_START], text))


def _telling(pairs: Sequence[OwnPair]) -> list[OwnPair]:
    """Each query once, without those that documents share: a heading such as "Introduction" tells nothing."""
    documents: dict[str, set[str]] = defaultdict(set)
    for pair in pairs:
        documents[normal_form(pair.query)].add(pair.group)
    first: dict[str, OwnPair] = {}
    for pair in pairs:
        query = normal_form(pair.query)
        if len(documents[query]) == 1:
            first.setdefault(query, pair)
    return list(first.values())


def _bounded(pairs: list[OwnPair], most: int, seed: int) -> list[OwnPair]:
    """At most `most` pairs and of a kind no more than its share, drawn evenly; their order is kept."""
    draw = random.Random(seed)
    counts = Counter(pair.kind for pair in pairs)
    kept = set(range(len(pairs)))
    for kind, share in _MOST_SHARE.items():
        others = len(pairs) - counts[kind]
        allowed = int(share / (1 - share) * others)
        places = [place for place, pair in enumerate(pairs) if pair.kind == kind]
        kept -= set(draw.sample(places, max(0, len(places) - allowed)))
    places = sorted(kept)
    if len(places) > most:
        places = sorted(draw.sample(places, most))
    return [pairs[place] for place in places]
