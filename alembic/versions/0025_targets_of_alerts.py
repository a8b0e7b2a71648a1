"""An alert of a schedule says what is to be started: an agent, a hand or a workflow."""

from __future__ import annotations

from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE alerts ADD COLUMN target_type text, ADD COLUMN target_id text")


def downgrade() -> None:
    op.execute("ALTER TABLE alerts DROP COLUMN target_type, DROP COLUMN target_id")
