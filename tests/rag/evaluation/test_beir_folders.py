"""The script that turns test collections into BEIR-style folders, on small files of their formats."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from slotrag.rag.evaluation.beir import read_dataset

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "beir_folders.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("beir_folders", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["beir_folders"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def cranfield(tmp_path: Path) -> Path:
    folder = tmp_path / "cran"
    folder.mkdir()
    documents = (
        ".I 1\n.T\na wing\nin flight .\n.A\nx,y.\n.B\n1958.\n.W\na wing\n  lifts .\n.I 2\n.T\nheat\n.W\nplates\n"
    )
    (folder / "cran.all.1400").write_text(documents)
    (folder / "cran.qry").write_bytes(b".I 001\r\n.W\r\nwhat lifts\r\n.I 004\r\n.W\r\nwhich plates .\r\n")
    (folder / "cranqrel").write_text("1 1 1 \n1 2 4\n2 2 3\n2 1 -1")
    return folder


def test_cranfield_counts_queries_by_place_and_turns_grades_into_gains(script, cranfield: Path, tmp_path: Path) -> None:
    script.write(script.cranfield(cranfield), tmp_path / "out")
    data = read_dataset(tmp_path / "out")
    assert [(d.id, d.title, d.text) for d in data.documents] == [
        ("1", "a wing in flight .", "a wing lifts ."),
        ("2", "heat", "plates"),
    ]
    assert data.queries == {"1": "what lifts", "2": "which plates ."}
    assert data.judgements == {"1": {"1": 4, "2": 1}, "2": {"2": 2, "1": 0}}


def test_cisi_leaves_out_queries_without_judgements(script, tmp_path: Path) -> None:
    (tmp_path / "CISI.ALL").write_text(".I 1\n.T \nCatalogues\n.A \nB\n.W\ncards\n.X\n1\t5\t1\n")
    (tmp_path / "CISI.QRY").write_text(".I 1\n.W\nWhat of cards?\n.I 2\n.T\nTitle\n.W\n    not judged\n.B\n(JASIS)\n")
    (tmp_path / "CISI.REL").write_text("     1      1\t0\t0.000000\n")
    collection = script.cisi(tmp_path)
    assert collection.documents == [("1", "Catalogues", "cards")]
    assert collection.queries == [("1", "What of cards?")]
    assert collection.judgements == [("1", "1", 1)]


def test_squad_holds_each_paragraph_once(script, tmp_path: Path) -> None:
    def paragraph(context: str, *questions: str) -> dict:
        return {"context": context, "qas": [{"id": f"{context}{n}", "question": q} for n, q in enumerate(questions)]}

    articles = [{"title": "t", "paragraphs": [paragraph("가", "누구?", "언제?"), paragraph("나", "왜?")]}]
    articles.append({"title": "u", "paragraphs": [paragraph("가", "어디?")]})
    (tmp_path / "s.json").write_text(json.dumps({"data": articles}), encoding="utf-8")
    collection = script.squad(tmp_path / "s.json")
    assert [text for _, _, text in collection.documents] == ["가", "나"]
    assert [document for _, document, _ in collection.judgements] == ["p1", "p1", "p2", "p1"]


def test_command_line(cranfield: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), str(tmp_path / "beir"), "--cranfield", str(cranfield)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "2 documents, 2 queries, 4 judgements" in said
    assert (
        (tmp_path / "beir" / "cranfield" / "qrels" / "test.tsv").read_text().startswith("query-id\tcorpus-id\tscore\n")
    )
