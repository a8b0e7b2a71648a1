"""A user called like the agent is a user like any other, user ids are compared after NFC, and what has a user is hidden from other users.

What was kept of nobody had the agent's name for a user. Where a user has that name, a profile that may mix the two goes: it is made of what
is said, and comes back with that. What is kept under a hash of a user's name (repetitions, experiences) is not looked for again.
"""

from __future__ import annotations

from alembic import op
from models.db.scope import hide_from_others

revision = "0043"
down_revision = "0042"
branch_labels = None
depends_on = None

#: Table → which of its rows a user may see.
POLICIES = dict.fromkeys(("artifacts", "pain_points", "schedules"), "user_id IS NULL OR user_id = {user}")
#: Tables with a user that is no part of a key.
OF_USERS = ("memory_nodes", "injections", *POLICIES)
_IS_A_USER = """
    EXISTS (SELECT FROM memory_nodes n WHERE n.group_id = t.group_id AND n.agent_id = t.agent_id AND n.user_id = t.agent_id)
"""


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("ALTER TABLE pain_points ALTER COLUMN user_id DROP NOT NULL")
    op.execute(f"DELETE FROM user_profiles t WHERE user_id = agent_id AND {_IS_A_USER}")  # noqa: S608 – no value
    op.execute("UPDATE user_profiles SET user_id = '' WHERE user_id = agent_id")
    op.execute(f"UPDATE pain_points t SET user_id = NULL WHERE user_id = agent_id AND NOT {_IS_A_USER}")  # noqa: S608 – no value
    for table in OF_USERS:
        changed = (
            ", changed_xid = pg_current_xact_id()" if table == "memory_nodes" else ""
        )  # indexes in memory read it again
        where = "user_id IS NOT NULL AND user_id IS NOT NFC NORMALIZED"
        op.execute(f"UPDATE {table} SET user_id = normalize(user_id, NFC){changed} WHERE {where}")  # noqa: S608 – no value
    for table, column in (("events", "payload"), ("retrievals", "options")):
        op.execute(f"""
            UPDATE {table} SET {column} = jsonb_set({column}, '{{user_id}}', to_jsonb(normalize({column} ->> 'user_id', NFC)))
            WHERE {column} ->> 'user_id' IS NOT NFC NORMALIZED
        """)  # noqa: S608 – no value
    op.execute("DELETE FROM session_prompts WHERE user_id IS NOT NFC NORMALIZED")  # they are made again
    # Of several spellings the one that was used last.
    op.execute("""
        DELETE FROM user_profiles p USING user_profiles later
        WHERE (p.group_id, p.agent_id, normalize(p.user_id, NFC)) = (later.group_id, later.agent_id, normalize(later.user_id, NFC))
          AND (p.updated_at, p.user_id) < (later.updated_at, later.user_id)
          AND (p.user_id IS NOT NFC NORMALIZED OR later.user_id IS NOT NFC NORMALIZED)
    """)
    op.execute(
        "UPDATE user_profiles SET user_id = normalize(user_id, NFC) WHERE user_id IS NOT NFC NORMALIZED"
    )
    for table, condition in POLICIES.items():
        op.execute(f"DROP POLICY IF EXISTS people ON {table}")
        op.execute(hide_from_others(table, condition))


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    for table in POLICIES:
        op.execute(f"DROP POLICY people ON {table}")
    op.execute("UPDATE user_profiles SET user_id = agent_id WHERE user_id = ''")
    op.execute("UPDATE pain_points SET user_id = agent_id WHERE user_id IS NULL")
    op.execute("ALTER TABLE pain_points ALTER COLUMN user_id SET NOT NULL")
