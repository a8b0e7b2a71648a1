"""Scheduled jobs and the audit log."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

TIMESTAMP = postgresql.TIMESTAMP(timezone=True)


def upgrade() -> None:
    # What the previous code wrote, and goes on writing until it is replaced, counts as done.
    op.add_column(
        "job_ticks", sa.Column("state", sa.Text(), server_default=sa.text("'done'"), nullable=False)
    )
    op.add_column("job_ticks", sa.Column("error", sa.Text(), nullable=True))
    op.add_column(
        "job_ticks", sa.Column("attempts", sa.Integer(), server_default=sa.text("1"), nullable=False)
    )
    op.add_column("job_ticks", sa.Column("due_by", TIMESTAMP, nullable=True))
    op.create_check_constraint(
        op.f("job_ticks_state_check"), "job_ticks", "state IN ('running', 'done', 'failed')"
    )

    op.create_table(
        "audit_log",
        sa.Column("audit_id", sa.Uuid(), nullable=False),
        sa.Column("at", TIMESTAMP, server_default=sa.text("now()"), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=True),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("details", postgresql.JSONB(), server_default=sa.text("'{}'::jsonb"), nullable=False),
        sa.PrimaryKeyConstraint("audit_id", name=op.f("audit_log_pkey")),
    )
    op.create_index("audit_log_group_id_audit_id_idx", "audit_log", ["group_id", "audit_id"])

    op.add_column("memory_nodes", sa.Column("archived_reason", sa.Text(), nullable=True))
    op.create_index(
        "memory_nodes_expiring_idx",
        "memory_nodes",
        ["group_id", "agent_id", "expires_at"],
        postgresql_where=sa.text("archived_at IS NULL AND expires_at IS NOT NULL"),
    )
    op.create_index(
        "memory_nodes_archived_idx",
        "memory_nodes",
        ["group_id", "agent_id", "node_count"],
        postgresql_where=sa.text("archived_at IS NOT NULL"),
    )


def downgrade() -> None:
    op.drop_index("memory_nodes_archived_idx", table_name="memory_nodes")
    op.drop_index("memory_nodes_expiring_idx", table_name="memory_nodes")
    op.drop_column("memory_nodes", "archived_reason")
    op.drop_table("audit_log")
    op.drop_constraint(op.f("job_ticks_state_check"), "job_ticks", type_="check")
    for column in ("due_by", "attempts", "error", "state"):
        op.drop_column("job_ticks", column)
