"""Answers on a SQuAD-format file: a fixed short-answer prompt as yardstick, and what `ask` itself replies and quotes.

    python tests/benchmarks/answers.py SQUAD.json [--half odd] [--limit N] [--part prompt|span|ask-gold|ask]...

`prompt`, the yardstick, puts one fixed prompt to the decoder, greedy, at most 32 tokens, with the question's own
paragraph, with the one that retrieval ranks first among all, and with none; F1 and exact match as SQuAD normalises
them, with 95 % bootstrap intervals. `span` puts the same prompt over the best sentences, the answer being words
of them.
`ask` retrieves among all paragraphs (`ask-gold`: in the question's own) and answers as the product does: the share of
replies, and of replies or quotes, that hold the answer, and of answers that cite the question's paragraph first.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from slotrag import Answer, Library
from slotrag.encoders.backbones.generation import Prompt, generate_batch
from slotrag.encoders.backbones.store import ModelStore
from slotrag.encoders.registry import create
from slotrag.rag.context import SPAN_SENTENCES, plan
from slotrag.rag.decoder import Decoder
from slotrag.rag.evidence import rank_sentences
from slotrag.rag.icae.training.measures import answer_f1, exact_match, normalised
from slotrag.rag.prompting import SHORT_FORM, messages
from slotrag.rag.spans import choose_span

MAX_TOKENS = 32
BATCH = 12
PARTS = ("prompt", "span", "ask-gold", "ask")


@dataclass(frozen=True, slots=True)
class Question:
    """A question, its accepted answers and the number of its paragraph."""

    text: str
    answers: tuple[str, ...]
    paragraph: int


def read(path: Path) -> tuple[list[str], list[Question]]:
    """Paragraphs and questions of a SQuAD-format file."""
    paragraphs: list[str] = []
    questions: list[Question] = []
    for article in json.loads(path.read_text(encoding="utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            for asked in paragraph["qas"]:
                answers = tuple(dict.fromkeys(answer["text"] for answer in asked["answers"]))
                questions.append(Question(asked["question"], answers, len(paragraphs)))
            paragraphs.append(paragraph["context"])
    return paragraphs, questions


def holds(text: str, answers: Sequence[str]) -> bool:
    """Whether the normal form of `text` holds one of the answers' as whole words."""
    return any(f" {normalised(answer)} " in f" {normalised(text)} " for answer in answers)


def interval(values: Sequence[float]) -> str:
    """Mean and 95 % bootstrap interval, to three places."""
    generator = np.random.default_rng(0)
    array = np.asarray(values, dtype=np.float64)
    means = array[generator.integers(0, len(array), (2000, len(array)))].mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return f"{array.mean():.3f} [{low:.3f}, {high:.3f}]"


def short_answers(decoder: Decoder, questions: Sequence[Question], context: Callable[[Question], str]) -> list[str]:
    """Replies to the fixed prompt, batches of questions of similar length together."""
    prompts = [_prompt(decoder, question.text, context(question)) for question in questions]
    replies = [""] * len(questions)
    order = sorted(range(len(prompts)), key=lambda number: len(prompts[number]))
    for start in range(0, len(order), BATCH):
        chosen = order[start : start + BATCH]
        done = generate_batch(
            decoder.module,
            [Prompt([prompts[number]]) for number in chosen],
            stop_ids=decoder.stop_ids,
            max_tokens=MAX_TOKENS,
        )
        for number, completion in zip(chosen, done, strict=True):
            replies[number] = decoder.text_of(completion.ids).strip().split("\n")[0]
    return replies


def _prompt(decoder: Decoder, question: str, context: str) -> list[int]:
    form = SHORT_FORM
    if not context:
        bare = tuple(("", asked, answer) for _, asked, answer in form.demonstrations)
        form = replace(form, instruction="Answer the question with a few words.", demonstrations=bare)
    turns = messages(form, question, [(1, "", context)] if context else [])
    return decoder.render(turns, reply_prefix=form.reply_prefix)


def yardstick(
    library: Library, numbers: dict[str, int], paragraphs: list[str], questions: list[Question]
) -> Iterator[dict]:
    """The three conditions of the fixed prompt."""
    decoder = Decoder.load("smollm2-135m", ModelStore())
    found = {q.text: next((numbers[h.path] for h in library.search(q.text, k=1).hits), None) for q in questions}

    def retrieved(question: Question) -> str:
        number = found[question.text]
        return "" if number is None else paragraphs[number]

    conditions: dict[str, Callable[[Question], str]] = {
        "gold paragraph": lambda question: paragraphs[question.paragraph],
        "retrieved paragraph": retrieved,
        "no context": lambda question: "",
    }
    for name, context in conditions.items():
        started = time.perf_counter()
        replies = short_answers(decoder, questions, context)
        yield scores(name, replies, questions) | {"seconds": round(time.perf_counter() - started, 1)}


def scores(name: str, replies: Sequence[str], questions: Sequence[Question]) -> dict:
    """F1, exact match and the share of replies that hold the answer."""
    pairs = list(zip(replies, questions, strict=True))
    return {
        "condition": name,
        "questions": len(pairs),
        "f1": interval([answer_f1(reply, q.answers) for reply, q in pairs]),
        "exact_match": interval([float(exact_match(reply, q.answers)) for reply, q in pairs]),
        "holds": interval([float(holds(reply, q.answers)) for reply, q in pairs]),
    }


def spans(library: Library, questions: list[Question]) -> Iterator[dict]:
    """The same prompt over the best sentences, the answer being the likeliest span of them."""
    models = ModelStore()
    decoder, encoder = Decoder.load("smollm2-135m", models), create("mean", models)
    for name, of in (("span, gold paragraph", lambda q: f"{q.paragraph:04}.txt"), ("span, retrieval", lambda q: None)):
        started = time.perf_counter()
        replies = []
        for question in questions:
            hits = library.search(question.text, path=of(question)).hits
            ranked = rank_sentences(question.text, hits, encoder)
            planned = plan(question.text, hits, ranked, decoder, max_tokens=16, short=True)
            texts = [sentence.text for sentence in ranked[:SPAN_SENTENCES]]
            span = choose_span(question.text, texts, decoder, planned.ids)
            replies.append("" if span is None else texts[span.sentence][span.start : span.end])
        yield scores(name, replies, questions) | {"seconds": round(time.perf_counter() - started, 1)}


def asked(library: Library, numbers: dict[str, int], questions: list[Question], max_tokens: int, *, gold: bool) -> dict:
    """What `ask` gives, from the whole library or (`gold`) from the question's own paragraph."""
    started = time.perf_counter()
    replied, quoted, cited, found, words = [], [], [], [], []
    first_token, reasons = [], Counter[str]()
    for question in questions:
        answer: Answer = library.answer(
            question.text, max_tokens=max_tokens, path=f"{question.paragraph:04}.txt" if gold else None
        )
        reply = re.sub(r"\[\d+(?:, ?\d+)*\]", "", answer.text)
        reasons[answer.stop_reason] += 1
        found.append(float(answer.found))
        words.append(float(len(reply.split())))
        replied.append(float(holds(reply, question.answers)))
        everything = [reply, *(quote.text for quote in answer.quotes)]
        quoted.append(float(any(holds(text, question.answers) for text in everything)))
        first = answer.citations[0] if answer.citations else None
        if answer.found:
            cited.append(float(first is not None and numbers[first.path] == question.paragraph))
            first_token.append(answer.timings_ms["first_token"])
    return {
        "condition": "ask, gold paragraph" if gold else "ask, retrieval",
        "questions": len(questions),
        "reply_holds": interval(replied),
        "reply_or_quotes_hold": interval(quoted),
        "first_citation_is_gold": interval(cited),
        "found": interval(found),
        "words_a_reply": round(float(np.mean(words)), 1),
        "stop_reasons": dict(reasons),
        "first_token_ms_p50": round(float(np.median(first_token))),
        "seconds": round(time.perf_counter() - started, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--half", choices=("even", "odd", "all"), default="all")
    parser.add_argument("--limit", type=int, help="this many questions, spread evenly")
    parser.add_argument("--part", choices=PARTS, action="append", help="default: all")
    parser.add_argument("--max-tokens", type=int, default=MAX_TOKENS, help="of a reply of ask")
    options = parser.parse_args()
    paragraphs, questions = read(options.file)
    questions = {"even": questions[::2], "odd": questions[1::2], "all": questions}[options.half]
    if options.limit and options.limit < len(questions):
        questions = [questions[i] for i in np.linspace(0, len(questions) - 1, options.limit).astype(int)]
    with tempfile.TemporaryDirectory() as folder:
        documents = Path(folder, "paragraphs")
        documents.mkdir()
        for number, text in enumerate(paragraphs):
            (documents / f"{number:04}.txt").write_text(text, encoding="utf-8")
        numbers = {f"{number:04}.txt": number for number in range(len(paragraphs))}
        with Library.open(Path(folder, "library")) as library:
            library.index([documents])
            parts = options.part or PARTS
            if "prompt" in parts:
                for row in yardstick(library, numbers, paragraphs, questions):
                    print(json.dumps(row), flush=True)
            if "span" in parts:
                for row in spans(library, questions):
                    print(json.dumps(row), flush=True)
            for part in ("ask-gold", "ask"):
                if part in parts:
                    row = asked(library, numbers, questions, options.max_tokens, gold=part == "ask-gold")
                    print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
