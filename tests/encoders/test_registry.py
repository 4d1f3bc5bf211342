"""The registry: names without imports, near misses, and plug-ins that are broken."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from slotrag import SlotragError, UsageError
from slotrag.encoders import registry
from slotrag.encoders.errors import EncoderUnavailable


def write_plugin(folder, module, entry):
    folder.mkdir(exist_ok=True)
    (folder / f"{module}.py").write_text("class NotAnEncoder:\n    pass\n")
    information = folder / f"{module}-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(f"[slotrag.encoders]\n{entry}\n")


def test_own_encoders_are_listed():
    assert {"mean", "st"} <= set(registry.names())


def test_listing_and_importing_loads_no_model_library(plugin_path):
    program = (
        "import sys\n"
        "from slotrag.encoders import base, conformance, fingerprint, mean, pooling, registry, spec, st\n"
        "assert 'hashing' in registry.names()\n"
        "heavy = {'torch', 'transformers', 'tokenizers', 'sentence_transformers', 'faiss', 'pytest'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(plugin_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == "[]"


def test_a_plug_in_is_found_and_built(hashing_encoder, models):
    encoder = registry.create(hashing_encoder, models)
    assert hashing_encoder in registry.names()
    assert encoder.encode_queries(["wing", "wing flutter"]).shape == (2, encoder.dimension)
    shared = encoder.encode_documents(["the wing flutters", "the cat sleeps"]) @ encoder.encode_queries(["wing"])[0]
    assert shared[0] > shared[1]
    np.testing.assert_allclose(np.linalg.norm(encoder.encode_documents([""]), axis=1), 1)


@pytest.mark.parametrize(("wrong", "right"), [("maen", "mean"), ("Mean", "mean"), ("means", "mean")])
def test_near_misses_are_pointed_out(wrong, right, models):
    with pytest.raises(UsageError, match=f"'{wrong}'.*did you mean '{right}'"):
        registry.create(wrong, models)


def test_unknown_names_list_the_known_ones(models):
    with pytest.raises(UsageError, match=r"'zzz'; installed are .*mean.*st"):
        registry.create("zzz", models)


def test_unknown_parameters_are_refused(hashing_encoder, models):
    with pytest.raises(UsageError, match="did you mean 'dimension'"):
        registry.create(f"{hashing_encoder}:dimensions=3", models)


@pytest.mark.parametrize(
    "entry",
    ["broken = nowhere_at_all:Encoder", "broken = broken_plugin:Missing", "broken = broken_plugin:NotAnEncoder"],
)
def test_a_broken_plug_in_is_named(entry, tmp_path, monkeypatch, models):
    write_plugin(tmp_path, "broken_plugin", entry)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "broken" in registry.names()
    with pytest.raises(EncoderUnavailable, match=r"broken_plugin 1\.0|broken-plugin 1\.0") as caught:
        registry.create("broken", models)
    assert isinstance(caught.value, SlotragError)


def test_two_packages_with_one_name_are_refused(tmp_path, monkeypatch, models):
    write_plugin(tmp_path, "other_mean", "mean = other_mean:NotAnEncoder")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(
        EncoderUnavailable, match=r"registered by .*other.mean.* and .*slotrag|slotrag.* and .*other.mean"
    ):
        registry.create("mean", models)
