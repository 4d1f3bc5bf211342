"""Fetches a repository of the model hub into the hub's own cache: safetensors, tokenizer and configuration files only.

The transfer runs in a process of its own, so that it can be cancelled and its library prints nothing here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import FetchFailed, UnusableModel
from .locations import OTHER_FILES, TOKENIZER_FILES, hub_cache_folder, hub_repository_folder, hub_snapshot
from .watching import Report, run_watched

_ALLOWED = {*TOKENIZER_FILES, *OTHER_FILES}
_SHARD = re.compile(r"model-\d+-of-\d+\.safetensors")
_MODULE_FILE = re.compile(r"\d+_\w+/(config\.json|model\.safetensors)")
_TIMEOUT_SECONDS = 15


@dataclass(frozen=True, slots=True)
class HubListing:
    """What a repository offers: the files that are wanted with their sizes in bytes, and the licence it names."""

    repository: str
    files: dict[str, int]
    licence: str

    @property
    def bytes(self) -> int:
        return sum(self.files.values())


def wanted_files(names: Collection[str]) -> list[str]:
    """Those of a repository's files that loading needs; empty where it has no safetensors weights.

    >>> wanted_files(["config.json", "model.safetensors", "pytorch_model.bin", "onnx/model.onnx", "tokenizer.json"])
    ['config.json', 'model.safetensors', 'tokenizer.json']
    """
    if "model.safetensors" in names:
        weights = ["model.safetensors"]
    else:
        weights = [name for name in names if _SHARD.fullmatch(name)]
        index = "model.safetensors.index.json"
        weights = [*weights, index] if weights and index in names else []
    if not weights:
        return []
    rest = [name for name in names if name in _ALLOWED or _MODULE_FILE.fullmatch(name)]
    return sorted({*weights, *rest})


def listing(repository: str) -> HubListing:
    """Ask the hub what `repository` holds.

    Raises
    ------
    FetchFailed
        The hub is out of reach, or has no such repository, or keeps it behind a licence to be accepted.
    UnusableModel
        It has no safetensors weights.
    """
    from huggingface_hub import HfApi

    info = _asked(repository, lambda: HfApi().model_info(repository, files_metadata=True, timeout=_TIMEOUT_SECONDS))
    sizes = {file.rfilename: int(file.size or 0) for file in info.siblings or []}
    names = wanted_files(sizes)
    if not names:
        raise UnusableModel(
            f"The hub's {repository} has no safetensors weights, and pickles are never opened; choose another model."
        )
    licence = getattr(info.card_data, "license", None) if info.card_data else None
    return HubListing(repository, {name: sizes[name] for name in names}, licence or "not stated")


def download(found: HubListing, report: Report, message: str) -> Path:
    """Fetch what `found` lists; the snapshot's folder in the hub cache."""
    cache = hub_cache_folder()
    status, output = run_watched(
        f"{__package__}.hub_transfer",
        [found.repository, str(cache), *found.files],
        watched=hub_repository_folder(found.repository) / "blobs",
        total=found.bytes,
        message=message,
        report=report,
    )
    snapshot = hub_snapshot(found.repository)
    if status != 0 or snapshot is None:
        lines = [line.strip() for line in output.splitlines() if line.strip()]
        raise FetchFailed(
            f"{found.repository} could not be fetched from the hub ({lines[-1] if lines else 'no reason'})"
        )
    return snapshot


def _asked(repository: str, question: Callable[[], Any]) -> Any:
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    try:
        return question()
    except GatedRepoError as error:
        raise FetchFailed(f"{repository} wants its licence accepted on the hub first (then log in there)") from error
    except RepositoryNotFoundError as error:
        raise FetchFailed(f"the hub knows no {repository}") from error
    except Exception as error:
        # Whatever goes wrong here went wrong on the way: the client lets the errors of its transport through, and
        # which transport that is changes between its versions.
        raise FetchFailed(f"the hub could not be asked for {repository} ({_first_line(error)})") from error


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
