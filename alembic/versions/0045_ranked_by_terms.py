"""A large agent's words are looked up by a function that knows no filters: these stand in one table (``models.memory.filters``)."""

from __future__ import annotations

from alembic import op

revision = "0045"
down_revision = "0044"
branch_labels = None
depends_on = None

#: It is its owner's (see 0008), so it asks for the scope by itself. No index has what is put together from a column, so none is asked for
#: group or agent (see 0041). ``jiyi_best_with_terms``, which it replaces, stays for programs of the revision before.
RANKED_BY_TERMS = """
    CREATE FUNCTION jiyi_ranked_by_terms(wanted_group text, wanted_agent text, terms text[], weights float8[])
    RETURNS SETOF uuid LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
        SELECT with_term.node_id FROM unnest(terms, weights) AS w(term, weight) CROSS JOIN LATERAL (
            SELECT n.node_id, n.node_count FROM memory_nodes n
            WHERE (current_setting('jiyi.whole_service', true) = 'on'
                    OR wanted_group = ANY (nullif(current_setting('jiyi.groups', true), '')::text[]))
                AND n.group_id || '' = wanted_group AND n.agent_id || '' = wanted_agent AND n.large
                AND string_to_array(n.tokens, ' ') && ARRAY[w.term]
        ) AS with_term
        GROUP BY with_term.node_id, with_term.node_count ORDER BY sum(w.weight) DESC, with_term.node_count DESC
    $$
"""


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute(RANKED_BY_TERMS)
    op.execute("REVOKE ALL ON FUNCTION jiyi_ranked_by_terms FROM PUBLIC")
    op.execute("GRANT EXECUTE ON FUNCTION jiyi_ranked_by_terms TO jiyi_service")


def downgrade() -> None:
    op.execute("DROP FUNCTION jiyi_ranked_by_terms")
