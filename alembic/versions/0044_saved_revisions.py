"""A store of files knows which revision of its index is in its file, which is written whenever the index has changed."""

from __future__ import annotations

from alembic import op

revision = "0044"
down_revision = "0043"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("ALTER TABLE stores ADD COLUMN IF NOT EXISTS saved_revision bigint")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("ALTER TABLE stores DROP COLUMN saved_revision")
