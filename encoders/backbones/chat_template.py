"""From a conversation to token ids, through the model's own chat template or a plain form. It knows no weights.

What people and documents wrote is data: the template is rendered with placeholders, and the contents are put in
afterwards as plain text, so that ``<|im_end|>`` or ``[INST]`` inside a document can't end the user's turn.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from threading import Lock
from typing import Any, NamedTuple


class Message(NamedTuple):
    """One turn; `role` is ``system``, ``user`` or ``assistant``."""

    role: str
    content: str


_PLAIN_NAMES = {"user": "User", "assistant": "Assistant"}


class PlainTokenizer:
    """A tokenizer's view on plain text: markers inside the text are characters, not control tokens.

    It works on copies of its own, so that several threads may tokenise at once.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer, self._lock = tokenizer, Lock()
        self.added = {
            token.content: index
            for index, token in tokenizer.added_tokens_decoder.items()
            if token.special or re.search(r"[^\w\s]", token.content)
        }
        self._marker = _any_of(self.added)
        self._plain = self._marked = None
        if getattr(tokenizer, "is_fast", False):
            from tokenizers import Tokenizer

            description = tokenizer.backend_tokenizer.to_str()
            self._plain, self._marked = Tokenizer.from_str(description), Tokenizer.from_str(description)
            for copy in (self._plain, self._marked):
                copy.no_padding()
                copy.no_truncation()
            self._plain.encode_special_tokens = True

    def plain(self, text: str) -> list[int]:
        """Ids of `text`; a marker in it becomes the pieces of its characters."""
        ids: list[int] = []
        for piece in self._broken_markers(text):
            if self._plain is not None:
                ids += self._plain.encode(piece, add_special_tokens=False).ids
            else:
                with self._lock:
                    ids += self._tokenizer(piece, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        return ids

    def marked(self, text: str) -> list[int]:
        """Ids of a template's text: markers become their control tokens."""
        if self._marked is not None:
            return self._marked.encode(text, add_special_tokens=False).ids
        with self._lock:
            return self._tokenizer(text, add_special_tokens=False)["input_ids"]

    def has_marker(self, text: str) -> bool:
        """Whether `text` holds the characters of a control token."""
        return self._marker is not None and self._marker.search(text) is not None

    def decode(self, ids: list[int]) -> str:
        """Text of `ids`, control tokens left out, spaces as they are."""
        with self._lock:
            return self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)

    def opening(self) -> list[int]:
        """The ids that the tokenizer puts before any text (its beginning-of-text token, if it has one)."""
        with self._lock:
            whole = self._tokenizer("a")["input_ids"]
            bare = self._tokenizer("a", add_special_tokens=False)["input_ids"]
        for start in range(len(whole)):
            if whole[start : start + len(bare)] == bare:
                return whole[:start]
        return []

    def _broken_markers(self, text: str) -> list[str]:
        # Some models register markers as ordinary added tokens, which no option switches off: they are cut in two.
        if not self.has_marker(text):
            return [text] if text else []
        assert self._marker is not None
        pieces, start = [], 0
        for found in self._marker.finditer(text):
            middle = found.start() + max(1, (found.end() - found.start()) // 2)
            pieces.append(text[start:middle])
            start = middle
        pieces.append(text[start:])
        return [piece for piece in pieces if piece]


class ChatTemplate:
    """Renders conversations for one model.

    Attributes
    ----------
    plain : bool
        The model has no chat template of its own (a base model): a plain form is used.
    end_ids : frozenset of int
        Control tokens with which the template closes the assistant's turn or opens the user's.
    stop_strings : list of str
        Role markers that are ordinary text; a reply ends before them.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokens = PlainTokenizer(tokenizer)
        self._tokenizer = tokenizer
        self.plain = not getattr(tokenizer, "chat_template", None)
        probe = [Message("user", "a"), Message("assistant", "b"), Message("user", "c")]
        literals = self._skeleton(probe, open_reply=True)[0]
        turn_over = literals[2]  # between an answer and the next question: what closes one turn and opens another
        added = _any_of(self.tokens.added)
        self.end_ids = frozenset(self.tokens.added[text] for text in (added.findall(turn_over) if added else ()))
        self.stop_strings = ["\nUser:", "\nAssistant:"] if self.plain else self._text_markers([turn_over])
        self._markers = _any_of(["User:", "Assistant:"] if self.plain else self._text_markers(literals))

    def render(self, messages: Sequence[Message], reply_prefix: str = "") -> list[int]:
        """Token ids of the conversation, ending where the assistant's reply goes on after `reply_prefix`.

        Raises
        ------
        ValueError
            The model's template can't hold these turns.
        """
        (ids,) = self._rendered(messages, None, reply_prefix)
        return ids

    def render_around(self, messages: Sequence[Message], gap: str, reply_prefix: str = "") -> list[list[int]]:
        """Token ids of a conversation in pieces: before, between and after the places where `gap` stands in contents.

        Parameters
        ----------
        gap : str
            Characters that stand in no content by chance. What will stand there is not the tokenizer's business.

        Raises
        ------
        ValueError
            As for `render`.
        """
        return self._rendered(messages, gap, reply_prefix)

    def _rendered(self, messages: Sequence[Message], gap: str | None, reply_prefix: str) -> list[list[int]]:
        literals, order = self._skeleton(messages, open_reply=True)
        # Tokens carry the space before them: a prompt that ended with one would keep words from following.
        literals[-1] += reply_prefix.rstrip()
        head = self.tokens.opening() if self.plain else []
        pieces: list[list[tuple[bool, str]]] = [[(True, literals[0])]]
        for index, literal in zip(order, literals[1:], strict=True):
            content = self._harmless(messages[index].content.strip())
            first, *others = [content] if gap is None else content.split(gap)
            pieces[-1].append((False, first))
            pieces += [[(False, other)] for other in others]
            pieces[-1].append((True, literal))
        return [(head if place == 0 else []) + self._tokenised(piece) for place, piece in enumerate(pieces)]

    def _tokenised(self, piece: Sequence[tuple[bool, str]]) -> list[int]:
        """Ids of texts of the template (True) and of contents (False) that follow each other."""
        if not any(self.tokens.has_marker(text) for ours, text in piece if not ours):
            # One text, exactly as the model was trained on it.
            return self.tokens.marked("".join(text for _, text in piece))
        return [token for ours, text in piece for token in (self.tokens.marked if ours else self.tokens.plain)(text)]

    def _skeleton(self, messages: Sequence[Message], *, open_reply: bool) -> tuple[list[str], list[int]]:
        """The template's own text around the contents, and which message stands in each gap."""
        nonce = secrets.token_hex(6)
        names = [f"content{nonce}n{index}e" for index in range(len(messages))]
        turns = [Message(message.role, name) for message, name in zip(messages, names, strict=True)]
        text = _plain_form(turns) if self.plain else self._fill(turns, open_reply)
        found = re.split(f"content{nonce}n([0-9]+)e", text)
        order = [int(index) for index in found[1::2]]
        if sorted(set(order)) != list(range(len(messages))):
            raise ValueError("the model's chat template left out a part of the conversation")
        return found[0::2], order

    def _fill(self, turns: list[Message], open_reply: bool) -> str:
        from jinja2.exceptions import TemplateError

        options: dict[str, Any] = {"tokenize": False, "add_generation_prompt": open_reply, "enable_thinking": False}
        try:
            return str(self._tokenizer.apply_chat_template([turn._asdict() for turn in turns], **options))
        except TemplateError:
            # Some templates know no system turn: its words go before the first question.
            if turns[0].role != "system" or len(turns) < 2:
                raise
            first = Message(turns[1].role, f"{turns[0].content}\n\n{turns[1].content}")
            return str(self._tokenizer.apply_chat_template([t._asdict() for t in [first, *turns[2:]]], **options))

    def _text_markers(self, literals: Sequence[str]) -> list[str]:
        """Parts of the template's text that are no control tokens but look like role markers."""
        added = _any_of(self.tokens.added)
        found = set()
        for literal in literals:
            for part in added.split(literal) if added else [literal]:
                for line in part.splitlines():
                    marker = line.strip()
                    if 3 <= len(marker) <= 24 and re.search(r"[^\w\s]", marker):
                        found.update(re.findall(r"\S+", marker) if marker[0] in "[<{|" else [marker])
        return sorted(marker for marker in found if len(marker) >= 3)

    def _harmless(self, content: str) -> str:
        """`content` with a space inside whatever reads like one of the template's text markers."""
        if self._markers is None:
            return content
        return self._markers.sub(lambda found: f"{found.group()[0]} {found.group()[1:]}", content)


def _plain_form(turns: Sequence[Message]) -> str:
    parts = [t.content if t.role == "system" else f"{_PLAIN_NAMES[t.role]}: {t.content}" for t in turns]
    return "\n\n".join([*parts, "Assistant:"])


def _any_of(strings: Any) -> re.Pattern[str] | None:
    """A pattern for any of `strings`, longest first; None without any."""
    ordered = sorted((string for string in strings if string.strip()), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, ordered))) if ordered else None
