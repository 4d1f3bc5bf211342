"""Replies of the frozen decoder to questions about passages that it reads in full: what slots are to bring about too.

Where a passage came without a question the decoder writes one first. Each batch is added to the store's file when it is
done, so that a killed run goes on with the next. It trains nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ....encoders.backbones.chat_template import Message
from ....encoders.backbones.generation import Completion, generate_batch
from ....encoders.backbones.prefill import Prompt
from ...prompting import SMALL_FORM, messages
from ...training.questions import QUESTION, question_problem
from .token_store import GIVEN, MADE, REPLY, Question, StoreDamaged, TokenStore, question_line

if TYPE_CHECKING:
    from ...decoder import Decoder

_BATCH = 8
_QUESTION_TOKENS = 32
_REPLY_TOKENS = 48
_LEAST_WORDS = 3


def write_replies(
    store: TokenStore,
    decoder: Decoder,
    count: int,
    *,
    report: Callable[[int, int], None] = lambda done, total: None,
    check: Callable[[], None] = lambda: None,
) -> int:
    """Have replies to `count` questions written, those that are there already among them; how many there are then.

    Which passages are taken is the same for the same store. Questions that came with their texts are taken first.

    Parameters
    ----------
    check : callable
        Called between batches; it may raise to end the work.

    Raises
    ------
    StoreDamaged
        The replies cannot be written.
    """
    jobs = _jobs(store)[:count]
    done = _whole_lines(store)
    for start in range(done, len(jobs), _BATCH):
        report(start, len(jobs))
        check()
        _append(store, _answered(store, decoder, jobs[start : start + _BATCH]))
    report(len(jobs), len(jobs))
    return len(jobs)


def _jobs(store: TokenStore) -> list[Question]:
    """What is asked for, in its order; a question that the text itself gave stands for its passage only."""
    given: dict[tuple[int, int, int, str], Question] = {}
    passages: dict[tuple[int, int, int], Question] = {}
    for asked in store.questions():
        place = (asked.text, asked.start, asked.stop)
        if asked.kind == GIVEN:
            given[(*place, asked.question)] = asked
        elif asked.kind == MADE:
            passages[place] = replace(asked, question="")
    return [*sorted(given.values(), key=_draw), *sorted(passages.values(), key=_draw)]


def _draw(asked: Question) -> bytes:
    return hashlib.sha256(f"{asked.text} {asked.start} {asked.question}".encode("utf-8", "surrogateescape")).digest()


def _answered(store: TokenStore, decoder: Decoder, jobs: Sequence[Question]) -> Iterator[Question]:
    """The jobs with question and reply, those without any having no answers."""
    passages = [decoder.text_of(store.tokens(job.text, job.start, job.stop)).strip() for job in jobs]
    missing = [place for place, job in enumerate(jobs) if not job.question]
    questions = [job.question for job in jobs]
    for place, question in zip(missing, _asked(decoder, [passages[place] for place in missing]), strict=True):
        questions[place] = "" if question_problem(question, passages[place]) else question
    asking = [place for place, question in enumerate(questions) if question]
    prompts = [
        decoder.render(messages(SMALL_FORM, questions[place], [(1, "", passages[place])]), SMALL_FORM.reply_prefix)
        for place in asking
    ]
    replies = dict(zip(asking, _generated(decoder, prompts, _REPLY_TOKENS), strict=True))
    for place, job in enumerate(jobs):
        reply = _usable(decoder, replies[place]) if place in replies else ""
        yield replace(job, question=questions[place], answers=(reply,) if reply else (), kind=REPLY)


def _asked(decoder: Decoder, passages: Sequence[str]) -> list[str]:
    """A question for each passage, by the same examples that head training shows its writer."""
    shown = [Message("system", QUESTION.instruction)]
    for text, question in QUESTION.demonstrations:
        shown += [Message("user", text), Message("assistant", question)]
    prompts = [decoder.render([*shown, Message("user", passage)]) for passage in passages]
    written = _generated(decoder, prompts, _QUESTION_TOKENS)
    return [decoder.text_of(completion.ids).strip().split("\n")[0] for completion in written]


def _generated(decoder: Decoder, prompts: Sequence[list[int]], most: int) -> list[Completion]:
    return generate_batch(
        decoder.module, [Prompt([prompt]) for prompt in prompts], stop_ids=decoder.stop_ids, max_tokens=most
    )


def _usable(decoder: Decoder, completion: Completion) -> str:
    """The reply's whole sentences, or nothing."""
    text = decoder.text_of(completion.ids).strip().split("\n")[0].strip()
    if completion.stop_reason == "length":
        text = text[: max(text.rfind(mark) for mark in ".!?") + 1]
    return text if len(text.split()) >= _LEAST_WORDS and completion.stop_reason != "loop" else ""


def _whole_lines(store: TokenStore) -> int:
    """Lines of replies; half a line at the end, left by a kill, is cut off."""
    path = store.replies_path
    try:
        content = path.read_bytes() if path.exists() else b""
        whole = content[: content.rfind(b"\n") + 1]
        if whole != content:
            path.write_bytes(whole)
    except OSError as error:
        raise StoreDamaged(f"{path} cannot be read or written ({error.strerror}).") from error
    return whole.count(b"\n")


def _append(store: TokenStore, answered: Iterator[Question]) -> None:
    lines = "".join(question_line(asked) for asked in answered)
    try:
        with store.replies_path.open("a", encoding="utf-8") as file:
            file.write(lines)
    except OSError as error:
        raise StoreDamaged(f"{store.replies_path} cannot be written ({error.strerror}); make room there.") from error
