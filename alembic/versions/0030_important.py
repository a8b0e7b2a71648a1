"""What matters most of an agent's preferences and facts is read for each new prompt: by an index, and not by reading all its memories."""

from __future__ import annotations

from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None

INDEX = "memory_nodes_important_idx"


def upgrade() -> None:
    with op.get_context().autocommit_block():
        op.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {INDEX}")  # of an attempt that was interrupted
        op.execute(
            f"CREATE INDEX CONCURRENTLY {INDEX} ON memory_nodes"
            " (group_id, agent_id, kind, poignancy DESC NULLS LAST, created_at DESC, node_count DESC)"
            " WHERE kind IS NOT NULL AND superseded_at IS NULL AND archived_at IS NULL"
        )


def downgrade() -> None:
    op.drop_index(INDEX, "memory_nodes")
