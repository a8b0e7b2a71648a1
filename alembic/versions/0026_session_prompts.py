"""What stays the same of a session's prompts."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from alembic import op
from models.db.scope import isolate

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

TIMESTAMP = postgresql.TIMESTAMP(timezone=True)


def upgrade() -> None:
    op.create_table(
        "session_prompts",
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("opening", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("body", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column(
            "facts", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'::text[]"), nullable=False
        ),
        sa.Column(
            "node_ids", postgresql.ARRAY(sa.Uuid()), server_default=sa.text("'{}'::uuid[]"), nullable=False
        ),
        sa.Column("recalled", postgresql.JSONB(), server_default=sa.text("'[]'::jsonb"), nullable=False),
        sa.Column("made_at", TIMESTAMP, nullable=True),
        sa.ForeignKeyConstraint(
            ["group_id", "agent_id"],
            ["agents.group_id", "agents.agent_id"],
            name=op.f("session_prompts_group_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(
            "group_id", "agent_id", "user_id", "session_id", name=op.f("session_prompts_pkey")
        ),
    )
    op.create_index("session_prompts_made_at_idx", "session_prompts", ["made_at"])
    for statement in isolate("session_prompts"):
        op.execute(statement)


def downgrade() -> None:
    op.drop_table("session_prompts")
