"""What grew, as it is shown: patterns, artifacts with their trust, votes."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import Connection, and_, func, select, text

from jiyi.protocol.growth.artifact_types import ArtifactKind, Status
from jiyi.protocol.growth.artifacts import ArtifactState, PatternState, PendingHint, TrustState, VoteState
from models.db.conditions import equal_if_given
from models.db.rows import columns
from models.growth.tables import Artifact, TrustRow
from models.memory.agents.agents import AgentName

#: Patterns of an agent among which an artifact's own is looked for, the most used ones.
MAX_PATTERNS = 500


def artifact(
    connection: Connection, group_id: str, kind: ArtifactKind, artifact_id: UUID, *, deleted: bool = False
) -> ArtifactState | None:
    """One artifact of the group; None if there is none, or (unless ``deleted``) it was deleted."""
    wanted = _SHOWN.where(_A.group_id == group_id, _A.artifact == kind, _A.artifact_id == artifact_id)
    row = connection.execute(wanted if deleted else wanted.where(_A.status != "deleted")).mappings().one_or_none()
    return None if row is None else ArtifactState.model_validate(dict(row))


def artifacts(
    connection: Connection,
    group_id: str,
    kind: ArtifactKind,
    *,
    agent_id: str | None = None,
    status: Status | None = None,
    before: UUID | None = None,
    limit: int,
) -> list[ArtifactState]:
    """Artifacts of a kind, newest first."""
    wanted = _SHOWN.where(_A.group_id == group_id, _A.artifact == kind, _A.status != "deleted")
    wanted = wanted.where(*equal_if_given((_A.agent_id, agent_id), (_A.status, status)))
    if before is not None:
        wanted = wanted.where(_A.artifact_id < before)
    rows = connection.execute(wanted.order_by(_A.artifact_id.desc()).limit(limit)).mappings()
    return [ArtifactState.model_validate(dict(row)) for row in rows]


def patterns(connection: Connection, group_id: str, agent_id: str, limit: int) -> list[PatternState]:
    """The agent's patterns, the most used first."""
    rows = connection.execute(_PATTERNS, {"group": group_id, "agent": agent_id, "limit": limit})
    return [PatternState.model_validate(dict(row)) for row in rows.mappings()]


def pattern_of(connection: Connection, group_id: str, found: ArtifactState) -> PatternState | None:
    """The pattern that an artifact came of: of its kind, with evidence in common. None if it is not there any more."""
    of_agent = patterns(connection, group_id, found.agent_id, MAX_PATTERNS)
    return next((one for one in of_agent if one.artifact == found.artifact and set(one.evidence) & set(found.evidence)), None)


def pending(connection: Connection, name: AgentName) -> PendingHint | None:
    """The agent's candidate that waits for somebody's decision, the one with most evidence."""
    row = connection.execute(_PENDING, {"group": name[0], "agent": name[1]}).mappings().one_or_none()
    return None if row is None else PendingHint.model_validate(dict(row))


def votes(connection: Connection, group_id: str, artifact_id: UUID, limit: int) -> list[VoteState]:
    """Votes on an artifact, newest first."""
    rows = connection.execute(_VOTES, {"group": group_id, "id": artifact_id, "limit": limit})
    return [VoteState.model_validate(dict(row)) for row in rows.mappings()]


def trust(connection: Connection, group_id: str, agent_id: str | None, limit: int) -> list[TrustState]:
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
    WHERE group_id = :group AND agent_id = :agent AND status = 'pending' ORDER BY evidence_count DESC, artifact_id LIMIT 1
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
