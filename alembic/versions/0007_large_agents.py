"""Agents too large for a worker's memory: their nodes carry a mark, and only those are in the indexes that serve them.

The vectors' own index depends on a model's name and size, so the service makes it when the first agent needs it.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

LARGE = sa.text("large")


def upgrade() -> None:
    op.add_column("agents", sa.Column("large_from", sa.Integer(), nullable=True))
    op.add_column("agents", sa.Column("large_ready_at", postgresql.TIMESTAMP(timezone=True), nullable=True))
    op.add_column(
        "memory_nodes", sa.Column("large", sa.Boolean(), server_default=sa.text("false"), nullable=False)
    )
    op.create_index(
        "memory_nodes_tokens_idx",
        "memory_nodes",
        [sa.text("string_to_array(tokens, ' ')")],
        postgresql_using="gin",
        postgresql_where=LARGE,
    )
    op.create_index(
        "memory_nodes_poignancy_idx",
        "memory_nodes",
        ["group_id", "agent_id", sa.text("coalesce(poignancy, 0) DESC")],
        postgresql_where=LARGE,
    )
    op.create_table(
        "term_frequencies",
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("term", sa.Text(), nullable=False),
        sa.Column("counted", sa.Text(), nullable=False),
        sa.Column("texts", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("counted IN ('at first', 'since')", name="term_frequencies_counted_check"),
        sa.ForeignKeyConstraint(
            ["group_id", "agent_id"],
            ["agents.group_id", "agents.agent_id"],
            name="term_frequencies_group_id_fkey",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("group_id", "agent_id", "term", "counted", name="term_frequencies_pkey"),
    )


def downgrade() -> None:
    op.execute("DELETE FROM pending_work WHERE kind = 'enlarge'")
    op.drop_table("term_frequencies")
    op.drop_column("memory_nodes", "large")  # and with it the indexes of what carries the mark
    op.drop_column("agents", "large_ready_at")
    op.drop_column("agents", "large_from")
