"""The table of a declarative model, with its type. It knows no table by name."""

from __future__ import annotations

from typing import cast

from sqlalchemy import Table
from sqlalchemy.orm import DeclarativeBase


def table(model: type[DeclarativeBase]) -> Table:
    """The `Table` that `model` declares."""
    return cast(Table, model.__table__)
