"""Decisions of people about artifacts: each from one status to another, once; who comes second is told who came first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from sqlalchemy import text

from jiyi.errors import Conflict, NotFound
from jiyi.protocol.growth.artifact_types import ArtifactKind, EvolutionEvent, EvolutionKind, Status
from jiyi.protocol.growth.artifacts import ArtifactState
from models.db.actions import Context
from models.growth.artifacts import evolution, reads


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
DECISIONS = {"accept": ACCEPT, "decline": DECLINE, "enable": ENABLE, "disable": DISABLE, "archive": ARCHIVE, "delete": DELETE}


def possible(found: ArtifactState) -> list[str]:
    """The verbs of what may be decided about it now."""
    of_status = [verb for verb, decision in DECISIONS.items() if found.status in decision.of]
    return [verb for verb in of_status if verb != ("enable" if found.enabled else "disable")]


def decide(context: Context, artifact: ArtifactKind, artifact_id: UUID, decision: Decision, reason: str | None = None) -> ArtifactState:
    """Do what was decided, with its audit row and its evolution event.

    Raises:
        NotFound: the group has no such artifact.
        Conflict: its status does not allow it; says which it is and who decided that.
    """
    parameters = {"group": context.group_id, "id": artifact_id, "artifact": artifact}
    row = context.connection.execute(_LOCK, parameters).one_or_none()
    if row is None or row.status == "deleted":
        raise NotFound(f"id: no {artifact} {artifact_id} in the group {context.group_id!r}")
    if row.status not in decision.of:
        raise Conflict(
            f"id: the {artifact} is {row.status}{_by(row.decided_by)}; only what is {' or '.join(decision.of)} can be {decision.kind}"
        )
    if decision.enabled is not None and decision.to is None and row.enabled == decision.enabled:
        raise Conflict(f"id: the {artifact} is {decision.kind} already{_by(row.decided_by)}")
    now = datetime.now(UTC)
    changed = {"status": decision.to or row.status, "enabled": row.enabled if decision.enabled is None else decision.enabled}
    context.connection.execute(_DECIDE, parameters | changed | {"by": context.actor.name, "now": now})
    if decision is DELETE:
        for statement in _BLANK:
            context.connection.execute(statement, parameters)
    context.audit(str(artifact_id), agent_id=row.agent_id, artifact=artifact, **({} if reason is None else {"reason": reason}))
    event = EvolutionEvent(kind=decision.kind, agent_id=row.agent_id, artifact=artifact, artifact_id=artifact_id)
    evolution.record(context.connection, context.group_id, context.actor.name, event)
    found = reads.artifact(context.connection, context.group_id, artifact, artifact_id, deleted=True)
    assert found is not None
    return found


def _by(name: str | None) -> str:
    return "" if name is None else f", decided by {name}"


_LOCK = text("""
    SELECT agent_id, status, enabled, decided_by FROM artifacts
    WHERE group_id = :group AND artifact_id = :id AND artifact = :artifact FOR UPDATE
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
