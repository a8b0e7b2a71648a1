"""Pending work is claimed by group in turn: an index by kind, group and time takes the place of the one by kind and time.

Built and dropped beside the running service. The previous code goes on with it: it sorts what is due instead of reading it in order.
"""

from __future__ import annotations

from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

OLD, NEW = "pending_work_kind_due_at_idx", "pending_work_kind_group_id_due_at_idx"


def upgrade() -> None:
    _replace(OLD, NEW, "kind, group_id, due_at")


def downgrade() -> None:
    _replace(NEW, OLD, "kind, due_at")


def _replace(old: str, new: str, columns: str) -> None:
    with op.get_context().autocommit_block():
        op.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {new}")  # of an attempt that was interrupted
        op.execute(f"CREATE INDEX CONCURRENTLY {new} ON pending_work ({columns})")
        op.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {old}")
