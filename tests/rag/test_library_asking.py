"""Asking a library: events, relevance, sessions, errors. The decoder is a tiny random model without sense."""

import json
import threading

import pytest
from libraries import open_library, write
from slotrag import UsageError
from slotrag.encoders.backbones.store import ModelStore
from slotrag.rag.answering import GenerationFailed
from slotrag.rag.events import CancelToken, Finished, Notice, Retrieved, TextDelta
from slotrag.storage.sessions import UnknownSession

FILES = {f"filler/{n}.txt": f"Item {n} of the list costs {n * 3} coins and weighs {n} grams." for n in range(30)}
FILES |= {
    "bridges.md": "# Bridges\n\nThe Kessock crossing was designed by Anna Keller. It was opened in 1873.\n",
    "penguins.txt": "Penguins live in Antarctica. They eat krill.\n",
}


@pytest.fixture(scope="module")
def docs(tmp_path_factory):
    return write(tmp_path_factory.mktemp("asked") / "docs", FILES)


@pytest.fixture
def library(tmp_path, docs, hashing_encoder, tiny_model):
    options = {"decoder": str(tiny_model("llama")), "max_tokens": 8}
    with open_library(tmp_path / "library", **options) as library:
        library.index([docs])
        yield library


@pytest.fixture
def failing(library, monkeypatch):
    """The decoder breaks after it is loaded."""

    class Broken:
        def __iter__(self):
            raise RuntimeError("out of memory")

        def close(self):
            pass

    decoder = library._decoder(library.settings.decoder)
    monkeypatch.setattr(decoder, "generate", lambda *args, **kwargs: Broken())


def test_events_and_the_stored_conversation(library):
    events = list(library.ask("Who designed the Kessock crossing?"))
    kinds = [type(event) for event in events]
    assert kinds.index(Retrieved) < kinds.index(TextDelta) and kinds[-1] is Finished and kinds.count(Finished) == 1
    answer = events[-1].answer
    assert answer.found and answer.citations[0].path == "bridges.md"
    assert "Anna Keller" in answer.citations[0].excerpt
    assert answer.timings_ms["retrieve"] > 0
    (listed,) = library.sessions()
    session = library.session(answer.session_id)
    assert listed.id == session.id and session.title == "Who designed the Kessock crossing?"
    asked, given = session.messages
    assert (asked.role, asked.text) == ("user", "Who designed the Kessock crossing?")
    assert (given.role, given.text) == ("assistant", answer.text)
    assert given.citations[0]["excerpt"] == answer.citations[0].excerpt
    assert given.details["stop_reason"] == answer.stop_reason


def test_answer_is_ask_waited_for(library):
    answer = library.answer("Where do penguins live?", k=2)
    assert answer.question == "Where do penguins live?" and answer.citations[0].path == "penguins.txt"


def test_nothing_relevant_is_not_found_and_costs_no_decoder(library, monkeypatch):
    monkeypatch.setattr(library, "_decoder", lambda name: pytest.fail("the decoder was loaded"))
    answer = library.answer("Zimbabwe xylophone quixotic?")
    assert answer.stop_reason == "not_found" and not answer.found
    assert answer.citations == [] and answer.quotes == [] and answer.context == []
    assert library.session(answer.session_id).messages[-1].details["stop_reason"] == "not_found"


def test_a_follow_up_is_retrieved_with_what_it_refers_to(library):
    first = library.answer("What do penguins in Antarctica eat?")
    events = list(library.ask("And where do they live?", session=first.session_id))
    hits = next(event.hits for event in events if isinstance(event, Retrieved))
    assert hits and hits[0].path == "penguins.txt"
    session = library.session(first.session_id)
    assert [message.role for message in session.messages] == ["user", "assistant"] * 2
    assert "penguins" in session.messages[-1].details["query"].lower()
    assert session.messages[2].text == "And where do they live?"


def test_an_unknown_session_and_wrong_options_are_refused_at_once(library):
    with pytest.raises(UnknownSession):
        library.ask("Who?", session="nope")
    for options in ({"k": 0}, {"mode": "x"}, {"context": "paint"}, {"collection": "none"}):
        with pytest.raises(UsageError):
            list(library.ask("Where do penguins live?", **options))
    with pytest.raises(UsageError):
        library.ask("  ")
    assert all(
        m.details.get("stop_reason") != "eos" for s in library.sessions() for m in library.session(s.id).messages
    )


def test_old_answers_keep_their_excerpts(library, docs, tmp_path):
    copy = write(tmp_path / "own", {"moon.txt": "The moon colony Selene was founded by Mira Tan."})
    library.index([copy], collection="own")
    answer = library.answer("Who founded Selene?", collection="own")
    (copy / "moon.txt").unlink()
    library.index(collection="own")
    message = library.session(answer.session_id).messages[-1]
    assert "Mira Tan" in message.citations[0]["excerpt"]
    assert "Mira Tan" in library.export_session(answer.session_id)
    assert not library.answer("Who founded Selene?", collection="own").found


def test_an_error_inside_generation_is_told_stored_and_over(library, failing, monkeypatch):
    with pytest.raises(GenerationFailed, match="out of memory"):
        library.answer("How do penguins live?")
    (session,) = library.sessions()
    details = library.session(session.id).messages[-1].details
    assert details["stop_reason"] == "error" and "out of memory" in details["error"]
    monkeypatch.undo()
    assert library.answer("How do penguins live?", session=session.id).found


def test_cancelling_is_stored(library):
    cancel = CancelToken()
    cancel.cancel()
    answer = library.answer("Where do penguins live?", cancel=cancel)
    assert answer.stop_reason == "cancelled"
    assert library.session(answer.session_id).messages[-1].details["stop_reason"] == "cancelled"


def test_an_answer_that_is_not_read_to_the_end_is_stored_as_far_as_it_came(library):
    events = library.ask("Where do penguins live?")
    for event in events:
        if isinstance(event, TextDelta):
            break
    events.close()
    (session,) = library.sessions()
    message = library.session(session.id).messages[-1]
    assert message.details["stop_reason"] == "cancelled" and message.text == event.text


def test_sessions_can_be_found_renamed_exported_deleted(library):
    one = library.answer("Where do penguins live?").session_id
    two = library.answer("Who designed the Kessock crossing?").session_id
    assert [s.id for s in library.sessions()] == [two, one]
    assert [s.id for s in library.sessions("PENGUINS")] == [one]
    library.rename_session(one, "Birds")
    assert library.session(one).title == "Birds"
    markdown = library.export_session(one)
    assert markdown.startswith("# Birds\n") and "> Penguins live in Antarctica." in markdown
    value = json.loads(library.export_session(one, "json"))
    assert value["schema"] == 1 and value["messages"][1]["citations"][0]["path"] == "penguins.txt"
    with pytest.raises(UsageError, match="markdown"):
        library.export_session(one, "pdf")
    library.delete_session(one)
    assert [s.id for s in library.sessions()] == [two]
    with pytest.raises(UnknownSession):
        library.delete_session(one)


def test_an_answer_is_not_lost_when_it_cannot_be_stored(library, monkeypatch):
    from slotrag.storage import Catalog
    from slotrag.storage.errors import DiskFull

    def full(*args, **kwargs):
        raise DiskFull("the disk is full")

    monkeypatch.setattr(Catalog, "create_session", full)
    answer = library.answer("Where do penguins live?")
    assert answer.citations and answer.session_id is None and any("disk is full" in n for n in answer.notices)


def test_asking_does_not_wait_for_a_writer(library):
    from slotrag.rag.locking import WriterLock

    with WriterLock(library.folder):
        assert library.answer("Where do penguins live?").session_id


def test_a_rebuilt_index_is_said_with_the_answer(library, tiny_model):
    (path,) = library.folder.glob("*.index")
    path.unlink()
    options = {"decoder": library.settings.decoder, "max_tokens": 4}
    with open_library(library.folder, **options) as other:
        events = list(other.ask("Where do penguins live?"))
    assert any(isinstance(event, Notice) and "built anew" in event.text for event in events)
    assert any("built anew" in notice for notice in events[-1].answer.notices)


def test_threads_answer_as_one(library):
    questions = ["Where do penguins live?", "Who designed the Kessock crossing?"] * 2
    expected = [(a.text, [c.path for c in a.citations]) for a in map(library.answer, questions)]
    found = {}

    def work(number):
        answer = library.answer(questions[number])
        found[number] = (answer.text, [c.path for c in answer.citations])

    threads = [threading.Thread(target=work, args=(n,)) for n in range(len(questions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert [found[n] for n in range(len(questions))] == expected


def test_a_decoder_that_is_not_there(library):
    from slotrag import SlotragError

    with pytest.raises(SlotragError):
        library.answer("Where do penguins live?", decoder="none-such")
    assert isinstance(library.models, ModelStore)
