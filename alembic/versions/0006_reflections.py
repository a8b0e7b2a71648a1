"""Reflections: when, why, and what came of them."""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op
from sqlalchemy.dialects.postgresql import JSONB, TIMESTAMP

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

TIME = TIMESTAMP(timezone=True)


def upgrade() -> None:
    op.create_table(
        "reflections",
        sa.Column("reflection_id", sa.Uuid(), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("trigger", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("created_at", TIME, server_default=sa.text("now()"), nullable=False),
        sa.Column("started_at", TIME),
        sa.Column("finished_at", TIME),
        sa.Column("focal_points", JSONB(), server_default=sa.text("'[]'::jsonb"), nullable=False),
        sa.Column("thoughts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("llm", sa.Text()),
        sa.Column("error", sa.Text()),
        sa.CheckConstraint(
            "trigger IN ('importance', 'schedule', 'request', 'conversation')",
            name=op.f("reflections_trigger_check"),
        ),
        sa.CheckConstraint(
            "state IN ('owed', 'running', 'waiting', 'done', 'nothing')", name=op.f("reflections_state_check")
        ),
        sa.ForeignKeyConstraint(
            ["group_id", "agent_id"],
            ["agents.group_id", "agents.agent_id"],
            name=op.f("reflections_group_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("reflection_id", name=op.f("reflections_pkey")),
    )
    op.create_index(
        "reflections_group_id_agent_id_created_at_idx", "reflections", ["group_id", "agent_id", "created_at"]
    )
    op.create_index(
        "reflections_one_open_idx",
        "reflections",
        ["group_id", "agent_id"],
        unique=True,
        postgresql_where=sa.text("trigger <> 'conversation' AND state IN ('owed', 'running', 'waiting')"),
    )
    # Reflections that were owed before there was a task for them are done by the new workers like all work owed.


def downgrade() -> None:
    op.execute("DELETE FROM pending_work WHERE kind = 'reflect_conversation'")
    op.drop_table("reflections")
