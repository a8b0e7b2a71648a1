"""Whose a skill is that rests on what one user said in private. One that mixes several people's is switched off."""

from __future__ import annotations

from alembic import op

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("ALTER TABLE artifacts ADD COLUMN user_id text")
    op.execute("""
        UPDATE artifacts a SET user_id = told.first, enabled = a.enabled AND told.people = 1
        FROM (
            SELECT a.artifact_id, (array_agg(n.user_id ORDER BY n.node_id))[1] AS first, count(DISTINCT n.user_id) AS people
            FROM artifacts a JOIN memory_nodes n ON n.group_id = a.group_id AND n.node_id = ANY(a.evidence)
            WHERE n.user_id IS NOT NULL AND n.visibility IS DISTINCT FROM 'agent'
            GROUP BY a.artifact_id
        ) told
        WHERE told.artifact_id = a.artifact_id
    """)


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("ALTER TABLE artifacts DROP COLUMN user_id")
