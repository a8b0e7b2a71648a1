"""A schedule is of the user who asked for it: "what have I planned?" tells nobody what others planned."""

from __future__ import annotations

from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("ALTER TABLE schedules ADD COLUMN user_id text")


def downgrade() -> None:
    op.execute("ALTER TABLE schedules DROP COLUMN user_id")
