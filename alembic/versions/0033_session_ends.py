"""Up to where an agent's sessions have ended."""

from __future__ import annotations

from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute(
        "ALTER TABLE extraction_cursors ADD COLUMN ended_at_count integer NOT NULL DEFAULT 0, ALTER COLUMN last_run_at DROP NOT NULL"
    )


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("UPDATE extraction_cursors SET last_run_at = now() WHERE last_run_at IS NULL")
    op.execute(
        "ALTER TABLE extraction_cursors DROP COLUMN ended_at_count, ALTER COLUMN last_run_at SET NOT NULL"
    )
