"""How long an injection took; the injections of a whole group in the order of time."""

from __future__ import annotations

from alembic import op

revision = "0053"
down_revision = "0052"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("ALTER TABLE injections ADD COLUMN ms double precision")
    op.execute("CREATE INDEX injections_group_id_injection_id_idx ON injections (group_id, injection_id)")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("DROP INDEX injections_group_id_injection_id_idx")
    op.execute("ALTER TABLE injections DROP COLUMN ms")
