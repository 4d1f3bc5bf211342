"""A configuration is checked, filled in from the model, and the same after a way through JSON."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from slotrag import UsageError
from slotrag.rag.icae.configuration import CompressorConfig

MODEL = SimpleNamespace(hidden_size=576, layers=30, window=8192)


def test_defaults_come_from_the_model():
    config = CompressorConfig.for_model(MODEL)
    assert (config.width, config.layers, config.read_out, config.segment_tokens) == (576, 30, 10, 512)
    assert (config.compressor, config.layout, config.start, config.memory_rows) == ("pooled", "centred", "residual", 0)
    assert CompressorConfig.for_model(MODEL, compressor="memory-tokens", rate=3).memory_rows == 171
    short = SimpleNamespace(hidden_size=8, layers=1, window=100)
    assert CompressorConfig.for_model(short).segment_tokens == 50
    assert CompressorConfig.for_model(short).read_out == 1


def test_slots_by_rate_or_a_fixed_number():
    config = CompressorConfig.for_model(MODEL, rate=4)
    assert [config.slots_for(tokens) for tokens in (0, 1, 9, 512)] == [0, 1, 3, 128]
    assert config.slots_for(9, rate=2) == 5
    fixed = CompressorConfig.for_model(MODEL, slots_per_segment=128)
    assert [fixed.slots_for(tokens) for tokens in (0, 45, 512)] == [0, 45, 128]
    authors = CompressorConfig.for_model(
        MODEL, compressor="memory-tokens", layout="appended", start="authors", slots_per_segment=128
    )
    assert authors.memory_rows == 128 and [authors.slots_for(tokens) for tokens in (0, 45, 512)] == [0, 128, 128]


def test_the_way_through_json_changes_nothing():
    config = CompressorConfig.for_model(MODEL, compressor="memory-tokens", bidirectional=True, targets=("q_proj",))
    assert CompressorConfig.from_json(json.loads(json.dumps(config.to_json()))) == config
    whole, fraction = (CompressorConfig.for_model(MODEL, rate=rate) for rate in (4, 4.0))
    assert json.dumps(whole.to_json()) == json.dumps(fraction.to_json())
    for broken in ({}, {**config.to_json(), "more": 1}, {**config.to_json(), "targets": "q_proj"}):
        with pytest.raises(UsageError, match="make the compressor again"):
            CompressorConfig.from_json(broken)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"compressor": "pool"}, "one of pooled, memory-tokens"),
        ({"layout": "middle"}, "layout is one of"),
        ({"read_out": 31}, "30 layers"),
        ({"read_out": 0}, "whole number from 1"),
        ({"rate": 0.5}, "number from 1"),
        ({"rate": float("nan")}, "number from 1"),
        ({"rank": True}, "whole number"),
        ({"targets": ()}, "at least one"),
        ({"bidirectional": True}, "no memory tokens"),
        ({"memory_rows": 4}, "no memory tokens"),
        ({"compressor": "memory-tokens", "memory_rows": 127}, "needs 128 memory tokens"),
        ({"slots": 4}, "no option 'slots'"),
    ],
)
def test_what_cannot_be_is_refused(options, message):
    with pytest.raises(UsageError, match=message):
        CompressorConfig.for_model(MODEL, **options)
