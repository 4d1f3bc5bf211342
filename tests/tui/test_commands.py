"""The commands over a real library: what they write, where they write it, and how they end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from slotrag.rag.library import Library
from slotrag.tui.cli import run

Outcome = tuple[int, str, str]
Command = Callable[..., Outcome]

ANSWER_KEYS = [
    "schema", "question", "answer", "stop_reason", "citations", "context", "timings_ms", "session", "quotes",
    "unsupported",
]  # fmt: skip


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], hashing_encoder: str, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs the program in this process with an instant encoder: exit code, stdout, stderr."""
    monkeypatch.setenv("SLOTRAG_ENCODER", hashing_encoder)
    monkeypatch.setenv("SLOTRAG_OFFLINE", "1")

    def call(*arguments: str | Path) -> Outcome:
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    documents = tmp_path / "documents"
    (documents / "deep").mkdir(parents=True)
    (documents / "boiler.md").write_text("# Boiler\n\nThe boiler is serviced in September.\n", encoding="utf-8")
    (documents / "deep" / "rules.txt").write_text("Music must end at eleven.\n", encoding="utf-8")
    (documents / "회의록.txt").write_text("회의는 화요일에 열린다.\n", encoding="utf-8")
    return documents


@pytest.fixture
def indexed(command: Command, folder: Path) -> Path:
    assert command("index", folder)[0] == 0
    return folder


def value(outcome: Outcome, code: int = 0) -> dict[str, Any]:
    assert outcome[0] == code, outcome
    assert outcome[1].count("\n") == 1
    found = json.loads(outcome[1])
    assert found["schema"] == 1
    return found


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
    assert "new.txt" in command("index", "--dry-run")[1]


def test_search_json_has_the_keys_of_the_contract_in_order(command: Command, indexed: Path) -> None:
    found = value(command("search", "boiler serviced", "--json", "-k", "2"))
    assert list(found) == ["schema", "query", "results"]
    assert found["query"] == "boiler serviced"
    first = found["results"][0]
    assert list(first) == [
        "rank", "score", "score_kind", "scores", "passage_id", "path", "absolute_path", "copies", "page", "lines",
        "chars", "heading", "text",
    ]  # fmt: skip
    assert list(first["scores"]) == ["dense", "lexical"]
    assert (first["rank"], first["score_kind"], first["path"]) == (1, "rrf", "boiler.md")
    assert Path(first["absolute_path"]).read_text(encoding="utf-8").count("boiler") == 1


@pytest.mark.parametrize(("mode", "kind"), [("dense", "cosine"), ("lexical", "bm25"), ("hybrid", "rrf")])
def test_modes_name_their_score(command: Command, indexed: Path, mode: str, kind: str) -> None:
    found = value(command("search", "boiler", "--mode", mode, "--json"))
    assert {result["score_kind"] for result in found["results"]} == {kind}


def test_search_for_a_reader(command: Command, indexed: Path) -> None:
    code, out, _ = command("search", "when is the boiler serviced", "--explain")
    assert code == 0
    assert out.startswith("1. boiler.md:")
    assert "The boiler is serviced in September." in out and "cosine" in out


def test_words_of_a_query_need_no_quotes(command: Command, indexed: Path) -> None:
    assert value(command("search", "boiler", "serviced", "--json"))["query"] == "boiler serviced"


def test_path_filter(command: Command, indexed: Path) -> None:
    found = value(command("search", "boiler music", "--path", "deep/*", "--json"))
    assert {result["path"] for result in found["results"]} == {"deep/rules.txt"}


def test_nothing_found_is_three(command: Command, indexed: Path) -> None:
    assert value(command("search", "boiler", "--path", "nowhere/*", "--json"), code=3)["results"] == []
    code, out, err = command("search", "boiler", "--path", "nowhere/*")
    assert (code, out) == (3, "")
    assert "nothing found" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ["search", ""],
        ["search", "  \u200b "],
        ["search", "?!"],
        ["search", "x", "-k", "0"],
        ["search", "x", "-k", "-3"],
        ["search", "x", "-k", "many"],
        ["search", "x", "--mode", "fuzzy"],
        ["search", "x", "--diversity", "2"],
        ["search", "x", "--min-score", "nan"],
        ["search", "x", "--min-score", "5"],
        ["search", "x", "--collection", "unknown"],
        ["search", "x", "--topk", "3"],
        ["search"],
        ["ask"],
        ["ask", " "],
        ["ask", "x", "--context", "pictures"],
        ["ask", "x", "--max-tokens", "0"],
        ["index", "--watch", "--dry-run"],
        ["index", ""],
        ["index", ".", "--include", ""],
        ["index", "/dev/null"],
        ["remove", ""],
        ["frobnicate"],
        ["config", "set", "k", "0"],
        ["config", "set", "topk", "1"],
        ["sessions", "export", "x", "--format"],
        ["models", "pull", "no-such-model"],
        ["encoders", "fingerprint", "no-such-encoder"],
        ["encoders", "fingerprint", "mean@(("],
        ["models", "import", ""],
        ["models", "import", "~no-such-user/model"],
        ["eval", "retrieval"],
        ["eval", "retrieval", "--dataset", ""],
        ["sessions", "export", "x", "--output", ""],
        ["--library"],
    ],
    ids=" ".join,
)
def test_wrong_use_is_two_and_one_sentence(command: Command, indexed: Path, arguments: list[str]) -> None:
    code, out, err = command(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("slotrag: ") and err.count("\n") == 1
    assert "Traceback" not in err


def test_a_library_that_is_not_there_is_one_sentence(command: Command) -> None:
    for arguments in (["search", "x"], ["status"], ["sessions"], ["collections"], ["remove", "x"], ["rebuild"]):
        code, out, err = command(*arguments)
        assert (code, out) == (1, ""), arguments
        assert err.count("\n") == 1 and "index" in err


def test_global_options_may_stand_anywhere(command: Command, folder: Path, tmp_path: Path) -> None:
    library = tmp_path / "elsewhere"
    assert command("index", folder, "--library", library)[0] == 0
    assert command("--library", library, "search", "boiler")[0] == 0
    assert command("search", "--library", library, "boiler")[0] == 0
    assert command("search", "boiler")[0] == 1
    assert [path.name for path in folder.iterdir()] != []
    assert not list(folder.rglob("*.db"))


def test_quiet_leaves_stderr_empty(command: Command, folder: Path) -> None:
    assert command("index", folder, "--quiet")[2] == ""
    assert command("search", "boiler", "--quiet")[2] == ""


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


def conversation(question: str) -> str:
    """A conversation in the library, stored without asking a model; its id."""
    from slotrag.rag.locations import library_folder
    from slotrag.storage import Catalog

    with Catalog.open(library_folder(None)) as catalog:
        session = catalog.create_session(question)
        catalog.add_message(session, "user", question, citations=[], details={})
        citation = {
            "number": 1, "passage_id": 1, "path": "boiler.md", "absolute_path": "/x/boiler.md", "page": None,
            "lines": [3, 3], "heading": "Boiler", "excerpt": "The boiler is serviced in September.",
        }  # fmt: skip
        catalog.add_message(session, "assistant", "In September [1].", citations=[citation], details={})
    return session


def test_sessions(command: Command, indexed: Path, tmp_path: Path) -> None:
    session = conversation("When is the boiler serviced?")
    assert command("sessions")[1].startswith(f"{session}\t")
    assert value(command("sessions", "list", "--json"))["sessions"][0]["id"] == session
    assert value(command("sessions", "list", "nothing-like-it", "--json"))["sessions"] == []
    code, out, _ = command("sessions", "show", session)
    assert code == 0
    assert "When is the boiler serviced?" in out and "[1] boiler.md:3" in out
    assert "The boiler is serviced in September." in command("sessions", "export", session)[1]
    file = tmp_path / "conversation.json"
    assert command("sessions", "export", session, "--format", "json", "--output", file)[:2] == (0, "")
    json.loads(file.read_text(encoding="utf-8"))
    assert command("sessions", "delete", session)[0] == 0
    for arguments in (["show", session], ["delete", session], ["export", session]):
        code, out, err = command("sessions", *arguments)
        assert (code, out) == (3, "") and err.count("\n") == 1


def test_config_shows_where_a_value_comes_from(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    assert command("config", "set", "k", "7")[0] == 0
    monkeypatch.setenv("SLOTRAG_MODE", "dense")
    lines = command("config", "show", "--origin")[1].splitlines()
    assert "k\t7\tconfig.toml" in lines and "mode\tdense\tenvironment" in lines and "threads\t0\tdefault" in lines
    assert "k = 7" in command("config")[1].splitlines()
    found = value(command("config", "show", "--json"))
    assert (found["settings"]["k"], found["origins"]["k"]) == (7, "config.toml")
    monkeypatch.setenv("SLOTRAG_MOOD", "dense")
    assert "SLOTRAG_MOOD" in command("config", "show")[2]


def test_a_setting_is_what_commands_use(command: Command, indexed: Path) -> None:
    command("config", "set", "k", "1")
    assert len(value(command("search", "boiler music", "--json"))["results"]) == 1
    assert len(value(command("search", "boiler music", "-k", "2", "--json"))["results"]) == 2


def test_encoders(command: Command) -> None:
    _, out, err = command("encoders")
    assert {"mean", "st", "hashing"} <= set(out.split())
    assert "Korean" in err and "--encoder mean@e5-small" in err
    found = value(command("encoders", "fingerprint", "hashing", "--json"))
    assert len(found["fingerprint"]) == 64 and found["dimension"] == 64
    assert found["fingerprint"] in command("encoders", "fingerprint", "hashing")[1]


def test_models(command: Command) -> None:
    found = value(command("models", "list", "--json"))
    names = {model["name"] for model in found["models"]}
    assert {"minilm-l6", "smollm2-135m", "e5-small", found["recommended_decoder"]} <= names
    assert "minilm-l6\t" in command("models")[1]


def test_missing_models_offline_name_the_command(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SLOTRAG_MODELS", str(tmp_path / "no-models"))
    code, out, err = command("index", folder, "--encoder", "mean", "--offline")
    assert (code, out) == (1, "")
    assert "slotrag models pull minilm-l6" in err


def test_import_and_remove_a_model(
    command: Command, tiny_model: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import tiny_models

    monkeypatch.setenv("SLOTRAG_MODELS", str(tmp_path / "models"))
    folder = tiny_model(next(iter(tiny_models.KINDS)))
    code, out, _ = command("models", "import", folder, "--name", "mine")
    assert (code, out.strip()) == (0, str(tmp_path / "models" / "mine"))
    assert any(line.startswith("mine\t") for line in command("models")[1].splitlines())
    assert command("models", "remove", "mine")[0] == 0
    assert not (tmp_path / "models" / "mine").exists()


def test_eval_retrieval(command: Command, tmp_path: Path) -> None:
    texts = {"d1": "boiler service in september", "d2": "music ends at eleven", "d3": "meeting on tuesday"}
    (tmp_path / "qrels").mkdir()
    (tmp_path / "corpus.jsonl").write_text(
        "".join(json.dumps({"_id": name, "title": "", "text": text}) + "\n" for name, text in texts.items())
    )
    (tmp_path / "queries.jsonl").write_text('{"_id": "q1", "text": "boiler service"}\n')
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\n")
    found = value(command("eval", "retrieval", "--dataset", tmp_path, "--json"))
    assert set(found["scores"]) == {"dense", "lexical", "hybrid"}
    assert found["scores"]["hybrid"]["ndcg@10"] == pytest.approx(1.0)
    assert "ndcg@10" in command("eval", "retrieval", "--dataset", tmp_path)[1]
    code, out, err = command("eval", "retrieval", "--dataset", tmp_path / "nothing")
    assert code in (1, 2) and out == "" and err.count("\n") == 1


def test_ask_not_found_is_three_and_loads_no_decoder(
    command: Command, indexed: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SLOTRAG_MODELS", str(tmp_path / "no-models"))
    outcome = command("ask", "zebra giraffe?", "--path", "nowhere/*", "--json")
    found = value(outcome, code=3)
    assert list(found) == ANSWER_KEYS
    assert (found["stop_reason"], found["citations"]) == ("not_found", [])


def test_ask_answers_and_continues_a_conversation(
    command: Command, indexed: Path, tiny_model: Callable[[str], Path]
) -> None:
    options = ["--decoder", tiny_model("llama"), "--max-tokens", "5", "--context", "text"]
    found = value(command("ask", "When is the boiler serviced in September?", *options, "--json"))
    assert list(found) == ANSWER_KEYS
    assert found["stop_reason"] != "not_found" and found["answer"]
    assert list(found["timings_ms"]) == ["retrieve", "compress", "first_token", "total"]
    assert {item["form"] for item in found["context"]} <= {"text"}
    session = command("sessions")[1].split("\t")[0]
    code, out, err = command("ask", "When is the boiler serviced in September?", *options, "--session", session)
    assert code == 0
    assert "Sources\n[1] boiler.md:" in out
    assert session in err
    assert value(command("sessions", "list", "--json"))["sessions"][0]["messages"] == 4
    assert command("ask", "x", *options, "--session", "unknown")[:2] == (3, "")


def test_the_run_that_fetches_the_decoder_offers_a_larger_one(
    command: Command, indexed: Path, tiny_model: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from slotrag.encoders.backbones.store import ModelStore
    from slotrag.tui import recommending

    present = ModelStore.present
    monkeypatch.setattr(ModelStore, "resolve", lambda self, name: tiny_model("llama"))
    monkeypatch.setattr(ModelStore, "present", lambda self, name: False)
    monkeypatch.setattr(recommending, "measure", lambda store, settings: 1000.0)
    question = ["ask", "When is the boiler serviced in September?", "--max-tokens", "5"]
    assert "slotrag config set decoder" in command(*question)[2]
    monkeypatch.setattr(ModelStore, "present", lambda self, name: True)
    assert "slotrag config set decoder" not in command(*question)[2]
    monkeypatch.setattr(ModelStore, "present", present)


def test_unexpected_errors_are_one_line_and_debug_shows_them(
    command: Command, indexed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: object, **options: object) -> None:
        raise RuntimeError("something deep")

    monkeypatch.setattr(Library, "status", broken)
    code, out, err = command("status")
    assert (code, out) == (1, "")
    assert err == "slotrag: unexpected RuntimeError: something deep; use --debug for the whole error\n"
    assert "Traceback" in command("status", "--debug")[2]


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
