"""the main job"""

from __future__ import annotations

import sqlalchemy as sa
from pgvector.sqlalchemy import VECTOR
from sqlalchemy.dialects import postgresql

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("CREATE EXTENSION IF NOT EXISTS vector")
    op.create_table(
        "dead_letters",
        sa.Column("letter_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject_id", sa.Uuid(), nullable=True),
        sa.Column("group_id", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("traceback", sa.Text(), nullable=True),
        sa.Column("body", sa.Text(), nullable=True),
        sa.Column("attempts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("state", sa.Text(), server_default=sa.text("'open'"), nullable=False),
        sa.Column(
            "created_at", postgresql.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.Column("resolved_at", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.CheckConstraint(
            "state IN ('open', 'replayed', 'discarded')", name=op.f("dead_letters_state_check")
        ),
        sa.PrimaryKeyConstraint("letter_id", name=op.f("dead_letters_pkey")),
    )
    op.create_index(
        op.f("dead_letters_state_letter_id_idx"), "dead_letters", ["state", "letter_id"], unique=False
    )
    op.create_index(op.f("dead_letters_subject_id_idx"), "dead_letters", ["subject_id"], unique=False)
    op.create_table(
        "events",
        sa.Column("event_id", sa.Uuid(), nullable=False),
        sa.Column("position", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=True),
        sa.Column("correlation_id", sa.Text(), nullable=True),
        sa.Column("occurred_at", postgresql.TIMESTAMP(timezone=True), nullable=False),
        sa.Column(
            "received_at",
            postgresql.TIMESTAMP(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("payload", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("node_id", sa.Uuid(), nullable=True),
        sa.CheckConstraint(
            "outcome IN ('stored', 'duplicate', 'applied')", name=op.f("events_outcome_check")
        ),
        sa.PrimaryKeyConstraint("event_id", name=op.f("events_pkey")),
    )
    op.create_index(op.f("events_group_id_position_idx"), "events", ["group_id", "position"], unique=False)
    op.create_table(
        "groups",
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column(
            "created_at", postgresql.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.PrimaryKeyConstraint("group_id", name=op.f("groups_pkey")),
    )
    op.create_table(
        "job_ticks",
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("slot", postgresql.TIMESTAMP(timezone=True), nullable=False),
        sa.Column(
            "started_at", postgresql.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.Column("finished_at", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.Column(
            "summary",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'::jsonb"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("job", "slot", name=op.f("job_ticks_pkey")),
    )
    op.create_table(
        "pending_work",
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject_id", sa.Uuid(), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column(
            "due_at", postgresql.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.Column("attempts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column(
            "created_at", postgresql.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.PrimaryKeyConstraint("kind", "subject_id", name=op.f("pending_work_pkey")),
        postgresql_with={"fillfactor": 70, "autovacuum_vacuum_scale_factor": 0.02},
    )
    op.create_index(op.f("pending_work_kind_due_at_idx"), "pending_work", ["kind", "due_at"], unique=False)
    op.create_table(
        "agents",
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("agent_key", sa.Uuid(), nullable=False),
        sa.Column(
            "settings",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'::jsonb"),
            nullable=False,
        ),
        sa.Column("node_count", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column(
            "type_counts",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'::jsonb"),
            nullable=False,
        ),
        sa.Column("importance_trigger_curr", sa.Double(), nullable=False),
        sa.Column("importance_ele_n", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column(
            "created_at", postgresql.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.ForeignKeyConstraint(
            ["group_id"], ["groups.group_id"], name=op.f("agents_group_id_fkey"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("group_id", "agent_id", name=op.f("agents_pkey")),
        sa.UniqueConstraint("agent_key", name=op.f("agents_agent_key_key")),
        postgresql_with={"fillfactor": 70, "autovacuum_vacuum_scale_factor": 0.02},
    )
    op.create_table(
        "kw_strength",
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("memory_type", sa.Text(), nullable=False),
        sa.Column("keyword", sa.Text(), nullable=False),
        sa.Column("strength", sa.Integer(), nullable=False),
        sa.CheckConstraint("memory_type IN ('event', 'thought')", name=op.f("kw_strength_memory_type_check")),
        sa.ForeignKeyConstraint(
            ["group_id", "agent_id"],
            ["agents.group_id", "agents.agent_id"],
            name=op.f("kw_strength_group_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(
            "group_id", "agent_id", "memory_type", "keyword", name=op.f("kw_strength_pkey")
        ),
        postgresql_with={"fillfactor": 70, "autovacuum_vacuum_scale_factor": 0.02},
    )
    op.create_table(
        "memory_nodes",
        sa.Column("node_id", sa.Uuid(), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=True),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("node_count", sa.Integer(), nullable=False),
        sa.Column("type_count", sa.Integer(), nullable=False),
        sa.Column("depth", sa.Integer(), nullable=False),
        sa.Column("created_at", postgresql.TIMESTAMP(timezone=True), nullable=False),
        sa.Column(
            "stored_at", postgresql.TIMESTAMP(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.Column("expires_at", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("archived_at", postgresql.TIMESTAMP(timezone=True), nullable=True),
        sa.Column("subject", sa.Text(), nullable=True),
        sa.Column("predicate", sa.Text(), nullable=True),
        sa.Column("object", sa.Text(), nullable=True),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("embedding_key", sa.Text(), nullable=False),
        sa.Column("key_hash", postgresql.BYTEA(), nullable=False),
        sa.Column("content_hash", postgresql.BYTEA(), nullable=False),
        sa.Column("keywords", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("keywords_lower", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("poignancy", sa.Double(), nullable=True),
        sa.Column("is_idle", sa.Boolean(), nullable=False),
        sa.Column(
            "filling",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'[]'::jsonb"),
            nullable=False,
        ),
        sa.Column(
            "provenance",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'::jsonb"),
            nullable=False,
        ),
        sa.Column("embedding", VECTOR(), nullable=True),
        sa.Column("embedding_model", sa.Text(), nullable=True),
        sa.CheckConstraint("type IN ('event', 'thought', 'chat')", name=op.f("memory_nodes_type_check")),
        sa.CheckConstraint(
            "(embedding IS NULL) = (embedding_model IS NULL)",
            name=op.f("memory_nodes_embedding_has_model_check"),
        ),
        sa.ForeignKeyConstraint(
            ["group_id", "agent_id"],
            ["agents.group_id", "agents.agent_id"],
            name=op.f("memory_nodes_group_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("node_id", name=op.f("memory_nodes_pkey")),
    )
    op.create_index(
        op.f("memory_nodes_group_id_agent_id_content_hash_idx"),
        "memory_nodes",
        ["group_id", "agent_id", "content_hash"],
        unique=False,
    )
    op.create_index(
        op.f("memory_nodes_group_id_agent_id_node_count_idx"),
        "memory_nodes",
        ["group_id", "agent_id", "node_count"],
        unique=True,
    )
    op.create_index(
        op.f("memory_nodes_group_id_agent_id_type_type_count_idx"),
        "memory_nodes",
        ["group_id", "agent_id", "type", "type_count"],
        unique=True,
    )
    op.create_index(
        "memory_nodes_keywords_idx", "memory_nodes", ["keywords_lower"], unique=False, postgresql_using="gin"
    )
    op.create_index(
        "memory_nodes_vector_by_text_idx",
        "memory_nodes",
        ["group_id", "key_hash", "embedding_model"],
        unique=False,
        postgresql_where=sa.text("embedding IS NOT NULL"),
    )
    op.create_table(
        "node_access",
        sa.Column("node_id", sa.Uuid(), nullable=False),
        sa.Column("last_accessed", postgresql.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("access_count", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.ForeignKeyConstraint(
            ["node_id"], ["memory_nodes.node_id"], name=op.f("node_access_node_id_fkey"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("node_id", name=op.f("node_access_pkey")),
        postgresql_with={"fillfactor": 70, "autovacuum_vacuum_scale_factor": 0.02},
    )


def downgrade() -> None:
    op.drop_table("node_access")
    op.drop_index(
        "memory_nodes_vector_by_text_idx",
        table_name="memory_nodes",
        postgresql_where=sa.text("embedding IS NOT NULL"),
    )
    op.drop_index("memory_nodes_keywords_idx", table_name="memory_nodes", postgresql_using="gin")
    op.drop_index(op.f("memory_nodes_group_id_agent_id_type_type_count_idx"), table_name="memory_nodes")
    op.drop_index(op.f("memory_nodes_group_id_agent_id_node_count_idx"), table_name="memory_nodes")
    op.drop_index(op.f("memory_nodes_group_id_agent_id_content_hash_idx"), table_name="memory_nodes")
    op.drop_table("memory_nodes")
    op.drop_table("kw_strength")
    op.drop_table("agents")
    op.drop_index(op.f("pending_work_kind_due_at_idx"), table_name="pending_work")
    op.drop_table("pending_work")
    op.drop_table("job_ticks")
    op.drop_table("groups")
    op.drop_index(op.f("events_group_id_position_idx"), table_name="events")
    op.drop_table("events")
    op.drop_index(op.f("dead_letters_subject_id_idx"), table_name="dead_letters")
    op.drop_index(op.f("dead_letters_state_letter_id_idx"), table_name="dead_letters")
    op.drop_table("dead_letters")
