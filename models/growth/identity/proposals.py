"""Proposals to change a file: stored with what was in force, approved only while that still is."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Connection, and_, bindparam, func, select, text
from uuid6 import uuid7

from jiyi.errors import Conflict
from jiyi.protocol.growth.identity import File, IdentityFile, IdentityProposal, ListProposals
from models.db.conditions import equal_if_given
from models.db.rows import columns, fetch, fetch_one
from models.growth import tables
from models.growth.identity import versions
from models.growth.tracking import tallies
from models.memory.agents.agents import AgentName


def add(
    connection: Connection,
    name: AgentName,
    base: IdentityFile,
    suggested: str,
    reason: str,
    author: str,
    *,
    evidence: Sequence[UUID] = (),
    reflection_id: UUID | None = None,
) -> IdentityProposal:
    """Store it, to be decided on."""
    fields = {"id": uuid7(), "group": name[0], "agent": name[1], "file": base.file, "reason": reason, "base": base.version}
    more = {"current": base.content, "suggested": suggested, "author": author, "evidence": list(evidence), "reflection": reflection_id}
    connection.execute(_ADD, fields | more)
    tallies.note(connection, name, "identity_proposal", grown=1)
    made = find(connection, name[0], fields["id"])
    assert made is not None  # it was just stored
    return made


def find(connection: Connection, group_id: str, proposal_id: object) -> IdentityProposal | None:
    return fetch_one(connection, IdentityProposal, _ONE, group=group_id, id=proposal_id)


def page(connection: Connection, group_id: str, request: ListProposals) -> list[IdentityProposal]:
    """One more than asked for, if there are more: the latest first."""
    given = equal_if_given((_P.agent_id, request.agent_id), (_P.file, request.file), (_P.status, request.status))
    wanted = _SHOWN.where(_P.group_id == group_id, *given)
    if request.before is not None:
        wanted = wanted.where(_P.proposal_id < request.before)
    return fetch(connection, IdentityProposal, wanted.order_by(_P.proposal_id.desc()).limit(request.limit + 1))


def suggestions(connection: Connection, name: AgentName, file: File) -> list[str]:
    """What pending and rejected proposals of a file suggest to add: lines that the file then had not."""
    rows = connection.execute(_SUGGESTIONS, {"group": name[0], "agent": name[1], "file": file})
    added = [line for row in rows for line in row.suggested.splitlines() if line not in row.current.splitlines()]
    return [line.strip("- ") for line in added if line.strip()]


def approve(connection: Connection, proposal: IdentityProposal, name: AgentName, by: str, note: str) -> IdentityFile:
    """The suggested text becomes the next version. Call it under the agent's lock.

    Raises:
        Conflict: it was decided on, or the file has changed since it was proposed: then it stays pending.
    """
    base = versions.current(connection, name, proposal.file)
    if base.version != proposal.base_version:
        raise Conflict(
            f"proposal_id: it rests on version {proposal.base_version} of {proposal.file}, and {base.version} is in force now; "
            "read that, and propose the change anew"
        )
    decide(connection, proposal, name[0], "approved", by, note)
    tallies.note(connection, name, "identity_proposal", used=1)
    why, whence = proposal.reason, proposal.proposal_id
    return versions.write(connection, name, proposal.file, proposal.suggested, reason=why, author=by, proposal_id=whence)


def decide(connection: Connection, proposal: IdentityProposal, group_id: str, status: str, by: str, note: str) -> None:
    """Approve or reject it.

    Raises:
        Conflict: somebody else has decided on it already.
    """
    fields = {"group": group_id, "id": proposal.proposal_id, "status": status, "by": by, "note": note}
    if connection.execute(_DECIDE, fields).rowcount == 0:
        now = find(connection, group_id, proposal.proposal_id)
        was = "decided on" if now is None else f"{now.status} by {now.decided_by}"
        raise Conflict(f"proposal_id: it was {was} already")


_P, _V = tables.IdentityProposal, tables.IdentityVersion
_OF_ITS_FILE = (_V.group_id == _P.group_id, _V.agent_id == _P.agent_id, _V.file == _P.file)
_IN_FORCE = func.coalesce(select(func.max(_V.version)).where(*_OF_ITS_FILE).scalar_subquery(), 0)
_SHOWN = select(*columns(IdentityProposal, _P, stale=and_(_P.status == "pending", _P.base_version != _IN_FORCE)))
_ONE = _SHOWN.where(_P.group_id == bindparam("group"), _P.proposal_id == bindparam("id"))
_ADD = text("""
    INSERT INTO identity_proposals (proposal_id, group_id, agent_id, file, reason, base_version, current, suggested, author, evidence,
        reflection_id)
    VALUES (:id, :group, :agent, :file, :reason, :base, :current, :suggested, :author, :evidence, :reflection)
""")
_DECIDE = text("""
    UPDATE identity_proposals SET status = :status, decided_by = :by, decided_at = clock_timestamp(), note = :note
    WHERE group_id = :group AND proposal_id = :id AND status = 'pending'
""")
_SUGGESTIONS = text("""
    SELECT suggested, current FROM identity_proposals
    WHERE group_id = :group AND agent_id = :agent AND file = :file AND status IN ('pending', 'rejected')
    ORDER BY proposal_id DESC LIMIT 100
""")
