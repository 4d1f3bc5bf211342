"""The hub through its real client, against a small server on this machine that answers as the hub does."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from slotrag.encoders.backbones import hub
from slotrag.encoders.backbones.digests import sha256_of

REVISION = "a" * 40

_PULL = """
import sys
from slotrag.encoders.backbones.store import ModelStore
reports = []
store = ModelStore(report=lambda *report: reports.append(report))
try:
    print(store.resolve(sys.argv[1]))
    print(reports[0][4])
    assert reports[-1][0] == "fetch"
except Exception as error:
    print(type(error).__name__, error)
"""


class Hub(ThreadingHTTPServer):
    """Serves the files of one folder as the repository ``tiny/model``."""

    folder: Path
    asked: list[str]
    gated = False


class Answers(BaseHTTPRequestHandler):
    server: Hub

    def do_HEAD(self) -> None:
        self.respond(body=False)

    def do_GET(self) -> None:
        self.respond(body=True)

    def respond(self, *, body: bool) -> None:
        path = self.path.split("?")[0]
        self.server.asked.append(path)
        if path.startswith("/api/models/tiny/model"):
            files = [file for file in self.server.folder.rglob("*") if file.is_file()]
            siblings = [
                {"rfilename": file.relative_to(self.server.folder).as_posix(), "size": file.stat().st_size}
                for file in files
            ]
            card = {"license": "apache-2.0"}
            info = {"id": "tiny/model", "sha": REVISION, "siblings": siblings, "cardData": card, "tags": []}
            if "/tree/" in path:
                info = [{"type": "file", "path": s["rfilename"], "size": s["size"], "oid": "0"} for s in siblings]
            return self.send(200, json.dumps(info).encode(), {"Content-Type": "application/json"}, body)
        for prefix in (f"/tiny/model/resolve/{REVISION}/", "/tiny/model/resolve/main/"):
            if path.startswith(prefix):
                file = self.server.folder / path.removeprefix(prefix)
                tag = {"ETag": f'"{sha256_of(file)}"', "X-Repo-Commit": REVISION}
                return self.send(200, file.read_bytes(), tag, body)
        kind = {"X-Error-Code": "GatedRepo" if self.server.gated else "RepoNotFound"}
        return self.send(403 if self.server.gated else 404, b"{}", kind, body)

    def send(self, status: int, data: bytes, headers: dict[str, str], body: bool) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def server(tmp_path) -> Iterator[Hub]:
    served = Hub(("127.0.0.1", 0), Answers)
    served.folder, served.asked = tmp_path / "served", []
    thread = threading.Thread(target=served.serve_forever, daemon=True)
    thread.start()
    yield served
    served.shutdown()
    served.server_close()


def pull(server: Hub | None, name: str, tmp_path: Path) -> list[str]:
    """What a process of its own prints: the network block of the tests' process does not hold there."""
    import os

    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGINGFACE_"))}
    environment |= {
        "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}" if server else "http://127.0.0.1:9",
        "HF_HUB_CACHE": str(tmp_path / "hub"),
        "HF_HUB_DISABLE_XET": "1",
        "SLOTRAG_MODELS": str(tmp_path / "models"),
    }
    done = subprocess.run(
        [sys.executable, "-c", _PULL, name], env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.loopback
def test_fetches_safetensors_tokenizer_and_configuration_only(server, tiny_model, tmp_path):
    import shutil

    shutil.copytree(tiny_model("bert"), server.folder)
    (server.folder / "pytorch_model.bin").write_bytes(b"pickle")
    (server.folder / "modeling_tiny.py").write_text("raise SystemExit")
    (server.folder / "onnx").mkdir()
    (server.folder / "onnx" / "model.onnx").write_bytes(b"onnx")
    folder, message = pull(server, "tiny/model", tmp_path)
    assert "licence apache-2.0" in message and "model hub (tiny/model)" in message
    got = {path.relative_to(folder).as_posix() for path in Path(folder).rglob("*") if path.is_file()}
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= got
    assert not any(name.endswith((".bin", ".py", ".onnx")) for name in got)
    assert not any(path.endswith((".bin", ".py", ".onnx")) for path in server.asked)
    assert sha256_of(Path(folder) / "model.safetensors") == sha256_of(server.folder / "model.safetensors")


@pytest.mark.loopback
def test_a_repository_of_pickles_is_refused_before_any_download(server, tiny_model, tmp_path):
    import shutil

    shutil.copytree(tiny_model("bert"), server.folder)
    (server.folder / "model.safetensors").rename(server.folder / "pytorch_model.bin")
    (said,) = pull(server, "tiny/model", tmp_path)
    assert said.startswith("UnusableModel") and "pickles are never opened" in said
    assert not any("/resolve/" in path for path in server.asked)


@pytest.mark.loopback
def test_unknown_and_gated_repositories_are_told_apart(server, tmp_path):
    (said,) = pull(server, "tiny/other", tmp_path)
    assert said.startswith("FetchFailed the hub knows no tiny/other")
    server.gated = True
    (said,) = pull(server, "tiny/other", tmp_path)
    assert said.startswith("FetchFailed tiny/other wants its licence accepted")


def test_a_hub_out_of_reach_names_the_command(tmp_path):
    (said,) = pull(None, "tiny/model", tmp_path)
    assert said.startswith("FetchFailed") and said.endswith("run `slotrag models pull tiny/model`.")


def test_wanted_files_prefers_the_single_file_and_takes_whole_shards():
    assert hub.wanted_files(["model.safetensors", "consolidated.safetensors", "a/b.safetensors"]) == [
        "model.safetensors"
    ]
    shards = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    index = "model.safetensors.index.json"
    assert hub.wanted_files([*shards, index, "tf_model.h5"]) == sorted([*shards, index])
    assert hub.wanted_files([*shards]) == []
    assert hub.wanted_files(["pytorch_model.bin", "config.json"]) == []
    assert "1_Pooling/config.json" in hub.wanted_files(["model.safetensors", "1_Pooling/config.json"])
