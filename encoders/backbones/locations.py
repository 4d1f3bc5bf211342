"""Where model files lie, and what a usable model folder looks like. It fetches and loads nothing.

It reads the hub cache's folder layout itself, so that listing models needs no network library.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from .errors import UnusableModel

MANIFEST = "slotrag-model.json"
"""Written into a folder of the model cache last: its name, licence, origin."""

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer.model",
    "sentencepiece.bpe.model",
    "spiece.model",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "added_tokens.json",
    "special_tokens_map.json",
    "tokenizer_config.json",
)
OTHER_FILES = (
    "config.json",
    "generation_config.json",
    "chat_template.jinja",
    "chat_template.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "LICENSE",
    "LICENSE.txt",
    "NOTICE",
)
_VOCABULARIES = (
    "tokenizer.json",
    "tokenizer.model",
    "sentencepiece.bpe.model",
    "spiece.model",
    "vocab.txt",
    "vocab.json",
)
_SINGLE, _INDEX = "model.safetensors", "model.safetensors.index.json"
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_OWN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def models_folder() -> Path:
    """``SLOTRAG_MODELS``, or ``models`` in the platform's user cache folder."""
    chosen = os.environ.get("SLOTRAG_MODELS")
    if chosen:
        return Path(chosen).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("slotrag", appauthor=False) / "models"


def hub_cache_folder() -> Path:
    """The model hub's own cache, which other programs share (``HF_HUB_CACHE``, ``HF_HOME``, ``XDG_CACHE_HOME``)."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if os.environ.get(name):
            return Path(os.environ[name]).expanduser()
    home = os.environ.get("HF_HOME")
    if home:
        return Path(home).expanduser() / "hub"
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "huggingface" / "hub"


def is_hub_id(name: str) -> bool:
    """Whether `name` has the form ``owner/name``.

    >>> is_hub_id("BAAI/bge-m3"), is_hub_id("./models/x"), is_hub_id("minilm-l6")
    (True, False, False)
    """
    return _HUB_ID.fullmatch(name) is not None and ".." not in name


def is_own_name(name: str) -> bool:
    """Whether `name` may be the name of a folder in the model cache."""
    return _OWN_NAME.fullmatch(name) is not None


def hub_repository_folder(repository: str) -> Path:
    """Where the hub cache keeps `repository`, whether or not it is there."""
    return hub_cache_folder() / ("models--" + repository.replace("/", "--"))


def hub_snapshot(repository: str) -> Path | None:
    """The complete snapshot of `repository` in the hub cache; None where there is none.

    The snapshot that ``main`` points to comes first, then the newest one.
    """
    folder = hub_repository_folder(repository)
    snapshots = folder / "snapshots"
    if not snapshots.is_dir():
        return None
    candidates = sorted(snapshots.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    main = folder / "refs" / "main"
    if main.is_file():
        candidates.insert(0, snapshots / main.read_text().strip())
    return next((path for path in candidates if problem_of(path) is None), None)


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files that transformers would load from `folder`; empty where one is missing."""
    if (folder / _SINGLE).is_file():
        return [folder / _SINGLE]
    if not (folder / _INDEX).is_file():
        return []
    try:
        index = json.loads((folder / _INDEX).read_text(encoding="utf-8"))
    except ValueError:
        return []
    weight_map = index.get("weight_map") if isinstance(index, dict) else None
    names = set(weight_map.values()) if isinstance(weight_map, dict) else set()
    # An index is a file from elsewhere: a name with a folder in it would lead out of the model.
    if not all(isinstance(name, str) and Path(name).name == name for name in names):
        return []
    files = [folder / name for name in sorted(names)]
    return files if files and all(file.is_file() for file in files) else []


def tokenizer_files(folder: Path) -> list[Path]:
    """The files that decide how `folder`'s model cuts text, in a fixed order."""
    return [folder / name for name in TOKENIZER_FILES if (folder / name).is_file()]


def problem_of(folder: Path) -> str | None:
    """Why `folder` cannot be loaded, as the end of a sentence; None where it can."""
    if not (folder / "config.json").is_file():
        return "has no config.json"
    if not weight_files(folder):
        if any(folder.glob("*.bin")) or any(folder.glob("*.pt")):
            return "has its weights as pickles only, which are never opened; convert them to safetensors"
        if (folder / _INDEX).is_file():
            return "lacks some of its safetensors files"
        return "has no safetensors weights"
    if not any((folder / name).is_file() for name in _VOCABULARIES):
        return "has no tokenizer files"
    return None


def require_usable(folder: Path) -> Path:
    """`folder` itself, or `UnusableModel` saying what is wrong with it."""
    problem = problem_of(folder)
    if problem is not None:
        raise UnusableModel(f"The model folder {folder} {problem}.")
    return folder


def bytes_below(folder: Path) -> int:
    """Size of all files below `folder`; files that vanish meanwhile do not count."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(root, name)).st_size  # noqa: PTH116, PTH118 -- called ten times a second
            except OSError:
                continue
    return total
