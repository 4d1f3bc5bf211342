"""Reading JSON and JSON Lines: lines ``key: value``, records, depth, surrogates, broken files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from slotrag.rag.documents import Document, NoText, ReadError
from slotrag.rag.readers import read, tables


def write(folder: Path, data: Any, name: str = "data.json") -> Path:
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def texts(document: Document) -> list[str]:
    return [document.text[block.start : block.end] for block in document.blocks]


def test_nested_keys_are_written_as_a_path(tmp_path: Path) -> None:
    value = {"title": "House", "boiler": {"serviced": True, "cost": 3.5, "parts": ["pump", "valve"]}, "none": None}
    document = read(write(tmp_path, json.dumps(value)))
    assert document.title == "House"
    assert document.media_type == "application/json"
    assert document.text.split("\n") == [
        "title: House",
        "boiler.serviced: true",
        "boiler.cost: 3.5",
        "boiler.parts: pump, valve",
        "",
    ]


def test_each_element_of_the_outermost_list_is_a_block(tmp_path: Path) -> None:
    document = read(write(tmp_path, '[{"room": "kitchen"}, {"room": "부엌"}]'))
    assert texts(document) == ["room: kitchen", "room: 부엌"]


def test_json_lines_give_a_block_for_each_record(tmp_path: Path) -> None:
    document = read(write(tmp_path, '{"room": "kitchen"}\n\n{"room": {"name": "attic"}}\n', "rooms.jsonl"))
    assert texts(document) == ["room: kitchen", "room.name: attic"]
    assert document.media_type == "application/jsonl"
    assert not document.partial


def test_records_under_the_name_of_json(tmp_path: Path) -> None:
    assert texts(read(write(tmp_path, '{"a": 1}\n{"a": 2}\n'))) == ["a: 1", "a: 2"]


def test_a_broken_record_is_named_by_its_line(tmp_path: Path) -> None:
    document = read(write(tmp_path, '{"a": 1}\n{"a": \n{"a": 3}\n', "rooms.jsonl"))
    assert texts(document) == ["a: 1", "a: 3"]
    assert document.partial
    assert document.notes == ["not JSON and left out: lines 2"]


def test_broken_json_is_kept_as_text_and_its_place_is_named(tmp_path: Path) -> None:
    source = '{\n  "boiler": "serviced",\n  "cost": ,\n}\n'
    document = read(write(tmp_path, source))
    assert document.text == source
    assert "line 3" in document.notes[0]


@pytest.mark.parametrize("depth", [400, 100_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_depth_ends_in_a_document_or_a_reason(tmp_path: Path, depth: int, opening: str, closing: str) -> None:
    path = write(tmp_path, opening * depth + '"deep"' + closing * depth)
    if depth < 1000:
        assert read(path).text.endswith("deep\n")
    else:
        with pytest.raises(ReadError, match="nested too deeply"):
            read(path)


def test_half_of_a_surrogate_pair_becomes_a_replacement(tmp_path: Path) -> None:
    document = read(write(tmp_path, r'{"title": "x\ud800y", "smile": "\ud83d\ude00", "k\udfff": "v"}'))
    assert document.text == "title: x\ufffdy\nsmile: 😀\nk\ufffd: v\n"
    document.title.encode()


def test_offsets_hold_after_composition(tmp_path: Path) -> None:
    document = read(write(tmp_path, json.dumps([{"a": "cafe\u0301"}, {"b": "two"}])))
    assert texts(document) == ["a: café", "b: two"]


def test_a_huge_number_is_no_failure(tmp_path: Path) -> None:
    assert "9" * 100 in read(write(tmp_path, '{"cost": %s}' % ("9" * 6000))).text


@pytest.mark.parametrize("source", ["{}", "[]", "null", '{"a": null, "b": {"c": ""}}', " \n"])
def test_without_values_there_is_no_text(tmp_path: Path, source: str) -> None:
    with pytest.raises(NoText):
        read(write(tmp_path, source))


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp949"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    data = '{"제목": "보일러 점검 안내", "내용": "보일러는 해마다 점검합니다."}'.encode(encoding)
    assert texts(read(write(tmp_path, data))) == ["제목: 보일러 점검 안내\n내용: 보일러는 해마다 점검합니다."]


def test_a_long_key_is_not_repeated_whole(tmp_path: Path) -> None:
    value = {"opening " + "k" * 200_000 + " closing": {f"entry {number}": 1 for number in range(2000)}}
    path = write(tmp_path, json.dumps(value))
    document = read(path)
    assert len(document.text) < 3 * path.stat().st_size
    assert document.text.startswith("opening k") and "closing.entry 1999: 1" in document.text


def test_what_unfolds_too_far_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MAXIMUM_BYTES", 1_000_000)
    path = write(tmp_path, json.dumps({"k" * 200: {str(number): 1 for number in range(8000)}}))
    assert path.stat().st_size < 150_000
    with pytest.raises(ReadError, match="unfolds to more than 1 million"):
        read(path)


@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
def test_a_key_that_stands_twice_keeps_both_values(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text('{"room": "kitchen", "cost": {"a": 1}, "room": "cellar", "cost": {"b": [2, 3]}}', encoding="utf-8")
    assert read(path).text == "room: kitchen\ncost.a: 1\nroom: cellar\ncost.b: 2, 3\n"
