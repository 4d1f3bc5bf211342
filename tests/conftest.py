"""What every test gets: no network, no user's own library, few threads, small models and a plug-in encoder."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# Before torch, tokenizers or the hub's client are imported by anyone: they read these once.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from hypothesis import HealthCheck, settings

SUPPORT = Path(__file__).parent / "support"
PLUGIN = SUPPORT / "plugin"
KEPT_VARIABLES = {"SLOTRAG_MODELS"}

collect_ignore = ["support"]  # the example package there has tests of its own

# Helpers for tests are imported by their bare name: ``from tiny_models import write_bert``.
sys.path.insert(0, str(SUPPORT))

settings.register_profile("slotrag", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("slotrag")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Block every socket but those of the Unix family, ahead of pytest-socket reading its options."""
    config.option.disable_socket = True
    config.option.allow_unix_socket = True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("loopback"):
            item.add_marker(pytest.mark.allow_hosts(["127.0.0.1", "::1"]))


def _isolate(patch: pytest.MonkeyPatch, home: Path) -> None:
    for name in os.environ:
        if name.startswith("SLOTRAG_") and name not in KEPT_VARIABLES:
            patch.delenv(name)
    patch.setenv("SLOTRAG_LIBRARY", str(home / "library"))
    patch.setenv("SLOTRAG_CONFIG", str(home / "config.toml"))


@pytest.fixture(scope="session", autouse=True)
def _isolated_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fixtures wider than a test never reach the user's own library either."""
    with pytest.MonkeyPatch.context() as patch:
        _isolate(patch, tmp_path_factory.mktemp("session-home"))
        yield


@pytest.fixture(autouse=True)
def _isolated(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Each test has a library folder and a settings file of its own, both not there yet, outside its `tmp_path`."""
    _isolate(monkeypatch, tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="session")
def plugin_path() -> Path:
    """The folder that registers the encoder ``hashing``, to put on the PYTHONPATH of a subprocess."""
    return PLUGIN


@pytest.fixture(scope="session")
def hashing_encoder() -> Iterator[str]:
    """The spec of an instant encoder without a model; it is registered for the rest of the session."""
    sys.path.insert(0, str(PLUGIN))
    yield "hashing"
    sys.path.remove(str(PLUGIN))


@pytest.fixture(scope="session")
def models():
    """A ModelStore over the model cache of this machine (``SLOTRAG_MODELS`` or the default), never fetching."""
    from slotrag.encoders.backbones.store import ModelStore

    return ModelStore(offline=True)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Gives the folder of a tiny random model of a kind that `tiny_models.KINDS` names, written once a session."""
    import tiny_models

    root = tmp_path_factory.mktemp("tiny-models")

    def folder(kind: str) -> Path:
        if not (root / kind).exists():
            tiny_models.write(kind, root / kind)
        return root / kind

    return folder


@pytest.fixture(scope="session")
def generator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny random generator whose window holds the demonstrations of geneol."""
    import tiny_models

    folder = tmp_path_factory.mktemp("generator") / "llama"
    return tiny_models.write("llama", folder, max_position_embeddings=4096)


@pytest.fixture(scope="session")
def memory_folder() -> Iterator[Path]:
    """A folder that lies in memory, where the machine has such a file system; other users may look into it."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="slotrag-tests-", dir=memory if os.access(memory, os.W_OK) else None))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def fault_server(memory_folder: Path) -> Iterator[Any]:
    """Runs commands in which system calls fail; see `fault_injection`."""
    from fault_injection import Server, Unavailable

    try:
        server = Server(memory_folder, PLUGIN)
    except Unavailable as error:
        pytest.skip(str(error))
    yield server
    server.close()
