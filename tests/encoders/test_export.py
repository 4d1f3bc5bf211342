"""An exported folder, loaded by sentence-transformers, gives the encoder's vectors; other methods say why not."""

from __future__ import annotations

import json

import numpy as np
import pytest
from slotrag import SlotragError, UsageError
from slotrag.encoders import registry
from slotrag.encoders.export import NotExportable, export

TEXTS = ["The wing flutters.", "회의는 화요일에 열립니다.", "a", "the wing of an aircraft bends under load " * 40]


def load(folder):
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(folder), device="cpu", local_files_only=True)


@pytest.mark.parametrize("kind", ["bert", "llama", "qwen2", "gpt2", "opt"])
def test_the_library_gives_the_same_vectors(kind, tiny_model, models, tmp_path):
    sink = "" if kind == "bert" else ",sink=true"
    spec = f"mean@({tiny_model(kind)}):query_prefix=(ask the passage: ),passage_prefix=(passage: ),max_length=60{sink}"
    encoder = registry.create(spec, models)
    assert export(spec, tmp_path / "new" / "folder", models) == tmp_path / "new" / "folder"
    loaded = load(tmp_path / "new" / "folder")
    np.testing.assert_allclose(loaded.encode_document(TEXTS), encoder.encode_documents(TEXTS), atol=1e-5)
    np.testing.assert_allclose(loaded.encode_query(TEXTS), encoder.encode_queries(TEXTS), atol=1e-5)
    for text in TEXTS:  # alone, without padding
        np.testing.assert_allclose(loaded.encode_document([text]), encoder.encode_documents([text]), atol=1e-5)


def test_it_comes_back_as_an_encoder(tiny_model, models, tmp_path):
    spec = f"mean@({tiny_model('bert')}):query_prefix=(ask: )"
    folder = export(spec, tmp_path / "out", models)
    again, encoder = registry.create(f"st@({folder})", models), registry.create(spec, models)
    assert (again.dimension, again.max_tokens) == (encoder.dimension, encoder.max_tokens)
    np.testing.assert_allclose(again.encode_queries(TEXTS), encoder.encode_queries(TEXTS), atol=1e-5)


def test_the_default_encoder(models, tmp_path):
    encoder = registry.create("mean", models)
    loaded = load(export("mean", tmp_path / "out", models))
    np.testing.assert_allclose(loaded.encode(TEXTS), encoder.encode_documents(TEXTS), atol=1e-5)
    assert loaded.max_seq_length == 256


def test_weights_stored_in_another_type_are_used_as_the_encoder_uses_them(tiny_model, models, tmp_path):
    import torch
    from transformers import AutoModel, AutoTokenizer

    stored = tmp_path / "half"
    AutoModel.from_pretrained(tiny_model("llama"), dtype=torch.bfloat16).save_pretrained(stored)
    AutoTokenizer.from_pretrained(tiny_model("llama")).save_pretrained(stored)
    assert json.loads((stored / "config.json").read_text())["dtype"] == "bfloat16"
    spec = f"mean@({stored}):sink=true"
    encoder, loaded = registry.create(spec, models), load(export(spec, tmp_path / "out", models))
    np.testing.assert_allclose(loaded.encode(TEXTS), encoder.encode_documents(TEXTS), atol=1e-5)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("prompteol", "last token"), ("tp", "placeholder"), ("echo", "second time"), ("geneol", "language model"),
     ("st@minilm-l6", "already")],
)  # fmt: skip
def test_other_methods_say_why_not(name, reason, models, tmp_path):
    with pytest.raises(NotExportable, match=reason):
        export(name, tmp_path / "out", models)
    assert not (tmp_path / "out").exists()


def test_other_layers_and_other_peoples_encoders_say_why_not(tiny_model, hashing_encoder, models, tmp_path):
    with pytest.raises(NotExportable, match="leave layer out"):
        export(f"mean@({tiny_model('bert')}):layer=1", tmp_path / "out", models)
    with pytest.raises(NotExportable, match="sink=true"):
        export(f"mean@({tiny_model('llama')})", tmp_path / "out", models)
    with pytest.raises(NotExportable, match="its own"):
        export(hashing_encoder, tmp_path / "out", models)


def test_a_folder_with_something_in_it_is_left_alone(tiny_model, models, tmp_path):
    spec = f"mean@({tiny_model('bert')})"
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "note.txt").write_text("mine")
    with pytest.raises(SlotragError, match="holds something"):
        export(spec, tmp_path / "full", models)
    assert [file.name for file in (tmp_path / "full").iterdir()] == ["note.txt"]
    (tmp_path / "empty").mkdir()
    assert (export(spec, tmp_path / "empty", models) / "modules.json").is_file()
    with pytest.raises(UsageError):
        export("maen", tmp_path / "other", models)
