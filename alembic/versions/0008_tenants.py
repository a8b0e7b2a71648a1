"""Tenants kept apart by row-level security, and the last times at which each memory was accessed.

Code of the revision before goes on working: it is the owner, whom row-level security does not concern, and the group
that it does not write beside accesses and vectors is filled in.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from alembic import op
from models.db import scope
from models.db.connection import driver

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

#: Every table with rows of tenants. Those without: embedding_models, job_ticks.
TABLES = (
    "groups",
    "agents",
    "events",
    "memory_nodes",
    "next_vectors",
    "node_access",
    "kw_strength",
    "term_frequencies",
    "pending_work",
    "dead_letters",
    "llm_usage",
    "audit_log",
    "reflections",
)
#: Tables that had no group of their own: their rows have their node's.
BESIDE_NODES = ("node_access", "next_vectors")

# PostgreSQL does not ask an index with a condition that might betray rows, such as the overlap of two arrays, before
# it has asked row-level security. These functions are their owner's, whom it does not concern; so they ask for the
# scope by themselves, first, and tell nothing but ids.
ALLOWED = """
    (current_setting('jiyi.whole_service', true) = 'on'
        OR wanted_group = ANY (nullif(current_setting('jiyi.groups', true), '')::text[]))
"""
FUNCTION = "LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp"
FUNCTIONS = f"""
    -- Which of these ids are in use, in whatever group: an event's id is unique in the whole service.
    CREATE FUNCTION jiyi_taken(wanted uuid[]) RETURNS SETOF uuid {FUNCTION} AS $$
        SELECT event_id FROM events WHERE event_id = ANY (wanted) UNION SELECT node_id FROM memory_nodes WHERE node_id = ANY (wanted)
    $$;
    CREATE FUNCTION jiyi_with_keywords(wanted_group text, wanted_agent text, wanted text[]) RETURNS SETOF uuid {FUNCTION} AS $$
        SELECT node_id FROM memory_nodes
        WHERE {ALLOWED} AND group_id = wanted_group AND agent_id = wanted_agent AND keywords_lower && wanted
    $$;
    -- With the request's filters, and the best only: to look at all of them twice would take twice as long.
    CREATE FUNCTION jiyi_with_terms(
        wanted_group text, wanted_agent text, terms text[], weights float8[], wanted_types text[], wanted_after timestamptz,
        wanted_before timestamptz, wanted_session text, wanted_keywords text[], wanted_now timestamptz, with_archived bool,
        most int
    ) RETURNS SETOF uuid {FUNCTION} AS $$
        SELECT n.node_id FROM memory_nodes n
        WHERE {ALLOWED} AND n.group_id = wanted_group AND n.agent_id = wanted_agent AND n.large
            AND string_to_array(n.tokens, ' ') && terms AND n.type = ANY (wanted_types) AND NOT n.is_idle
            AND (wanted_after IS NULL OR n.created_at > wanted_after) AND (wanted_before IS NULL OR n.created_at < wanted_before)
            AND (wanted_session IS NULL OR n.session_id = wanted_session)
            AND (wanted_keywords IS NULL OR n.keywords_lower && wanted_keywords)
            AND (wanted_now IS NULL OR n.expires_at IS NULL OR n.expires_at > wanted_now)
            AND (with_archived OR n.archived_at IS NULL)
        ORDER BY (
            SELECT sum(weight) FROM unnest(terms, weights) AS w(term, weight)
            WHERE term = ANY (string_to_array(n.tokens, ' '))
        ) DESC, n.node_count DESC LIMIT most
    $$;
    CREATE FUNCTION jiyi_fill_group() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
    BEGIN
        SELECT group_id INTO NEW.group_id FROM memory_nodes WHERE node_id = NEW.node_id;
        RETURN NEW;
    END $$;
"""  # noqa: S608 – our own names; values are parameters


def upgrade() -> None:
    op.add_column(
        "node_access",
        sa.Column(
            "recent",
            postgresql.ARRAY(postgresql.TIMESTAMP(timezone=True)),
            server_default=sa.text("'{}'"),
            nullable=False,
        ),
    )
    op.execute(FUNCTIONS)
    for table in BESIDE_NODES:
        op.add_column(table, sa.Column("group_id", sa.Text(), nullable=True))
        op.execute(
            f"UPDATE {table} t SET group_id = n.group_id FROM memory_nodes n WHERE n.node_id = t.node_id"  # noqa: S608
        )
        op.alter_column(table, "group_id", nullable=False)
        op.execute(f"""
            CREATE TRIGGER fill_group BEFORE INSERT ON {table} FOR EACH ROW WHEN (NEW.group_id IS NULL)
            EXECUTE FUNCTION jiyi_fill_group()
        """)
    for table in TABLES:
        for statement in scope.isolate(table):
            op.execute(statement)
    scope.establish(driver(op.get_bind()))


def downgrade() -> None:
    scope.withdraw(driver(op.get_bind()))
    for table in TABLES:
        op.execute(f"DROP POLICY tenants ON {table}")
        op.execute(f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY")
    for table in BESIDE_NODES:
        op.execute(f"DROP TRIGGER fill_group ON {table}")
        op.drop_column(table, "group_id")
    op.drop_column("node_access", "recent")
    for function in ("taken", "with_keywords", "with_terms", "fill_group"):
        op.execute(f"DROP FUNCTION jiyi_{function}")
