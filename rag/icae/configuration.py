"""What a compressor is, as plain values: its form, its sizes, and those of the language model it sits on.

It knows neither torch nor any model: a configuration is checked here and written into a checkpoint, and two compressors
with equal configurations differ in their weights alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Protocol

from ... import UsageError
from .geometry import slot_count

COMPRESSORS = ("pooled", "memory-tokens")
LAYOUTS = ("centred", "appended")
STARTS = ("residual", "authors")
POSITIONS = ("parallel", "sequential")
PROMPTS = ("chat-repeat", "authors")

TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj")
"""The projections of an attention block, as Llama, Mistral and Qwen name them."""

SEGMENT_TOKENS = 512
"""The authors' longest segment."""

SPECIAL_ROWS = ("AE", "LM", "FT")
"""What the memory table holds behind its memory rows, in the authors' order (their code, getao/icae)."""


class LanguageModel(Protocol):
    """The sizes of a language model that a configuration rests on."""

    hidden_size: int
    layers: int
    window: int


@dataclass(frozen=True)
class CompressorConfig:
    """A checked configuration; `for_model` fills in what follows from the language model.

    Attributes
    ----------
    compressor : str
        ``memory-tokens`` (arXiv 2307.06945): tokens of their own behind the text, their states are the slots.
        ``pooled``: the mean of the states over each group of neighbouring tokens.
    layout : str
        ``centred``: a slot carries the position at the centre of its group, in encoder and decoder (EPL, arXiv
        2409.14364). ``appended``: slots are numbered one after the other, behind the text in the encoder (the authors).
    start : str
        ``residual``: a slot is the mean of its group's token embeddings plus a projection, zero at first, of the
        encoder's state. ``authors``: it is the state.
    read_out : int
        Layers of the encoder's tree, 1 to `layers`; the final norm follows.
    rank, alpha, targets
        LoRA (arXiv 2106.09685) of the encoder's tree.
    rate : float
        Tokens that one slot stands for unless asked otherwise, at least 1.
    slots_per_segment : int or None
        A fixed number in place of the rate; without a cap at the tokens only in the authors' form.
    segment_tokens : int
        Most tokens compressed in one pass; a longer text is cut into segments.
    bidirectional : bool
        Memory tokens see each other in both directions.
    positions : str
        Several passages of one prompt begin at the same position (``parallel``) or follow each other (``sequential``).
    memory_rows : int
        Memory tokens of the table, 0 for a pooled compressor; `SPECIAL_ROWS` follow them.
    prompt : str
        Name of the words around the slots, see `reading`.
    width, layers : int
        Of the language model.
    """

    width: int
    layers: int
    read_out: int
    compressor: str = "pooled"
    layout: str = "centred"
    start: str = "residual"
    rank: int = 32
    alpha: float = 32.0
    targets: tuple[str, ...] = TARGETS
    rate: float = 4.0
    slots_per_segment: int | None = None
    segment_tokens: int = SEGMENT_TOKENS
    bidirectional: bool = False
    positions: str = "parallel"
    memory_rows: int = 0
    prompt: str = "chat-repeat"

    def __post_init__(self) -> None:
        for name, choices in (
            ("compressor", COMPRESSORS),
            ("layout", LAYOUTS),
            ("start", STARTS),
            ("positions", POSITIONS),
            ("prompt", PROMPTS),
        ):
            if getattr(self, name) not in choices:
                raise UsageError(f"A compressor's {name} is one of {', '.join(choices)}, not {getattr(self, name)!r}.")
        for name in ("width", "layers", "read_out", "rank", "segment_tokens"):
            _require_count(name, getattr(self, name), least=1)
        _require_count("memory_rows", self.memory_rows, least=0)
        if self.read_out > self.layers:
            raise UsageError(f"The model has {self.layers} layers; a read-out after {self.read_out} is not possible.")
        for name, least in (("rate", 1.0), ("alpha", 0.0)):
            value = getattr(self, name)
            if type(value) not in (int, float) or not least <= value < float("inf"):
                raise UsageError(f"A compressor's {name} is a number from {least:g} on, not {value!r}.")
            object.__setattr__(self, name, float(value))  # 4 and 4.0 are one configuration
        if not self.targets or not all(isinstance(name, str) and name for name in self.targets):
            raise UsageError("A compressor's targets are the names of projections, at least one.")
        object.__setattr__(self, "targets", tuple(self.targets))
        if type(self.bidirectional) is not bool:
            raise UsageError(f"A compressor's bidirectional is true or false, not {self.bidirectional!r}.")
        self._require_rows()

    def _require_rows(self) -> None:
        if self.slots_per_segment is not None:
            _require_count("slots_per_segment", self.slots_per_segment, least=1)
        if self.compressor == "pooled":
            if self.memory_rows or self.bidirectional:
                raise UsageError("A pooled compressor has no memory tokens: leave memory_rows and bidirectional out.")
            return
        needed = self.most_slots
        if self.memory_rows < needed:
            raise UsageError(
                f"A segment of {self.segment_tokens} tokens needs {needed} memory tokens, and memory_rows is "
                f"{self.memory_rows}; raise it, or take shorter segments or a higher rate."
            )

    @classmethod
    def for_model(cls, language_model: LanguageModel, **options: Any) -> CompressorConfig:
        """A configuration for `language_model`: by default read out after a third of its layers.

        A short window shortens the default segment, so that it can be read again beside its slots.

        Raises
        ------
        slotrag.UsageError
            An option is unknown or out of range.
        """
        known = {field.name for field in fields(cls)}
        if unknown := sorted(options.keys() - known):
            raise UsageError(f"A compressor has no option {unknown[0]!r}; it has {', '.join(sorted(known))}.")
        layers = language_model.layers
        options = {
            "width": language_model.hidden_size,
            "layers": layers,
            "read_out": max(1, layers // 3),
            "segment_tokens": max(1, min(SEGMENT_TOKENS, language_model.window // 2)),
            **options,
        }
        if options.get("compressor") == "memory-tokens" and "memory_rows" not in options:
            plain = cls(**{**options, "compressor": "pooled", "bidirectional": False})
            options["memory_rows"] = plain.slots_per_segment or plain.most_slots
        return cls(**options)

    @property
    def capped(self) -> bool:
        """Whether a text never gets more slots than it has tokens."""
        return not (self.compressor == "memory-tokens" and self.layout == "appended" and self.start == "authors")

    @property
    def most_slots(self) -> int:
        """Slots of the longest segment at the configured rate."""
        return self.slots_for(self.segment_tokens)

    def slots_for(self, tokens: int, rate: float | None = None) -> int:
        """Slots of one segment of `tokens` tokens, at the configured rate or at `rate`."""
        if rate is None and self.slots_per_segment is not None:
            return min(tokens, self.slots_per_segment) if self.capped else self.slots_per_segment * (tokens > 0)
        return slot_count(tokens, self.rate if rate is None else rate)

    def with_(self, **changes: Any) -> CompressorConfig:
        """A copy with other values, checked again."""
        return replace(self, **changes)

    def to_json(self) -> dict[str, Any]:
        """JSON values from which `from_json` makes an equal configuration."""
        return {**asdict(self), "targets": list(self.targets)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> CompressorConfig:
        """Read what `to_json` wrote. Raises `slotrag.UsageError` where it is no configuration of this version."""
        known = {field.name for field in fields(cls)}
        if not isinstance(value, Mapping) or value.keys() != known or not isinstance(value["targets"], list):
            raise UsageError("This is no configuration of a compressor of this version: make the compressor again.")
        return cls(**{**value, "targets": tuple(value["targets"])})


def _require_count(name: str, value: object, *, least: int) -> None:
    if type(value) is not int or value < least:
        raise UsageError(f"A compressor's {name} is a whole number from {least} on, not {value!r}.")
