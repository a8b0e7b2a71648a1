"""What can be done and asked about reflections: let an agent reflect, see how far it is, what came of it, and
why it thinks so.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, or_, select, text

from engine.reflection import thought_id
from jiyi.errors import NotFound
from jiyi.protocol.base import BY_TIME, ById, Made, OfAgent, Rows
from jiyi.protocol.memory import Memory
from jiyi.protocol.reflection import (
    SELF_TRIGGERS,
    NewThought,
    Reasons,
    ReflectionsQuery,
    ReflectionState,
    WhyQuery,
)
from models.db.actions import Context, action, read
from models.db.rows import behind, columns, equal_if_given, fetch, page
from models.memory.agents import key_of, no_agent
from models.memory.reads import nodes_of
from models.reflection import reflections
from models.reflection.reflections import REFLECT
from models.reflection.tables import ReflectionRow


@action("reflection.request")
def request_reflection(context: Context, request: OfAgent) -> Made:
    """Let an agent reflect.

    The agent looks at its latest memories, asks itself what matters in them, and keeps its conclusions as
    thoughts that name their evidence. Returns the pending reflection at once; a reflection that is already
    under way is not started twice. See get_reflection for its result.
    """
    agent_key = key_of(context.connection, context.group_id, request.agent_id)
    if agent_key is None:
        raise no_agent(context.group_id, request.agent_id)
    reflection_id = reflections.ask(context.connection, context.group_id, request.agent_id, "request")
    context.enqueue(REFLECT, [(agent_key, context.group_id)])
    context.audit(request.agent_id, reflection_id=reflection_id)
    return Made(id=reflection_id)


@action("reflection.get")
def get(context: Context, request: ById) -> ReflectionState:
    """Get one reflection.

    Its state (`owed`, `running`, `waiting`, `done`, `nothing`, `given up`), and its thoughts, each with its
    evidence.
    """
    reflection = find_reflection(context.connection, context.group_id, request.id)
    if reflection is None:
        raise NotFound(f"id: no reflection {request.id} in the group {context.group_id!r}")
    return reflection


@read(scope="read")
def list_reflections(context: Context, request: ReflectionsQuery) -> Rows[ReflectionState]:
    """List reflections.

    Newest first, page by page, with how many thoughts came of each.
    """
    return listed(context, request)


@action("memory.why")
def why(context: Context, request: WhyQuery) -> Reasons:
    """Explain what a memory rests on.

    The memories that a thought was concluded from, and what those rest on, level by level, each once. Use it
    to check where a belief comes from before relying on it.
    """
    reasons = why_thought(context.connection, context.group_id, request.id, request.depth, request.limit)
    if request.id not in reasons.nodes:
        raise NotFound(f"id: no memory {request.id} in the group {context.group_id!r}")
    return reasons


def listed(
    context: Context, request: ReflectionsQuery, *, self_reviews: bool = False
) -> Rows[ReflectionState]:
    """A page of reflections, or of self-reviews only."""
    parameters: dict[str, Any] = {
        "agent_id": request.agent_id,
        "state": request.state,
        "before": request.place(BY_TIME),
    }
    rows = reflection_page(
        context.connection, context.group_id, **parameters, limit=request.limit + 1, self_reviews=self_reviews
    )
    return page(rows, request.limit, lambda last: (last.created_at, last.reflection_id))


def reflection_page(
    connection: Connection,
    group_id: str,
    *,
    agent_id: str | None,
    state: str | None,
    trigger: str | None = None,
    self_reviews: bool = False,
    before: tuple[datetime, UUID] | None,
    limit: int,
) -> list[ReflectionState]:
    """Reflections without their thoughts, the latest first. ``self_reviews``: only where an agent reviewed
    itself.
    """
    selection = select(_STATED)
    if self_reviews:
        selection = selection.where(
            or_(_STATED.c.findings.is_not(None), _STATED.c.trigger.in_(SELF_TRIGGERS))
        )
    row = _STATED.c
    conditions = equal_if_given((row.agent_id, agent_id), (row.state, state), (row.trigger, trigger))
    selection = selection.where(*conditions)
    ordered = behind(selection, before, row.created_at, row.reflection_id)
    return [
        ReflectionState.model_validate(dict(row))
        for row in connection.execute(ordered.limit(limit), {"group": group_id}).mappings()
    ]


def find_reflection(connection: Connection, group_id: str, reflection_id: UUID) -> ReflectionState | None:
    """A reflection with its thoughts, each with its evidence."""
    selection = select(_STATED).where(_STATED.c.reflection_id == reflection_id)
    row = connection.execute(selection, {"group": group_id}).mappings().one_or_none()
    if row is None:
        return None
    ids = [thought_id(reflection_id, position) for position in range(row["thought_count"])]
    thoughts = fetch(connection, NewThought, _THOUGHTS, group=group_id, ids=ids)
    return ReflectionState.model_validate({**row, "thoughts": [dict(thought) for thought in thoughts]})


def why_thought(connection: Connection, group_id: str, node_id: UUID, depth: int, limit: int) -> Reasons:
    """The memory and its evidence, ``depth`` levels of it and ``limit`` memories at most, each once."""
    nodes: dict[UUID, Memory] = {}
    missing: list[UUID] = []
    level = [node_id]
    for _ in range(depth + 1):
        batch, level = level[: limit - len(nodes)], level[limit - len(nodes) :]
        reasons = {reason.node_id: reason for reason in nodes_of(connection, group_id, batch)}
        nodes.update(reasons)
        missing += [missing_id for missing_id in batch if missing_id not in reasons]
        beneath = [evidence for reason in reasons.values() for evidence in reason.evidence]
        visited = {*nodes, *missing, *level}
        level += [evidence for evidence in dict.fromkeys(beneath) if evidence not in visited]
        if not level or len(nodes) == limit:
            break
    return Reasons.model_construct(node_id=node_id, nodes=nodes, missing=missing, beyond=level)


# An open reflection without pending work was given up (``models.reflection.tables.ReflectionRow``). The
# pending work and its dead letter have an error from before its start, from its commit, or that killed its
# worker.
_STATED = (
    text("""
        SELECT r.reflection_id, r.agent_id, r.trigger,
            CASE WHEN s.ended OR p.kind IS NOT NULL THEN r.state ELSE 'given up' END AS state,
            r.attempts, r.created_at, r.started_at, r.finished_at, r.focal_points, r.llm,
            coalesce(r.error, CASE WHEN NOT s.ended THEN coalesce(p.last_error, d.reason) END) AS error,
            r.thoughts AS thought_count, r.findings
        FROM reflections r JOIN agents a USING (group_id, agent_id)
        CROSS JOIN LATERAL (
            SELECT r.state IN ('done', 'nothing') AS ended, r.trigger = 'conversation' AS talked
        ) AS s
        CROSS JOIN LATERAL (
            SELECT CASE WHEN talked THEN 'reflect_conversation' ELSE 'reflect' END AS kind,
                CASE WHEN talked THEN r.reflection_id ELSE a.agent_key END AS subject_id
        ) AS w
        LEFT JOIN pending_work p ON p.kind = w.kind AND p.subject_id = w.subject_id
        AND p.group_id = r.group_id
        LEFT JOIN LATERAL (
            SELECT reason FROM dead_letters l
            WHERE p.kind IS NULL AND NOT s.ended AND l.subject_id = w.subject_id
            AND l.group_id = r.group_id AND l.kind = w.kind
            ORDER BY letter_id DESC LIMIT 1
        ) AS d ON true
        WHERE r.group_id = :group
    """)
    .columns(*columns(ReflectionState, ReflectionRow, thought_count=ReflectionRow.thoughts, thoughts=None))
    .subquery("stated")
)
# OFFSET keeps the cast out of the join's condition, where under row-level security no index would be used.
# An event that repeated an earlier one refers to a node of another id; and it may have been pruned.
_THOUGHTS = text("""
    SELECT n.node_id, n.created_at, n.expires_at, n.description, n.subject, n.predicate, n.object,
    n.poignancy, n.depth,
        n.provenance ->> 'focal_point' AS focal_point,
        coalesce((
            SELECT jsonb_agg(jsonb_build_object('node_id', e.node_id, 'type', e.type, 'kind', e.kind,
            'created_at', e.created_at,
                'description', e.description) ORDER BY f.place)
            FROM (
                SELECT CAST(id AS uuid) AS id, place FROM jsonb_array_elements_text(n.filling) WITH
                ORDINALITY AS k(id, place) OFFSET 0
            ) AS f JOIN memory_nodes e ON e.node_id = f.id AND e.group_id = n.group_id
        ), '[]') AS evidence
    FROM unnest(CAST(:ids AS uuid[])) AS t(event_id) LEFT JOIN events e ON e.event_id = t.event_id
    AND e.group_id = :group
    JOIN memory_nodes n ON n.node_id = coalesce(e.node_id, t.event_id)
    WHERE n.group_id = :group ORDER BY n.node_count
""")
