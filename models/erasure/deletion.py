"""What an erasure has noted goes, in batches. Locks in the tasks' order: work, agents, memories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import (
    Connection,
    Select,
    Text,
    TextClause,
    Uuid,
    any_,
    bindparam,
    case,
    delete,
    func,
    literal_column,
    select,
    table,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY

from engine.erasure import Whom
from models.erasure.matching import UUIDS
from models.erasure.parts import Scrubbed, parts
from models.erasure.progress import ERASE
from models.erasure.tables import ErasingId
from models.memory.agents import AgentName
from models.memory.tables import Agent, KeywordStrengthRow, StoredEventRow
from models.memory.work import ACCUMULATE, APPRAISE
from models.queue.tables import DeadLetterRow, PendingWork
from models.reflection.tables import ReflectionRow
from models.retrieval.enlargement import ALL_TERMS
from models.retrieval.tables import TermFrequency

#: An event with pending work of one of these kinds has not been counted towards a reflection.
NOT_ACCUMULATED_YET = [APPRAISE, ACCUMULATE]
#: Memories of one transaction: each takes its vector out of an index, and holds up its agent's other writers.
BATCH = 500
#: Events made tombstones in one transaction.
EVENTS_PAGE = 5_000
#: Rows of other tables that are searched at once.
PAGE = 1_000
_E = StoredEventRow


#: The core's tables that are searched.
OWN_AND_NOBODYS = "(group_id = :group OR group_id IS NULL)"
SCRUBBED = (
    Scrubbed("dead_letters", "letter_id::text", "reason, traceback, body", whose=OWN_AND_NOBODYS),
    Scrubbed(
        "reflections",
        "reflection_id::text",
        "focal_points::text, error, findings::text",
        "UPDATE reflections SET focal_points = '[]', error = NULL, findings = NULL",
    ),
    Scrubbed(
        "pending_work",
        "kind || '/' || subject_id::text",
        "last_error",
        "UPDATE pending_work SET last_error = NULL",
    ),
    Scrubbed(
        "audit_log",
        "audit_id::text",
        "target, details::text",
        "UPDATE audit_log SET target = '', details = '{}'",
        OWN_AND_NOBODYS,
    ),
    Scrubbed(
        "job_ticks",
        "job || '/' || slot::text",
        "summary::text, error",
        "UPDATE job_ticks SET summary = '{}', error = NULL",
        "state <> 'running' AND CAST(:group AS text) = :group",
    ),
    Scrubbed("injections", "injection_id::text", "query, session_id, user_id, reasons::text"),
    Scrubbed(
        "session_prompts",
        "agent_id || '/' || session_id",
        "user_id, session_id, opening, body, array_to_string(facts, ' '), recalled::text",
    ),
    Scrubbed(
        "retrievals", "retrieval_id::text", "array_to_string(focal_texts, ' '), options::text, asked_by"
    ),
    Scrubbed(
        "user_profiles",
        "agent_id || '/' || user_id",
        "user_id, industry, role, expertise_level,"
        " array_to_string(recent_topics || pain_points || preferred_tools, ' ')",
    ),
    Scrubbed("industry_keywords", "industry", "industry, keywords::text"),
)


def delete_noted(
    connection: Connection, erasure_id: UUID, group_id: str, after: UUID
) -> tuple[UUID | None, Counter[str], set[str]]:
    """The next batch: where it ends (None: there was none), rows that went by table, and their agents."""
    page = {"erasure": erasure_id, "group": group_id, "after": after, "limit": BATCH}
    ids = list(connection.execute(_NOTED, page).scalars())
    if not ids:
        return None, Counter(), set()
    these = {"group": group_id, "ids": ids, "kind": ERASE}
    gone: Counter[str] = Counter()
    gone["pending_work"] = connection.execute(_DELETE_WORK, these).rowcount
    gone["focal_points"] = _forget_focal_points(connection, these)
    agents = set(connection.execute(_NEXT_GENERATION, these).scalars())
    connection.execute(_LOCK, these)
    connection.execute(_SUBTRACT_TERMS, these | {"all": ALL_TERMS})
    gone["next_vectors"] = connection.execute(_DELETE_NEXT, these).rowcount
    gone.update(delete_beside_memories(connection, group_id, ids))
    for part in parts():
        gone.update(part.delete(connection, group_id, ids))
    gone["node_access"] = connection.execute(_DELETE_ACCESS, these).rowcount
    nodes = list(connection.execute(_DELETE_NODES, these).scalars())
    gone["memory_nodes"] = len(nodes)
    gone["reflections"] = connection.execute(_DELETE_REFLECTIONS, these).rowcount
    gone["dead_letters"] = connection.execute(_DELETE_LETTERS, these).rowcount
    gone["events"] = connection.execute(_ERASE_EVENTS, these).rowcount
    connection.execute(_REMEMBER, these | {"ids": nodes})
    return ids[-1], gone, agents


def _forget_focal_points(connection: Connection, these: dict[str, Any]) -> int:
    """What agents asked themselves since these memories, which may come of them; of how many reflections."""
    reflections = list(connection.execute(_FORGET_FOCAL_POINTS, these).scalars())
    if reflections:
        about = {"group": these["group"], "reflections": list(map(str, reflections))}
        thoughts = list(connection.execute(_FORGET_FOCAL_POINTS_OF_THOUGHTS, about).scalars())
        connection.execute(_FORGET_FOCAL_POINTS_OF_EVENTS, {"group": these["group"], "ids": thoughts})
    return len(reflections)


def erase_repetitions(
    connection: Connection, erasure_id: UUID, group_id: str, after: int
) -> tuple[int | None, int]:
    """Events of a page that only repeated something noted: where the page ends (None: last), how many."""
    parameters = {"erasure": erasure_id, "group": group_id, "after": after, "limit": EVENTS_PAGE}
    row = connection.execute(_ERASE_REPETITIONS, parameters).one()
    return row.last, row.erased


def delete_agent(connection: Connection, name: AgentName) -> Counter[str]:
    """The agent itself, and what is kept of it as a whole. Its memories have gone before."""
    parameters = {"group": name[0], "agent": name[1]}
    gone: Counter[str] = Counter()
    for work in (PendingWork, DeadLetterRow):
        its = delete(work).where(work.subject_id.in_(_KEY))
        gone[work.__tablename__] += connection.execute(its, parameters).rowcount
    for rows in (KeywordStrengthRow, TermFrequency, ReflectionRow, Agent):  # the agent last: all name it
        whose = (rows.group_id == bindparam("group"), rows.agent_id == bindparam("agent"))
        gone[rows.__tablename__] += connection.execute(delete(rows).where(*whose), parameters).rowcount
    return gone


def recount(connection: Connection, group_id: str, agent_id: str) -> None:
    """Correct the counts of an agent that lost memories: fewer events since its last reflection.

    Numbers of memories are never given out twice; the sum of importance stays.
    """
    parameters: dict[str, Any] = {"group": group_id, "agent": agent_id, "kinds": NOT_ACCUMULATED_YET}
    connection.execute(_DELETE_EMPTY_TERMS, parameters)
    # First the lock, then the look, in a statement of its own: it sees what was counted while it waited.
    connection.execute(_LOCK_AGENT, parameters)
    connection.execute(_FEWER_EVENTS, parameters)


def scrub(connection: Connection, group_id: str, whom: Whom, ids: set[str]) -> Counter[str]:
    """Look for names in the smaller tables. Dead letters go, other rows lose their texts."""
    gone: Counter[str] = Counter()
    for scrubbed in (*SCRUBBED, *(rows for part in parts() for rows in part.scrubbed)):
        after, (look, change) = "", _scrub(scrubbed)
        while rows := connection.execute(look, {"group": group_id, "after": after, "limit": PAGE}).all():
            keys = [
                row.key
                for row in rows
                if whom.is_named_in(row.content) or not ids.isdisjoint(UUIDS.findall(row.content))
            ]
            if keys:
                gone[scrubbed.table] += connection.execute(change, {"group": group_id, "keys": keys}).rowcount
            after = rows[-1].key
    for part in parts():
        gone.update(part.tidy(connection, group_id))
    return gone


def _scrub(scrubbed: Scrubbed) -> tuple[Select[str, str], TextClause]:
    """A table's rows as (key, content), and the change of those found. Keys as text: they only sort."""
    name, key, content, change, whose = scrubbed
    place = literal_column(key, Text)
    look = (
        select(
            place.label("key"),
            func.concat_ws(func.chr(1), literal_column(content), type_=Text).label("content"),
        )
        .select_from(table(name))
        .where(text(whose), place > bindparam("after"))
        .order_by(place)
        .limit(bindparam("limit"))
    )
    change = change or f"DELETE FROM {name}"  # noqa: S608 – names of our own
    return look, text(f"{change} WHERE {whose} AND {key} = ANY(:keys)")


def delete_beside_memories(connection: Connection, group_id: str, ids: Sequence[UUID]) -> Counter[str]:
    """What rests on these memories, while they are still there; links to and from them are cut.

    A profile goes with anything said in a conversation with its user, or taken from one.
    """
    these = {"group": group_id, "ids": list(ids)}
    newer = list(connection.execute(_REPLACED_BY, these).scalars())
    if newer:
        for statement in _FORGET_REPLACED:
            connection.execute(statement, {**these, "newer": newer})
    gone = Counter(
        {table: connection.execute(statement, these).rowcount for table, statement in _DELETE.items()}
    )
    connection.execute(_UNLINK, these)
    return gone


_NOTED = text("""
    SELECT subject_id FROM erasing_ids WHERE erasure_id = :erasure AND group_id = :group
    AND subject_id > :after
    ORDER BY subject_id LIMIT :limit
""")
_DELETE_WORK = text("""
    DELETE FROM pending_work WHERE (kind, subject_id) IN (
        SELECT kind, subject_id FROM pending_work WHERE group_id = :group AND subject_id = ANY(:ids)
        AND kind <> :kind
        ORDER BY kind, subject_id FOR UPDATE
    ) AND group_id = :group
""")
_NEXT_GENERATION = text("""
    UPDATE agents SET generation = generation + 1 WHERE (group_id, agent_id) IN (
        SELECT a.group_id, a.agent_id FROM agents a
        WHERE a.group_id = :group AND a.agent_id IN (SELECT agent_id FROM memory_nodes
        WHERE group_id = :group AND node_id = ANY(:ids))
        ORDER BY a.group_id, a.agent_id FOR NO KEY UPDATE
    ) RETURNING agent_id
""")
# One that is under way began from what is gone: it is overtaken, and begins again.
_FORGET_FOCAL_POINTS = text("""
    UPDATE reflections r SET focal_points = '[]', attempts = CASE WHEN r.state = 'running' THEN r.attempts +
    1 ELSE r.attempts END
    FROM (
        SELECT agent_id, min(stored_at) AS since FROM memory_nodes WHERE group_id = :group
        AND node_id = ANY(:ids) GROUP BY agent_id
    ) AS gone
    WHERE r.group_id = :group AND r.agent_id = gone.agent_id
    AND coalesce(r.finished_at, 'infinity') >= gone.since
      AND (r.focal_points <> '[]' OR r.state = 'running')
    RETURNING r.reflection_id
""")
_FORGET_FOCAL_POINTS_OF_THOUGHTS = text("""
    UPDATE memory_nodes n SET provenance = n.provenance - 'focal_point', changed_xid = pg_current_xact_id()
    WHERE n.group_id = :group AND n.type = 'thought' AND n.provenance ->> 'reflection' = ANY(:reflections)
      AND n.agent_id IN (SELECT agent_id FROM reflections WHERE group_id = :group
      AND reflection_id::text = ANY(:reflections))
      AND n.provenance ? 'focal_point'
    RETURNING n.node_id
""")
_FORGET_FOCAL_POINTS_OF_EVENTS = text("""
    UPDATE events SET payload = payload #- '{provenance,focal_point}' WHERE group_id = :group
    AND event_id = ANY(:ids)
""")
_LOCK = text(
    "SELECT FROM memory_nodes WHERE group_id = :group AND node_id = ANY(:ids) ORDER BY node_id FOR UPDATE"
)
# As models/retrieval/enlargement.py has counted them: each text's terms once, and all of them under the empty
# one.
_SUBTRACT_TERMS = text("""
    WITH texts AS (
        SELECT n.agent_id, CASE WHEN n.node_count <= a.large_from THEN 'at first' ELSE 'since' END AS counted,
            string_to_array(n.tokens, ' ') AS terms
        FROM memory_nodes n JOIN agents a USING (group_id, agent_id)
        WHERE n.group_id = :group AND n.node_id = ANY(:ids) AND a.large_from IS NOT NULL AND n.tokens <> ''
    ), less AS (
        SELECT agent_id, counted, term, count(*) AS texts
            FROM texts CROSS JOIN LATERAL (SELECT DISTINCT unnest(terms) AS term) AS distinct_terms
            GROUP BY 1, 2, 3
        UNION ALL SELECT agent_id, counted, :all, sum(cardinality(terms)) FROM texts GROUP BY 1, 2
    )
    UPDATE term_frequencies t SET texts = t.texts - less.texts FROM less
    WHERE t.group_id = :group AND t.agent_id = less.agent_id AND t.term = less.term
    AND t.counted = less.counted
""")
_DELETE_NEXT = text("DELETE FROM next_vectors WHERE group_id = :group AND node_id = ANY(:ids)")
_DELETE_ACCESS = text("DELETE FROM node_access WHERE group_id = :group AND node_id = ANY(:ids)")
_DELETE_NODES = text(
    "DELETE FROM memory_nodes WHERE group_id = :group AND node_id = ANY(:ids) RETURNING node_id"
)
_DELETE_REFLECTIONS = text("DELETE FROM reflections WHERE group_id = :group AND reflection_id = ANY(:ids)")
_DELETE_LETTERS = text("DELETE FROM dead_letters WHERE group_id = :group AND subject_id = ANY(:ids)")
#: An event without what it said: it only keeps its id from being used again.
_BLANKED = (
    update(_E)
    .where(_E.group_id == bindparam("group"), _E.outcome != "erased")
    .values(outcome="erased", payload={}, agent_id="", session_id=None, correlation_id=None, node_id=None)
)
_ERASE_EVENTS = _BLANKED.where(_E.event_id == any_(bindparam("ids", type_=ARRAY(Uuid))))
# The event of an old node may have been pruned: from now on it has to be known again.
_REMEMBER = text("""
    INSERT INTO events (event_id, type, version, group_id, agent_id, occurred_at, payload, outcome)
    SELECT id, 'memory.observed', 1, :group, '', now(), '{}', 'erased'
    FROM unnest(CAST(:ids AS uuid[])) AS n(id)
    ON CONFLICT DO NOTHING
""")
_PAGE = (
    select(_E.event_id, _E.node_id, _E.position)
    .where(_E.group_id == bindparam("group"), _E.position > bindparam("after"))
    .order_by(_E.position)
    .limit(bindparam("limit"))
    .cte("page")
)
_REPETITIONS = (
    _BLANKED.where(_E.event_id == _PAGE.c.event_id)
    .where(ErasingId.erasure_id == bindparam("erasure"), ErasingId.subject_id == _PAGE.c.node_id)
    .returning(_E.event_id)
    .cte("erased")
)
_ERASE_REPETITIONS = select(
    case((func.count() == bindparam("limit"), func.max(_PAGE.c.position))).label("last"),
    select(func.count()).select_from(_REPETITIONS).scalar_subquery().label("erased"),
).select_from(_PAGE)
_DELETE_EMPTY_TERMS = text(
    "DELETE FROM term_frequencies WHERE group_id = :group AND agent_id = :agent AND texts <= 0"
)
_FEWER_EVENTS = text("""
    UPDATE agents a SET importance_ele_n = least(a.importance_ele_n, (
        SELECT count(*) FROM memory_nodes n
        WHERE n.group_id = a.group_id AND n.agent_id = a.agent_id AND n.type = 'event'
          AND NOT EXISTS (
              SELECT FROM pending_work p WHERE p.kind = ANY(:kinds) AND p.subject_id = n.node_id
              AND p.group_id = n.group_id
          )
    )) WHERE a.group_id = :group AND a.agent_id = :agent
""")
_LOCK_AGENT = text("SELECT FROM agents WHERE group_id = :group AND agent_id = :agent FOR NO KEY UPDATE")
_KEY = select(Agent.agent_key).where(
    Agent.group_id == bindparam("group"), Agent.agent_id == bindparam("agent")
)
_DELETE = {
    "experiences": text("DELETE FROM experiences WHERE group_id = :group AND node_id = ANY(:ids)"),
    "injections": text("DELETE FROM injections WHERE group_id = :group AND node_ids && CAST(:ids AS uuid[])"),
    "retrievals": text("DELETE FROM retrievals WHERE group_id = :group AND node_ids && CAST(:ids AS uuid[])"),
    "session_prompts": text("""
        DELETE FROM session_prompts p USING memory_nodes n
        WHERE p.group_id = :group AND n.group_id = :group AND n.agent_id = p.agent_id
        AND n.node_id = ANY(:ids)
    """),
    "user_profiles": text("""
        DELETE FROM user_profiles p USING memory_nodes n
        WHERE p.group_id = :group AND n.group_id = :group AND n.agent_id = p.agent_id AND n.kind IS NOT NULL
          AND p.user_id = coalesce(n.user_id, '') AND n.node_id = ANY(:ids)
    """),
}
_REPLACED_BY = text("""
    SELECT DISTINCT superseded_by FROM memory_nodes WHERE group_id = :group AND node_id = ANY(:ids)
    AND superseded_by IS NOT NULL
""")
_FORGET_REPLACED = (
    text("""
        UPDATE memory_nodes SET provenance = provenance - 'replaces', changed_xid = pg_current_xact_id()
        WHERE group_id = :group AND node_id = ANY(:newer) AND provenance ->> 'replaces' = ANY(CAST(CAST(:ids
        AS uuid[]) AS text[]))
    """),
    text("""
        UPDATE events SET payload = payload #- '{provenance,replaces}'
        WHERE group_id = :group AND (event_id = ANY(:newer) OR node_id = ANY(:newer))
          AND payload #>> '{provenance,replaces}' = ANY(CAST(CAST(:ids AS uuid[]) AS text[]))
    """),
)
_UNLINK = text("""
    UPDATE memory_nodes SET superseded_by = NULL, changed_xid = pg_current_xact_id()
    WHERE group_id = :group AND superseded_by = ANY(:ids)
""")
