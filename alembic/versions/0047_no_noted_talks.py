"""When somebody last talked with an agent is read from its turns; nothing notes it beside them any more."""

from __future__ import annotations

from alembic import op

revision = "0047"
down_revision = "0046"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("ALTER TABLE heartbeats DROP COLUMN last_interaction_at")


def downgrade() -> None:
    op.execute("ALTER TABLE heartbeats ADD COLUMN last_interaction_at timestamptz")
