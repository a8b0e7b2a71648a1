"""Retrievals of late, with what they returned."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from alembic import op
from models.db.scope import isolate

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

TIMESTAMP = postgresql.TIMESTAMP(timezone=True)


def upgrade() -> None:
    op.create_table(
        "retrievals",
        sa.Column("retrieval_id", sa.Uuid(), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("asked_at", TIMESTAMP, nullable=False),
        sa.Column("asked_by", sa.Text(), nullable=False),
        sa.Column("focal_texts", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("options", postgresql.JSONB(), nullable=False),
        sa.Column("ms", sa.Double(), nullable=False),
        sa.Column("found", postgresql.ARRAY(sa.Integer()), nullable=False),
        sa.Column("node_ids", postgresql.ARRAY(sa.Uuid()), nullable=False),
        sa.Column("scores", postgresql.ARRAY(sa.Double()), nullable=False),
        sa.ForeignKeyConstraint(
            ["group_id", "agent_id"],
            ["agents.group_id", "agents.agent_id"],
            name=op.f("retrievals_group_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("retrieval_id", name=op.f("retrievals_pkey")),
    )
    op.create_index("retrievals_group_id_retrieval_id_idx", "retrievals", ["group_id", "retrieval_id"])
    op.create_index(
        "retrievals_group_id_agent_id_retrieval_id_idx",
        "retrievals",
        ["group_id", "agent_id", "retrieval_id"],
    )
    for statement in isolate("retrievals"):
        op.execute(statement)


def downgrade() -> None:
    op.drop_table("retrievals")
