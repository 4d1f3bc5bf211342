"""The first schema of slots.db."""

import sqlalchemy as sa
from alembic import op

revision = "slots_0001"
down_revision = None
branch_labels = ("slots",)
depends_on = None


def upgrade() -> None:
    op.create_table(
        "slots",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("fingerprint", sa.String(), nullable=False),
        sa.Column("text_hash", sa.LargeBinary(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("used_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("fingerprint", "text_hash"),
    )
    op.create_index("ix_slots_used_at", "slots", ["used_at"], unique=False)
