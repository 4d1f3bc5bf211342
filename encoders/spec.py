"""Encoder specs, ``NAME[@BACKBONE][:key=value,...]``: parsing, canonical form and typed access to the parameters.

It knows no encoder: whether a name or a parameter exists is for the registry and the encoder to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from .errors import SpecError, UnknownParameter

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]*")
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BARE_BACKBONE = re.compile(r"[^\s:,()]+(?: +[^\s:,()]+)*")
_BARE_VALUE = re.compile(r"[^\s@:,=()]+(?: +[^\s@:,=()]+)*")
_FLAGS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


@dataclass(frozen=True, slots=True)
class EncoderSpec:
    r"""What the user wrote to name an encoder, taken apart.

    A backbone or a value that holds one of ``:,=()@`` or outer white space is written in brackets; inside them
    ``\(``, ``\)`` and ``\\`` stand for the bare character. A bracketed value may be a spec of its own.

    Attributes
    ----------
    name : str
        The registered name.
    backbone : str or None
        A catalogue name, folder or hub id; None leaves it to the encoder.
    parameters : tuple of (key, value)
        Sorted by key, each key once.

    Examples
    --------
    >>> EncoderSpec.parse("geneol:m=4, encoder=(mean@minilm-l6:layer=3)").parameters
    (('encoder', 'mean@minilm-l6:layer=3'), ('m', '4'))
    >>> str(EncoderSpec.parse("mean@(C:\\models):query_prefix=(query: )"))
    'mean@(C:\\\\models):query_prefix=(query: )'
    """

    name: str
    backbone: str | None = None
    parameters: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise SpecError(f"{self.name!r} is no encoder name: write NAME[@BACKBONE][:key=value,...]")
        if self.backbone == "":
            raise SpecError(f"name a backbone after '@' or leave the '@' out: {self.name}@")
        keys = [key for key, _ in self.parameters]
        for key in keys:
            if not _KEY.fullmatch(key):
                raise SpecError(f"{key!r} is no parameter name: write key=value after the ':'")
        if len(set(keys)) < len(keys):
            repeated = next(key for key in keys if keys.count(key) > 1)
            raise SpecError(f"give the parameter {repeated!r} only once")
        object.__setattr__(self, "parameters", tuple(sorted(self.parameters)))

    @classmethod
    def parse(cls, text: str) -> EncoderSpec:
        """Take a spec apart.

        Raises
        ------
        slotrag.UsageError
            It is not of the form ``NAME[@BACKBONE][:key=value,...]``.
        """
        scanner = _Scanner(text)
        name = scanner.until("@:")
        backbone = scanner.item(":") if scanner.accept("@") else None
        parameters: list[tuple[str, str]] = []
        if scanner.accept(":"):
            while True:
                key = scanner.until("=,")
                if not scanner.accept("="):
                    raise scanner.error(f"{key!r} has no value; write key=value, and brackets around a path with ':'")
                parameters.append((key, scanner.item(",")))
                if not scanner.accept(","):
                    break
        if not scanner.at_end:
            raise scanner.error("something is left over at its end")
        return cls(name, backbone, tuple(parameters))

    def __str__(self) -> str:
        text = self.name
        if self.backbone is not None:
            text += "@" + (self.backbone if _BARE_BACKBONE.fullmatch(self.backbone) else _bracketed(self.backbone))
        if self.parameters:
            text += ":" + ",".join(
                f"{key}={value if _BARE_VALUE.fullmatch(value) else _bracketed(value)}"
                for key, value in self.parameters
            )
        return text

    def reader(self) -> ParameterReader:
        """Typed access to the parameters; call its `finish` when all have been read."""
        return ParameterReader(self)


class ParameterReader:
    """Reads the parameters of a spec and notices the ones that nobody asked for.

    Examples
    --------
    >>> reader = EncoderSpec.parse("mean:layer=-2").reader()
    >>> reader.integer("layer", -1), reader.choice("dtype", "float32", ["float32", "bfloat16"])
    (-2, 'float32')
    >>> reader.finish()
    """

    def __init__(self, spec: EncoderSpec) -> None:
        self._spec = spec
        self._values = dict(spec.parameters)
        self._known: list[str] = []

    def text(self, key: str, default: str) -> str:
        """The value as it stands."""
        return self._values.get(self._know(key), default)

    def optional_text(self, key: str) -> str | None:
        """The value as it stands, None when it is not given."""
        return self._values.get(self._know(key))

    def choice(self, key: str, default: str, choices: Sequence[str]) -> str:
        """One of `choices`."""
        value = self.text(key, default)
        if value not in choices:
            raise self._wrong(key, value, f"is one of {', '.join(choices)}")
        return value

    def integer(self, key: str, default: int, *, least: int | None = None, most: int | None = None) -> int:
        """A whole number within ``[least, most]``."""
        value = self.text(key, str(default))
        try:
            number = int(value)
        except ValueError:
            raise self._wrong(key, value, "is a whole number") from None
        self._in_range(key, number, least, most)
        return number

    def number(self, key: str, default: float, *, least: float | None = None, most: float | None = None) -> float:
        """A finite number within ``[least, most]``."""
        value = self.text(key, repr(default))
        try:
            number = float(value)
        except ValueError:
            raise self._wrong(key, value, "is a number") from None
        if number != number or number in (float("inf"), float("-inf")):
            raise self._wrong(key, value, "is a finite number")
        self._in_range(key, number, least, most)
        return number

    def flag(self, key: str, default: bool) -> bool:
        """``true`` or ``false`` (also yes, no, 1, 0)."""
        value = self.text(key, str(default).lower()).lower()
        if value not in _FLAGS:
            raise self._wrong(key, value, "is true or false")
        return _FLAGS[value]

    def finish(self) -> None:
        """Refuse every parameter that was not asked for.

        Raises
        ------
        slotrag.UsageError
            Naming the parameter, the nearest known one and all known ones.
        """
        for key in self._values:
            if key not in self._known:
                raise UnknownParameter(
                    f"the encoder {self._spec.name!r} has no parameter {key!r}{did_you_mean(key, self._known)}; "
                    f"it has {', '.join(sorted(self._known)) or 'none'}"
                )

    def _know(self, key: str) -> str:
        self._known.append(key)
        return key

    def _in_range(self, key: str, number: float, least: float | None, most: float | None) -> None:
        if (least is not None and number < least) or (most is not None and number > most):
            bounds = [f"at least {least}"] * (least is not None) + [f"at most {most}"] * (most is not None)
            raise self._wrong(key, str(number), f"is {' and '.join(bounds)}")

    def _wrong(self, key: str, value: str, rule: str) -> UnknownParameter:
        return UnknownParameter(f"the parameter {key!r} of the encoder {self._spec.name!r} {rule}, not {value!r}")


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """A hint to the nearest of `known` names, in brackets; empty when none is near.

    Examples
    --------
    >>> did_you_mean("maen", ["mean", "st"])
    " (did you mean 'mean'?)"
    """
    near = get_close_matches(word.lower(), known, n=1, cutoff=0.6)
    return f" (did you mean {near[0]!r}?)" if near else ""


def _bracketed(value: str) -> str:
    """`value` in brackets, its own brackets kept as they are where they are balanced and escaped where not."""
    if "\\" in value or not _balanced(value):
        value = re.sub(r"([\\()])", r"\\\1", value)
    return f"({value})"


def _balanced(value: str) -> bool:
    depth = 0
    for character in value:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            return False
    return depth == 0


class _Scanner:
    """Walks over the text of a spec."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    @property
    def at_end(self) -> bool:
        return self._at == len(self._text)

    def accept(self, character: str) -> bool:
        if self._text.startswith(character, self._at):
            self._at += 1
            return True
        return False

    def until(self, stops: str) -> str:
        """The text up to one of `stops`, without outer white space."""
        start = self._at
        while not self.at_end and self._text[self._at] not in stops:
            self._at += 1
        return self._text[start : self._at].strip()

    def item(self, stop: str) -> str:
        """A bare or bracketed text up to `stop`."""
        while not self.at_end and self._text[self._at].isspace():
            self._at += 1
        if not self.accept("("):
            bare = self.until(stop + "()")
            if not self.at_end and self._text[self._at] != stop:
                raise self.error("a value that holds brackets is put in brackets itself")
            return bare
        value = "".join(self._inside())
        if self.until(stop):
            raise self.error("something stands between a closing bracket and the next separator")
        return value

    def _inside(self) -> Iterator[str]:
        """The characters up to the bracket that closes the one just passed."""
        depth = 1
        while not self.at_end:
            character = self._text[self._at]
            self._at += 1
            if character == "\\" and self._text[self._at : self._at + 1] in ("(", ")", "\\"):
                character = self._text[self._at]
                self._at += 1
            else:
                depth += (character == "(") - (character == ")")
                if not depth:
                    return
            yield character
        raise self.error("a bracket is not closed")

    def error(self, reason: str) -> SpecError:
        return SpecError(f"the encoder spec {self._text!r} cannot be read: {reason}")
