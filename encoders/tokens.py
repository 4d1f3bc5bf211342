"""Texts to the token ids that a model reads: prefix, truncation and special tokens. It knows no model's states.

It works on the Rust tokenizer beneath a transformers one and never changes its state, so threads may share it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from .errors import EncoderUnavailable

_SURROGATES = re.compile("[\ud800-\udfff]")
# Characters for each token beyond which the rest of a text is not tokenized at first, and the tokens to spare that
# show that nothing of the cut reaches the part that counts.
_CHARACTERS_A_TOKEN = 16
FAR_BEYOND = 16


class TextTokens:
    """Tokenizes texts for one model.

    Parameters
    ----------
    tokenizer : transformers.PreTrainedTokenizerBase
        A fast one that truncates and pads nothing by itself.
    longest : int
        Most tokens of one input of the model, special tokens included.
    passage_prefix, query_prefix : str
        What passages and queries get put before them.

    Attributes
    ----------
    max_tokens : int
        Most tokens of a passage that reach the model. A query with a longer prefix gets fewer, never more.
    """

    def __init__(self, tokenizer: Any, longest: int, passage_prefix: str = "", query_prefix: str = "") -> None:
        self._backend = rust_tokenizer(tokenizer)
        self._before, self._after = special_tokens(self._backend)
        # Without special tokens an empty text would be no token at all, which no model can read.
        named = (getattr(tokenizer, name, None) for name in ("bos_token_id", "eos_token_id", "unk_token_id"))
        self._stand_in = next((number for number in named if number is not None), 0)
        room = longest - len(self._before) - len(self._after)
        self.max_tokens = room - self._count_prefix(passage_prefix)
        # For each prefix, the tokens of prefix and text together that are kept.
        self._limits = {passage_prefix: room}
        if query_prefix != passage_prefix:
            prefix_tokens = self._count_prefix(query_prefix)
            self._limits[query_prefix] = min(room, prefix_tokens + self.max_tokens)
        least = min(self.max_tokens, room - self._count_prefix(query_prefix))
        if least < 1:
            raise EncoderUnavailable(
                f"of the {longest} tokens that the model reads, special tokens and prefix leave none for the text: "
                "use a shorter prefix or a larger max_length"
            )
        self._room = room

    def ids(self, texts: Sequence[str], prefix: str = "") -> list[list[int]]:
        """Token ids of each text with its prefix and special tokens, cut at the end of the text.

        At most `max_tokens` of a text's own tokens are kept. Never empty. `prefix` is one of those named at first.
        """
        limit = self._limits[prefix]
        whole = [prefix + readable(text) for text in texts]
        shortened = [shorten(text, limit) for text in whole]
        token_lists = self._plain_ids(shortened)
        unsure = [
            position
            for position, tokens in enumerate(token_lists)
            if len(tokens) < limit + FAR_BEYOND and len(shortened[position]) < len(whole[position])
        ]
        if unsure:
            again = self._plain_ids([whole[position] for position in unsure])
            for position, tokens in zip(unsure, again, strict=True):
                token_lists[position] = tokens
        return [self._before + tokens[:limit] + self._after or [self._stand_in] for tokens in token_lists]

    def offsets(self, text: str, prefix: str = "") -> list[tuple[int, int]]:
        """Character spans ``[start, end)`` of the tokens of `text` as they are when `prefix` stands before it."""
        spans = self._backend.encode(prefix + readable(text), add_special_tokens=False).offsets
        skip = len(prefix)
        return [(max(start - skip, 0), end - skip) for start, end in spans if end > skip] if skip else spans

    def cut(self, text: str, prefix: str = "") -> str:
        """`text` as far as its first `max_tokens` tokens reach: for a model that itself only cuts at its length."""
        if self._limits[prefix] == self._room or len(text) <= self.max_tokens:
            return text
        spans = self.offsets(shorten(text, self.max_tokens), prefix)
        return text if len(spans) <= self.max_tokens else text[: spans[self.max_tokens - 1][1]]

    def never_empty(self, text: str, prefix: str = "") -> str:
        """`text`, or a dot where the model would be given no token at all: for a model that tokenizes by itself."""
        if self._before or self._after or self._plain_ids([prefix + text])[0]:
            return text
        return "."

    def _plain_ids(self, texts: list[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self._backend.encode_batch_fast(texts, add_special_tokens=False)]

    def _count_prefix(self, prefix: str) -> int:
        if not prefix:
            return 0
        spans = self._backend.encode(prefix + "a", add_special_tokens=False).offsets
        return sum(end <= len(prefix) for _, end in spans)


def rust_tokenizer(tokenizer: Any) -> Any:
    """The `tokenizers.Tokenizer` beneath a transformers tokenizer (or itself).

    Raises
    ------
    EncoderUnavailable
        A tokenizer in Python, which knows no character offsets.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    # A model of static vectors has the Rust tokenizer itself.
    if backend is None and hasattr(tokenizer, "encode_batch_fast"):
        backend = tokenizer
    if backend is None:
        raise EncoderUnavailable(
            f"the model's tokenizer ({type(tokenizer).__name__}) gives no character offsets: choose a model with a "
            "tokenizer.json"
        )
    return backend


def untouched_copy(tokenizer: Any) -> Any:
    """A copy of a tokenizer that somebody else sets truncation and padding on, with neither."""
    from tokenizers import Tokenizer

    backend = Tokenizer.from_str(rust_tokenizer(tokenizer).to_str())
    backend.no_truncation()
    backend.no_padding()
    return backend


def readable(text: str) -> str:
    """`text` with lone surrogates, which no encoding knows, replaced one for one, so that offsets stay true."""
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def special_tokens(backend: Any) -> tuple[list[int], list[int]]:
    """The special tokens that the tokenizer puts before and after a text."""
    plain = backend.encode("a", add_special_tokens=False).ids
    framed = backend.encode("a").ids
    for start in range(len(framed) - len(plain) + 1):
        if framed[start : start + len(plain)] == plain:
            return framed[:start], framed[start + len(plain) :]
    raise EncoderUnavailable("the model's tokenizer changes a text's tokens when it adds special tokens")


def shorten(text: str, tokens: int) -> str:
    """`text` up to a white space far behind its first `tokens` tokens; tokenizing the rest is not worth the time."""
    enough = (tokens + FAR_BEYOND) * _CHARACTERS_A_TOKEN
    if len(text) <= 2 * enough:
        return text
    end = text.find(" ", enough, 2 * enough)
    return text[:end] if end > 0 else text
