"""Erasure: what is under way and what was done, tombstones of events, and the generation of an agent's indexes."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from alembic import op
from models.db.scope import isolate

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

TIMESTAMP = postgresql.TIMESTAMP(timezone=True)
OUTCOMES = "'stored', 'duplicate', 'applied'"


def upgrade() -> None:
    op.add_column(
        "agents", sa.Column("generation", sa.BigInteger(), server_default=sa.text("0"), nullable=False)
    )
    _outcomes(f"{OUTCOMES}, 'erased'")
    op.create_table(
        "erasures",
        sa.Column("erasure_id", sa.Uuid(), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("what", postgresql.JSONB(), nullable=False),
        sa.Column("state", sa.Text(), server_default=sa.text("'owed'"), nullable=False),
        sa.Column("step", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("place", postgresql.JSONB(), server_default=sa.text("'{}'::jsonb"), nullable=False),
        sa.Column("requested_by", sa.Text(), nullable=False),
        sa.Column("created_at", TIMESTAMP, server_default=sa.text("now()"), nullable=False),
        sa.Column("finished_at", TIMESTAMP, nullable=True),
        sa.Column("report", postgresql.JSONB(), nullable=True),
        sa.CheckConstraint("kind IN ('agent', 'person', 'nodes')", name=op.f("erasures_kind_check")),
        sa.CheckConstraint(
            "state IN ('owed', 'running', 'incomplete', 'done')", name=op.f("erasures_state_check")
        ),
        sa.PrimaryKeyConstraint("erasure_id", name=op.f("erasures_pkey")),
    )
    op.create_index("erasures_group_id_erasure_id_idx", "erasures", ["group_id", "erasure_id"])
    op.create_index(
        "erasures_open_idx", "erasures", ["group_id"], postgresql_where=sa.text("state <> 'done'")
    )
    op.create_table(
        "erasing_ids",
        sa.Column("erasure_id", sa.Uuid(), nullable=False),
        sa.Column("subject_id", sa.Uuid(), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["erasure_id"],
            ["erasures.erasure_id"],
            name=op.f("erasing_ids_erasure_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("erasure_id", "subject_id", name=op.f("erasing_ids_pkey")),
    )
    op.create_index("erasing_ids_subject_id_idx", "erasing_ids", ["subject_id"])
    for table in ("erasures", "erasing_ids"):
        for statement in isolate(table):
            op.execute(statement)


def downgrade() -> None:
    op.execute("DELETE FROM pending_work WHERE kind = 'erase'")
    op.drop_table("erasing_ids")
    op.drop_table("erasures")
    op.execute(
        "UPDATE events SET outcome = 'applied' WHERE outcome = 'erased'"
    )  # still nothing, and still known
    _outcomes(OUTCOMES)
    op.drop_column("agents", "generation")


def _outcomes(known: str) -> None:
    """NOT VALID, then validated: no long lock on a large table; what is stored fits the wider list anyhow."""
    op.drop_constraint(op.f("events_outcome_check"), "events", type_="check")
    op.execute(
        f"ALTER TABLE events ADD CONSTRAINT events_outcome_check CHECK (outcome IN ({known})) NOT VALID"
    )
    op.execute("ALTER TABLE events VALIDATE CONSTRAINT events_outcome_check")
