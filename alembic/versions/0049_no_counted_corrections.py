"""Heartbeats count no corrections any more: programs report what hurts a user as pain points."""

from __future__ import annotations

from alembic import op

revision = "0049"
down_revision = "0048"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("ALTER TABLE heartbeats DROP COLUMN corrections")


def downgrade() -> None:
    op.execute("ALTER TABLE heartbeats ADD COLUMN corrections jsonb NOT NULL DEFAULT '{}'")
