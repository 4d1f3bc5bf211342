"""The frozen decoder: conversations in, streamed text out. It knows no documents, no retrieval and no citations.

Any causal language model that transformers can load serves, by catalogue name, hub id or folder. The weights are shared
with whoever else uses the model; the module tree is the decoder's own.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from ..encoders.backbones.chat_template import ChatTemplate, Message
from .streaming import TextStream

if TYPE_CHECKING:
    from ..encoders.backbones.frozen import FrozenLM
    from ..encoders.backbones.generation import Constraint, Prompt, Sampling
    from ..encoders.backbones.store import ModelStore
    from .events import CancelToken

SMALL_PARAMETERS = 700_000_000
"""Below this many weights a decoder reads the best sentences in place of whole passages."""


class Token(NamedTuple):
    """A piece of text as it becomes readable; `ids` are the tokens that made it."""

    text: str
    ids: tuple[int, ...] = ()


class Generation:
    """One running reply: iterate for its pieces, then read the outcome.

    Leaving the loop early (or `close`) ends the work; nothing runs on in the background.

    Attributes
    ----------
    stop_reason : str
        ``eos``, ``length``, ``loop`` or ``cancelled``; empty while it runs.
    text : str
        The pieces so far; after a loop without the repeated part.
    token_ids : list of int
        The tokens behind `text`.
    """

    def __init__(self, decoder: Decoder, prompt: Prompt, cancel: CancelToken | None, options: dict[str, Any]) -> None:
        from ..encoders.backbones.generation import DecodingLoop

        self.stop_reason = ""
        self.text = ""
        self.token_ids: list[int] = []
        self._decoder = decoder
        self._loop = DecodingLoop(
            decoder.module,
            [prompt],
            stop_ids=decoder.stop_ids,
            cancelled=(lambda: cancel.cancelled) if cancel is not None else None,
            **options,
        )
        self._pieces = self._run()

    def __iter__(self) -> Iterator[Token]:
        return self._pieces

    def __next__(self) -> Token:
        return next(self._pieces)

    def close(self) -> None:
        """End the work now."""
        self._pieces.close()

    def _run(self) -> Generator[Token, None, None]:
        stream = self._decoder.text_stream()
        steps = self._loop.steps()
        completion = self._loop.completions[0]
        waiting: list[int] = []
        try:
            for (token,) in steps:
                if token is None:
                    continue
                waiting.append(token)
                piece = stream.feed(token)
                self.text = stream.text
                if piece:
                    yield Token(piece, tuple(waiting))
                    waiting = []
                if stream.stopped:
                    completion.stop_reason = "eos"
                    break
            rest = stream.finish()
            self.text = stream.text
            if rest:
                yield Token(rest, tuple(waiting))
        finally:
            steps.close()
            self.token_ids = list(completion.ids)
            self.stop_reason = completion.stop_reason or "cancelled"
            if self.stop_reason == "loop":
                self.text = self._decoder.text_of(completion.ids)


class Decoder:
    """A frozen causal language model with its tokenizer and chat template.

    Parameters
    ----------
    model : FrozenLM
        Loaded with ``causal=True``.
    name : str
        What the user called it.
    languages : sequence of str, optional
        ISO 639 codes that it writes well; None when nobody knows.

    Attributes
    ----------
    window : int
        Most positions of prompt and reply together.
    parameters : int
        Number of weights.
    small : bool
        Whether it needs the best sentences picked out for it.
    """

    def __init__(self, model: FrozenLM, name: str, languages: Sequence[str] | None = None) -> None:
        self.name = name
        self.languages = None if languages is None else tuple(languages)
        self.window = int(model.window)
        self.module: Any = model.module()
        self.template = ChatTemplate(model.tokenizer)
        self.parameters = sum(parameter.numel() for parameter in self.module.parameters())
        self.small = self.parameters < SMALL_PARAMETERS
        self._said: set[str] = set()
        self._said_lock = Lock()
        self.stop_ids = self._stop_ids(model)

    @classmethod
    def load(cls, name: str, models: ModelStore, *, device: str = "auto", dtype: str = "float32") -> Decoder:
        """Load the decoder called `name`: a catalogue name, a hub id or a folder.

        Raises
        ------
        slotrag.SlotragError
            The model is missing and may not be fetched, or is no causal language model.
        """
        from ..encoders.backbones import catalogue
        from ..encoders.backbones.frozen import FrozenLM

        entry = catalogue.find(name)
        model = FrozenLM.load(models.resolve(name), causal=True, device=device, dtype=dtype)
        return cls(model, name, None if entry is None else entry.languages)

    def first_time(self, remark: str) -> bool:
        """Whether `remark` about this decoder has not been made yet; it counts as made from now on."""
        with self._said_lock:
            new = remark not in self._said
            self._said.add(remark)
            return new

    def count(self, text: str) -> int:
        """Tokens of `text` as plain text."""
        return len(self.template.tokens.plain(text))

    def render(self, messages: Sequence[Message], reply_prefix: str = "") -> list[int]:
        """Token ids of a conversation up to where the reply (after `reply_prefix`) goes on."""
        return self.template.render(messages, reply_prefix)

    def generate(
        self,
        ids: Sequence[int] | Prompt,
        *,
        max_tokens: int,
        cancel: CancelToken | None = None,
        sampling: Sampling | None = None,
        constraint: Constraint | None = None,
        chunk: int = 512,
    ) -> Generation:
        """Start a reply to the prompt `ids`.

        Raises
        ------
        ValueError
            Prompt and reply together are longer than the window.
        """
        from ..encoders.backbones.generation import Prompt

        prompt = ids if isinstance(ids, Prompt) else Prompt([list(ids)])
        last = max(prompt.row_positions) + 1 + max_tokens
        if max(last, len(prompt) + max_tokens) > self.window:
            raise ValueError(f"the prompt and a reply of {max_tokens} tokens do not fit a window of {self.window}")
        options = {"max_tokens": max_tokens, "sampling": sampling, "constraints": [constraint], "chunk": chunk}
        return Generation(self, prompt, cancel, options)

    def text_stream(self) -> TextStream:
        """A fresh stream that turns this decoder's tokens into text."""
        return TextStream(self.template.tokens.decode, hidden=self.stop_ids, stop_strings=self.template.stop_strings)

    def text_of(self, ids: Sequence[int]) -> str:
        """The text that a stream of `ids` shows."""
        stream = self.text_stream()
        for token in ids:
            stream.feed(token)
        stream.finish()
        return stream.text

    def _stop_ids(self, model: FrozenLM) -> frozenset[int]:
        """End tokens of the tokenizer, of the generation config and of the template, all together."""
        found: set[int] = set(self.template.end_ids)
        configured = getattr(getattr(self.module, "generation_config", None), "eos_token_id", None)
        for ends in (model.tokenizer.eos_token_id, model.config.eos_token_id, configured):
            if ends is not None:
                found.update(ends if isinstance(ends, (list, tuple)) else [ends])
        return frozenset(int(index) for index in found)
