"""Whether a collection's encoder is the one it was, told without loading a model."""

import shutil

import pytest
import tiny_models
from libraries import open_library, write
from slotrag.encoders import registry
from slotrag.encoders.backbones.store import ModelStore
from slotrag.encoders.spec import EncoderSpec
from slotrag.rag.encoder_shelf import EncoderShelf

CUSTOM = """
[[transformation]]
instruction = "Name the feeling."
demonstrations = [["I won!", "joy"]]
"""


@pytest.fixture
def shelf(tmp_path):
    return EncoderShelf(ModelStore(tmp_path / "models", offline=True), device="cpu")


@pytest.fixture
def parts(tmp_path, tiny_model, generator):
    """Copies of a generator, an inner model and a file of transformations, that a test may change."""
    shutil.copytree(generator, tmp_path / "generator")
    shutil.copytree(tiny_model("bert"), tmp_path / "inner")
    (tmp_path / "mine.toml").write_text(CUSTOM, encoding="utf-8")
    return tmp_path


def geneol(folder, inner="mean@({})", **rest):
    values = {"m": "1", "generator": str(folder / "generator"), "encoder": inner.format(folder / "inner"), **rest}
    return str(EncoderSpec("geneol", None, tuple(values.items())))


@pytest.mark.parametrize("name", ["mean", "geneol"])
def test_an_unchanged_folder_is_indexed_without_building_an_encoder(parts, name, monkeypatch):
    docs = write(parts / "docs", {"a.txt": "Copper melts.", "b.txt": "Tin melts."})
    spec = geneol(parts, max_length="20") if name == "geneol" else f"mean@({parts / 'inner'})"
    with open_library(parts / "library", encoder=spec) as library:
        assert library.index([docs]).encoded == 2
    monkeypatch.setattr(registry, "create", lambda *_, **__: pytest.fail("an encoder was built"))
    with open_library(parts / "library", encoder=spec) as library:
        assert library.index([docs]).unchanged == 2


@pytest.mark.parametrize("inner", ["mean@({0})", "geneol:m=1,generator=({0}),encoder=(mean@({0}))"])
def test_what_changes_a_vector_changes_the_key(parts, shelf, inner):
    spec = geneol(parts, inner, transformations=str(parts / "mine.toml"))
    keys = [shelf.key(spec)]
    assert shelf.key(spec) == keys[0]
    for folder, kind in (("generator", "llama"), ("inner", "bert")):
        shutil.rmtree(parts / folder)
        tiny_models.write(kind, parts / folder, seed=1)
        keys.append(shelf.key(spec))
    (parts / "mine.toml").write_text(CUSTOM.replace("feeling", "mood"), encoding="utf-8")
    keys += [shelf.key(spec), shelf.key(spec.replace("m=1", "m=2"))]
    assert None not in keys and len(set(keys)) == len(keys)


def test_a_calibration_within_changes_the_key(parts, shelf):
    keys = [shelf.key(geneol(parts, f"prompteol@({{}}):calibration={name}")) for name in ("none", "0123456789abcdef")]
    assert None not in keys and len(set(keys)) == 2


def test_what_is_not_known_has_no_key(parts, shelf, hashing_encoder):
    assert shelf.key(geneol(parts)) is not None
    assert shelf.key("hashing") is None
    assert shelf.key(geneol(parts, "hashing")) is None
    assert shelf.key(geneol(parts, "no-such-encoder")) is None
    assert shelf.key(geneol(parts, transformations=str(parts / "none.toml"))) is None
    shutil.rmtree(parts / "inner")
    assert shelf.key(geneol(parts)) is None
