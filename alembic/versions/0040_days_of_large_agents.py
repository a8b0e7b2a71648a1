"""What happened on the days that a question names is read of large agents by an index of their times."""

from __future__ import annotations

from alembic import op

revision = "0040"
down_revision = "0039"
branch_labels = None
depends_on = None

INDEX = "memory_nodes_times_idx"


def upgrade() -> None:
    with op.get_context().autocommit_block():
        op.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {INDEX}")  # of an attempt that was interrupted
        op.execute(
            f"CREATE INDEX CONCURRENTLY {INDEX} ON memory_nodes (group_id, agent_id, created_at) WHERE large"
        )


def downgrade() -> None:
    op.drop_index(INDEX, "memory_nodes")
