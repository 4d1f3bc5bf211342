"""``index`` and the commands about what is indexed, over a real library."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from program import Command, value


def test_index_json_has_the_keys_of_the_contract_in_order(command: Command, folder: Path) -> None:
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7\nthis is no pdf")
    found = value(command("index", folder, "--json"), code=4)
    assert list(found) == [
        "schema", "collection", "new", "updated", "unchanged", "removed", "renamed", "skipped", "passages", "encoded",
        "seconds",
    ]  # fmt: skip
    assert found["new"] == 3
    (broken,) = [file for file in found["skipped"] if file["failed"]]
    assert list(broken) == ["path", "reason", "failed"]
    assert broken["path"].endswith("broken.pdf") and broken["reason"]


def test_second_run_says_that_nothing_was_encoded(command: Command, indexed: Path) -> None:
    found = value(command("index", "--json"))
    assert (found["unchanged"], found["new"], found["encoded"]) == (3, 0, 0)
    code, out, _ = command("index")
    assert code == 0
    assert "3 unchanged" in out and "0 texts encoded" in out


def test_a_run_without_a_path_refreshes_every_collection(command: Command, indexed: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.txt").write_text("Copper melts.", encoding="utf-8")
    assert command("index", other, "--collection", "metals")[0] == 0
    (other / "b.txt").write_text("Tin melts.", encoding="utf-8")
    (indexed / "broken.pdf").write_bytes(b"%PDF-1.7\nthis is no pdf")
    code, out, _ = command("index", "--json")
    found = [json.loads(line) for line in out.splitlines()]
    assert [(line["collection"], line["new"]) for line in found] == [("default", 0), ("metals", 1)]
    assert code == 4
    code, out, _ = command("index", "--collection", "metals")
    assert code == 0 and out.startswith("metals: 2 unchanged") and out.count("\n") == 1


def test_broken_files_are_named_and_the_run_is_partial(command: Command, folder: Path) -> None:
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7\nthis is no pdf")
    (folder / "empty.txt").write_bytes(b"")
    code, out, _ = command("index", folder)
    assert code == 4
    assert "1 failed" in out and "broken.pdf" in out and "empty.txt" in out
    (folder / "broken.pdf").unlink()
    assert command("index")[0] == 0  # a file without text is no failure


def test_dry_run_tells_and_does_nothing(command: Command, indexed: Path) -> None:
    (indexed / "new.txt").write_text("Something new.", encoding="utf-8")
    found = value(command("index", "--dry-run", "--json"))
    assert any(plan["path"].endswith("new.txt") for plan in found["planned"])
    assert value(command("status", "--json"))["collections"][0]["documents"]["indexed"] == 3
    table = command("index", "--dry-run")[1]
    assert "new.txt" in table and "same size and time" not in table


def test_another_encoder_is_six_and_names_the_command(command: Command, indexed: Path) -> None:
    code, out, err = command("index", indexed, "--encoder", "hashing:seed=1")
    assert (code, out) == (6, "")
    assert "slotrag rebuild" in err


def test_a_locked_library_is_five(command: Command, indexed: Path) -> None:
    from slotrag.rag.locations import library_folder
    from slotrag.rag.locking import WriterLock

    with WriterLock(library_folder(None), wait=True):
        code, out, err = command("index", "--no-wait")
        assert (code, out) == (5, "")
        assert err.count("\n") == 1
        assert command("search", "boiler")[0] == 0


def test_status_and_collections(command: Command, indexed: Path) -> None:
    found = value(command("status", "--json"))
    assert found["collections"][0]["documents"] == {"indexed": 3}
    code, out, _ = command("status")
    assert code == 0
    assert "3 indexed" in out and str(indexed) in out
    assert value(command("collections", "--json"))["collections"][0]["is_default"] is True
    assert command("collections")[1].startswith("default\tdefault\t")


def test_status_says_why_a_library_is_only_read(
    command: Command, indexed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "read-only" not in command("status")[1]
    monkeypatch.setattr(os, "access", lambda path, mode, **options: not mode & os.W_OK)
    assert re.search("^read-only +you may not write", command("status")[1], re.M)
    assert value(command("status", "--json"))["read_only_reason"].startswith("you may not write")


def test_remove_takes_documents_out(command: Command, indexed: Path) -> None:
    assert value(command("remove", indexed / "boiler.md", "--json"))["removed"] == 1
    found = value(command("search", "boiler", "--mode", "lexical", "--json"), code=3)
    assert found["results"] == []
    assert (indexed / "boiler.md").exists()
    code, out, err = command("remove", indexed / "never.md")
    assert (code, out) == (2, "") and err.count("\n") == 1


def test_rebuild_gives_the_same_passages(command: Command, indexed: Path) -> None:
    before = value(command("search", "boiler", "--json"))["results"]
    assert command("rebuild")[0] == 0
    after = value(command("search", "boiler", "--json"))["results"]
    assert [(hit["path"], hit["text"]) for hit in after] == [(hit["path"], hit["text"]) for hit in before]


def test_doctor_finds_a_broken_index_and_fixes_it(command: Command, indexed: Path) -> None:
    from slotrag.rag.locations import library_folder

    assert command("doctor")[0] == 0
    (index,) = library_folder(None).glob("*.index")
    index.write_bytes(b"garbage")
    findings = value(command("doctor", "--json"))["findings"]
    assert any(finding["check"] == "index" and finding["severity"] != "ok" for finding in findings)
    code, out, _ = command("doctor", "--fix")
    assert code == 0 and "fixed" in out
    assert all(
        finding["severity"] == "ok"
        for finding in value(command("doctor", "--json"))["findings"]
        if finding["check"] == "index"
    )


def test_interrupt_while_indexing_is_130(command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os
    import signal

    from slotrag.rag.index_run import IndexRun

    work = IndexRun.apply

    def interrupted(*arguments: Any, **options: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return work(*arguments, **options)

    monkeypatch.setattr(IndexRun, "apply", interrupted)
    code, _, err = command("index", folder)
    assert code == 130
    assert "interrupted" in err
    monkeypatch.setattr(IndexRun, "apply", work)
    assert value(command("index", folder, "--json"))["new"] == 3
