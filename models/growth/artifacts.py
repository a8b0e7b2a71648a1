"""Skills and workflows (``pipeline``): read, decided on by people, voted on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from sqlalchemy import Connection, and_, func, select, text
from uuid6 import uuid7

from jiyi.chat.steps import hint
from jiyi.errors import Conflict, NotFound
from jiyi.protocol.artifacts import (
    ArtifactId,
    ArtifactKind,
    ArtifactRows,
    ArtifactsQuery,
    ArtifactState,
    Deciding,
    EvolutionEvent,
    EvolutionKind,
    GiveFeedback,
    GivenFeedback,
    Hint,
    HintQuery,
    PatternRows,
    PatternsQuery,
    PatternState,
    PendingHint,
    Status,
    TrustState,
    Verb,
    Vote,
    VoteState,
)
from jiyi.protocol.identity import Tallies, TallyQuery
from models.db.actions import Context, action
from models.db.rows import columns, equal_if_given
from models.growth import evolution, work
from models.growth.tables import Artifact, TrustRow
from models.memory.agents import AgentName, belonging, known_agent

#: Patterns of an agent among which an artifact's own is looked for, the most used ones.
MAX_PATTERNS = 500


def find_artifact(connection: Connection, group_id: str, artifact_id: UUID, *, deleted: bool = False) -> ArtifactState | None:
    """One artifact of the group; None if there is none, or (unless ``deleted``) it was deleted."""
    wanted = _SHOWN.where(_A.group_id == group_id, _A.artifact_id == artifact_id)
    row = connection.execute(wanted if deleted else wanted.where(_A.status != "deleted")).mappings().one_or_none()
    return None if row is None else ArtifactState.model_validate(dict(row))


def artifact_page(
    connection: Connection,
    group_id: str,
    *,
    artifact: ArtifactKind | None = None,
    agent_id: str | None = None,
    status: Status | None = None,
    before: UUID | None = None,
    limit: int,
) -> list[ArtifactState]:
    """Artifacts, newest first."""
    wanted = _SHOWN.where(_A.group_id == group_id, _A.status != "deleted")
    wanted = wanted.where(*equal_if_given((_A.artifact, artifact), (_A.agent_id, agent_id), (_A.status, status)))
    if before is not None:
        wanted = wanted.where(_A.artifact_id < before)
    rows = connection.execute(wanted.order_by(_A.artifact_id.desc()).limit(limit)).mappings()
    return [ArtifactState.model_validate(dict(row)) for row in rows]


def patterns_of(connection: Connection, group_id: str, agent_id: str, limit: int) -> list[PatternState]:
    """The agent's patterns, the most used first."""
    rows = connection.execute(_PATTERNS, {"group": group_id, "agent": agent_id, "limit": limit})
    return [PatternState.model_validate(dict(row)) for row in rows.mappings()]


def pattern_of(connection: Connection, group_id: str, artifact: ArtifactState) -> PatternState | None:
    """The pattern that an artifact came of: of its kind, with evidence in common. None if it is not there any more."""
    of_agent = patterns_of(connection, group_id, artifact.agent_id, MAX_PATTERNS)
    return next(
        (pattern for pattern in of_agent if pattern.artifact == artifact.artifact and set(pattern.evidence) & set(artifact.evidence)), None
    )


def pending_candidate(connection: Connection, name: AgentName, user_id: str | None) -> PendingHint | None:
    """The agent's candidate that waits for somebody's decision and that a user may be told, the one with most evidence."""
    row = connection.execute(_PENDING, {"group": name[0], "agent": name[1], "user": user_id}).mappings().one_or_none()
    return None if row is None else PendingHint.model_validate(dict(row))


def votes_on(connection: Connection, group_id: str, artifact_id: UUID, limit: int) -> list[VoteState]:
    """Votes on an artifact, newest first."""
    rows = connection.execute(_VOTES, {"group": group_id, "id": artifact_id, "limit": limit})
    return [VoteState.model_validate(dict(row)) for row in rows.mappings()]


def trust_of_group(connection: Connection, group_id: str, agent_id: str | None, limit: int) -> list[TrustState]:
    """How far the group's artifacts are trusted, those with the most votes first."""
    rows = connection.execute(_TRUST, {"group": group_id, "agent": agent_id, "limit": limit})
    return [TrustState.model_validate(dict(row)) for row in rows.mappings()]


_A, _T = Artifact, TrustRow
_VOTES_COUNTED = func.coalesce(_T.positive + _T.negative, 0)
_SHOWN = select(*columns(ArtifactState, _A, _T, id=_A.artifact_id, trust_score=_T.score, votes=_VOTES_COUNTED)).outerjoin_from(
    _A, _T, and_(_T.artifact_id == _A.artifact_id, _T.group_id == _A.group_id)
)
_PATTERNS = text("""
    SELECT p.artifact, encode(p.pattern_hash, 'hex') AS pattern_hash, p.title, p.wordings, p.common_steps, p.tools_used,
        p.industry_context, p.total_reuse, p.sessions, p.confidence, p.evidence, p.updated_at
    FROM patterns p WHERE p.group_id = :group AND p.agent_id = :agent ORDER BY p.total_reuse DESC, p.pattern_hash LIMIT :limit
""")
_PENDING = text("""
    SELECT artifact_id AS id, artifact, name, description FROM artifacts
    WHERE group_id = :group AND agent_id = :agent AND status = 'pending' AND (user_id IS NULL OR user_id = :user)
    ORDER BY evidence_count DESC, artifact_id LIMIT 1
""")
_VOTES = text("""
    SELECT feedback_id AS id, artifact_id, signal, sentiment, comment, given_by, given_at FROM feedback
    WHERE group_id = :group AND artifact_id = :id ORDER BY given_at DESC, feedback_id DESC LIMIT :limit
""")
_TRUST = text("""
    SELECT t.artifact_id AS id, a.artifact, t.agent_id, a.name, t.positive, t.negative, t.neutral, t.positive + t.negative AS total,
        t.score AS trust_score, t.recommendation, t.updated_at AS last_updated
    FROM trust t JOIN artifacts a USING (artifact_id, group_id)
    WHERE t.group_id = :group AND (CAST(:agent AS text) IS NULL OR t.agent_id = :agent)
    ORDER BY t.positive + t.negative DESC, t.artifact_id LIMIT :limit
""")


@dataclass(frozen=True, slots=True)
class Decision:
    """What may be decided: of which status, and what is so afterwards. ``enabled`` None: as it was."""

    kind: EvolutionKind
    of: tuple[Status, ...]
    to: Status | None = None
    enabled: bool | None = None


ACCEPT = Decision("accepted", of=("pending",), to="accepted")
DECLINE = Decision("declined", of=("pending",), to="declined")
ENABLE = Decision("enabled", of=("accepted",), enabled=True)
DISABLE = Decision("disabled", of=("accepted",), enabled=False)
ARCHIVE = Decision("archived", of=("accepted",), to="archived", enabled=False)
#: Its texts go; that it was there stays, so that it does not come back before its evidence has doubled.
DELETE = Decision("deleted", of=("refused", "pending", "accepted", "declined", "archived"), to="deleted", enabled=False)

#: What people can do, by its verb, in the order in which it is offered.
DECISIONS: Mapping[Verb, Decision] = {
    "accept": ACCEPT,
    "decline": DECLINE,
    "enable": ENABLE,
    "disable": DISABLE,
    "archive": ARCHIVE,
    "delete": DELETE,
}


def possible_decisions(artifact: ArtifactState) -> list[Verb]:
    """The verbs of what may be decided about it now."""
    of_status = [verb for verb, decision in DECISIONS.items() if artifact.status in decision.of]
    return [verb for verb in of_status if verb != ("enable" if artifact.enabled else "disable")]


def carry_out(context: Context, artifact_id: UUID, decision: Decision, reason: str | None) -> ArtifactState:
    """Do what was decided, with its audit row and its evolution event.

    Raises:
        NotFound: the group has no such artifact.
        Conflict: its status does not allow it; says which it is and who decided that.
    """
    parameters = {"group": context.group_id, "id": artifact_id}
    row = context.connection.execute(_LOCK, parameters).one_or_none()
    if row is None or row.status == "deleted":
        raise NotFound(f"id: no skill or workflow {artifact_id} in the group {context.group_id!r}")
    if row.status not in decision.of:
        raise Conflict(
            f"id: the {row.artifact} is {row.status}{_by(row.decided_by)}; only what is {' or '.join(decision.of)} can be {decision.kind}"
        )
    if decision.enabled is not None and decision.to is None and row.enabled == decision.enabled:
        raise Conflict(f"id: the {row.artifact} is {decision.kind} already{_by(row.decided_by)}")
    now = datetime.now(UTC)
    changed = {"status": decision.to or row.status, "enabled": row.enabled if decision.enabled is None else decision.enabled}
    context.connection.execute(_DECIDE, parameters | changed | {"by": context.actor.name, "now": now})
    if decision is DELETE:
        for statement in _BLANK:
            context.connection.execute(statement, parameters)
    context.audit(str(artifact_id), agent_id=row.agent_id, artifact=row.artifact, decision=decision.kind, reason=reason)
    event = EvolutionEvent(kind=decision.kind, agent_id=row.agent_id, artifact=row.artifact, artifact_id=artifact_id)
    evolution.record_event(context.connection, context.group_id, context.actor.name, event)
    state = find_artifact(context.connection, context.group_id, artifact_id, deleted=True)
    assert state is not None
    return state


def _by(name: str | None) -> str:
    return "" if name is None else f", decided by {name}"


_LOCK = text("""
    SELECT agent_id, artifact, status, enabled, decided_by FROM artifacts
    WHERE group_id = :group AND artifact_id = :id FOR UPDATE
""")
_DECIDE = text("""
    UPDATE artifacts SET status = :status, enabled = :enabled, decided_by = :by, decided_at = :now, decided_evidence = evidence_count,
        updated_at = :now WHERE group_id = :group AND artifact_id = :id
""")
_BLANK = (
    text("""
        UPDATE artifacts SET name = '', description = '', triggers = '{}', tools = '{}', body = '', issues = '[]'
        WHERE group_id = :group AND artifact_id = :id
    """),
    text("DELETE FROM feedback WHERE group_id = :group AND artifact_id = :id"),
    text("DELETE FROM trust WHERE group_id = :group AND artifact_id = :id"),
)


@action("artifacts.list")
def list_artifacts(context: Context, request: ArtifactsQuery) -> ArtifactRows:
    """List skills and workflows.

    Newest first, page by page, from candidates that the gate refused to those in use; with their trust.
    """
    rows = artifact_page(context.connection, context.group_id, **request.model_dump())
    return ArtifactRows(rows=rows, next=rows[-1].id if len(rows) == request.limit else None)


@action("artifacts.get")
def get_artifact(context: Context, request: ArtifactId) -> ArtifactState:
    """Get one skill or workflow.

    Its text, what it rests on, what the gate found, who decided about it, and how far it is trusted.
    """
    artifact = find_artifact(context.connection, context.group_id, request.id)
    if artifact is None:
        raise NotFound(f"id: no skill or workflow {request.id} in the group {context.group_id!r}")
    return artifact


@action("artifacts.decide")
def decide(context: Context, request: Deciding) -> ArtifactState:
    """Decide on a skill or a workflow.

    Accept or decline a candidate: an accepted one is registered and still disabled, a declined one comes back when its evidence
    has doubled. Enable or disable one that was accepted: agents' programs may use what is enabled. Archive one that was accepted:
    it goes out of use for good and stays to be read. Delete: its texts, votes and trust go. Refused where its status does not
    allow it: of two people who decide, the second learns who came first.
    """
    return carry_out(context, request.id, DECISIONS[request.decision], request.reason)


@action("feedback.give")
def give_feedback(context: Context, request: GiveFeedback) -> GivenFeedback:
    """Vote on a skill or a workflow.

    Its trust is counted anew. A vote of the same id counts once; one on something that was deleted is refused.
    """
    vote = Vote.model_validate(request.model_dump(exclude={"id"}))
    owner = evolution.lock_owner(context.connection, context.group_id, vote)
    if owner is None:
        raise NotFound(f"artifact_id: no {vote.artifact} {vote.artifact_id} in the group {context.group_id!r}; it may have been deleted")
    feedback_id = request.id or uuid7()
    trust = evolution.count_vote(context.connection, owner, feedback_id, vote, context.actor.name, datetime.now(UTC))
    context.audit(str(vote.artifact_id), agent_id=owner[1], artifact=vote.artifact, sentiment=vote.sentiment, signal=vote.signal)
    return GivenFeedback(id=feedback_id, trust_score=trust.score, total=trust.total, recommendation=trust.recommendation)


@action("patterns.list")
def list_patterns(context: Context, request: PatternsQuery) -> PatternRows:
    """List an agent's patterns.

    Experiences of the same problem with the steps that half of them share, and chains of tools that worked; the most used first.
    """
    return PatternRows(rows=patterns_of(context.connection, context.group_id, request.agent_id, request.limit))


@action("evolution.hint")
def pending_hint(context: Context, request: HintQuery) -> Hint:
    """Tell which candidate waits.

    A line for the agent's prompt, of at most 150 tokens, on the candidate with the most evidence; empty if none waits.
    """
    candidate = pending_candidate(context.connection, (context.group_id, request.agent_id), request.user_id)
    if candidate is None:
        return Hint()
    return Hint(text=hint(candidate.artifact, candidate.name, candidate.description), id=candidate.id, artifact=candidate.artifact)


@action("tallies.list")
def list_tallies(context: Context, request: TallyQuery) -> Tallies:
    """Count what an agent grew, and what of it was used.

    Per day and kind of thing: memories, experiences, pain points, proposals, versions of its files.
    """
    name = known_agent(context.connection, context.group_id, request.agent_id)
    tallies = work.tallies_of(context.connection, name, request.days)
    return Tallies(agent_id=request.agent_id, tallies=tallies)


belonging("skills", "SELECT FROM artifacts WHERE group_id = :group AND agent_id = :agent AND status <> 'deleted'")
