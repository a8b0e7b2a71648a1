"""Which user of an agent a memory comes from, and who is told it; beside the query's filter a policy hides what others told in private."""

from __future__ import annotations

from alembic import op
from models.db.scope import hide_from_others

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None

#: Table → which of its rows a user may see.
POLICIES = {
    "memory_nodes": "user_id IS NULL OR visibility = 'agent' OR user_id = {user}",
    "events": "payload ->> 'user_id' IS NULL OR payload ->> 'visibility' = 'agent' OR payload ->> 'user_id' = {user}",
    "experiences": "EXISTS (SELECT FROM memory_nodes n WHERE n.group_id = experiences.group_id AND n.node_id = experiences.node_id)",
    "user_profiles": "user_id = {user}",
    "injections": "user_id IS NULL OR user_id = {user}",
    "session_prompts": "user_id IN ('', {user})",
    "retrievals": "options ->> 'user_id' IS NULL OR options ->> 'user_id' = {user}",
}
#: Index → its columns, and of which rows.
INDEXES = {
    "memory_nodes_people_idx": "(group_id, agent_id, user_id, node_count) WHERE user_id IS NOT NULL",
    "memory_nodes_shared_idx": "(group_id, agent_id, node_count) WHERE large AND (user_id IS NULL OR visibility = 'agent')",
}


def upgrade() -> None:
    op.execute(
        "ALTER TABLE memory_nodes ADD COLUMN IF NOT EXISTS user_id text, ADD COLUMN IF NOT EXISTS visibility text"
    )
    op.execute("ALTER TABLE injections ADD COLUMN IF NOT EXISTS user_id text")
    # NOT VALID, then validated: no long lock on a large table; every stored row has none.
    op.execute(
        "ALTER TABLE memory_nodes DROP CONSTRAINT IF EXISTS memory_nodes_visibility_check"
    )  # of an attempt that was interrupted
    op.execute(
        "ALTER TABLE memory_nodes ADD CONSTRAINT memory_nodes_visibility_check CHECK (visibility IN ('user', 'agent')) NOT VALID"
    )
    op.execute("ALTER TABLE memory_nodes VALIDATE CONSTRAINT memory_nodes_visibility_check")
    for table, condition in POLICIES.items():
        op.execute(f"DROP POLICY IF EXISTS people ON {table}")
        op.execute(hide_from_others(table, condition))
    with op.get_context().autocommit_block():
        for name, of in INDEXES.items():
            op.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
            op.execute(f"CREATE INDEX CONCURRENTLY {name} ON memory_nodes {of}")


def downgrade() -> None:
    for name in INDEXES:
        op.drop_index(name, "memory_nodes")
    for table in POLICIES:
        op.execute(f"DROP POLICY people ON {table}")
    op.execute("ALTER TABLE memory_nodes DROP CONSTRAINT memory_nodes_visibility_check")
    op.execute("ALTER TABLE injections DROP COLUMN user_id")
    op.execute("ALTER TABLE memory_nodes DROP COLUMN user_id, DROP COLUMN visibility")
