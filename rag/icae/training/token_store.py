"""Texts as token ids in a folder, read through a memory map, with the questions about them. It knows no tokenizer.

``tokens.bin`` holds the ids of all texts one after the other; ``texts.safetensors`` says where each begins, which are
held out and where sentences start; ``questions.jsonl`` has a line for each question; ``store.json`` is written last
and says what all of it was made of.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from .... import SlotragError
from ....encoders.whole_files import write_whole

if TYPE_CHECKING:
    import numpy as np

_TOKENS, _TEXTS, _QUESTIONS, _META = "tokens.bin", "texts.safetensors", "questions.jsonl", "store.json"
_REPLIES = "replies.jsonl"

GIVEN, MADE, REPLY = "given", "made", "reply"
"""Questions that came with a text, that were made of the text itself, that the decoder answered."""


class StoreDamaged(SlotragError):
    """A folder of tokens cannot be read or written."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a part of a text.

    Attributes
    ----------
    text : int
        Number of the text.
    start, stop : int
        Its tokens ``[start, stop)`` that are the passage.
    question : str
    answers : tuple of str
        The one to be learned first; none where the decoder had no reply.
    kind : str
        `GIVEN`, `MADE` or `REPLY`.
    """

    text: int
    start: int
    stop: int
    question: str
    answers: tuple[str, ...]
    kind: str


class TokenWriter:
    """Adds texts to a new store, one after the other; nothing of a text stays in memory but where it lies.

    Parameters
    ----------
    folder : Path
        Made where it is missing; a store in it is overwritten.

    Raises
    ------
    StoreDamaged
        It cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ends: list[int] = [0]
        self._starts: list[int] = []
        self._start_ends: list[int] = [0]
        self._held: list[bool] = []
        self._sources: list[int] = []
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name in (_META, _REPLIES):
                (folder / name).unlink(missing_ok=True)
            self._tokens: IO[bytes] = (folder / _TOKENS).open("wb")
            self._questions: IO[str] = (folder / _QUESTIONS).open("w", encoding="utf-8")
        except OSError as error:
            raise _unwritable(folder, error) from error

    def __len__(self) -> int:
        return len(self._held)

    def add(self, ids: Sequence[int], starts: Iterable[int], *, held_out: bool, source: int) -> int:
        """Add a text; its number.

        Parameters
        ----------
        ids : sequence of int
        starts : iterable of int
            Places in `ids` at which a sentence begins, ascending.
        source : int
            Number of the source it is from.
        """
        import numpy as np

        try:
            self._tokens.write(np.asarray(ids, dtype="<u4").tobytes())
        except OSError as error:
            raise _unwritable(self._folder, error) from error
        self._ends.append(self._ends[-1] + len(ids))
        self._starts.extend(starts)
        self._start_ends.append(len(self._starts))
        self._held.append(held_out)
        self._sources.append(source)
        return len(self._held) - 1

    def ask(self, question: Question) -> None:
        """Add a question about a text that was added."""
        try:
            self._questions.write(question_line(question))
        except OSError as error:
            raise _unwritable(self._folder, error) from error

    def close(self, meta: Mapping[str, Any]) -> TokenStore:
        """Finish the store, with `meta` (JSON values) as what it was made of."""
        import numpy as np
        from safetensors.numpy import save

        arrays = {
            "ends": np.asarray(self._ends, dtype=np.int64),
            "starts": np.asarray(self._starts, dtype=np.int64),
            "start_ends": np.asarray(self._start_ends, dtype=np.int64),
            "held_out": np.asarray(self._held, dtype=bool),
            "sources": np.asarray(self._sources, dtype=np.int32),
        }
        try:
            self._tokens.close()
            self._questions.close()
            write_whole(self._folder / _TEXTS, save(arrays))
            write_whole(self._folder / _META, json.dumps(meta, indent=1, ensure_ascii=False).encode() + b"\n")
        except OSError as error:
            raise _unwritable(self._folder, error) from error
        return TokenStore(self._folder)


class TokenStore:
    """A finished store.

    Parameters
    ----------
    folder : Path

    Attributes
    ----------
    meta : dict
        What it was made of.
    held_out : bool array, shape (texts,)
    sources : int32 array, shape (texts,)

    Raises
    ------
    StoreDamaged
        There is none, or it cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        import numpy as np
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        self.folder = folder
        try:
            self.meta: dict[str, Any] = json.loads((folder / _META).read_bytes())
            arrays = load_file(folder / _TEXTS)
            self._ends, self._starts = arrays["ends"], arrays["starts"]
            self._start_ends: np.ndarray = arrays["start_ends"]
            self.held_out: np.ndarray = arrays["held_out"]
            self.sources: np.ndarray = arrays["sources"]
            size = (folder / _TOKENS).stat().st_size
            if size != 4 * int(self._ends[-1]):
                raise ValueError(f"{_TOKENS} has {size} bytes, not {4 * int(self._ends[-1])}")
            self._tokens = np.memmap(folder / _TOKENS, dtype="<u4", mode="r") if size else np.empty(0, dtype="<u4")
        except (OSError, ValueError, KeyError, SafetensorError) as error:
            raise StoreDamaged(f"The tokens in {folder} cannot be read ({error}); delete the folder.") from error

    def __len__(self) -> int:
        return len(self.held_out)

    @staticmethod
    def meta_of(folder: Path) -> dict[str, Any] | None:
        """What the store in `folder` was made of; None where there is no finished one."""
        try:
            return json.loads((folder / _META).read_bytes())
        except (OSError, ValueError):
            return None

    def length(self, text: int) -> int:
        """Tokens of a text."""
        return int(self._ends[text + 1] - self._ends[text])

    def tokens(self, text: int, start: int = 0, stop: int | None = None) -> list[int]:
        """The ids ``[start, stop)`` of a text."""
        first, last = int(self._ends[text]), int(self._ends[text + 1])
        stop = last - first if stop is None else stop
        return self._tokens[first + start : min(first + stop, last)].tolist()

    def starts(self, text: int) -> np.ndarray:
        """Where its sentences begin: int64, ascending."""
        return self._starts[self._start_ends[text] : self._start_ends[text + 1]]

    def all_starts(self) -> tuple[np.ndarray, np.ndarray]:
        """Text and place of every sentence's beginning: two int64 arrays."""
        import numpy as np

        return np.repeat(np.arange(len(self)), np.diff(self._start_ends)), self._starts

    def questions(self) -> Iterator[Question]:
        """The questions, those added after it was finished too."""
        for path in (self.folder / _QUESTIONS, self.replies_path):
            if not path.exists():
                continue
            for line in path.read_bytes().splitlines():
                try:
                    value = json.loads(line)
                    found = Question(**{**value, "answers": tuple(value["answers"])})
                except (ValueError, TypeError, KeyError):
                    if path != self.replies_path:  # there a killed run may have left half a line
                        raise StoreDamaged(f"{path} is damaged; delete the folder {self.folder}.") from None
                    continue
                if found.answers:
                    yield found

    @property
    def replies_path(self) -> Path:
        """The file of the decoder's replies, which grows."""
        return self.folder / _REPLIES


def question_line(question: Question) -> str:
    """A question as a line of its file."""
    return json.dumps(asdict(question)) + "\n"


def _unwritable(folder: Path, error: OSError) -> StoreDamaged:
    return StoreDamaged(f"The tokens cannot be written to {folder} ({error.strerror}); make room there.")
