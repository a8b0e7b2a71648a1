"""Whether memories have words of health, with an index by which a prompt's vital lines are found; revision 0052 fills it."""

from __future__ import annotations

from alembic import op

revision = "0048"
down_revision = "0047"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("ALTER TABLE memory_nodes ADD COLUMN health boolean")
    op.execute(
        "CREATE INDEX memory_nodes_health_idx ON memory_nodes (group_id, agent_id, created_at) WHERE health"
    )


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("ALTER TABLE memory_nodes DROP COLUMN health")
