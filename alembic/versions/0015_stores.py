"""Declared stores: their items, files, attachments, the nodes that use them, the log of operations."""

from __future__ import annotations

import sqlalchemy as sa
from pgvector.sqlalchemy import VECTOR
from sqlalchemy.dialects import postgresql

from alembic import op
from models.db.scope import isolate

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

TIMESTAMP = postgresql.TIMESTAMP(timezone=True)
NOW = sa.text("now()")
NO_TEXT, NO_TEXTS, ZERO = sa.text("''"), sa.text("'{}'::text[]"), sa.text("0")
EMPTY_LIST, EMPTY_OBJECT = sa.text("'[]'::jsonb"), sa.text("'{}'::jsonb")
TABLES = ("stores", "store_items", "store_files", "attachments", "store_nodes", "store_operations")
HOT = {"postgresql_with": {"fillfactor": 70, "autovacuum_vacuum_scale_factor": 0.02}}


def _of_store(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["group_id", "store_id"],
        ["stores.group_id", "stores.store_id"],
        name=op.f(f"{table}_group_id_fkey"),
        ondelete="CASCADE",
    )


def upgrade() -> None:
    op.create_table(
        "stores",
        sa.Column("store_id", sa.Uuid(), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), server_default=NO_TEXT, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("config", postgresql.JSONB(), server_default=EMPTY_OBJECT, nullable=False),
        sa.Column("secrets", postgresql.BYTEA(), nullable=True),
        sa.Column("revision", sa.BigInteger(), server_default=ZERO, nullable=False),
        sa.Column("generation", sa.Integer(), server_default=ZERO, nullable=False),
        sa.Column("state", sa.Text(), server_default=sa.text("'ready'"), nullable=False),
        sa.Column("state_reason", sa.Text(), server_default=NO_TEXT, nullable=False),
        sa.Column("loaded_at", TIMESTAMP, nullable=True),
        sa.Column("scanned_at", TIMESTAMP, nullable=True),
        sa.Column("created_at", TIMESTAMP, server_default=NOW, nullable=False),
        sa.Column("used_at", TIMESTAMP, server_default=NOW, nullable=False),
        sa.PrimaryKeyConstraint("store_id", name=op.f("stores_pkey")),
        sa.UniqueConstraint("group_id", "run_id", "name", name=op.f("stores_group_id_run_id_name_key")),
        sa.UniqueConstraint("group_id", "store_id", name=op.f("stores_group_id_store_id_key")),
        **HOT,
    )
    op.create_table(
        "store_items",
        sa.Column("item_id", sa.Uuid(), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("store_id", sa.Uuid(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("position", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("content_summary", sa.Text(), nullable=False),
        sa.Column("content_hash", postgresql.BYTEA(), nullable=False),
        sa.Column("dedupe_hash", postgresql.BYTEA(), nullable=True),
        sa.Column("input_snapshot", postgresql.JSONB(), nullable=True),
        sa.Column("output_snapshot", postgresql.JSONB(), nullable=True),
        sa.Column("metadata", postgresql.JSONB(), server_default=EMPTY_OBJECT, nullable=False),
        sa.Column("attachments", postgresql.ARRAY(sa.Text()), server_default=NO_TEXTS, nullable=False),
        sa.Column("file_id", sa.Uuid(), nullable=True),
        sa.Column("chunk_index", sa.Integer(), nullable=True),
        sa.Column("tokens", sa.Text(), server_default=NO_TEXT, nullable=False),
        sa.Column("embedding", VECTOR(), nullable=True),
        sa.Column("embedding_model", sa.Text(), nullable=True),
        sa.Column("created_at", TIMESTAMP, server_default=NOW, nullable=False),
        sa.CheckConstraint(
            "(embedding IS NULL) = (embedding_model IS NULL)",
            name=op.f("store_items_embedding_has_model_check"),
        ),
        _of_store("store_items"),
        sa.PrimaryKeyConstraint("item_id", name=op.f("store_items_pkey")),
    )
    whose = ["group_id", "store_id"]
    op.create_index("store_items_position_idx", "store_items", [*whose, "position"])
    op.create_index("store_items_revision_idx", "store_items", [*whose, "revision"])
    op.create_index("store_items_once_idx", "store_items", [*whose, "dedupe_hash"], unique=True)
    op.create_index("store_items_key_idx", "store_items", [*whose, "key"], unique=True)
    op.create_index("store_items_content_hash_idx", "store_items", [*whose, "content_hash"])
    op.create_index(
        "store_items_group_id_file_id_idx",
        "store_items",
        ["group_id", "file_id"],
        postgresql_where=sa.text("file_id IS NOT NULL"),
    )
    op.create_index("store_items_attachments_idx", "store_items", ["attachments"], postgresql_using="gin")
    op.create_table(
        "store_files",
        sa.Column("file_id", sa.Uuid(), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("store_id", sa.Uuid(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), server_default=sa.text("'pending'"), nullable=False),
        sa.Column("state_reason", sa.Text(), server_default=NO_TEXT, nullable=False),
        sa.Column("file_hash", postgresql.BYTEA(), nullable=True),
        sa.Column("size", sa.BigInteger(), server_default=ZERO, nullable=False),
        sa.Column("modified_ns", sa.BigInteger(), server_default=ZERO, nullable=False),
        sa.Column("encoding", sa.Text(), server_default=sa.text("'utf-8'"), nullable=False),
        sa.Column("chunk_size", sa.Integer(), nullable=True),
        sa.Column("chunk_overlap", sa.Integer(), nullable=True),
        sa.Column("chunks_count", sa.Integer(), server_default=ZERO, nullable=False),
        sa.Column("seen_at", TIMESTAMP, server_default=NOW, nullable=False),
        sa.Column("indexed_at", TIMESTAMP, nullable=True),
        _of_store("store_files"),
        sa.PrimaryKeyConstraint("file_id", name=op.f("store_files_pkey")),
        sa.UniqueConstraint(
            "group_id",
            "store_id",
            "source",
            "path",
            name=op.f("store_files_group_id_store_id_source_path_key"),
        ),
    )
    op.create_table(
        "attachments",
        sa.Column("store_id", sa.Uuid(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("data", postgresql.BYTEA(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("mime_type", sa.Text(), server_default=NO_TEXT, nullable=False),
        sa.Column("created_at", TIMESTAMP, server_default=NOW, nullable=False),
        _of_store("attachments"),
        sa.PrimaryKeyConstraint("store_id", "sha256", name=op.f("attachments_pkey")),
    )
    op.create_table(
        "store_nodes",
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("graph", sa.Text(), nullable=False),
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("store_name", sa.Text(), nullable=False),
        sa.Column("store_type", sa.Text(), nullable=False),
        sa.Column("retrieve_stage", postgresql.ARRAY(sa.Text()), nullable=True),
        sa.Column("top_k", sa.Integer(), nullable=False),
        sa.Column("similarity_threshold", sa.Double(), nullable=False),
        sa.Column("read", sa.Boolean(), nullable=False),
        sa.Column("write", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("group_id", "graph", "node_id", "number", name=op.f("store_nodes_pkey")),
    )
    op.create_table(
        "store_operations",
        sa.Column("operation_id", sa.Uuid(), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("graph", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("operation_type", sa.Text(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("item_count", sa.Integer(), server_default=ZERO, nullable=False),
        sa.Column("attachment_count", sa.Integer(), server_default=ZERO, nullable=False),
        sa.Column("input_size", sa.Integer(), server_default=ZERO, nullable=False),
        sa.Column("output_size", sa.Integer(), server_default=ZERO, nullable=False),
        sa.Column("duration_ms", sa.Double(), server_default=ZERO, nullable=False),
        sa.Column("stores", postgresql.JSONB(), server_default=EMPTY_LIST, nullable=False),
        sa.Column("created_at", TIMESTAMP, server_default=NOW, nullable=False),
        sa.PrimaryKeyConstraint("operation_id", name=op.f("store_operations_pkey")),
    )
    op.create_index(
        "store_operations_group_id_operation_id_idx", "store_operations", ["group_id", "operation_id"]
    )
    for table in TABLES:
        for statement in isolate(table):
            op.execute(statement)


def downgrade() -> None:
    op.execute(
        "DELETE FROM pending_work WHERE kind IN ('embed_items', 'scan_files', 'index_file', 'send_item')"
    )
    for table in reversed(TABLES):
        op.drop_table(table)
