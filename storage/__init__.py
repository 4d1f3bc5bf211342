"""What is kept: SQLAlchemy models, the catalog (the only place with SQL), migrations and the lexical index."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .catalog import Catalog

__all__ = ["Catalog"]


def __getattr__(name: str) -> Any:
    if name == "Catalog":
        return import_module(".catalog", __name__).Catalog
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
