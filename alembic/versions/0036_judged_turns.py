"""What people say of turns: whether they are worth remembering."""

from __future__ import annotations

from alembic import op
from models.db.scope import isolate

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("""
        CREATE TABLE judged_turns (
            group_id text NOT NULL,
            node_id uuid NOT NULL,
            lasting boolean NOT NULL,
            judged_at timestamptz NOT NULL DEFAULT now(),
            PRIMARY KEY (group_id, node_id),
            FOREIGN KEY (node_id, group_id) REFERENCES memory_nodes (node_id, group_id) ON DELETE CASCADE
        )
    """)
    for statement in isolate("judged_turns"):
        op.execute(statement)


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("DROP TABLE judged_turns")
