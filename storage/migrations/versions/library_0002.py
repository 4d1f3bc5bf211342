"""Post-processing of a collection's vectors: its steps and the statistics that they were fitted to."""

import sqlalchemy as sa
from alembic import op

revision = "library_0002"
down_revision = "library_0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "postprocessings",
        sa.Column("collection_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("steps", sa.String(), nullable=False),
        sa.Column("origin", sa.String(), nullable=False),
        sa.Column("fitted_on", sa.Integer(), nullable=False),
        sa.Column("statistics", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["collection_id"], ["collections.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("collection_id", "number"),
    )
