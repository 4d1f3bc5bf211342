"""A text within its prompt to token ids: what all texts share, what is the text's own, and where the text is cut.

A prompt is tokenized in one piece, as the model has seen such text: apart, a BPE tokenizer would give ``.`` and ``"``
where the prompt has ``."``, and a SentencePiece-style one would put a space before each piece. Only the constant words
before the text are taken off again, so that the model can read them once. It knows no model's states.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .errors import PromptTooLong
from .prompts import EchoTemplate, Template
from .tokens import FAR_BEYOND, readable, rust_tokenizer, shorten, special_tokens, untouched_copy

# Tokens that a text may have more within a prompt than alone, where it meets the quotes and where it is cut. A longer
# prompt loses text; the model's window is never exceeded.
_SEAM = 4


def literal_tokenizer(tokenizer: Any) -> Any:
    """A tokenizer of its own to which ``</s>`` or ``<|im_end|>`` in a text is text, as a document means it."""
    backend = untouched_copy(tokenizer)
    backend.encode_special_tokens = True
    return backend


class PromptText:
    """Cuts texts to what a prompt leaves room for.

    Parameters
    ----------
    backend : tokenizers.Tokenizer
        From `literal_tokenizer`.
    max_tokens : int
        Most tokens of a text, tokenized alone.
    """

    def __init__(self, backend: Any, max_tokens: int) -> None:
        self._backend = backend
        self.max_tokens = max_tokens

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Character spans ``[start, end)`` of the tokens of `text`."""
        return self._backend.encode(unquoted(text), add_special_tokens=False).offsets

    def cut(self, texts: Sequence[str]) -> list[str]:
        """Each text, quotes replaced, as far as its first `max_tokens` tokens reach."""
        whole = [unquoted(text) for text in texts]
        # No text has more tokens than bytes, but for a space that some tokenizers put before it.
        long = [place for place, text in enumerate(whole) if len(text.encode()) >= self.max_tokens]
        for place in long:
            whole[place] = self._cut(whole[place])
        return whole

    def _cut(self, text: str) -> str:
        for piece in (shorten(text, self.max_tokens), text):
            spans = self._backend.encode(piece, add_special_tokens=False).offsets
            if len(spans) >= self.max_tokens + FAR_BEYOND or len(piece) == len(text):
                break
        if len(spans) <= self.max_tokens:
            return text
        end = spans[self.max_tokens - 1][1]
        # A letter of several tokens is not cut through: it goes as a whole, unless it is the first.
        beyond = spans[self.max_tokens][0]
        return text[: beyond if 0 < beyond < end else end]


class QuotedTokens:
    """Token ids of texts in a one-word prompt.

    Parameters
    ----------
    tokenizer : transformers.PreTrainedTokenizerBase
    backend : tokenizers.Tokenizer
        From `literal_tokenizer`.
    template : Template
    longest : int
        Most tokens of the whole prompt.
    placeholder : bool
        Whether a placeholder stands between the words before the text and the opening quote; `ids` gives a 0 for it,
        as the first token.

    Attributes
    ----------
    head : list of int
        What every prompt begins with, special tokens included.
    room : int
        Tokens that are left for a text.
    """

    def __init__(self, tokenizer: Any, backend: Any, template: Template, longest: int, *, placeholder: bool) -> None:
        self._backend, self._template, self._longest = backend, template, longest
        self._begin = self._encode(template.before)
        # The space before a placeholder is a token of its own; without one it is part of the quote's token.
        before = self._encode(template.before + " ") if placeholder else self._begin
        self.head = special_tokens(rust_tokenizer(tokenizer))[0] + before
        self._first = [0] if placeholder else []
        around = len(self._rest(template.fill(""))) + 1
        self.room = longest - len(self.head) - around - _SEAM

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text's prompt without its head; `texts` come from `PromptText.cut`."""
        prompts = [self._template.fill(text) for text in texts]
        encodings = self._backend.encode_batch_fast(prompts, add_special_tokens=False)
        most = self._longest - len(self.head)
        rests = [
            self._first + self._without_begin(encoding.ids, prompt)
            for prompt, encoding in zip(prompts, encodings, strict=True)
        ]
        return [
            rest if len(rest) <= most else self._first + self._squeezed(text, most)
            for rest, text in zip(rests, texts, strict=True)
        ]

    def _rest(self, prompt: str) -> list[int]:
        return self._first + self._without_begin(self._encode(prompt), prompt)

    def _without_begin(self, ids: list[int], prompt: str) -> list[int]:
        begin = self._begin
        if ids[: len(begin)] == begin:
            return ids[len(begin) :]
        # The words before the text were tokenized with a part of it: tokenize from the opening quote on.
        return self._encode(prompt[len(self._template.before) :])

    def _squeezed(self, text: str, most: int) -> list[int]:
        """For a text that grows by more than the seam within the prompt: as much of it as fits."""
        while text:
            text = text[: len(text) - max(1, len(text) // 50)]
            rest = self._rest(self._template.fill(text))[len(self._first) :]
            if len(self._first) + len(rest) <= most:
                return rest
        raise PromptTooLong("the prompt alone is longer than the model's window: choose a shorter prompt")

    def _encode(self, text: str) -> list[int]:
        return self._backend.encode(text, add_special_tokens=False).ids


class EchoTokens:
    """Token ids of texts said twice, and where the second time is.

    Parameters and `head`, `room` are as for `QuotedTokens`.
    """

    def __init__(self, tokenizer: Any, backend: Any, template: EchoTemplate, longest: int) -> None:
        self._backend, self._template, self._longest = backend, template, longest
        self._begin: list[int] = backend.encode(template.before, add_special_tokens=False).ids
        self.head = special_tokens(rust_tokenizer(tokenizer))[0] + self._begin
        around = len(backend.encode(template.fill(""), add_special_tokens=False)) - len(self._begin)
        self.room = (longest - len(self.head) - around - _SEAM) // 2

    def ids(self, texts: Sequence[str]) -> list[tuple[list[int], int]]:
        """For each text its prompt's token ids without the head, and how many at the end are the text again.

        At least one: where a text has no token that shows, the last token of the prompt stands for it.
        """
        prompts = [self._template.fill(text) for text in texts]
        encodings = self._backend.encode_batch(prompts, add_special_tokens=False)
        return [self._split(*found) for found in zip(texts, prompts, encodings, strict=True)]

    def _split(self, text: str, prompt: str, encoding: Any) -> tuple[list[int], int]:
        ids, spans = encoding.ids, encoding.offsets
        second = len(prompt) - len(text)
        own = sum(end > second for _, end in spans)
        begin = self._begin
        if ids[: len(begin)] == begin:
            rest = ids[len(begin) :]
        else:
            rest = self._backend.encode(prompt[len(self._template.before) :], add_special_tokens=False).ids
        return rest[: self._longest - len(self.head)], max(1, min(own, len(rest)))


def unquoted(text: str) -> str:
    """`text` with its double quotes as single ones, letter for letter, so that none closes the prompt's own.

    Examples
    --------
    >>> unquoted('Who said "no"?')
    "Who said 'no'?"
    """
    return readable(text).replace('"', "'")
