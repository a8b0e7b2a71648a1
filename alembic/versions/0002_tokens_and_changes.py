"""Tokens of each node, for lexical search; and which transaction changed it last, for indexes in memory."""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op
from models.db.base import XID8

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "memory_nodes", sa.Column("tokens", sa.Text(), server_default=sa.text("''"), nullable=False)
    )
    xid = sa.text("pg_current_xact_id()")
    op.add_column("memory_nodes", sa.Column("changed_xid", XID8(), server_default=xid, nullable=False))
    op.create_index(
        "memory_nodes_group_id_agent_id_changed_xid_idx",
        "memory_nodes",
        ["group_id", "agent_id", "changed_xid"],
    )
    # What is there already gets its tokens from the workers, like all work owed.
    op.execute(
        "INSERT INTO pending_work (kind, subject_id, group_id) SELECT 'tokenize', node_id, group_id FROM memory_nodes"
    )


def downgrade() -> None:
    op.execute("DELETE FROM pending_work WHERE kind = 'tokenize'")
    op.drop_index("memory_nodes_group_id_agent_id_changed_xid_idx", table_name="memory_nodes")
    op.drop_column("memory_nodes", "changed_xid")
    op.drop_column("memory_nodes", "tokens")
