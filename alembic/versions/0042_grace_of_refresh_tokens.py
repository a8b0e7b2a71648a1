"""What a refresh token that was used a moment ago is answered by once more."""

from __future__ import annotations

from alembic import op

revision = "0042"
down_revision = "0041"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute(
        "ALTER TABLE oauth_connections ADD COLUMN previous_hash bytea, ADD COLUMN seed bytea, ADD COLUMN renewed_at timestamptz"
    )


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute(
        "ALTER TABLE oauth_connections DROP COLUMN previous_hash, DROP COLUMN seed, DROP COLUMN renewed_at"
    )
