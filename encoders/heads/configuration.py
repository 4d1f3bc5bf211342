"""What a head is, as plain values: its method, all its parameters and the size of the backbone it sits on.

It knows neither torch nor any model: a configuration is checked here and written into a checkpoint, and two heads with
equal configurations differ in their weights alone.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import UnknownParameter
from ..spec import did_you_mean

Value = int | float | str | bool

STARTS = ("mean", "authors")
GRAPHS = ("cayley", "fc", "set")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a method: its default, whose type is the value's, and what it may be."""

    default: Value
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    below: float | None = None


_LAYER = Parameter(-1)
_SINK = Parameter(True)
_START = Parameter("mean", choices=STARTS)
_DROPOUT = Parameter(0.1, least=0.0, below=1.0)
_TAU = Parameter(0.6, least=-1.0, most=1.0)
_GAT_LAYERS = Parameter(2, least=0, most=8)

METHODS: Mapping[str, Mapping[str, Parameter]] = {
    "glot": {
        "layer": _LAYER,
        "sink": _SINK,
        "tau": _TAU,
        "gat_layers": _GAT_LAYERS,
        "hidden": Parameter(128, least=1),
        "start": _START,
        "edge_scalar": Parameter(False),
    },
    "ilse": {
        "graph": Parameter("cayley", choices=GRAPHS),
        "gnn": Parameter("gin", choices=("gin", "gcn")),
        "hidden": Parameter(256, least=1),
        "depth": Parameter(1, least=0, most=8),
        "mlp_layers": Parameter(1, least=0, most=8),
        "dropout": _DROPOUT,
        "aggregation": Parameter("mean", choices=("mean", "sum")),
        "double_edges": Parameter(False),
        "start": _START,
        "over": Parameter("mean", choices=("mean", "glot")),
        "tau": _TAU,
        "gat_layers": _GAT_LAYERS,
        "gat_hidden": Parameter(128, least=1),
        "sink": _SINK,
    },
    "mean": {"layer": _LAYER, "sink": _SINK},
    "max": {"layer": _LAYER, "sink": _SINK},
    "first": {"layer": _LAYER},
    "last": {"layer": _LAYER, "sink": _SINK},
    "attention": {"layer": _LAYER, "sink": _SINK, "hidden": Parameter(128, least=1), "start": _START},
    "layer": {"layer": _LAYER, "sink": _SINK},
    "mix": {"sink": _SINK},
    "dwatt": {
        "bottleneck": Parameter(0.5, least=0.01, most=4.0),
        "positions": Parameter(24, least=1),
        "sink": _SINK,
        "dropout": _DROPOUT,
        "start": _START,
    },
    "mlp": {
        "hidden": Parameter(256, least=1),
        "depth": Parameter(1, least=1, most=8),
        "sink": _SINK,
        "dropout": _DROPOUT,
        "start": _START,
    },
}
"""Every method with its parameters.

``layer`` is the index of a state (0 the embeddings, -1 the last layer after the final norm). ``sink=false`` leaves the
first token out, which in a causal model is an attention sink whose states drown the others. ``start=mean`` begins with
the cosines of mean pooling, ``start=authors`` with the random weights of the papers.

glot (arXiv 2603.03389): an edge joins tokens whose cosine is above ``tau``; ``gat_layers`` graph attention layers of
width ``hidden``; ``edge_scalar`` adds the one scalar that the authors' constant edge attributes amount to.

ilse (arXiv 2603.22665): one node a layer; ``graph`` Cayley, fully connected or a set, ``depth`` message-passing layers
(of a set: layers before the aggregation), ``mlp_layers`` in each GIN (of a set: after the aggregation);
``double_edges`` counts each edge of the Cayley graph as often as the authors' list does; ``over=glot`` makes the nodes
by a GLOT (``tau``, ``gat_layers``, ``gat_hidden``) shared by all layers, not by the mean over tokens.

attention is AdaPool, layer the mean over one layer, mix ELMo's scalar mix (arXiv 1802.05365), dwatt depth-wise
attention (arXiv 2209.15168) with ``positions`` the width of its layer embeddings, mlp a perceptron over the last
layer's mean.
"""

_PARAMETERLESS = {"mean", "max", "first", "last", "layer"}
_OVER_TOKENS = {"glot", "mean", "max", "first", "last", "attention"}


@dataclass(frozen=True)
class HeadConfig:
    """A checked configuration; make it by `head_config`.

    Attributes
    ----------
    method : str
        One of `METHODS`.
    parameters : mapping
        All parameters of the method; ``layer`` is counted from the embeddings (0 to `layers`).
    width : int
        The backbone's hidden size.
    layers : int
        The backbone's number of layers; it has one state more.
    """

    method: str
    parameters: Mapping[str, Value]
    width: int
    layers: int

    @property
    def inputs(self) -> str:
        """``tokens`` (states of one layer), ``layers`` (each layer's mean over tokens) or ``layer-tokens`` (all)."""
        if self.method in _OVER_TOKENS:
            return "tokens"
        return "layer-tokens" if self.method == "ilse" and self.parameters["over"] == "glot" else "layers"

    @property
    def layer(self) -> int | None:
        """Index of the only state that is read, 0 the embeddings; None where all are."""
        return int(self.parameters["layer"]) if self.inputs == "tokens" else None

    @property
    def sink(self) -> bool:
        """Whether a text's first token takes part."""
        return bool(self.parameters.get("sink", True))

    @property
    def trainable(self) -> bool:
        """Whether the method has anything to learn."""
        return self.method not in _PARAMETERLESS

    @property
    def node_width(self) -> int:
        """Length of what a layer is reduced to before an ``ilse`` puts it on a node."""
        if self.inputs != "layer-tokens":
            return self.width
        return self.width + int(self.parameters["gat_layers"]) * int(self.parameters["gat_hidden"])

    @property
    def dimension(self) -> int:
        """Length of the head's output."""
        get = self.parameters.get
        if self.method == "glot":
            return self.width + int(get("gat_layers", 0)) * int(get("hidden", 0))
        if self.method not in ("ilse", "mlp"):
            return self.width
        body = int(get("hidden", 0))
        if get("graph") == "set" and not get("depth") and not get("mlp_layers"):
            body = self.node_width
        return body + (self.width if get("start") == "mean" else 0)

    def to_json(self) -> dict[str, Any]:
        """JSON values from which `from_json` makes an equal configuration."""
        return {
            "method": self.method,
            "parameters": dict(self.parameters),
            "width": self.width,
            "layers": self.layers,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> HeadConfig:
        """Read what `to_json` wrote. Raises `slotrag.UsageError` where it is no configuration of this version."""
        try:
            method, parameters, width, layers = (value[key] for key in ("method", "parameters", "width", "layers"))
        except (KeyError, TypeError) as error:
            raise UnknownParameter(f"the head's configuration has no {error}: make the head again") from None
        if not isinstance(method, str) or not isinstance(parameters, Mapping):
            raise UnknownParameter("the head's configuration has no proper method and parameters: make the head again")
        return head_config(method, width=width, layers=layers, **parameters)


def head_config(method: str, *, width: int, layers: int, **parameters: Value) -> HeadConfig:
    """Check a configuration and fill in the defaults.

    Parameters
    ----------
    method : str
        One of `METHODS`.
    width, layers : int
        The backbone's hidden size and number of layers, at least 1 each.
    **parameters
        Those of the method; a whole number will do where a fraction is asked for.

    Raises
    ------
    slotrag.UsageError
        An unknown method or parameter, or a value out of range; the message names what there is.

    Examples
    --------
    >>> config = head_config("glot", width=384, layers=6, layer=-1)
    >>> config.parameters["layer"], config.inputs, config.dimension
    (6, 'tokens', 640)
    """
    if method not in METHODS:
        raise UnknownParameter(
            f"there is no head {method!r}{did_you_mean(method, list(METHODS))}; there are {', '.join(METHODS)}"
        )
    for name, size in (("width", width), ("layers", layers)):
        if type(size) is not int or size < 1:
            raise UnknownParameter(f"a backbone's {name} is a whole number above 0, not {size!r}")
    known = METHODS[method]
    for name in parameters:
        if name not in known:
            raise UnknownParameter(
                f"the head {method!r} has no parameter {name!r}{did_you_mean(name, list(known))}; "
                f"it has {', '.join(known) or 'none'}"
            )
    checked = {
        name: _checked(method, name, parameter, parameters.get(name, parameter.default))
        for name, parameter in known.items()
    }
    if "layer" in checked:
        checked["layer"] = _state(int(checked["layer"]), layers)
    return HeadConfig(method, checked, width, layers)


def _checked(method: str, name: str, parameter: Parameter, value: object) -> Value:
    kind = type(parameter.default)
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        words = {bool: "true or false", int: "a whole number", float: "a number", str: "a word"}
        raise UnknownParameter(f"the parameter {name!r} of the head {method!r} is {words[kind]}, not {value!r}")
    if parameter.choices and value not in parameter.choices:
        choices = ", ".join(parameter.choices)
        raise UnknownParameter(f"the parameter {name!r} of the head {method!r} is one of {choices}, not {value!r}")
    if isinstance(value, int | float) and not isinstance(value, bool):
        bounds = [
            (f"{words} {bound:g}", holds(value, bound))
            for words, bound, holds in (
                ("at least", parameter.least, operator.ge),
                ("at most", parameter.most, operator.le),
                ("below", parameter.below, operator.lt),
            )
            if bound is not None
        ]
        if not all(held for _, held in bounds):
            rule = " and ".join(words for words, _ in bounds)
            raise UnknownParameter(f"the parameter {name!r} of the head {method!r} is {rule}, not {value!r}")
    assert isinstance(value, int | float | str | bool)
    return value


def _state(layer: int, layers: int) -> int:
    states = layers + 1
    if not -states <= layer < states:
        raise UnknownParameter(f"layer is between {-states} and {states - 1} for this backbone, not {layer}")
    return layer % states
