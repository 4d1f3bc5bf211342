"""Where slotrag keeps its files when nobody says otherwise. It knows no setting and creates nothing."""

from __future__ import annotations

import os
from pathlib import Path

from .. import UsageError


def library_folder(option: Path | str | None = None) -> Path:
    """The folder of the library: `option`, else ``SLOTRAG_LIBRARY``, else the platform's user data folder.

    Examples
    --------
    >>> library_folder("/srv/notes").as_posix()
    '/srv/notes'
    """
    return _given(option, "SLOTRAG_LIBRARY") or _platform_folder("data")


def config_file() -> Path:
    """The settings file: ``SLOTRAG_CONFIG``, else ``config.toml`` in the platform's user configuration folder."""
    return _given(None, "SLOTRAG_CONFIG") or _platform_folder("config") / "config.toml"


def _given(option: Path | str | None, variable: str) -> Path | None:
    """The path that the caller or the environment names, absolute, with ``~`` replaced; None where neither does."""
    named = option if option is not None and str(option) else os.environ.get(variable)
    if not named:
        return None
    if "\0" in str(named):
        raise UsageError(f"A path cannot hold a zero byte; correct {variable} or the option.")
    try:
        return Path(named).expanduser().absolute()
    except RuntimeError as error:  # a user name after "~" that this machine does not know
        raise UsageError(f"{named} names no home folder on this machine; give the whole path.") from error


def _platform_folder(kind: str) -> Path:
    import platformdirs

    folder = platformdirs.user_data_path if kind == "data" else platformdirs.user_config_path
    return folder("slotrag", appauthor=False)
