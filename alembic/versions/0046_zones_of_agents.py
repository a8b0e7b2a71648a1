"""An agent has one time zone, with its other settings: not only its quiet hours have one, but its users' days, too."""

from __future__ import annotations

from alembic import op

revision = "0046"
down_revision = "0045"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("""
        UPDATE agents a SET settings = a.settings || jsonb_build_object('tz', h.tz)
        FROM heartbeats h WHERE h.group_id = a.group_id AND h.agent_id = a.agent_id AND h.tz <> 'UTC'
    """)
    op.execute("ALTER TABLE heartbeats DROP COLUMN tz")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("ALTER TABLE heartbeats ADD COLUMN tz text NOT NULL DEFAULT 'UTC'")
    op.execute("""
        UPDATE heartbeats h SET tz = a.settings ->> 'tz'
        FROM agents a WHERE h.group_id = a.group_id AND h.agent_id = a.agent_id AND a.settings ? 'tz'
    """)
    op.execute("UPDATE agents SET settings = settings - 'tz' WHERE settings ? 'tz'")
