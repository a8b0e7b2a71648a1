"""Self-review: when it is due, what it starts from, how its findings are stored, and the actions on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID

from sqlalchemy import Connection, and_, bindparam, exists, false, func, or_, select, text, true, update
from sqlalchemy.dialects.postgresql import JSONB

from engine.growth.pains import (
    IdentityChange,
    ReviewSchedule,
    SelfReflected,
    allowed_changes,
    is_new,
    suggested_content,
)
from jiyi.errors import NotFound
from jiyi.protocol import limits
from jiyi.protocol.base import ById, Made, OfAgent, Rows
from jiyi.protocol.events import SessionEnded
from jiyi.protocol.growth import ConfigureSelf, SelfSettings, SelfState
from jiyi.protocol.reflection import Finding, Findings, ReflectionsQuery, ReflectionState, SelfTrigger
from models.conversations.extractions import StoredTurn, as_turns
from models.conversations.follow_ups import ExtractionCounts, after_extraction, after_injection
from models.db.actions import Context, action
from models.db.base import Timestamp
from models.db.connection import CLOCK_AHEAD
from models.growth import identity, proposals, work
from models.growth.tables import SelfReflectionRow
from models.growth.work import AGGREGATE, FOLLOW_PROFILE, MERGE_PAINS
from models.memory.agents import AgentName, bind_name, key_of, known_agent
from models.memory.event_types import StoredBatch, after_events
from models.memory.tables import Agent, MemoryNode
from models.queue import pending_work
from models.queue.tables import PendingWork
from models.reflection import actions, reflections
from models.reflection.reflections import REFLECT

#: Who makes an agent's own proposals, and approves those that need nobody.
BY_REFLECTION = "reflection"
_KEEP = text(
    "UPDATE reflections SET findings = :findings WHERE group_id = :group AND reflection_id = :id"
).bindparams(bindparam("findings", type_=JSONB))
#: An agent reviews itself when so many conversations have ended, unless it has its own number.
SELF_REFLECT_CONVERSATIONS = 5
#: … and when so many hours have passed in which something was said.
SELF_REFLECT_HOURS = 24
_S = SelfReflectionRow
_OF_AGENT = (_S.group_id == bindparam("group"), _S.agent_id == bindparam("agent"))
#: The agent's number, else the deployment's.
_CONVERSATIONS = func.coalesce(_S.conversations, bindparam("conversations"))
_EVERY_HOURS = func.coalesce(_S.hours, bindparam("hours"))
_OWN_MEMORY = and_(MemoryNode.group_id == _S.group_id, MemoryNode.agent_id == _S.agent_id)
_ANYTHING_NEW = exists().where(_OWN_MEMORY, MemoryNode.kind == "session", MemoryNode.node_count > _S.seen_to)
_SINCE = ("ended", "seen_to", "last_at", "asked", "anything_new")
_FIND = select(
    *(_CONVERSATIONS.label("conversations"), _EVERY_HOURS.label("hours")),
    _ANYTHING_NEW.label("anything_new"),
    *(_S.require_approval, _S.allow_soul_modification, _S.use_llm, _S.fallback),
    *(_S.ended, _S.seen_to, _S.last_at, _S.asked),
).where(*_OF_AGENT)
_ASK = update(_S).where(*_OF_AGENT).values(asked=true())
_OWING = exists().where(
    PendingWork.kind == REFLECT,
    PendingWork.subject_id == Agent.agent_key,
    PendingWork.group_id == _S.group_id,
)
_AT = bindparam("now", type_=Timestamp)
# A self-review in the future was noted while a clock was wrong: it does not count.
_HOURS = (
    select(Agent.agent_key, _S.group_id, _S.agent_id)
    .select_from(_S)
    .join(Agent, and_(Agent.group_id == _S.group_id, Agent.agent_id == _S.agent_id))
    .where(_EVERY_HOURS > 0, _ANYTHING_NEW, ~_OWING)
    .where(
        or_(_S.last_at <= _AT - func.make_interval(0, 0, 0, 0, _EVERY_HOURS), _S.last_at > _AT + CLOCK_AHEAD)
    )
    .order_by(_S.last_at)
    .limit(bindparam("limit"))
    .with_for_update(of=_S, skip_locked=True)
)
_LOOKED = (
    update(_S)
    .where(*_OF_AGENT)
    .values(
        ended=func.greatest(0, _S.ended - bindparam("so_many")),
        seen_to=func.greatest(_S.seen_to, bindparam("seen")),
        last_at=func.clock_timestamp(),
        asked=false(),
    )
)


def turns_since(connection: Connection, name: AgentName, after: int, limit: int) -> list[StoredTurn]:
    """The latest turns since the last look, in their order."""
    rows = connection.execute(_TURNS, {"group": name[0], "agent": name[1], "after": after, "limit": limit})
    return as_turns(connection, name, rows)[::-1]


def files_text(connection: Connection, name: AgentName) -> str:
    files = identity.current_files(connection, name)
    return "\n\n".join(f"{file}:\n{current.content}" for file, current in files.items() if current.content)


def store_findings(
    connection: Connection,
    name: AgentName,
    reflection_id: UUID,
    answer: SelfReflected,
    turns: Sequence[StoredTurn],
    settings: SelfSettings,
) -> Findings:
    """Store a reflection's findings, and propose changes of files. Call it under the agent's lock."""

    def ids(lines: Sequence[int]) -> list[UUID]:
        return [turns[line].node_id for line in dict.fromkeys(lines)]

    proposed = [
        _propose(connection, name, reflection_id, change, ids(change.evidence), settings)
        for change in allowed_changes(answer.identity_changes, soul=settings.allow_soul_modification)
    ]
    findings = Findings(
        patterns=[
            Finding(kind=item.kind, text=item.text, evidence=ids(item.evidence)) for item in answer.patterns
        ],
        improvements=[Finding(text=item.text, evidence=ids(item.evidence)) for item in answer.improvements],
        proposals=[proposal_id for proposal_id in proposed if proposal_id is not None],
    )
    connection.execute(
        _KEEP, {"group": name[0], "id": reflection_id, "findings": findings.model_dump(mode="json")}
    )
    work.note(connection, name, "pattern", grown=len(findings.patterns))
    return findings


def _propose(
    connection: Connection,
    name: AgentName,
    reflection_id: UUID,
    change: IdentityChange,
    evidence: list[UUID],
    settings: SelfSettings,
) -> UUID | None:
    """None for what the file, or a proposal that waits or was rejected, says already."""
    base = identity.current_file(connection, name, change.file)
    text_wanted = suggested_content(change, base.content, limits.MAX_IDENTITY_CHARS)
    if text_wanted is None or not is_new(
        change, {change.file: identity.suggested_lines(connection, name, change.file)}
    ):
        return None
    rests = {"reason": change.reason, "evidence": evidence, "evidence_count": len(evidence)}
    proposal = identity.add_proposal(
        connection, name, base, text_wanted, BY_REFLECTION, reflection_id=reflection_id, **rests
    )
    if not settings.require_approval:
        proposals.decide(connection, proposal, name, "approve", BY_REFLECTION)
    return proposal.id


@action("self_review.get")
def get_schedule(context: Context, request: OfAgent) -> SelfState:
    """Get how often an agent reviews itself.

    Its settings, with the deployment's numbers where it has none of its own, how far it has come, and whether
    it is due.
    """
    name = known_agent(context.connection, context.group_id, request.agent_id)
    return schedule_state(context.connection, name)


@action("self_review.configure")
def configure(context: Context, request: ConfigureSelf) -> SelfState:
    """Configure how an agent reviews itself.

    After how many conversations and hours; whether proposals wait for somebody (they do), and whether it may
    propose changes of its SOUL (it may not). Fields that are not given stay unchanged.
    """
    name = known_agent(context.connection, context.group_id, request.agent_id, lock=True)
    changes = request.model_dump(exclude={"agent_id", "follow_deployment"}, exclude_none=True)
    if request.follow_deployment:
        changes = {"conversations": None, "hours": None, **changes}
    ensure_schedule(context.connection, name)
    if changes:
        context.connection.execute(update(_S).where(*_OF_AGENT).values(**changes), bind_name(name))
    context.audit(request.agent_id, **changes)
    return schedule_state(context.connection, name)


@action("self_review.run")
def run(context: Context, request: OfAgent) -> Made:
    """Have an agent review itself now.

    Enqueues a reflection that also asks what went well or wrong, what to do better, and what of its files to
    change. Returns at once; self_review.show has the result.
    """
    name = known_agent(context.connection, context.group_id, request.agent_id, lock=True)
    ensure_schedule(context.connection, name)
    context.connection.execute(_ASK, bind_name(name))  # the next reflection is a self-review
    reflection_id = reflections.ask(context.connection, *name, "request")
    agent_key = key_of(context.connection, *name)
    assert agent_key is not None  # it is locked
    context.enqueue(REFLECT, [(agent_key, context.group_id)])
    context.audit(request.agent_id, reflection_id=reflection_id)
    return Made(id=reflection_id)


@action("self_review.list")
def list_looks(context: Context, request: ReflectionsQuery) -> Rows[ReflectionState]:
    """List an agent's self-reviews.

    The latest first, each with what it found.
    """
    return actions.listed(context, request, self_reviews=True)


@action("self_review.show")
def show(context: Context, request: ById) -> ReflectionState:
    """Show a self-review.

    Patterns, improvements and proposals with the turns that they rest on, and the thoughts that it left.
    """
    detail = actions.find_reflection(context.connection, context.group_id, request.id)
    if detail is None:
        raise NotFound(
            f"id: no reflection {request.id} in the group {context.group_id!r}; see self_review.list"
        )
    return detail


def ensure_schedule(connection: Connection, name: AgentName) -> None:
    """From now on the agent's hours count; nothing happens if they do already."""
    connection.execute(_BEGIN, bind_name(name))


def find_schedule(connection: Connection, name: AgentName) -> ReviewSchedule:
    """As the deployment has it where the agent has nothing of its own."""
    row = connection.execute(_FIND, bind_name(name) | _defaults()).mappings().one_or_none()
    if row is None:
        usual = SelfSettings(
            **_defaults(), require_approval=True, allow_soul_modification=False, use_llm=True, fallback=True
        )
        return ReviewSchedule(usual, datetime.now(UTC))
    own = SelfSettings.model_validate({field: row[field] for field in SelfSettings.model_fields})
    return ReviewSchedule(own, **{field: row[field] for field in _SINCE})


def schedule_state(connection: Connection, name: AgentName) -> SelfState:
    schedule = find_schedule(connection, name)
    return SelfState(
        agent_id=name[1],
        settings=schedule.settings,
        ended=schedule.ended,
        last_at=schedule.last_at,
        anything_new=schedule.anything_new,
        due=schedule.due(datetime.now(UTC)),
        due_at=schedule.due_at,
    )


def lock_schedule(connection: Connection, name: AgentName) -> None:
    """Lock the agent's schedule until the transaction ends: after the agent, before its reflections."""
    connection.execute(_LOCK, bind_name(name))


@after_events
def count_conversations(batch: StoredBatch) -> None:
    """Count ended conversations; enqueue a reflection of agents that are due. They are locked."""
    ended = Counter((event.group_id, event.agent_id) for event in batch.of_type(SessionEnded))
    for name, count in sorted(ended.items()):
        row = batch.connection.execute(_ENDED, bind_name(name) | _defaults() | {"count": count}).one()
        if row.wanted and row.ended >= row.wanted:
            _enqueue(batch.connection, name, batch.agents[name].agent_key, "conversations")


def enqueue_reviews(connection: Connection, now: datetime, limit: int) -> list[datetime]:
    """Enqueue a reflection of agents whose hours are over at ``now``, with something new since: up to
    ``limit``. Returns the due time of each.

    Safe to repeat because an agent with a pending one is not found again, and two runs at once find different
    agents.
    """
    rows = connection.execute(_HOURS, _defaults() | {"now": now, "limit": limit}).all()
    for row in rows:
        _enqueue(connection, (row.group_id, row.agent_id), row.agent_key, "hours")
    return [now] * len(rows)


def finish_review(connection: Connection, name: AgentName, schedule: ReviewSchedule, seen_to: int) -> bool:
    """The look is over: what has happened since it began counts for the next; whether that is due."""
    connection.execute(_LOOKED, bind_name(name) | {"so_many": schedule.ended, "seen": seen_to})
    return find_schedule(connection, name).due(datetime.now(UTC)) is not None


def _enqueue(connection: Connection, name: AgentName, agent_key: UUID, trigger: SelfTrigger) -> None:
    reflections.ask(connection, *name, trigger)
    pending_work.enqueue(connection, REFLECT, [(agent_key, name[0])])


def _defaults() -> dict[str, int]:
    return {"conversations": SELF_REFLECT_CONVERSATIONS, "hours": SELF_REFLECT_HOURS}


@after_extraction
def enqueue_growth(connection: Connection, extraction: ExtractionCounts) -> None:
    """Enqueue the search for pain points and the update of ``USER``; begin the hours to the next review."""
    kinds = [MERGE_PAINS, FOLLOW_PROFILE] if extraction.turns else []
    if extraction.turns:
        ensure_schedule(connection, extraction.name)
    if extraction.experiences:
        kinds.append(AGGREGATE)
    for kind in kinds:
        pending_work.enqueue(connection, kind, [(extraction.agent_key, extraction.name[0])])
    # Last: who holds the count waits for nothing else.
    work.note(connection, extraction.name, "memory", grown=extraction.memories)


@after_injection
def count_use(connection: Connection, name: AgentName, memories: int, experiences: int) -> None:
    """What was used is counted; experiences that were used again may make a pattern."""
    if experiences:
        connection.execute(_AGGREGATE, {"group": name[0], "agent": name[1], "kind": AGGREGATE})
    work.note(connection, name, "memory", used=memories)  # last: who holds the count waits for nothing else


_TURNS = text("""
    SELECT n.node_id, n.node_count, n.session_id, n.user_id, n.provenance ->> 'role', n.subject,
        n.description, n.created_at, n.trust, n.provenance
    FROM memory_nodes n
    WHERE n.group_id = :group AND n.agent_id = :agent AND n.kind = 'session' AND n.node_count > :after
      AND n.provenance ->> 'role' IS NOT NULL ORDER BY n.node_count DESC LIMIT :limit
""")
_LOCK = text("SELECT FROM self_reflections WHERE group_id = :group AND agent_id = :agent FOR NO KEY UPDATE")
_BEGIN = text(
    "INSERT INTO self_reflections (group_id, agent_id) VALUES (:group, :agent) ON CONFLICT DO NOTHING"
)
_ENDED = text("""
    INSERT INTO self_reflections AS s (group_id, agent_id, ended) VALUES (:group, :agent, :count)
    ON CONFLICT (group_id, agent_id) DO UPDATE SET ended = s.ended + :count
    RETURNING ended, coalesce(conversations, :conversations) AS wanted
""")
# The reconciler wakes for it: nobody waits for a pattern. The update waits for who has it in hand, and may
# not have seen this.
_AGGREGATE = text("""
    INSERT INTO pending_work (kind, subject_id, group_id)
    SELECT :kind, agent_key, group_id FROM agents WHERE group_id = :group AND agent_id = :agent
    ON CONFLICT (kind, subject_id, group_id) DO UPDATE SET due_at = least(pending_work.due_at,
    excluded.due_at)
""")
