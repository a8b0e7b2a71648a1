"""Proposals of all kinds: stored, listed and decided on.

What follows from a decision is for the kind's own module, which registers it with :func:`follows`; all under
the agent's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import Connection, RowMapping, and_, bindparam, func, select, text
from sqlalchemy.dialects.postgresql import JSONB, insert
from uuid6 import uuid7

from jiyi.errors import Conflict, NotFound
from jiyi.protocol.base import BY_ID, JsonMapping
from jiyi.protocol.proposals import (
    FileProposal,
    Kind,
    ListProposals,
    Proposal,
    ProposalState,
    SkillProposal,
    SolutionProposal,
    Status,
    Verb,
)
from models.db.rows import behind, columns, equal_if_given
from models.growth.tables import IdentityVersion, ProposalRow, TrustRow
from models.memory.agents import AgentName

_MODELS: Mapping[str, type[SkillProposal | FileProposal | SolutionProposal]] = {
    "skill": SkillProposal,
    "pipeline": SkillProposal,
    "identity": FileProposal,
    "solution": SolutionProposal,
}
_P, _T, _V = ProposalRow, TrustRow, IdentityVersion


def add(
    connection: Connection, name: AgentName, kind: Kind, content: JsonMapping, by: str, **values: Any
) -> SkillProposal | FileProposal | SolutionProposal | None:
    """Store what waits for somebody's decision; None if one for the same pain point waits already. Call it
    under the agent's lock.

    ``values``: of other columns.
    """
    own = {
        "proposal_id": uuid7(),
        "group_id": name[0],
        "agent_id": name[1],
        "kind": kind,
        "content": content,
        "made_by": by,
    }
    once = insert(_P).values(**own, **values).on_conflict_do_nothing()
    proposal_id = connection.execute(once.returning(_P.proposal_id)).scalar_one_or_none()
    return None if proposal_id is None else need(connection, name[0], proposal_id)


def need(connection: Connection, group_id: str, proposal_id: UUID, *, deleted: bool = False) -> Proposal:
    """One proposal of the group. Raises :class:`NotFound`, also of a deleted one unless ``deleted``."""
    statement = _SHOWN.where(_P.group_id == group_id, _P.proposal_id == proposal_id)
    row = connection.execute(statement).mappings().one_or_none()
    if row is None or (row["status"] == "deleted" and not deleted):
        raise NotFound(f"id: no proposal {proposal_id} in the group {group_id!r}; see proposals.list")
    return _proposal(row)


def find(
    connection: Connection, group_id: str, request: ListProposals, *, pain_id: UUID | None = None
) -> list[Proposal]:
    """Proposals, the latest first; one more than asked for, if there are more."""
    of = ((_P.kind, request.kind), (_P.agent_id, request.agent_id), (_P.status, request.status))
    filters = equal_if_given(*of, (_P.pain_id, pain_id))
    statement = _SHOWN.where(_P.group_id == group_id, _P.status != "deleted", *filters)
    latest = behind(statement, request.place(BY_ID), _P.proposal_id).limit(request.limit + 1)
    return [_proposal(row) for row in connection.execute(latest).mappings()]


def _proposal(row: RowMapping) -> Proposal:
    return _MODELS[row["kind"]].model_validate({**row["content"], **row})


_OF_FILE = and_(_V.group_id == _P.group_id, _V.agent_id == _P.agent_id, _V.file == _P.content["file"].astext)
_IN_FORCE = func.coalesce(select(func.max(_V.version)).where(_OF_FILE).scalar_subquery(), 0)
_STALE = and_(
    _P.kind == "identity", _P.status == "pending", _P.content["base_version"].as_integer() != _IN_FORCE
)
_VOTES = func.coalesce(_T.positive + _T.negative, 0)
_SHOWN = select(
    *columns(ProposalState, _P, id=_P.proposal_id),
    *(_P.kind, _P.pain_id, _P.content, _P.enabled, _STALE.label("stale")),
    *(_T.score.label("trust_score"), _T.recommendation, _VOTES.label("votes")),
).outerjoin_from(_P, _T, and_(_T.artifact_id == _P.proposal_id, _T.group_id == _P.group_id))


@dataclass(frozen=True, slots=True)
class Choice:
    """What may be decided: of which status, and what is so afterwards (``enabled`` None: as it was)."""

    outcome: Literal["approved", "rejected", "enabled", "disabled", "archived", "deleted"]
    of: tuple[Status, ...]
    to: Status | None = None
    enabled: bool | None = None


#: What people can do, by its verb, in the order in which it is offered; with what is no skill or workflow the
#: first two.
CHOICES: Mapping[Verb, Choice] = {
    "approve": Choice("approved", of=("pending",), to="approved"),
    "reject": Choice("rejected", of=("pending",), to="rejected"),
    "enable": Choice("enabled", of=("approved",), enabled=True),
    "disable": Choice("disabled", of=("approved",), enabled=False),
    "archive": Choice("archived", of=("approved",), to="archived", enabled=False),
    # Its texts go; that it was there stays, so that it does not come back before its evidence has doubled.
    "delete": Choice(
        "deleted", of=("refused", "pending", "approved", "rejected", "archived"), to="deleted", enabled=False
    ),
}


def possible(proposal: Proposal) -> list[Verb]:
    """The verbs of what may be decided about it now."""
    if not isinstance(proposal, SkillProposal):
        return ["approve", "reject"] if proposal.status == "pending" else []
    of_status = [verb for verb, choice in CHOICES.items() if proposal.status in choice.of]
    return [verb for verb in of_status if verb != ("enable" if proposal.enabled else "disable")]


@dataclass(slots=True)
class Decision:
    """A decision that was taken, for what follows from it."""

    connection: Connection
    name: AgentName
    #: As it was.
    proposal: Any
    choice: Choice
    by: str
    at: datetime
    #: Turns in which a user decided in words.
    turns: Sequence[UUID] = ()
    #: What came of it, to be kept with what it says.
    became: dict[str, Any] = field(default_factory=dict)


_FOLLOWS: dict[str, Callable[[Decision], None]] = {}


def follows(*kinds: Kind) -> Callable[[Callable[[Decision], None]], Callable[[Decision], None]]:
    """Register what follows from decisions on these kinds; it may refuse one (:class:`Conflict`)."""

    def register(function: Callable[[Decision], None]) -> Callable[[Decision], None]:
        _FOLLOWS.update(dict.fromkeys(kinds, function))
        return function

    return register


def decide(
    connection: Connection,
    proposal: Proposal,
    name: AgentName,
    verb: Verb,
    by: str,
    note: str = "",
    *,
    at: datetime | None = None,
    turns: Sequence[UUID] = (),
) -> Decision:
    """Carry out a decision on a proposal that was read under the agent's lock.

    Raises:
        Conflict: its status does not allow it; says which it is and who decided that.
    """
    choice = CHOICES[verb]
    if verb not in possible(proposal):
        by_whom = "" if proposal.decided_by is None else f", decided by {proposal.decided_by}"
        enabled = isinstance(proposal, SkillProposal) and proposal.enabled
        state = "enabled" if enabled else proposal.status
        raise Conflict(f"id: the proposal is {state}{by_whom}; it cannot be {choice.outcome} now")
    decision = Decision(connection, name, proposal, choice, by, at or datetime.now(UTC), turns)
    _FOLLOWS[proposal.kind](decision)
    changed = {"status": choice.to or proposal.status, "enabled": choice.enabled, "became": decision.became}
    connection.execute(_DECIDE, {"group": name[0], "id": proposal.id, "by": by, "note": note, **changed})
    return decision


_DECIDE = text("""
    UPDATE proposals SET status = :status, enabled = coalesce(:enabled, enabled), note = :note,
        content = content || :became, decided_by = :by, decided_at = clock_timestamp(),
        decided_evidence = evidence_count, updated_at = clock_timestamp()
    WHERE group_id = :group AND proposal_id = :id
""").bindparams(bindparam("became", type_=JSONB))
