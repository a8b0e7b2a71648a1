"""Quarantine, long-term knowledge with its history, and digests."""

from __future__ import annotations

import sqlalchemy as sa
from pgvector.sqlalchemy import VECTOR
from sqlalchemy.dialects import postgresql

from alembic import op
from models.db.scope import isolate

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

TIMESTAMP = postgresql.TIMESTAMP(timezone=True)
NOW = sa.text("now()")
NO_TEXTS, NO_IDS = sa.text("'{}'::text[]"), sa.text("'{}'::uuid[]")
EMPTY_OBJECT = sa.text("'{}'::jsonb")
TABLES = ("quarantine_logs", "knowledge", "knowledge_history", "digests", "digest_items")
TAKEN = """
    CREATE OR REPLACE FUNCTION jiyi_taken(wanted uuid[]) RETURNS SETOF uuid
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
        SELECT event_id FROM events WHERE event_id = ANY (wanted)
        UNION SELECT node_id FROM memory_nodes WHERE node_id = ANY (wanted) %s
    $$
"""


def upgrade() -> None:
    op.create_table(
        "quarantine_logs",
        sa.Column("entry_id", sa.Uuid(), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=True),
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("node_type", sa.Text(), nullable=True),
        sa.Column("node_name", sa.Text(), nullable=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("content_hash", postgresql.BYTEA(), nullable=False),
        sa.Column("confidence", sa.Double(), nullable=True),
        sa.Column("flags", postgresql.ARRAY(sa.Text()), server_default=NO_TEXTS, nullable=False),
        sa.Column("depth", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("metadata", postgresql.JSONB(), server_default=EMPTY_OBJECT, nullable=False),
        sa.Column("provenance", postgresql.JSONB(), server_default=EMPTY_OBJECT, nullable=False),
        sa.Column("created_at", TIMESTAMP, nullable=False),
        sa.Column("received_at", TIMESTAMP, server_default=NOW, nullable=False),
        sa.Column("screened_at", TIMESTAMP, nullable=True),
        sa.Column("rejected_reason", sa.Text(), nullable=True),
        sa.Column("rejected_details", postgresql.JSONB(), server_default=EMPTY_OBJECT, nullable=False),
        sa.Column("working_until", TIMESTAMP, nullable=True),
        sa.Column("embedding", VECTOR(), nullable=True),
        sa.Column("embedding_model", sa.Text(), nullable=True),
        sa.Column("expired_at", TIMESTAMP, nullable=True),
        sa.Column("promoted_at", TIMESTAMP, nullable=True),
        sa.Column("deleted_at", TIMESTAMP, nullable=True),
        sa.CheckConstraint(
            "(embedding IS NULL) = (embedding_model IS NULL)",
            name=op.f("quarantine_logs_embedding_has_model_check"),
        ),
        sa.PrimaryKeyConstraint("entry_id", name=op.f("quarantine_logs_pkey")),
    )
    op.create_index(
        "quarantine_logs_group_id_created_at_entry_id_idx",
        "quarantine_logs",
        ["group_id", "created_at", "entry_id"],
    )
    op.create_index(
        "quarantine_logs_group_id_received_at_idx", "quarantine_logs", ["group_id", "received_at"]
    )
    op.create_index(
        "quarantine_logs_working_idx",
        "quarantine_logs",
        ["group_id", "working_until"],
        postgresql_where=sa.text("working_until IS NOT NULL AND expired_at IS NULL"),
    )
    op.create_table(
        "knowledge",
        sa.Column("knowledge_id", sa.Uuid(), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=True),
        sa.Column("session_id", sa.Text(), nullable=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("content_hash", postgresql.BYTEA(), nullable=False),
        sa.Column("tokens", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("embedding", VECTOR(), nullable=True),
        sa.Column("embedding_model", sa.Text(), nullable=True),
        sa.Column("metadata", postgresql.JSONB(), server_default=EMPTY_OBJECT, nullable=False),
        sa.Column("created_at", TIMESTAMP, server_default=NOW, nullable=False),
        sa.Column("promoted_at", TIMESTAMP, nullable=False),
        sa.Column("demoted_at", TIMESTAMP, nullable=True),
        sa.Column("replaced_by", sa.Uuid(), nullable=True),
        sa.CheckConstraint(
            "(embedding IS NULL) = (embedding_model IS NULL)",
            name=op.f("knowledge_embedding_has_model_check"),
        ),
        sa.PrimaryKeyConstraint("knowledge_id", name=op.f("knowledge_pkey")),
    )
    op.create_index(
        "knowledge_known_idx",
        "knowledge",
        ["group_id", sa.text("coalesce(agent_id, '')"), "content_hash"],
        unique=True,
        postgresql_where=sa.text("demoted_at IS NULL"),
    )
    op.create_index(
        "knowledge_group_id_promoted_at_knowledge_id_idx",
        "knowledge",
        ["group_id", "promoted_at", "knowledge_id"],
    )
    op.create_table(
        "knowledge_history",
        sa.Column("history_id", sa.Uuid(), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("knowledge_id", sa.Uuid(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("at", TIMESTAMP, server_default=NOW, nullable=False),
        sa.Column("before", sa.Text(), nullable=True),
        sa.Column("after", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("history_id", name=op.f("knowledge_history_pkey")),
    )
    op.create_index(
        "knowledge_history_group_id_knowledge_id_history_id_idx",
        "knowledge_history",
        ["group_id", "knowledge_id", "history_id"],
    )
    op.create_table(
        "digests",
        sa.Column("digest_id", sa.Uuid(), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("since", TIMESTAMP, nullable=False),
        sa.Column("until", TIMESTAMP, nullable=False),
        sa.Column("entries", sa.Integer(), nullable=False),
        sa.Column("older", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("left_out", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("created_at", TIMESTAMP, server_default=NOW, nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("digest_id", name=op.f("digests_pkey")),
    )
    op.create_index("digests_group_id_digest_id_idx", "digests", ["group_id", "digest_id"])
    op.create_table(
        "digest_items",
        sa.Column("digest_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("keywords", postgresql.ARRAY(sa.Text()), server_default=NO_TEXTS, nullable=False),
        sa.Column("entry_ids", postgresql.ARRAY(sa.Uuid()), server_default=NO_IDS, nullable=False),
        sa.Column("evidence", postgresql.ARRAY(sa.Uuid()), server_default=NO_IDS, nullable=False),
        sa.Column("sessions", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("first_at", TIMESTAMP, nullable=False),
        sa.Column("last_at", TIMESTAMP, nullable=False),
        sa.Column("llm", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("digest_id", "number", name=op.f("digest_items_pkey")),
    )
    for table in TABLES:
        for statement in isolate(table):
            op.execute(statement)
    # An entry outlives the record of its event, which may be pruned.
    op.execute(TAKEN % "UNION SELECT entry_id FROM quarantine_logs WHERE entry_id = ANY (wanted)")


def downgrade() -> None:
    op.execute(TAKEN % "")
    op.execute("DELETE FROM pending_work WHERE kind IN ('ingress', 'consistency', 'embed_knowledge')")
    for table in reversed(TABLES):
        op.drop_table(table)
