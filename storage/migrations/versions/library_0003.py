"""Variants of passages' texts, written by a generator."""

import sqlalchemy as sa
from alembic import op

revision = "library_0003"
down_revision = "library_0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "variants",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("key", sa.LargeBinary(), nullable=False),
        sa.Column("input_hash", sa.LargeBinary(), nullable=False),
        sa.Column("texts", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("key"),
    )
    op.create_index("ix_variants_input_hash", "variants", ["input_hash"], unique=False)
