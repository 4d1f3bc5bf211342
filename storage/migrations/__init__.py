"""Alembic migrations of the three databases."""
