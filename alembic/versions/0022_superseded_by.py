"""Which memories one replaces: an index over the few that are superseded, built beside the running service."""

from __future__ import annotations

from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

INDEX = "memory_nodes_superseded_by_idx"


def upgrade() -> None:
    with op.get_context().autocommit_block():
        op.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {INDEX}")  # of an attempt that was interrupted
        op.execute(
            f"CREATE INDEX CONCURRENTLY {INDEX} ON memory_nodes (group_id, superseded_by) WHERE superseded_by IS NOT NULL"
        )


def downgrade() -> None:
    op.drop_index(INDEX, "memory_nodes")
