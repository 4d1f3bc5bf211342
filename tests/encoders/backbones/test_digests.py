"""Digests remembered by size and modification time."""

from __future__ import annotations

import hashlib
import json
import os
import shutil

import pytest
from slotrag.encoders.backbones.digests import DigestMemory, tokenizer_sha256
from slotrag.encoders.backbones.errors import ModelDamaged


def test_computed_once_until_the_file_changes(tmp_path):
    memory, file = DigestMemory(tmp_path / "d"), tmp_path / "f"
    file.write_bytes(b"one")
    reads = []
    assert memory.sha256(file, reads.append) == hashlib.sha256(b"one").hexdigest()
    assert memory.sha256(file, reads.append) == hashlib.sha256(b"one").hexdigest()
    assert reads == [3]
    file.write_bytes(b"two")
    os.utime(file, ns=(1, 1))
    assert memory.sha256(file, reads.append) == hashlib.sha256(b"two").hexdigest()
    assert reads == [3, 3]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"sha256": 1}'])
def test_a_broken_record_is_ignored(tmp_path, content):
    memory, file = DigestMemory(tmp_path / "d"), tmp_path / "f"
    file.write_bytes(b"one")
    memory.sha256(file)
    (record,) = (tmp_path / "d").iterdir()
    record.write_bytes(content)
    assert memory.sha256(file) == hashlib.sha256(b"one").hexdigest()


def test_records_of_vanished_files_are_dropped(tmp_path):
    memory, kept, gone = DigestMemory(tmp_path / "d"), tmp_path / "kept", tmp_path / "gone"
    for file in (kept, gone):
        file.write_bytes(b"one")
        memory.sha256(file)
    gone.unlink()
    (tmp_path / "new").write_bytes(b"two")
    memory.sha256(tmp_path / "new")
    reads = []
    memory.sha256(kept, reads.append)
    assert reads == [] and len(list((tmp_path / "d").iterdir())) == 2


def test_an_unwritable_memory_only_costs_time(tmp_path):
    (tmp_path / "d").write_text("a file where the folder should be")
    file = tmp_path / "f"
    file.write_bytes(b"one")
    assert DigestMemory(tmp_path / "d").sha256(file) == hashlib.sha256(b"one").hexdigest()


def test_tokenizer_digest_ignores_template_and_layout_only(tiny_model, tmp_path):
    model = shutil.copytree(tiny_model("bert"), tmp_path / "m")
    before = tokenizer_sha256(model)
    settings = json.loads((model / "tokenizer_config.json").read_text())
    (model / "tokenizer_config.json").write_text(json.dumps(settings | {"chat_template": "x"}, indent=7))
    assert tokenizer_sha256(model) == before
    (model / "tokenizer_config.json").write_text(json.dumps(settings | {"do_lower_case": "no"}))
    assert tokenizer_sha256(model) != before
    (model / "tokenizer_config.json").write_text("{")
    with pytest.raises(ModelDamaged):
        tokenizer_sha256(model)
