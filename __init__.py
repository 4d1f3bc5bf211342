"""slotrag: ask your own documents, on your own machine.

The public API. Importing it is cheap: every name below is loaded from its folder on first use, so that
``from slotrag import Library`` imports neither torch nor faiss. It knows no logic of its own.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .encoders.base import Encoder
    from .rag.events import Progress
    from .rag.library import Library
    from .rag.results import Answer, Hit, IndexReport, SearchResult

__version__ = "0.1.0"

_HOMES = {
    "Answer": ".rag.results",
    "Encoder": ".encoders.base",
    "Hit": ".rag.results",
    "IndexReport": ".rag.results",
    "Library": ".rag.library",
    "Progress": ".rag.events",
    "SearchResult": ".rag.results",
}

__all__ = [
    "Answer",
    "Encoder",
    "Hit",
    "IndexReport",
    "Library",
    "Progress",
    "SearchResult",
    "SlotragError",
    "UsageError",
    "__version__",
]


class SlotragError(Exception):
    """Something the user can act on; the message is one sentence that says what to do."""


class UsageError(SlotragError, ValueError):
    """The call or command was put wrongly: an unknown name, an empty query, ``k < 1``."""


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
