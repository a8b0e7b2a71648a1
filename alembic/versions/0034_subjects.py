"""Whose account somebody is at a provider of OpenID Connect."""

from __future__ import annotations

from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("ALTER TABLE users ADD COLUMN subject text, ADD CONSTRAINT users_subject_key UNIQUE (subject)")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("ALTER TABLE users DROP COLUMN subject")
