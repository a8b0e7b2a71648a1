"""Ids that events bring are unique in their group, no longer in the whole service.

The new keys' indexes are built beside the running service, then take the old ones' place in a moment. Code of the revision
before goes on: it finds what it looks for, and what it cannot do meanwhile (a conversation's reflection, a re-embedding) is
owed and tried again. The function ``jiyi_taken`` is left for it.
"""

from __future__ import annotations

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

#: Table → the columns that were its primary key.
KEYS = {
    "events": "event_id",
    "memory_nodes": "node_id",
    "node_access": "node_id",
    "next_vectors": "node_id",
    "pending_work": "kind, subject_id",
    "quarantine_logs": "entry_id",
    "reflections": "reflection_id",
}
#: Tables whose rows belong to a memory.
BESIDE_NODES = ("node_access", "next_vectors")


def upgrade() -> None:
    _rekey({table: f"{columns}, group_id" for table, columns in KEYS.items()}, "node_id, group_id")


def downgrade() -> None:
    """Fails, and changes nothing, once two groups have events of the same id."""
    _rekey(KEYS, "node_id")


def _rekey(keys: dict[str, str], reference: str) -> None:
    with op.get_context().autocommit_block():
        for table, columns in keys.items():
            op.execute(
                f"DROP INDEX CONCURRENTLY IF EXISTS {table}_next_key"
            )  # of an attempt that was interrupted
            op.execute(f"CREATE UNIQUE INDEX CONCURRENTLY {table}_next_key ON {table} ({columns})")
    for table in BESIDE_NODES:
        op.execute(f"ALTER TABLE {table} DROP CONSTRAINT {table}_node_id_fkey")
    for table in keys:
        op.execute(
            f"ALTER TABLE {table} DROP CONSTRAINT {table}_pkey, ADD CONSTRAINT {table}_pkey PRIMARY KEY USING INDEX {table}_next_key"
        )
    for table in BESIDE_NODES:
        op.execute(f"""
            ALTER TABLE {table} ADD CONSTRAINT {table}_node_id_fkey FOREIGN KEY ({reference})
            REFERENCES memory_nodes ({reference}) ON DELETE CASCADE NOT VALID
        """)
    with op.get_context().autocommit_block():  # reads both tables, and holds up nobody
        for table in BESIDE_NODES:
            op.execute(f"ALTER TABLE {table} VALIDATE CONSTRAINT {table}_node_id_fkey")
