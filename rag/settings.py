"""What a user can set, and who set it: option over environment over config.toml over default.

It knows the names, kinds and ranges of settings, not what any of them does.
"""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from .. import UsageError
from .locations import config_file

if TYPE_CHECKING:
    from pathlib import Path

Value = str | int | float | bool

ORIGINS = ("default", "config.toml", "environment", "option")
"""Where a value can come from, the weakest first."""

_LOCATION_VARIABLES = frozenset({"SLOTRAG_LIBRARY", "SLOTRAG_CONFIG", "SLOTRAG_MODELS"})
_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})


def _setting(
    default: Any, *, choices: tuple[str, ...] = (), minimum: float | None = None, maximum: float | None = None
) -> Any:
    return field(default=default, metadata={"choices": choices, "minimum": minimum, "maximum": maximum})


@dataclass(frozen=True)
class Settings:
    """The settings of one run.

    Raises
    ------
    slotrag.UsageError
        A value of the wrong kind or out of range, also when the class is called directly.

    Examples
    --------
    >>> Settings(k=10).k
    10
    >>> Settings(mode="fuzzy")
    Traceback (most recent call last):
    ...
    slotrag.UsageError: mode must be one of hybrid, dense, lexical, not 'fuzzy'.
    """

    encoder: str = _setting("mean")
    """Spec of the encoder that a new collection gets; existing ones keep theirs."""

    decoder: str = _setting("smollm2-135m")
    """Language model that answers: a catalogue name, a folder or a hub id."""

    passage_tokens: int = _setting(200, minimum=16, maximum=100_000)
    """Most tokens of a passage in a new collection, by the encoder's own tokenizer; the encoder's limit also holds."""

    k: int = _setting(5, minimum=1, maximum=1_000_000)
    """Passages that a search returns."""

    mode: str = _setting("hybrid", choices=("hybrid", "dense", "lexical"))
    """Which side finds passages: both fused by rank, the vectors, or the words."""

    diversity: float = _setting(0.0, minimum=0.0, maximum=1.0)
    """How much near-identical passages give way to others, 0 (plain order) to 1."""

    context: str = _setting("auto", choices=("auto", "slots", "text"))
    """Form in which the decoder gets the passages."""

    context_text_tokens: int = _setting(512, minimum=32, maximum=1_000_000)
    """Most tokens of passage text in the decoder's prompt."""

    max_tokens: int = _setting(256, minimum=1, maximum=100_000)
    """Most tokens of an answer."""

    device: str = _setting("auto")
    """Where models run: ``auto``, ``cpu``, ``cuda``, ``cuda:1`` or ``mps``."""

    decoder_dtype: str = _setting("float32", choices=("float32", "bfloat16", "float16"))
    """Number format of the decoder's weights; ``bfloat16`` is faster on machines that compute in it."""

    threads: int = _setting(0, minimum=0, maximum=1024)
    """Threads of a model on the processor; 0 leaves it to the machine's number of cores."""

    offline: bool = _setting(False)
    """Whether fetching a model is refused."""

    index_hidden: bool = _setting(False)
    """Whether files and folders that begin with a dot are indexed."""

    _origins: Mapping[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for item in _public_fields():
            object.__setattr__(self, item.name, _checked(item, getattr(self, item.name)))


def names() -> list[str]:
    """The names of all settings, in the order of the class."""
    return [item.name for item in _public_fields()]


def load(overrides: Mapping[str, Value | None] | None = None) -> Settings:
    """The settings that hold now.

    Parameters
    ----------
    overrides : mapping, optional
        Values given as options; None counts as not given.

    Raises
    ------
    slotrag.UsageError
        An unknown name, a value out of range, or a ``config.toml`` that is not TOML; the sentence says where.
    """
    given: dict[str, Any] = {}
    origin: dict[str, str] = {}
    layers = (
        ("config.toml", _from_file(config_file())),
        ("environment", _from_environment()),
        ("option", {name: value for name, value in (overrides or {}).items() if value is not None}),
    )
    for layer, values in layers:
        for name, value in values.items():
            given[name] = _labelled(layer, name, value)
            origin[name] = layer
    settings = Settings(**given)
    object.__setattr__(settings, "_origins", origin)
    return settings


def origins(settings: Settings) -> dict[str, str]:
    """Who set each setting of `settings`: one of `ORIGINS` by name.

    Examples
    --------
    >>> origins(Settings())["k"]
    'default'
    """
    default = {item.name: item.default for item in _public_fields()}
    found = {}
    for name in default:
        changed = getattr(settings, name) != default[name]
        found[name] = settings._origins.get(name, "option" if changed else "default")
    return found


def unknown_variables() -> list[str]:
    """Environment variables that begin with ``SLOTRAG_`` and set nothing, most likely misspelt."""
    known = {variable_of(name) for name in names()} | _LOCATION_VARIABLES
    return sorted(name for name in os.environ if name.startswith("SLOTRAG_") and name not in known)


def variable_of(name: str) -> str:
    """The environment variable of a setting.

    Examples
    --------
    >>> variable_of("max_tokens")
    'SLOTRAG_MAX_TOKENS'
    """
    return f"SLOTRAG_{name.upper()}"


def write(name: str, value: Value) -> Path:
    """Set `name` in ``config.toml`` (comments and order of the file stay) and return the file's path.

    Raises
    ------
    slotrag.UsageError
        An unknown name, a value out of range (also of what the file held before), or a file that is not TOML or cannot
        be written. It stays as it was.
    """
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    checked = _checked(_field(name), value)
    file = config_file()
    try:
        document = tomlkit.parse(file.read_text(encoding="utf-8")) if file.exists() else tomlkit.document()
        document[name] = checked
        for other, held in document.unwrap().items():
            _labelled("config.toml", other, held)
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.with_name(f"{file.name}.{os.getpid()}.new")
        temporary.write_text(tomlkit.dumps(document), encoding="utf-8")
        temporary.replace(file)
    except UsageError:
        raise
    except (TOMLKitError, ValueError) as error:  # also a number of thousands of digits
        raise UsageError(f"{file} is not valid TOML ({error}); correct or remove it.") from error
    except OSError as error:
        raise UsageError(f"{file} cannot be written ({error.strerror}); name another with SLOTRAG_CONFIG.") from error
    return file


def _public_fields() -> list[Field]:
    return [item for item in fields(Settings) if item.init]


def _field(name: str) -> Field:
    for item in _public_fields():
        if item.name == name:
            return item
    import difflib

    near = difflib.get_close_matches(name, names(), n=1)
    hint = f"did you mean {near[0]}?" if near else f"the settings are {', '.join(names())}."
    raise UsageError(f"There is no setting {name!r}; {hint}")


def _from_file(file: Path) -> dict[str, Value]:
    try:
        with file.open("rb") as stream:
            return tomllib.load(stream)
    except FileNotFoundError:
        return {}
    except ValueError as error:  # no TOML, no UTF-8, or a number of thousands of digits
        raise UsageError(f"{file} is not valid TOML ({error}); correct or remove it.") from error
    except OSError as error:
        raise UsageError(f"{file} cannot be read ({error.strerror}); name another with SLOTRAG_CONFIG.") from error


def _from_environment() -> dict[str, Value]:
    found = {name: os.environ.get(variable_of(name), "") for name in names()}
    return {name: value for name, value in found.items() if value != ""}


def _labelled(layer: str, name: str, value: Value) -> Value:
    """The checked value; what is wrong with it is told together with where it stands."""
    try:
        return _checked(_field(name), value)
    except UsageError as error:
        place = {"config.toml": f" (in {config_file()})", "environment": f" (in {variable_of(name)})"}.get(layer, "")
        raise UsageError(f"{str(error).rstrip('.')}{place}.") from error


def _checked(item: Field, value: Any) -> Value:
    """`value` in the kind of the setting's default, within its choices and range."""
    assert item.default is not MISSING
    kind = type(item.default)
    converted = _converted(item.name, kind, value)
    choices, minimum, maximum = (item.metadata[key] for key in ("choices", "minimum", "maximum"))
    if choices and converted not in choices:
        raise UsageError(f"{item.name} must be one of {', '.join(choices)}, not {converted!r}.")
    if isinstance(converted, str) and not converted.strip():
        raise UsageError(f"{item.name} must not be empty.")
    if minimum is not None and not minimum <= converted <= maximum:
        raise UsageError(f"{item.name} must lie between {minimum} and {maximum}, not {converted}.")
    return converted


def _converted(name: str, kind: type, value: Any) -> Any:
    if kind is bool:
        if isinstance(value, bool):
            return value
        text = str(value).strip().lower()
        if text in _TRUE | _FALSE:
            return text in _TRUE
        raise UsageError(f"{name} must be true or false, not {value!r}.")
    if kind is str and isinstance(value, str):
        return value
    if kind in (int, float) and isinstance(value, str | int | float) and not isinstance(value, bool):
        try:
            return _number(kind, value)
        except ValueError:
            pass
    expected = {int: "a whole number", float: "a number", str: "a text"}[kind]
    raise UsageError(f"{name} must be {expected}, not {value!r}.")


def _number(kind: type, value: str | int | float) -> int | float:
    try:
        number = float(value)
    except OverflowError:  # hundreds of digits; within no range
        return math.inf
    if kind is float:
        return number  # "nan" lies in no range and is refused there
    if not number.is_integer():
        raise ValueError
    return int(value) if not isinstance(value, float) else int(number)
