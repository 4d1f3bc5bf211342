"""From files to tokens: what is held out, what is left out, and which questions there are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from slotrag import UsageError
from slotrag.rag.icae.training.data import Preparation, TextTokens, made_of, prepare
from slotrag.rag.icae.training.sources import Source, with_licences
from slotrag.rag.icae.training.token_store import StoreDamaged, TokenStore

SENTENCES = [
    "The boundary layer on plate {0} grows with the distance {0} from its edge, says Otto Weil on page {0}.",
    "Heat transfer at supersonic speed was measured in tunnel {} for several angles of attack.",
    "A library keeps {} documents and answers questions about them on your own machine.",
]


def paragraph(number: int) -> str:
    return " ".join(sentence.format(number * 10 + place) for place, sentence in enumerate(SENTENCES))


@pytest.fixture
def tokenizer(tiny_model):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tiny_model("llama"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    (data / ".hidden").mkdir(parents=True)
    (data / ".hidden" / "x.txt").write_text("Nobody reads this.")
    for number in range(30):
        (data / f"{number}.txt").write_text(paragraph(number))
    (data / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0")
    return data


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    lines = []
    for number in range(100, 120):
        for question, answer in (("Which plate?", str(number * 10)), ("Who says it?", "Otto Weil")):
            lines.append({"passage": paragraph(number), "question": f"{question} {number}", "answer": answer})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def prepared(sources: list[Source], tokenizer, out: Path, **options):
    preparation = Preparation(held_out=0.2)
    of = made_of(sources, options.get("exclude", ()), {"tokenizer": "t" * 64}, preparation)
    return prepare(sources, tokenizer, out, made_of=of, preparation=preparation, **options)


def test_texts_come_back_and_starts_are_sentences(folder: Path, tokenizer, tmp_path: Path) -> None:
    done = prepared([Source(folder, "CC0-1.0")], tokenizer, tmp_path / "store")
    store = done.store
    assert len(store) == 30 and "picture.png" in done.notices[0]
    wanted = {paragraph(number) for number in range(30)}
    assert {tokenizer.decode(store.tokens(text)) for text in range(30)} == wanted
    for text in range(30):
        starts = store.starts(text).tolist()
        assert len(starts) == 3 and starts[0] == 0
        assert tokenizer.decode(store.tokens(text, starts[1])).lstrip().startswith("Heat transfer")
        assert tokenizer.decode(store.tokens(text, starts[2])).lstrip().startswith("A library")
    assert 0 < store.held_out.sum() < 15
    assert store.meta["made_of"]["data"][0]["licence"] == "CC0-1.0"


def test_what_is_held_out_does_not_depend_on_the_rest(folder: Path, rows: Path, tokenizer, tmp_path: Path) -> None:
    def held(store: TokenStore) -> set[str]:
        return {tokenizer.decode(store.tokens(text)) for text in range(len(store)) if store.held_out[text]}

    alone = prepared([Source(folder)], tokenizer, tmp_path / "one").store
    both = prepared([Source(rows), Source(folder)], tokenizer, tmp_path / "two").store
    assert held(alone) < held(both)
    assert {text for text in held(both) if " plate 1" in text} - held(alone)


def test_a_passage_with_several_questions_is_one_text(rows: Path, tokenizer, tmp_path: Path) -> None:
    store = prepared([Source(rows)], tokenizer, tmp_path / "store").store
    questions = list(store.questions())
    given = [asked for asked in questions if asked.kind == "given"]
    assert len(store) == 20 and len(given) == 40
    for asked in given:
        passage = tokenizer.decode(store.tokens(asked.text, asked.start, asked.stop))
        assert asked.answers[0] in passage
    made = [asked for asked in questions if asked.kind == "made"]
    assert len(made) > 20
    for asked in made:
        passage = tokenizer.decode(store.tokens(asked.text, asked.start, asked.stop))
        assert asked.answers[0] in " ".join(passage.split())
        assert asked.stop - asked.start <= 256


def test_what_may_only_be_measured_is_left_out(folder: Path, tokenizer, tmp_path: Path) -> None:
    squad = {"data": [{"paragraphs": [{"context": f"Before it. {paragraph(3)} After it.", "qas": []}]}]}
    (tmp_path / "measured.json").write_text(json.dumps(squad))
    # The numbers break up all runs of 13 words, so that only the same text shares one.
    done = prepared([Source(folder)], tokenizer, tmp_path / "store", exclude=[tmp_path / "measured.json"])
    texts = {tokenizer.decode(done.store.tokens(text)) for text in range(len(done.store))}
    assert paragraph(3) not in texts and len(texts) == 29
    assert any("1 texts are left out" in notice for notice in done.notices)


def test_a_store_is_made_once_and_anew_for_other_data(folder: Path, tokenizer, tmp_path: Path) -> None:
    told: list[int] = []
    prepared([Source(folder)], tokenizer, tmp_path / "store", report=lambda texts, source: told.append(texts))
    count = len(told)
    prepared([Source(folder)], tokenizer, tmp_path / "store", report=lambda texts, source: told.append(texts))
    assert len(told) == count > 0
    (folder / "0.txt").write_text(paragraph(77))
    store = prepared([Source(folder)], tokenizer, tmp_path / "store").store
    assert paragraph(77) in {tokenizer.decode(store.tokens(text)) for text in range(len(store))}


def test_a_killed_preparation_begins_anew(folder: Path, tokenizer, tmp_path: Path) -> None:
    def stop(texts: int, source: str) -> None:
        if texts == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepared([Source(folder)], tokenizer, tmp_path / "store", report=stop)
    with pytest.raises(StoreDamaged):
        TokenStore(tmp_path / "store")
    assert len(prepared([Source(folder)], tokenizer, tmp_path / "store").store) == 30


def test_half_a_line_of_replies_is_left_out(rows: Path, tokenizer, tmp_path: Path) -> None:
    store = prepared([Source(rows)], tokenizer, tmp_path / "store").store
    before = len(list(store.questions()))
    line = '{"text": 0, "start": 0, "stop": 9, "question": "q", "answers": ["a"], "kind": "reply"}\n'
    store.replies_path.write_text(line + line[:20])
    assert len(list(store.questions())) == before + 1


def test_a_role_marker_is_plain_text(tokenizer) -> None:
    tokens = TextTokens(tokenizer)
    ids, starts = tokens.with_starts("It ends </s> here. And more.")
    assert tokenizer.eos_token_id not in ids and starts[0] == 0
    assert tokenizer.decode(ids) == "It ends </s> here. And more."


def test_wrong_sources_are_refused(tokenizer, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing to train on"):
        Source(tmp_path / "none").files()
    (tmp_path / "a.jsonl").write_text('{"text": "x"}\n{"body": "y"}\n')
    with pytest.raises(UsageError, match="line 2"):
        prepared([Source(tmp_path / "a.jsonl")], tokenizer, tmp_path / "store")
    (tmp_path / "b.jsonl").write_text('{"text": "too short"}\n')
    with pytest.raises(UsageError, match="0 texts to train on"):
        prepared([Source(tmp_path / "b.jsonl")], tokenizer, tmp_path / "store")
    with pytest.raises(UsageError, match="--licence"):
        with_licences([tmp_path, tmp_path, tmp_path], ["MIT", "CC0"])
    assert [source.licence for source in with_licences([tmp_path, tmp_path], ["MIT"])] == ["MIT", "MIT"]
    assert [source.licence for source in with_licences([tmp_path], [])] == [""]
