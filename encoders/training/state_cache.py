"""The frozen inputs of texts on the disk, so that a head's training runs the backbone once for each text.

It knows the backbone and which inputs a head takes; it knows no head's weights, no labels and no training.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ... import SlotragError
from ..fingerprint import fingerprint
from ..tokens import TextTokens
from .sources import Report
from .state_file import StateFile, part_bytes, unusable
from .state_making import StateMaker

if TYPE_CHECKING:
    import torch

    from ..backbones.frozen import FrozenLM
    from ..heads.configuration import HeadConfig

_VERSION = 1
"""Counted up when the same facts give other states than before."""

_PENDING = 8 << 20
"""Bytes of states that wait in memory; a killed run does at most these again."""

_FACTS = ("weights", "tokenizer", "max_length", "query_prefix", "passage_prefix")


class CacheFull(SlotragError):
    """There is no room for the states of the texts."""


class StateCache:
    """The inputs of one head configuration over one backbone, by text; made by `open`.

    float16 with one float32 scale for each vector, read by way of the system's page cache: however many texts there
    are, memory holds a key for each and the states of a batch. Killed at any moment, it keeps what was written.
    Configurations that take the same inputs (another tau, another graph) share one.

    Attributes
    ----------
    key : str
        Hash of all that the states depend on but the text; the folder's name is its beginning.
    folder : Path
        Where the files lie.
    query_prefix, passage_prefix : str
        What `ensure` and `batch` take as `prefix`.
    seconds : float
        Spent in `ensure` by this object.
    """

    def __init__(
        self,
        folder: Path,
        language_model: FrozenLM,
        config: HeadConfig,
        tokens: TextTokens,
        *,
        key: str,
        query_prefix: str,
        passage_prefix: str,
        limit_bytes: int | None,
    ) -> None:
        self.folder, self.key = folder, key
        self.query_prefix, self.passage_prefix = query_prefix, passage_prefix
        self.seconds = 0.0
        self._config, self._maker = config, StateMaker(language_model, config, tokens)
        self._limit = limit_bytes
        self._file = StateFile(folder)
        self._numbers: dict[bytes, int] = {}
        self._learn(0)

    @classmethod
    def open(
        cls,
        folder: Path,
        language_model: FrozenLM,
        config: HeadConfig,
        *,
        facts: Mapping[str, str | int],
        limit_bytes: int | None = None,
    ) -> StateCache:
        """Open the cache of these inputs below `folder`, new or as it was left.

        Parameters
        ----------
        folder : Path
            May hold the caches of several backbones and kinds of inputs.
        config : HeadConfig
            Says which states of the backbone are kept.
        facts : mapping
            ``weights`` and ``tokenizer``, their sha256; ``max_length``, tokens of one input with the special ones;
            ``query_prefix`` and ``passage_prefix``; further ones, if the states depend on them.
        limit_bytes : int, optional
            Most that this cache's files may take.

        Raises
        ------
        CacheUnusable
            The folder cannot be read or written.
        EncoderUnavailable
            Special tokens and prefix leave no room for a text.
        """
        missing = [name for name in _FACTS if name not in facts]
        if missing:
            raise ValueError(f"the facts of a cache of states lack {', '.join(missing)}")
        query_prefix, passage_prefix = str(facts["query_prefix"]), str(facts["passage_prefix"])
        whole = {
            **facts,
            "version": _VERSION,
            "inputs": config.inputs,
            "layer": config.layer,
            "sink": config.sink,
            "width": config.width,
            "dtype": str(language_model.dtype).removeprefix("torch."),
        }
        key = fingerprint(whole)
        tokens = TextTokens(language_model.tokenizer, int(facts["max_length"]), passage_prefix, query_prefix)
        place = Path(folder) / key[:16]
        cache = cls(
            place,
            language_model,
            config,
            tokens,
            key=key,
            query_prefix=query_prefix,
            passage_prefix=passage_prefix,
            limit_bytes=limit_bytes,
        )
        _describe(place, whole)
        return cache

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def bytes(self) -> int:
        """What the states take on the disk."""
        return self._file.bytes

    def ensure(
        self,
        texts: Sequence[str],
        *,
        prefix: str = "",
        report: Report | None = None,
        check: Callable[[], None] | None = None,
    ) -> None:
        """Make the states of the texts that have none yet.

        Parameters
        ----------
        prefix : str
            `query_prefix` or `passage_prefix`.
        report : callable, optional
            Told of the texts that are done and of all that were missing.
        check : callable, optional
            Called between batches; it may raise to end the work, what is done by then being kept.

        Raises
        ------
        CacheFull
            The states would take more than the limit, or than is free on the disk; nothing was made.
        CacheUnusable
            A file cannot be written.
        """
        self._require_prefix(prefix)
        if not self._missing(texts, prefix):
            return
        check = check or (lambda: None)
        started = time.perf_counter()
        try:
            with self._writing(check):
                # Another process may have made some of them.
                missing = self._missing(texts, prefix)
                self._require_room(missing, prefix, check)
                self._make(missing, prefix, report or (lambda done, total: None), check)
        finally:
            self.seconds += time.perf_counter() - started

    def batch(self, texts: Sequence[str], *, prefix: str = "") -> tuple[torch.Tensor, torch.Tensor | None]:
        """The inputs of texts, as `slotrag.encoders.heads.inputs.head_inputs` gives them up to rounding.

        Returns
        -------
        states : float32, on the CPU
            Of shape (texts, vectors, width), or for ``layer-tokens`` (texts, layers + 1, tokens, width).
        mask : bool, shape (texts, tokens), or None for ``layers``

        Raises
        ------
        LookupError
            A text was not given to `ensure`.
        """
        import numpy as np
        import torch

        numbers = self._found(texts, prefix)
        records = self._file.records[numbers]
        groups = int(records["groups"][0])
        lengths = records["vectors"] // records["groups"]
        states = np.zeros((len(texts), groups, int(lengths.max()), self._config.width), dtype=np.float32)
        for place, (number, length) in enumerate(zip(numbers, lengths, strict=True)):
            self._file.read(number, states[place, :, :length])
        tensor = torch.from_numpy(states)
        if self._config.inputs == "layers":
            return tensor[:, 0], None
        mask = torch.from_numpy(np.arange(states.shape[2])[None, :] < lengths[:, None])
        return tensor if self._config.inputs == "layer-tokens" else tensor[:, 0], mask

    def lengths(self, texts: Sequence[str], *, prefix: str = "") -> list[int]:
        """Vectors that each text's states are made of."""
        return self._file.records["vectors"][self._found(texts, prefix)].tolist()

    def _found(self, texts: Sequence[str], prefix: str) -> list[int]:
        try:
            return [self._numbers[_key(text, prefix)] for text in texts]
        except KeyError:
            raise LookupError("a text's states were asked for before they were made") from None

    def _missing(self, texts: Sequence[str], prefix: str) -> list[str]:
        return [text for text in dict.fromkeys(texts) if _key(text, prefix) not in self._numbers]

    def _make(self, texts: list[str], prefix: str, report: Report, check: Callable[[], None]) -> None:
        pending: list[tuple[bytes, int, int, bytes]] = []
        done = 0
        report(0, len(texts))
        try:
            for places, parts in self._maker.made(texts, prefix, check):
                for place, (groups, part) in zip(places, parts, strict=True):
                    pending.append((_key(texts[place], prefix), groups, self._config.width, part))
                done += len(places)
                if sum(len(part) for *_, part in pending) >= _PENDING:
                    self._keep(pending)
                report(done, len(texts))
        finally:
            self._keep(pending)

    def _keep(self, pending: list[tuple[bytes, int, int, bytes]]) -> None:
        if pending:
            before = len(self._file.records)
            self._file.add(pending)
            self._learn(before)
            pending.clear()

    def _learn(self, before: int) -> None:
        keys = self._file.records["key"][before:].tobytes()
        for place in range(len(keys) // 16):
            self._numbers[keys[16 * place : 16 * place + 16]] = before + place

    def _require_room(self, texts: list[str], prefix: str, check: Callable[[], None]) -> None:
        """See before the first forward pass whether the states of `texts` will fit."""
        needed = part_bytes(self._maker.vectors(texts, prefix, check), self._config.width)
        if self._limit is not None and self.bytes + needed > self._limit:
            raise CacheFull(
                f"The states of {len(texts):,} texts take {_size(needed)} beside {_size(self.bytes)} that are there, "
                f"and the limit is {_size(self._limit)}: train on fewer texts, with a smaller max_length, or raise the "
                "limit."
            )
        free = shutil.disk_usage(self.folder).free
        if needed > free:
            raise CacheFull(
                f"The states of {len(texts):,} texts take {_size(needed)}, and {_size(free)} are free in {self.folder}:"
                " make room there, or train on fewer texts."
            )

    @contextmanager
    def _writing(self, check: Callable[[], None]) -> Iterator[None]:
        """Alone among all processes, with the files as the others and killed ones left them."""
        from filelock import FileLock, Timeout

        lock = FileLock(self.folder / ".lock", thread_local=False)
        while True:
            try:
                lock.acquire(timeout=0.2)
                break
            except Timeout:
                check()
        try:
            self._learn(self._file.refresh())
            self._file.cut()
            yield
        finally:
            lock.release()

    def _require_prefix(self, prefix: str) -> None:
        if prefix not in (self.query_prefix, self.passage_prefix):
            raise ValueError(f"{prefix!r} is neither the prefix of queries nor that of passages")


def _key(text: str, prefix: str) -> bytes:
    return hashlib.sha256(f"{prefix}\0{text}".encode("utf-8", "surrogatepass")).digest()[:16]


def _describe(folder: Path, facts: Mapping[str, Any]) -> None:
    """Write down for people what the folder holds."""
    path = folder / "facts.json"
    try:
        if not path.exists():
            path.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise unusable(folder, error) from error


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
