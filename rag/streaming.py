"""Tokens in, text out, piece by piece. It knows a way to decode ids and nothing of models.

The pieces joined are the final text. A character split over several tokens (Hangul, emoji) is shown once it is whole,
control tokens never, and text from a stop string on (a role marker that the model writes out) not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class TextStream:
    """Turns a stream of token ids into a stream of text.

    Parameters
    ----------
    decode : callable
        Text of a list of token ids, with `REPLACEMENT` where bytes are missing.
    hidden : collection of int
        Control tokens that are no text.
    stop_strings : sequence of str
        The text ends before the first of them; `stopped` then turns true.

    Examples
    --------
    >>> stream = TextStream(lambda ids: bytes(ids).decode("utf-8", "replace"))
    >>> [stream.feed(byte) for byte in "a한".encode()], stream.finish()
    (['a', '', '', '한'], '')
    """

    def __init__(
        self, decode: Callable[[list[int]], str], *, hidden: Collection[int] = (), stop_strings: Sequence[str] = ()
    ) -> None:
        self._decode = decode
        self._hidden = frozenset(hidden)
        self._stop_strings = [string for string in stop_strings if string]
        self._ids: list[int] = []
        self._start = 0  # ids before it only give context to the decoder (leading spaces)
        self._read = 0  # ids before it are already text
        self._held = ""  # text that may be the beginning of a stop string
        self.text = ""
        self.stopped = False

    def feed(self, token: int) -> str:
        """The text that `token` completes, possibly empty."""
        if self.stopped or token in self._hidden:
            return ""
        self._ids.append(token)
        known = self._decode(self._ids[self._start : self._read])
        whole = self._decode(self._ids[self._start :])
        if whole.endswith(REPLACEMENT) or len(whole) < len(known):
            return ""
        self._start, self._read = self._read, len(self._ids)
        return self._show(whole[len(known) :])

    def finish(self) -> str:
        """The rest: what was held back, without the bytes of a character that never became whole."""
        if self.stopped:
            return ""
        known = self._decode(self._ids[self._start : self._read])
        rest = self._decode(self._ids[self._start :])[len(known) :]
        self._start = self._read = len(self._ids)
        piece = self._show(rest) + self._held
        self.text += self._held
        self._held = ""
        return piece

    def _show(self, text: str) -> str:
        """What of the held back text and `text` may be shown now."""
        pending = self._held + text.replace(REPLACEMENT, "")
        ends = [place for string in self._stop_strings if (place := pending.find(string)) >= 0]
        if ends:
            self.stopped, self._held = True, ""
            piece = pending[: min(ends)]
        else:
            keep = max((_overlap(pending, string) for string in self._stop_strings), default=0)
            cut = len(pending) - keep
            piece, self._held = pending[:cut], pending[cut:]
        self.text += piece
        return piece


def _overlap(text: str, string: str) -> int:
    """Length of the longest beginning of `string` that `text` ends with.

    Examples
    --------
    >>> _overlap("so <|us", "<|user|>")
    4
    """
    for size in range(min(len(text), len(string) - 1), 0, -1):
        if text.endswith(string[:size]):
            return size
    return 0
