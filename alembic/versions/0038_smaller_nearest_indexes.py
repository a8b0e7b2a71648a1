"""Indexes of large agents' vectors hold half as many bytes. They are made anew by the workers; until then these agents are answered from memory."""

from __future__ import annotations

from sqlalchemy import text

from alembic import op

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None

INDEXES = text("""
    SELECT indexname FROM pg_indexes
    WHERE schemaname = current_schema() AND tablename = 'memory_nodes' AND starts_with(indexname, 'memory_nodes_nearest_')
""")


def upgrade() -> None:
    make_anew()


def downgrade() -> None:
    make_anew()


def make_anew() -> None:
    """Drop the indexes, and owe large agents theirs."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    for name in op.get_bind().execute(INDEXES).scalars().all():
        op.execute(f"DROP INDEX {name}")
    op.execute("UPDATE agents SET large_ready_at = NULL WHERE large_from IS NOT NULL")
    op.execute("""
        INSERT INTO pending_work (kind, subject_id, group_id)
        SELECT 'enlarge', agent_key, group_id FROM agents WHERE large_from IS NOT NULL ON CONFLICT DO NOTHING
    """)
