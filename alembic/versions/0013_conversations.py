"""Conversations: kinds and addresses of memories, what superseded them, cursors, experiences, profiles, injections, words."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from alembic import op
from models.db.scope import isolate

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

TIMESTAMP = postgresql.TIMESTAMP(timezone=True)
NOW = sa.text("now()")
NO_TEXTS, NO_IDS = sa.text("'{}'::text[]"), sa.text("'{}'::uuid[]")
EMPTY_LIST, EMPTY_OBJECT = sa.text("'[]'::jsonb"), sa.text("'{}'::jsonb")
TABLES = ("extraction_cursors", "experiences", "user_profiles", "injections", "industry_keywords")
HOT = {"postgresql_with": {"fillfactor": 70, "autovacuum_vacuum_scale_factor": 0.02}}


def _of_agent(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["group_id", "agent_id"],
        ["agents.group_id", "agents.agent_id"],
        name=op.f(f"{table}_group_id_fkey"),
        ondelete="CASCADE",
    )


def upgrade() -> None:
    for name in ("kind", "uri", "abstract", "overview"):
        op.add_column("memory_nodes", sa.Column(name, sa.Text(), nullable=True))
    op.add_column("memory_nodes", sa.Column("superseded_by", sa.Uuid(), nullable=True))
    op.add_column("memory_nodes", sa.Column("superseded_at", TIMESTAMP, nullable=True))
    # NOT VALID, then validated: no long lock on a large table; every stored row has no kind.
    op.execute(
        "ALTER TABLE memory_nodes ADD CONSTRAINT memory_nodes_kind_check "
        "CHECK (kind IN ('preference', 'knowledge', 'experience', 'session')) NOT VALID"
    )
    op.execute("ALTER TABLE memory_nodes VALIDATE CONSTRAINT memory_nodes_kind_check")
    op.create_index(
        "memory_nodes_once_idx",
        "memory_nodes",
        ["group_id", "agent_id", "uri", "content_hash"],
        unique=True,
        postgresql_where=sa.text("uri IS NOT NULL AND kind <> 'session' AND superseded_at IS NULL"),
    )
    op.create_index(
        "memory_nodes_turns_idx",
        "memory_nodes",
        ["group_id", "agent_id", "node_count"],
        postgresql_where=sa.text("kind = 'session'"),
    )
    op.create_table(
        "extraction_cursors",
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("extracted_to", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("last_run_at", TIMESTAMP, server_default=NOW, nullable=False),
        _of_agent("extraction_cursors"),
        sa.PrimaryKeyConstraint("group_id", "agent_id", name=op.f("extraction_cursors_pkey")),
        **HOT,
    )
    op.create_table(
        "experiences",
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("pattern_hash", postgresql.BYTEA(), nullable=False),
        sa.Column("node_id", sa.Uuid(), nullable=False),
        sa.Column("pain_pattern", sa.Text(), nullable=False),
        sa.Column("context", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("solution_steps", postgresql.JSONB(), server_default=EMPTY_LIST, nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("confidence", sa.Double(), nullable=False),
        sa.Column("reuse_count", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("tools_used", postgresql.ARRAY(sa.Text()), server_default=NO_TEXTS, nullable=False),
        sa.Column("industry_context", sa.Text(), nullable=True),
        sa.Column("created_at", TIMESTAMP, nullable=False),
        sa.Column("updated_at", TIMESTAMP, nullable=False),
        sa.CheckConstraint(
            "outcome IN ('success', 'partial', 'failed')", name=op.f("experiences_outcome_check")
        ),
        _of_agent("experiences"),
        sa.PrimaryKeyConstraint("group_id", "agent_id", "pattern_hash", name=op.f("experiences_pkey")),
    )
    op.create_index("experiences_node_id_idx", "experiences", ["node_id"])
    op.create_table(
        "user_profiles",
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("industry", sa.Text(), nullable=True),
        sa.Column("role", sa.Text(), nullable=True),
        sa.Column("expertise_level", sa.Text(), nullable=True),
        sa.Column("communication_style", sa.Text(), nullable=True),
        sa.Column("recent_topics", postgresql.ARRAY(sa.Text()), server_default=NO_TEXTS, nullable=False),
        sa.Column("pain_points", postgresql.ARRAY(sa.Text()), server_default=NO_TEXTS, nullable=False),
        sa.Column("preferred_tools", postgresql.ARRAY(sa.Text()), server_default=NO_TEXTS, nullable=False),
        sa.Column("updated_at", TIMESTAMP, nullable=False),
        _of_agent("user_profiles"),
        sa.PrimaryKeyConstraint("group_id", "agent_id", "user_id", name=op.f("user_profiles_pkey")),
    )
    op.create_table(
        "injections",
        sa.Column("injection_id", sa.Uuid(), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=True),
        sa.Column("query", sa.Text(), nullable=False),
        sa.Column("intent", sa.Text(), nullable=False),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("node_ids", postgresql.ARRAY(sa.Uuid()), server_default=NO_IDS, nullable=False),
        sa.Column("reasons", postgresql.JSONB(), server_default=EMPTY_LIST, nullable=False),
        sa.Column("created_at", TIMESTAMP, server_default=NOW, nullable=False),
        _of_agent("injections"),
        sa.PrimaryKeyConstraint("injection_id", name=op.f("injections_pkey")),
    )
    op.create_index(
        "injections_group_id_agent_id_injection_id_idx",
        "injections",
        ["group_id", "agent_id", "injection_id"],
    )
    op.create_table(
        "industry_keywords",
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("industry", sa.Text(), nullable=False),
        sa.Column("keywords", postgresql.JSONB(), server_default=EMPTY_OBJECT, nullable=False),
        sa.ForeignKeyConstraint(
            ["group_id"],
            ["groups.group_id"],
            name=op.f("industry_keywords_group_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("group_id", "industry", name=op.f("industry_keywords_pkey")),
    )
    for table in TABLES:
        for statement in isolate(table):
            op.execute(statement)


def downgrade() -> None:
    op.execute("DELETE FROM pending_work WHERE kind IN ('extract', 'summarize')")
    for table in reversed(TABLES):
        op.drop_table(table)
    op.drop_index("memory_nodes_turns_idx", "memory_nodes")
    op.drop_index("memory_nodes_once_idx", "memory_nodes")
    op.drop_constraint(op.f("memory_nodes_kind_check"), "memory_nodes", type_="check")
    for name in ("superseded_at", "superseded_by", "overview", "abstract", "uri", "kind"):
        op.drop_column("memory_nodes", name)
