"""Items: JSON values under a namespace and a key, with the texts that they are found by."""

from __future__ import annotations

import sqlalchemy as sa
from pgvector.sqlalchemy import VECTOR
from sqlalchemy.dialects import postgresql

from alembic import op
from models.db.scope import isolate

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

TIMESTAMP = postgresql.TIMESTAMP(timezone=True)
NOW = sa.text("now()")
TABLES = ("items", "item_texts")


def upgrade() -> None:
    op.create_table(
        "items",
        sa.Column("item_id", sa.Uuid(), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("namespace", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", postgresql.JSONB(), nullable=False),
        sa.Column("created_at", TIMESTAMP, server_default=NOW, nullable=False),
        sa.Column("updated_at", TIMESTAMP, server_default=NOW, nullable=False),
        sa.Column("ttl_minutes", sa.Double(), nullable=True),
        sa.Column("expires_at", TIMESTAMP, nullable=True),
        sa.ForeignKeyConstraint(
            ["group_id"], ["groups.group_id"], name=op.f("items_group_id_fkey"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("item_id", name=op.f("items_pkey")),
        sa.UniqueConstraint("group_id", "namespace", "key", name=op.f("items_group_id_namespace_key_key")),
    )
    op.create_index(
        "items_expires_at_idx", "items", ["expires_at"], postgresql_where=sa.text("expires_at IS NOT NULL")
    )
    op.create_table(
        "item_texts",
        sa.Column("item_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("embedding", VECTOR(), nullable=True),
        sa.Column("embedding_model", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "(embedding IS NULL) = (embedding_model IS NULL)",
            name=op.f("item_texts_embedding_has_model_check"),
        ),
        sa.ForeignKeyConstraint(
            ["item_id"], ["items.item_id"], name=op.f("item_texts_item_id_fkey"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("item_id", "number", name=op.f("item_texts_pkey")),
    )
    for table in TABLES:
        for statement in isolate(table):
            op.execute(statement)


def downgrade() -> None:
    op.execute("DELETE FROM pending_work WHERE kind = 'embed_values'")
    for table in reversed(TABLES):
        op.drop_table(table)
