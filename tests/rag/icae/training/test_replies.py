"""Replies that a decoder writes to questions about passages, put down after every batch."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from slotrag.rag.icae.training import replies
from slotrag.rag.icae.training.token_store import TokenStore

pytest.importorskip("torch")


@pytest.fixture
def decoder(language_model, monkeypatch: pytest.MonkeyPatch):
    from slotrag.rag.decoder import Decoder

    for name, most in (("_REPLY_TOKENS", 6), ("_QUESTION_TOKENS", 4), ("_BATCH", 2), ("_LEAST_WORDS", 0)):
        monkeypatch.setattr(replies, name, most)
    return Decoder(language_model, "tiny")


@pytest.fixture
def own(store: TokenStore, tmp_path: Path) -> TokenStore:
    shutil.copytree(store.folder, tmp_path / "store")
    return TokenStore(tmp_path / "store")


class Killed(Exception):
    pass


def test_a_killed_run_goes_on_to_the_same_replies(own: TokenStore, decoder, tmp_path: Path) -> None:
    shutil.copytree(own.folder, tmp_path / "whole")
    whole = TokenStore(tmp_path / "whole")
    told: list[tuple[int, int]] = []
    assert replies.write_replies(whole, decoder, 5, report=lambda done, total: told.append((done, total))) == 5
    assert told == [(0, 5), (2, 5), (4, 5), (5, 5)]

    def kill(calls: list[int] = [0]) -> None:  # noqa: B006 - counts the calls
        calls[0] += 1
        if calls[0] == 2:
            raise Killed

    with pytest.raises(Killed):
        replies.write_replies(own, decoder, 5, check=kill)
    content = own.replies_path.read_bytes()
    assert content.count(b"\n") == 2
    own.replies_path.write_bytes(content + b'{"text": 3, "st')
    assert replies.write_replies(own, decoder, 5) == 5
    assert own.replies_path.read_bytes() == whole.replies_path.read_bytes()
    assert replies.write_replies(own, decoder, 5) == 5


def test_given_questions_come_first_and_what_has_no_reply_is_left_out(own: TokenStore, decoder) -> None:
    given = [asked for asked in own.questions() if asked.kind == "given"]
    assert replies.write_replies(own, decoder, 4) == 4
    before = len(list(own.questions()))
    lines = own.replies_path.read_text().splitlines()
    assert len(lines) == 4
    written = [asked for asked in own.questions() if asked.kind == "reply"]
    assert {asked.question for asked in written} <= {asked.question for asked in given}
    assert all(asked.answers[0] for asked in written)
    assert before == len([asked for asked in own.questions() if asked.kind != "reply"]) + len(written)
