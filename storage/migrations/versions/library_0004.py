"""Time of a file's last change of status, and its number: by them a change that keeps size and time is seen."""

import sqlalchemy as sa
from alembic import op

revision = "library_0004"
down_revision = "library_0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("documents", sa.Column("ctime_ns", sa.Integer(), nullable=True))
    op.add_column("documents", sa.Column("inode", sa.Integer(), nullable=True))
