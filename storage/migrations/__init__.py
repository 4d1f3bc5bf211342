"""Alembic migrations of the three databases, one branch each, run by `slotrag.storage.schema`."""
