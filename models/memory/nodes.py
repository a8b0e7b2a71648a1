"""Memory nodes: what tasks read and write of them, what an LLM found out, and the strengths of keywords."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import BigInteger, Connection, Text, bindparam, cast, column, func, select, text
from sqlalchemy.dialects.postgresql import JSONB, insert

from engine.memory import Appraisal, Unappraised, searchable
from jiyi.protocol.agents import AgentSettings
from jiyi.protocol.event_bodies import APPRAISED
from jiyi.protocol.wire.vectors import Float32
from jiyi.text.words import tokens
from models.memory.tables import KeywordStrengthRow
from models.memory.work import APPRAISE, STRENGTHEN, work_when_complete
from models.queue import pending_work

#: Where a memory's provenance says who answered what.
PROVENANCE_KEY = APPRAISED
#: Agents whose drift a summary names.
MAX_SHOWN = 100
#: A memory for which one of these is pending, or has failed, has not been counted.
NOT_COUNTED_YET = [APPRAISE, STRENGTHEN]


@dataclass(frozen=True, slots=True)
class TextToEmbed:
    """A node without a vector; ``reuse`` is a node of its group that has one for the very same text."""

    node_id: UUID
    embedding_key: str
    key_hash: bytes
    reuse: UUID | None
    group_id: str = ""
    agent_id: str = ""


@dataclass(frozen=True, slots=True)
class SettledDepths:
    """How many of a thought's evidence are missing; the thoughts that rest on it, if its depth changed."""

    missing: int
    dependants: list[tuple[UUID, str]]


def lock(connection: Connection, node_ids: Sequence[UUID]) -> None:
    """Lock nodes before many are updated, always in the same order."""
    connection.execute(_LOCK, {"ids": list(node_ids)})


def texts_to_embed(connection: Connection, node_ids: Sequence[UUID], model: str) -> list[TextToEmbed]:
    rows = connection.execute(_TEXTS, {"ids": list(node_ids), "model": model}).mappings()
    return [TextToEmbed(**row) for row in rows]


def fill_embeddings(
    connection: Connection, node_ids: Sequence[UUID], vectors: Sequence[Float32], model: str
) -> None:
    rows = [
        {"id": node_id, "vector": vector, "model": model}
        for node_id, vector in zip(node_ids, vectors, strict=True)
    ]
    if rows:
        connection.execute(_FILL, rows)


def copy_embeddings(connection: Connection, pairs: Sequence[tuple[UUID, UUID]]) -> None:
    """Give each (node, other) node the other's vector."""
    if pairs:
        connection.execute(_COPY, {"ids": [pair[0] for pair in pairs], "others": [pair[1] for pair in pairs]})


def fill_words(connection: Connection, node_ids: Sequence[UUID]) -> None:
    """Read the nodes' texts for the tokens of lexical search."""
    rows = [
        {
            "id": row.node_id,
            "tokens": " ".join(
                tokens(searchable(row.description, row.filling if row.type == "chat" else []))
            ),
        }
        for row in connection.execute(_SAID, {"ids": list(node_ids)})
    ]
    if rows:
        connection.execute(_FILL_WORDS, rows)


def settle_depth(connection: Connection, node_id: UUID) -> SettledDepths:
    """Set a thought's depth and trust from the evidence that is there by now.

    Its agent is locked, as when something of the agent is stored: nothing changes between what is read here
    and its commit. Thoughts that rest on each other in a circle end at the number of the agent's thoughts.
    """
    thoughts = connection.execute(_LOCK_AGENT, {"id": node_id}).scalar_one_or_none()
    if thoughts is None:  # it was erased meanwhile
        return SettledDepths(0, [])
    evidence = connection.execute(_EVIDENCE, {"id": node_id, "most": thoughts}).one()
    changed = connection.execute(
        _SET_DEPTH, {"id": node_id, "depth": evidence.depth, "trust": evidence.trust}
    ).one_or_none()
    if changed is None:
        return SettledDepths(evidence.missing, [])
    rows = connection.execute(
        _DEPENDANTS, {"group": changed.group_id, "agent": changed.agent_id, "id": [str(node_id)]}
    )
    return SettledDepths(evidence.missing, [(row.node_id, row.group_id) for row in rows])


@dataclass(frozen=True, slots=True)
class PendingAppraisal:
    """A memory whose appraisal is pending, and the settings of its agent."""

    group_id: str
    memory: Unappraised
    settings: AgentSettings


def load(connection: Connection, node_ids: Sequence[UUID]) -> dict[UUID, PendingAppraisal]:
    return {
        row.node_id: PendingAppraisal(
            row.group_id,
            Unappraised(
                agent_id=row.agent_id,
                node_type=row.type,
                description=row.description,
                embedding_key=row.embedding_key,
                subject=row.subject,
                predicate=row.predicate,
                object=row.object,
                keywords=row.keywords if row.brought_keywords else None,
                poignancy=row.poignancy,
                is_idle=row.is_idle,
            ),
            AgentSettings(**row.settings),
        )
        for row in connection.execute(_LOAD, {"ids": list(node_ids)})
    }


def write(
    connection: Connection, waiting: Mapping[UUID, PendingAppraisal], appraisals: Mapping[UUID, Appraisal]
) -> None:
    if not appraisals:
        return
    rows = [
        {
            "id": node_id,
            "subject": appraisal.subject,
            "predicate": appraisal.predicate,
            "object": appraisal.object,
            "keywords": appraisal.keywords,
            "lower": [keyword.lower() for keyword in appraisal.keywords],
            "poignancy": appraisal.poignancy,
            "is_idle": appraisal.is_idle,
            "note": {PROVENANCE_KEY: appraisal.sources} if appraisal.sources else {},
        }
        for node_id, appraisal in appraisals.items()
    ]
    lock(connection, list(appraisals))
    connection.execute(_WRITE, rows)
    due: dict[str, list[tuple[UUID, str]]] = defaultdict(list)
    for node_id, appraisal in appraisals.items():
        node = waiting[node_id]
        for kind in work_when_complete(
            node.memory.node_type, appraisal.keywords, appraisal.predicate, appraisal.object
        ):
            due[kind].append((node_id, node.group_id))
    for kind, subjects in due.items():
        pending_work.enqueue(connection, kind, subjects)


@dataclass(frozen=True, slots=True)
class Drift:
    """How many of an agent's keywords had a wrong strength, and by how much together."""

    keywords: int
    off_by: int


def strengthen(connection: Connection, node_ids: Sequence[UUID]) -> None:
    """Each keyword of each node counts one more, for its agent and the node's type."""
    connection.execute(_STRENGTHEN, {"ids": list(node_ids)})


def accumulate(connection: Connection, node_ids: Sequence[UUID]) -> list[tuple[UUID, str]]:
    """Take each event's poignancy off its agent's trigger, and count it.

    Returns (agent_key, group_id) of the agents whose trigger is used up: their reflection is due.
    """
    rows = connection.execute(_ACCUMULATE, {"ids": list(node_ids)})
    return [(row.agent_key, row.group_id) for row in rows if row.importance_trigger_curr <= 0]


def repair(connection: Connection, group_id: str, agent_id: str) -> Drift:
    """Make strengths what the memories say.

    What differs is *added*, so that a memory counted by another worker meanwhile stays counted; a lock keeps
    two repairs from adding the same difference twice.
    """
    parameters = {"group": group_id, "agent": agent_id, "kinds": NOT_COUNTED_YET}
    connection.execute(_LOCK_STRENGTH, parameters)
    repaired = connection.execute(_REPAIR, parameters).one()
    if repaired.keywords:
        connection.execute(_DELETE_EMPTY, parameters)
    return Drift(repaired.keywords, repaired.off_by)


_LOCK = text("SELECT FROM memory_nodes WHERE node_id = ANY(:ids) ORDER BY node_id FOR NO KEY UPDATE")
_SAID = text("SELECT node_id, type, description, filling FROM memory_nodes WHERE node_id = ANY(:ids)")
_FILL_WORDS = text("""
    UPDATE memory_nodes SET tokens = :tokens, changed_xid = pg_current_xact_id() WHERE node_id = :id
""")
_TEXTS = text("""
    SELECT n.node_id, n.group_id, n.agent_id, n.embedding_key, n.key_hash, (
        SELECT o.node_id FROM memory_nodes o
        WHERE o.group_id = n.group_id AND o.key_hash = n.key_hash AND o.embedding_model = :model
          AND o.embedding IS NOT NULL LIMIT 1
    ) AS reuse
    FROM memory_nodes n WHERE n.node_id = ANY(:ids) AND n.embedding IS NULL
""")
_FILL = text("""
    UPDATE memory_nodes SET embedding = :vector, embedding_model = :model, changed_xid = pg_current_xact_id()
    WHERE node_id = :id AND embedding IS NULL
""")
_COPY = text("""
    UPDATE memory_nodes n SET embedding = o.embedding, embedding_model = o.embedding_model, changed_xid =
    pg_current_xact_id()
    FROM unnest(CAST(:ids AS uuid[]), CAST(:others AS uuid[])) AS pair(node_id, other_id)
    JOIN memory_nodes o ON o.node_id = pair.other_id
    WHERE n.node_id = pair.node_id AND n.embedding IS NULL
""")
_LOCK_AGENT = text("""
    SELECT coalesce(CAST(a.type_counts ->> 'thought' AS int), 1) FROM agents a
    JOIN memory_nodes n USING (group_id, agent_id)
    WHERE n.node_id = :id FOR NO KEY UPDATE OF a
""")
# OFFSET keeps the cast out of the join's condition, where under row-level security no index would be used.
_EVIDENCE = text("""
    SELECT least(1 + coalesce(max(e.depth), 0), :most) AS depth, min(e.trust) AS trust,
        count(*) FILTER (WHERE k.id IS NOT NULL AND e.node_id IS NULL) AS missing
    FROM memory_nodes n
    LEFT JOIN LATERAL (SELECT CAST(id AS uuid) AS id FROM jsonb_array_elements_text(n.filling) AS f(id)
    OFFSET 0) AS k ON true
    LEFT JOIN memory_nodes e ON e.node_id = k.id AND e.group_id = n.group_id AND e.agent_id = n.agent_id
    WHERE n.node_id = :id
""")
_SET_DEPTH = text("""
    UPDATE memory_nodes SET depth = :depth, trust = least(trust, :trust), changed_xid = pg_current_xact_id()
    WHERE node_id = :id AND (depth <> :depth OR trust > :trust) RETURNING group_id, agent_id
""")
_DEPENDANTS = text("""
    SELECT node_id, group_id FROM memory_nodes
    WHERE group_id = :group AND agent_id = :agent AND type = 'thought'
    AND filling @> to_jsonb(CAST(:id AS text[]))
""")
# Only an event says whether the keywords are its own or were taken from its text.
_LOAD = text("""
    SELECT n.node_id, n.group_id, n.agent_id, n.type, n.description, n.embedding_key, n.subject, n.predicate,
    n.object,
        n.keywords, coalesce(e.payload ? 'keywords', true) AS brought_keywords, n.poignancy, n.is_idle,
        a.settings
    FROM memory_nodes n JOIN agents a USING (group_id, agent_id) LEFT
    JOIN events e ON e.event_id = n.node_id AND e.group_id = n.group_id
    WHERE n.node_id = ANY(:ids) ORDER BY n.group_id, n.agent_id, n.node_count
""")
_WRITE = text("""
    UPDATE memory_nodes SET subject = :subject, predicate = :predicate, object = :object, keywords =
    :keywords,
        keywords_lower = :lower, poignancy = :poignancy, is_idle = :is_idle, provenance = provenance || :note,
        changed_xid = pg_current_xact_id()
    WHERE node_id = :id
""").bindparams(bindparam("note", type_=JSONB))
# In key order, so that two workers with the same keywords queue up instead of deadlocking.
_STRENGTHEN = text("""
    INSERT INTO kw_strength (group_id, agent_id, memory_type, keyword, strength)
    SELECT n.group_id, n.agent_id, n.type, k.keyword, count(*)
    FROM memory_nodes n CROSS JOIN unnest(n.keywords_lower) AS k(keyword)
    WHERE n.node_id = ANY(:ids) GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
    ON CONFLICT (group_id, agent_id, memory_type, keyword) DO UPDATE
    SET strength = kw_strength.strength + excluded.strength
""")
_ACCUMULATE = text("""
    WITH added AS (
        SELECT group_id, agent_id, sum(coalesce(poignancy, 0)) AS poignancy, count(*) AS events
        FROM memory_nodes WHERE node_id = ANY(:ids) GROUP BY 1, 2
    ), locked AS (
        SELECT a.group_id, a.agent_id FROM agents a JOIN added USING (group_id, agent_id)
        ORDER BY 1, 2 FOR NO KEY UPDATE OF a
    )
    UPDATE agents a SET importance_trigger_curr = importance_trigger_curr - added.poignancy,
        importance_ele_n = importance_ele_n + added.events
    FROM added JOIN locked USING (group_id, agent_id)
    WHERE a.group_id = added.group_id AND a.agent_id = added.agent_id
    RETURNING a.agent_key, a.group_id, a.importance_trigger_curr
""")
_LOCK_STRENGTH = text("""
    SELECT pg_advisory_xact_lock(hashtextextended('jiyi:strength/' || CAST(:group AS text) || '/' ||
    CAST(:agent AS text), 0))
""")
# One statement sees one state: of a memory not yet counted in it the work is still pending, or has failed.
_DIFFERENCE = (
    text("""
    WITH counted AS (
        SELECT n.type AS memory_type, k.keyword, count(*) AS strength
        FROM memory_nodes n CROSS JOIN unnest(n.keywords_lower) AS k(keyword)
        WHERE n.group_id = :group AND n.agent_id = :agent AND n.type <> 'chat'
          AND (n.predicate IS DISTINCT FROM 'is' OR n.object IS DISTINCT FROM 'idle')
          AND NOT EXISTS (SELECT FROM pending_work p WHERE p.kind = ANY(:kinds)
          AND p.subject_id = n.node_id AND p.group_id = :group)
          AND NOT EXISTS (
              SELECT FROM dead_letters d
              WHERE d.kind = ANY(:kinds) AND d.subject_id = n.node_id AND d.group_id = :group
              AND d.state = 'open'
          )
        GROUP BY 1, 2
    ), known AS (
        SELECT memory_type, keyword, strength FROM kw_strength WHERE group_id = :group AND agent_id = :agent
    )
    SELECT memory_type, keyword, coalesce(counted.strength, 0) - coalesce(known.strength, 0) AS missing
    FROM counted FULL JOIN known USING (memory_type, keyword)
    WHERE coalesce(counted.strength, 0) <> coalesce(known.strength, 0)
    """)
    .columns(column("memory_type", Text), column("keyword", Text), column("missing", BigInteger))
    .cte("difference")
)
_WRONG = _DIFFERENCE.c
_DRIFT = select(
    func.count().label("keywords"),
    cast(func.coalesce(func.sum(func.abs(_WRONG.missing)), 0), BigInteger).label("off_by"),
)
_ADDED = insert(KeywordStrengthRow).from_select(
    ["group_id", "agent_id", "memory_type", "keyword", "strength"],
    select(
        bindparam("group", type_=Text),
        bindparam("agent", type_=Text),
        _WRONG.memory_type,
        _WRONG.keyword,
        _WRONG.missing,
    ).order_by(_WRONG.memory_type, _WRONG.keyword),
)
_REPAIR = _DRIFT.add_cte(
    _ADDED.on_conflict_do_update(
        index_elements=list(KeywordStrengthRow.__table__.primary_key),
        set_={"strength": KeywordStrengthRow.strength + _ADDED.excluded.strength},
    ).cte("repaired")
)
_DELETE_EMPTY = text(
    "DELETE FROM kw_strength WHERE group_id = :group AND agent_id = :agent AND strength <= 0"
)
