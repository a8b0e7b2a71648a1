"""Checks of foreign keys to ``memory_nodes`` use its primary key also before the table's first ANALYZE.

Without statistics the planner takes it that a group has 1 in 200 of all memories, so that any small index that begins with
``group_id`` costs no more than the primary key. Connections of the first minute kept such a plan, and each check read all
memories of the group. Until autovacuum knows better, a group has half of them. PostgreSQL 18 can be told so; before, the first
ANALYZE tells it.
"""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

#: The first release with pg_restore_attribute_stats.
POSTGRESQL_18 = 180_000
#: avg_width in bytes; two distinct values.
TELL = sa.text("""
    SELECT pg_restore_attribute_stats(
        'schemaname', current_schema()::text, 'relname', 'memory_nodes', 'attname', 'group_id', 'inherited', false,
        'null_frac', 0::real, 'avg_width', 16, 'n_distinct', 2::real
    )
""")
KNOWN = sa.text("""
    SELECT EXISTS (SELECT FROM pg_stats WHERE schemaname = current_schema() AND tablename = 'memory_nodes' AND attname = 'group_id')
""")


def upgrade() -> None:
    connection = op.get_bind()
    version = connection.execute(
        sa.text("SELECT current_setting('server_version_num')::integer")
    ).scalar_one()
    if version >= POSTGRESQL_18 and not connection.execute(KNOWN).scalar_one():
        connection.execute(TELL)


def downgrade() -> None:
    """Statistics belong to no revision; the next ANALYZE replaces them."""
