"""Configurations: defaults, what is refused with which words, and the way to JSON and back."""

from __future__ import annotations

import json

import pytest
from slotrag import UsageError
from slotrag.encoders.heads.configuration import METHODS, HeadConfig, head_config


@pytest.mark.parametrize("method", METHODS)
def test_defaults_are_filled_in_and_survive_json(method: str) -> None:
    config = head_config(method, width=384, layers=6)
    assert set(config.parameters) == set(METHODS[method])
    assert HeadConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


@pytest.mark.parametrize(
    ("method", "parameters", "inputs", "layer", "dimension"),
    [
        ("glot", {}, "tokens", 6, 640),
        ("glot", {"layer": -2, "gat_layers": 4, "hidden": 64}, "tokens", 5, 640),
        ("ilse", {}, "layers", None, 640),
        ("ilse", {"start": "authors"}, "layers", None, 256),
        ("ilse", {"over": "glot", "hidden": 100}, "layer-tokens", None, 484),
        ("ilse", {"graph": "set", "depth": 0, "mlp_layers": 0, "start": "authors"}, "layers", None, 384),
        ("attention", {"layer": 0}, "tokens", 0, 384),
        ("layer", {"layer": 3}, "layers", None, 384),
        ("mlp", {}, "layers", None, 640),
        ("dwatt", {}, "layers", None, 384),
    ],
)
def test_inputs_and_dimension(method: str, parameters: dict, inputs: str, layer: int | None, dimension: int) -> None:
    config = head_config(method, width=384, layers=6, **parameters)
    assert (config.inputs, config.layer, config.dimension) == (inputs, layer, dimension)


@pytest.mark.parametrize(
    ("method", "parameters", "words"),
    [
        ("glott", {}, "did you mean 'glot'"),
        ("glot", {"taw": 0.1}, "did you mean 'tau'"),
        ("glot", {"tau": 1.5}, "at least -1 and at most 1, not 1.5"),
        ("glot", {"tau": float("nan")}, "at least -1 and at most 1, not nan"),
        ("glot", {"tau": "0.5"}, "is a number"),
        ("glot", {"edge_scalar": 1}, "true or false"),
        ("glot", {"hidden": True}, "a whole number"),
        ("glot", {"layer": 7}, "between -7 and 6"),
        ("ilse", {"graph": "ring"}, "one of cayley, fc, set"),
        ("ilse", {"dropout": 1.0}, "below 1"),
        ("mix", {"layer": 1}, "it has sink"),
    ],
)
def test_refusals(method: str, parameters: dict, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        head_config(method, width=384, layers=6, **parameters)


@pytest.mark.parametrize("value", [{}, {"method": "glot"}, {"method": 3, "parameters": {}, "width": 1, "layers": 1}, 7])
def test_json_that_is_no_configuration(value) -> None:
    with pytest.raises(UsageError, match="make the head again"):
        HeadConfig.from_json(value)


def test_whole_number_where_a_fraction_is_asked_for() -> None:
    tau = head_config("glot", width=4, layers=1, tau=1).parameters["tau"]
    assert tau == 1.0 and type(tau) is float
