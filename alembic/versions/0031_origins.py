"""Where each memory comes from, and how far it is trusted. Of stored ones what their columns tell; all others count as their user's.

The search of large agents by words asks for all filters before it takes the best; the code of the revision before goes on with the
function that asks for some.
"""

from __future__ import annotations

from alembic import op
from models.db.scope import ROLE

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None

#: (Which of an agent's memories, origin, trust), as ``jiyi.protocol.origins`` has them.
TOLD = (
    ("n.type = 'thought' AND starts_with(n.provenance ->> 'llm', 'rules')", "rules", 0.8),
    ("n.type = 'thought' AND NOT starts_with(n.provenance ->> 'llm', 'rules')", "model", 0.7),
    ("n.kind = 'session' AND n.provenance ->> 'role' IN ('assistant', 'system')", "assistant", 0.5),
    ("n.kind = 'session' AND n.provenance ->> 'role' = 'tool'", "tool", 0.3),
)
#: With the request's filters, and the best only. It is its owner's (see migration 0008), so it asks for the scope by itself.
BEST_WITH_TERMS = """
    CREATE OR REPLACE FUNCTION jiyi_best_with_terms(
        wanted_group text, wanted_agent text, terms text[], weights float8[], wanted_types text[], wanted_kinds text[], wanted_user text,
        wanted_after timestamptz, wanted_before timestamptz, wanted_session text, wanted_keywords text[], wanted_origins text[],
        least_trust float8, wanted_now timestamptz, wanted_as_of timestamptz, with_archived bool, with_superseded bool, most int
    ) RETURNS SETOF uuid LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
        SELECT n.node_id FROM memory_nodes n
        WHERE (current_setting('jiyi.whole_service', true) = 'on'
                OR wanted_group = ANY (nullif(current_setting('jiyi.groups', true), '')::text[]))
            AND n.group_id = wanted_group AND n.agent_id = wanted_agent AND n.large
            AND string_to_array(n.tokens, ' ') && terms AND n.type = ANY (wanted_types) AND NOT n.is_idle
            AND coalesce(n.kind, 'memory') = ANY (wanted_kinds)
            AND (n.user_id IS NULL OR n.visibility = 'agent' OR n.user_id = wanted_user)
            AND (wanted_after IS NULL OR n.created_at >= wanted_after) AND (wanted_before IS NULL OR n.created_at < wanted_before)
            AND (wanted_session IS NULL OR n.session_id = wanted_session)
            AND (wanted_keywords IS NULL OR n.keywords_lower && wanted_keywords)
            AND (wanted_origins IS NULL OR n.origin = ANY (wanted_origins)) AND (least_trust IS NULL OR n.trust >= least_trust)
            AND (wanted_now IS NULL OR n.expires_at IS NULL OR n.expires_at > wanted_now)
            AND (wanted_as_of IS NULL OR n.stored_at <= wanted_as_of)
            AND (with_archived OR n.archived_at IS NULL OR n.archived_at > wanted_as_of)
            AND (with_superseded OR n.superseded_at IS NULL OR coalesce(n.superseded_since, n.superseded_at) > wanted_as_of)
        ORDER BY (
            SELECT sum(weight) FROM unnest(terms, weights) AS w(term, weight)
            WHERE term = ANY (string_to_array(n.tokens, ' '))
        ) DESC, n.node_count DESC LIMIT most
    $$
"""


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("""
        ALTER TABLE memory_nodes ADD COLUMN IF NOT EXISTS origin text NOT NULL DEFAULT 'user',
            ADD COLUMN IF NOT EXISTS trust double precision NOT NULL DEFAULT 0.8
    """)
    # NOT VALID, then validated: no long lock on a large table; every stored row has the default.
    op.execute(
        "ALTER TABLE memory_nodes DROP CONSTRAINT IF EXISTS memory_nodes_origin_check"
    )  # of an attempt that was interrupted
    op.execute("""
        ALTER TABLE memory_nodes ADD CONSTRAINT memory_nodes_origin_check
        CHECK (origin IN ('operator', 'user', 'rules', 'model', 'import', 'assistant', 'document', 'tool')) NOT VALID
    """)
    op.execute("ALTER TABLE memory_nodes VALIDATE CONSTRAINT memory_nodes_origin_check")
    op.execute(BEST_WITH_TERMS)
    op.execute(f"""
        DO $$ DECLARE made regprocedure; BEGIN
            SELECT oid INTO made FROM pg_proc WHERE proname = 'jiyi_best_with_terms' AND pronamespace = 'public'::regnamespace;
            EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', made);
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO {ROLE}', made);
        END $$
    """)  # noqa: S608 – no value, and no name but ROLE; a DO block takes no parameters
    with op.get_context().autocommit_block():  # agent by agent: no long transaction
        agents = op.get_bind().exec_driver_sql("SELECT group_id, agent_id FROM agents ORDER BY 1, 2").all()
        for group_id, agent_id in agents:
            for which, origin, trust in TOLD:
                op.get_bind().exec_driver_sql(
                    f"""
                    UPDATE memory_nodes n SET origin = %(origin)s, trust = %(trust)s, changed_xid = pg_current_xact_id()
                    WHERE n.group_id = %(group)s AND n.agent_id = %(agent)s AND n.origin = 'user' AND {which}
                    """,  # noqa: S608 – our own expressions; values are parameters
                    {"group": group_id, "agent": agent_id, "origin": origin, "trust": trust},
                )


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("DROP FUNCTION jiyi_best_with_terms")
    op.execute("ALTER TABLE memory_nodes DROP COLUMN origin, DROP COLUMN trust")
