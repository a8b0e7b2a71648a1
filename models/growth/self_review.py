"""Self-review: what it starts from, how its findings are stored, and the actions on it."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Connection, bindparam, text
from sqlalchemy.dialects.postgresql import JSONB

from engine.growth.self_review import IdentityChange, SelfReflected, allowed_changes, is_new, suggested_content
from jiyi.errors import NotFound
from jiyi.protocol import limits
from jiyi.protocol.growth import (
    ConfigureSelf,
    Finding,
    Findings,
    FoundPattern,
    ListLooks,
    Look,
    LookDetail,
    LookId,
    LookPage,
    SelfSettings,
    SelfState,
)
from jiyi.protocol.identity import OfAgent
from jiyi.protocol.reflection import ReflectionAsked
from models.conversations.extractions import StoredTurn, as_turns
from models.db.actions import Context, action
from models.growth import identity, self_review_schedule, tracking
from models.memory.agents import AgentName, key_of, known_agent
from models.reflection import reads as reflection_reads
from models.reflection import reflections
from models.reflection.reflections import REFLECT

#: Who makes an agent's own proposals, and approves those that need nobody.
BY_REFLECTION = "reflection"


def turns_since(connection: Connection, name: AgentName, after: int, limit: int) -> list[StoredTurn]:
    """The latest turns since the last look, in their order."""
    rows = connection.execute(_TURNS, {"group": name[0], "agent": name[1], "after": after, "limit": limit})
    return as_turns(rows)[::-1]


def files_text(connection: Connection, name: AgentName) -> str:
    """The agent's files in one text, for the question."""
    files = identity.current_files(connection, name)
    return "\n\n".join(f"{file}:\n{current.content}" for file, current in files.items() if current.content)


def store_findings(
    connection: Connection, name: AgentName, reflection_id: UUID, answer: SelfReflected, seen: Sequence[StoredTurn], settings: SelfSettings
) -> Findings:
    """Store what was found with the reflection, and propose the changes of files. Call it under the agent's lock."""

    def ids(lines: Sequence[int]) -> list[UUID]:
        return [seen[line].node_id for line in dict.fromkeys(lines)]

    findings = Findings(
        patterns=[FoundPattern(kind=item.kind, text=item.text, evidence=ids(item.evidence)) for item in answer.patterns],
        improvements=[Finding(text=item.text, evidence=ids(item.evidence)) for item in answer.improvements],
        proposals=[
            proposal_id
            for change in allowed_changes(answer.identity_changes, soul=settings.allow_soul_modification)
            if (proposal_id := _propose(connection, name, reflection_id, change, ids(change.evidence), settings)) is not None
        ],
    )
    connection.execute(_KEEP, {"group": name[0], "id": reflection_id, "findings": findings.model_dump(mode="json")})
    tracking.note(connection, name, "pattern", grown=len(findings.patterns))
    return findings


def _propose(
    connection: Connection, name: AgentName, reflection_id: UUID, change: IdentityChange, evidence: list[UUID], settings: SelfSettings
) -> UUID | None:
    """None for what the file, or a proposal that waits or was rejected, says already."""
    base = identity.current_file(connection, name, change.file)
    text_wanted = suggested_content(change, base.content, limits.MAX_IDENTITY_CHARS)
    if text_wanted is None or not is_new(change, {change.file: identity.suggested_lines(connection, name, change.file)}):
        return None
    proposal = identity.add_proposal(
        connection, name, base, text_wanted, change.reason, BY_REFLECTION, evidence=evidence, reflection_id=reflection_id
    )
    if not settings.require_approval:
        identity.approve_proposal(connection, proposal, name, BY_REFLECTION, "")
    return proposal.proposal_id


_TURNS = text("""
    SELECT n.node_id, n.node_count, n.session_id, n.provenance ->> 'role', n.subject, n.description, n.created_at FROM memory_nodes n
    WHERE n.group_id = :group AND n.agent_id = :agent AND n.kind = 'session' AND n.provenance ->> 'role' IS NOT NULL
      AND n.node_count > :after ORDER BY n.node_count DESC LIMIT :limit
""")
_KEEP = text("UPDATE reflections SET findings = :findings WHERE group_id = :group AND reflection_id = :id").bindparams(
    bindparam("findings", type_=JSONB)
)


def review_page(connection: Connection, group_id: str, request: ListLooks) -> list[Look]:
    """One more than asked for, if there are more: the latest first."""
    wanted = {"group": group_id, "agent": request.agent_id, "before": request.before, "limit": request.limit + 1}
    return [Look.model_validate(dict(row)) for row in connection.execute(_PAGE, wanted).mappings()]


def review_detail(connection: Connection, group_id: str, reflection_id: UUID) -> LookDetail | None:
    """Any reflection; without findings if it was no self-review."""
    state = reflection_reads.reflection(connection, group_id, reflection_id)
    if state is None:
        return None
    row = connection.execute(_FINDINGS, {"group": group_id, "id": reflection_id}).one()
    findings = None if row.findings is None else Findings.model_validate(row.findings)
    return LookDetail.model_construct(**{**dict(state), "findings": findings})


_PAGE = text("""
    SELECT reflection_id, agent_id, trigger, state, created_at, finished_at, thoughts, llm, findings FROM reflections
    WHERE group_id = :group AND (findings IS NOT NULL OR trigger IN ('conversations', 'hours'))
      AND (CAST(:agent AS text) IS NULL OR agent_id = :agent)
      AND (CAST(:before AS uuid) IS NULL OR (created_at, reflection_id) < (
          SELECT created_at, reflection_id FROM reflections WHERE group_id = :group AND reflection_id = :before
      ))
    ORDER BY created_at DESC, reflection_id DESC LIMIT :limit
""")
_FINDINGS = text("SELECT findings FROM reflections WHERE group_id = :group AND reflection_id = :id")


@action("self_review.get")
def get_schedule(context: Context, request: OfAgent) -> SelfState:
    """Get how often an agent reviews itself.

    Its settings, with the deployment's numbers where it has none of its own, and how far it has come.
    """
    return self_review_schedule.schedule_state(context.connection, known_agent(context.connection, context.group_id, request.agent_id))


@action("self_review.configure")
def configure(context: Context, request: ConfigureSelf) -> SelfState:
    """Configure how an agent reviews itself.

    After how many conversations and hours; whether proposals wait for somebody (they do), and whether it may propose changes of its SOUL
    (it may not). What is not given stays as it is.
    """
    name = known_agent(context.connection, context.group_id, request.agent_id, lock=True)
    given = request.model_dump(exclude={"agent_id", "follow_deployment"}, exclude_none=True)
    if request.follow_deployment:
        given = {"conversations": None, "hours": None, **given}
    self_review_schedule.configure_schedule(context.connection, name, given)
    context.audit(request.agent_id, **given)
    return self_review_schedule.schedule_state(context.connection, name)


@action("self_review.due")
def tell_due(context: Context, request: OfAgent) -> SelfState:
    """Tell whether an agent is due to review itself.

    Why it is due now, or how many conversations have ended and when the hours are over.
    """
    return self_review_schedule.schedule_state(context.connection, known_agent(context.connection, context.group_id, request.agent_id))


@action("self_review.run")
def run(context: Context, request: OfAgent) -> ReflectionAsked:
    """Have an agent review itself now.

    Owes a reflection that also asks what went well or wrong, what to do better, and what of its files to change. Answers at once;
    self_review.show says what came of it.
    """
    name = known_agent(context.connection, context.group_id, request.agent_id, lock=True)
    self_review_schedule.request_review(context.connection, name)
    reflection_id = reflections.ask(context.connection, *name, "request")
    agent_key = key_of(context.connection, *name)
    assert agent_key is not None  # it is locked
    context.enqueue(REFLECT, [(agent_key, context.group_id)])
    context.audit(request.agent_id, reflection_id=reflection_id)
    return ReflectionAsked(reflection_id=reflection_id)


@action("self_review.list")
def list_looks(context: Context, request: ListLooks) -> LookPage:
    """List an agent's self-reviews.

    The latest first, each with what it found.
    """
    rows = review_page(context.connection, context.group_id, request)
    more = len(rows) > request.limit
    return LookPage(reflections=rows[: request.limit], next=rows[request.limit - 1].reflection_id if more else None)


@action("self_review.show")
def show(context: Context, request: LookId) -> LookDetail:
    """Show a self-review.

    Patterns, improvements and proposals with the turns that they rest on, and the thoughts that it left.
    """
    detail = review_detail(context.connection, context.group_id, request.reflection_id)
    if detail is None:
        raise NotFound(f"reflection_id: no reflection {request.reflection_id} in the group {context.group_id!r}; see self_review.list")
    return detail
