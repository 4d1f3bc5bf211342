"""Conversations and slots: the two files beside the truth."""

from __future__ import annotations

import unicodedata

import pytest
from library_parts import new_document, put
from slotrag import UsageError
from slotrag.storage import Catalog
from slotrag.storage.records import CollectionRecord
from slotrag.storage.writing import text_hash


def test_a_conversation_keeps_what_it_cited(catalog: Catalog, collection: CollectionRecord) -> None:
    put(catalog, collection.id, [new_document("a", ["the excerpt"])])
    session = catalog.create_session("첫 질문")
    catalog.add_message(session, "user", "what?", citations=[], details={})
    cited = [{"number": 1, "excerpt": "the excerpt", "page": None}]
    catalog.add_message(session, "assistant", "that", citations=cited, details={"stop_reason": "eos"})
    catalog.remove_documents([1])
    record = catalog.session(session)
    assert [message.text for message in record.messages] == ["what?", "that"]
    assert record.messages[1].citations == cited
    assert record.messages[1].details == {"stop_reason": "eos"}
    assert record.message_count == 2


def test_listing_is_last_used_first_and_searches_titles_and_texts(catalog: Catalog) -> None:
    first, second = catalog.create_session("Über Flügel"), catalog.create_session("other")
    assert [record.id for record in catalog.sessions()] == [second, first]
    catalog.add_message(first, "user", "100 % of the_heat", citations=[], details={})
    assert [record.id for record in catalog.sessions()] == [first, second]
    for query in ("ÜBER", unicodedata.normalize("NFD", "flügel"), "100 %", "THE_HEAT"):
        assert [record.id for record in catalog.sessions(query)] == [first], query
    assert catalog.sessions("%%") == []


def test_renaming_and_deleting(catalog: Catalog) -> None:
    session = catalog.create_session("a")
    catalog.add_message(session, "user", "SECRETWORD", citations=[], details={})
    catalog.rename_session(session, "b")
    assert catalog.sessions()[0].title == "b"
    catalog.delete_session(session)
    assert catalog.sessions() == []
    files = [file for file in catalog.folder.iterdir() if file.name.startswith("sessions.db")]
    assert not any(b"SECRETWORD" in file.read_bytes() for file in files)
    for call in (
        lambda: catalog.session(session),
        lambda: catalog.delete_session(session),
        lambda: catalog.rename_session(session, "c"),
        lambda: catalog.add_message(session, "user", "x", citations=[], details={}),
    ):
        with pytest.raises(UsageError, match="sessions list"):
            call()


def test_slots_are_kept_by_compressor_and_text(catalog: Catalog) -> None:
    keys = [bytes([number]) * 32 for number in range(4)]
    catalog.put_slots("a", dict.fromkeys(keys[:3], b"12345"))
    catalog.put_slots("b", {keys[0]: b"1"})
    catalog.put_slots("a", {keys[0]: b"123"})
    assert catalog.get_slots("a", keys) == {keys[0]: b"123", keys[1]: b"12345", keys[2]: b"12345"}
    assert (catalog.slots_bytes("a"), catalog.slots_bytes("b"), catalog.slots_bytes()) == (13, 1, 14)


def test_slots_used_longest_ago_go_first(catalog: Catalog) -> None:
    keys = [bytes([number]) * 32 for number in range(4)]
    for key in keys:
        catalog.put_slots("a", {key: b"12345"})
    catalog.get_slots("a", [keys[0]])
    assert catalog.trim_slots(10) == 2
    assert set(catalog.get_slots("a", keys)) == {keys[0], keys[3]}
    assert catalog.trim_slots(10) == 0


def test_slots_go_with_their_text(catalog: Catalog, collection: CollectionRecord) -> None:
    put(catalog, collection.id, [new_document("a", ["gone"]), new_document("b", ["stays"])])
    slots = {text_hash(text): text.encode() for text in ("gone", "stays")}
    catalog.put_slots("c", slots)
    catalog.remove_documents([1])
    catalog.prune_vectors()
    assert catalog.get_slots("c", list(slots)) == {text_hash("stays"): b"stays"}
