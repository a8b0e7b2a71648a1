"""Programs that people let in by OAuth, whose access tokens are keys."""

from __future__ import annotations

from alembic import op
from models.db.scope import isolate

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("""
        CREATE TABLE oauth_connections (
            connection_id uuid PRIMARY KEY,
            user_id uuid NOT NULL REFERENCES users ON DELETE CASCADE,
            group_id text NOT NULL REFERENCES groups ON DELETE CASCADE,
            scopes text[] NOT NULL,
            client text NOT NULL,
            client_hash bytea NOT NULL,
            redirect_uri text NOT NULL,
            challenge text,
            secret_hash bytea NOT NULL,
            created_at timestamptz NOT NULL DEFAULT now(),
            expires_at timestamptz NOT NULL,
            CONSTRAINT oauth_connections_scopes_check CHECK (scopes <@ ARRAY['publish', 'read', 'admin'] AND cardinality(scopes) > 0)
        )
    """)
    for column in ("user_id", "group_id", "expires_at"):
        op.create_index(f"oauth_connections_{column}_idx", "oauth_connections", [column])
    for statement in isolate("oauth_connections"):
        op.execute(statement)
    op.execute("""
        ALTER TABLE api_keys ADD COLUMN connection_id uuid REFERENCES oauth_connections ON DELETE CASCADE,
            ADD CONSTRAINT api_keys_connection_id_key UNIQUE (connection_id)
    """)


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("DELETE FROM api_keys WHERE connection_id IS NOT NULL")  # they are nobody's without it
    op.execute("ALTER TABLE api_keys DROP COLUMN connection_id")
    op.execute("DROP TABLE oauth_connections")
