"""One run of the program: its global options, and the settings, models and library that follow from them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .global_options import GlobalOptions
from .output import tell
from .progress import ProgressView

if TYPE_CHECKING:
    from pathlib import Path

    from ..encoders.backbones.store import ModelStore
    from ..rag.library import Library
    from ..rag.settings import Settings, Value


@dataclass
class Invocation:
    """What the commands get as ``context.obj``."""

    options: GlobalOptions
    progress: ProgressView = field(init=False)

    def __post_init__(self) -> None:
        self.progress = ProgressView(quiet=self.options.quiet)

    def notice(self, text: str) -> None:
        """Say something beside the data, unless ``--quiet``."""
        if not self.options.quiet:
            tell(text)

    def waiting(self, step: str) -> None:
        """Show what the program is at, for a step that reports nothing itself."""
        from ..rag.events import Progress

        self.progress(Progress(step))

    def settings(self, **overrides: Value | None) -> Settings:
        """The settings that hold with the given options (None: not given)."""
        from ..rag.settings import load

        return load({**overrides, "offline": True if self.options.offline else None})

    def folder(self) -> Path:
        """The library's folder."""
        from ..rag.locations import library_folder

        return library_folder(self.options.library)

    def models(self, settings: Settings | None = None) -> ModelStore:
        """The models of this machine; fetching them shows its progress."""
        from ..encoders.backbones.store import ModelStore

        settings = settings or self.settings()
        return ModelStore(offline=settings.offline, report=self.progress.from_models)

    @contextmanager
    def library(self, settings: Settings, *, create: bool = False, dry: bool = False) -> Iterator[Library]:
        """The library, open while the block runs; options as in `Library.open`."""
        from ..rag.library import Library

        models = self.models(settings)
        library = Library.open(
            self.folder(),
            create=create,
            dry=dry,
            settings=settings,
            models=models,
            offline=settings.offline,
            progress=self.progress,
        )
        with self.progress, library:
            yield library
