"""API keys, and people who sign in."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from alembic import op
from models.db.scope import isolate

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

TIMESTAMP = postgresql.TIMESTAMP(timezone=True)
NOW = sa.text("now()")
WHOLE_SERVICE = "(SELECT current_setting('jiyi.whole_service', true)) = 'on'"


def upgrade() -> None:
    op.create_table(
        "api_keys",
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=True),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("scopes", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("secret_hash", postgresql.BYTEA(), nullable=False),
        sa.Column("signing_key", postgresql.BYTEA(), nullable=False),
        sa.Column("created_at", TIMESTAMP, server_default=NOW, nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("expires_at", TIMESTAMP, nullable=True),
        sa.Column("revoked_at", TIMESTAMP, nullable=True),
        sa.Column("last_used_at", TIMESTAMP, nullable=True),
        sa.CheckConstraint(
            "scopes <@ ARRAY['publish', 'read', 'admin', 'operator'] AND cardinality(scopes) > 0",
            name=op.f("api_keys_scopes_check"),
        ),
        sa.CheckConstraint(
            "(group_id IS NULL) = ('operator' = ANY(scopes))", name=op.f("api_keys_group_check")
        ),
        sa.ForeignKeyConstraint(
            ["group_id"], ["groups.group_id"], name=op.f("api_keys_group_id_fkey"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("key_id", name=op.f("api_keys_pkey")),
    )
    op.create_index("api_keys_group_id_created_at_idx", "api_keys", ["group_id", "created_at"])
    op.create_table(
        "users",
        sa.Column("user_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("password_hash", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("groups", postgresql.ARRAY(sa.Text()), nullable=True),
        sa.Column("epoch", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("created_at", TIMESTAMP, server_default=NOW, nullable=False),
        sa.Column("last_seen_at", TIMESTAMP, nullable=True),
        sa.Column("disabled_at", TIMESTAMP, nullable=True),
        sa.CheckConstraint("role IN ('operator', 'admin', 'viewer')", name=op.f("users_role_check")),
        sa.PrimaryKeyConstraint("user_id", name=op.f("users_pkey")),
        sa.UniqueConstraint("name", name=op.f("users_name_key")),
    )
    for statement in isolate("api_keys"):
        op.execute(statement)
    # People are the whole service's.
    op.execute("ALTER TABLE users ENABLE ROW LEVEL SECURITY")
    op.execute(f"CREATE POLICY whole_service ON users USING ({WHOLE_SERVICE}) WITH CHECK ({WHOLE_SERVICE})")


def downgrade() -> None:
    op.drop_table("users")
    op.drop_table("api_keys")
