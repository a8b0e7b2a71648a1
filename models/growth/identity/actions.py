"""What can be done with the files that say who an agent is: propose, approve, reject, go back."""

from __future__ import annotations

from uuid import UUID

from jiyi.errors import Conflict, InvalidRequest, NotFound
from jiyi.protocol.growth.identity import (
    ChangedFiles,
    DecideProposal,
    IdentityFile,
    IdentityProposal,
    ProposeChange,
    Rollback,
    Snapshot,
    TakeSnapshot,
    UpdateUser,
)
from jiyi.protocol.growth.identity_files import FILES, File
from models.db.actions import Context, action
from models.growth.identity import profile_file, proposals, snapshots, versions
from models.memory.agents.agents import AgentName, key_of, lock_agents, no_agent


@action("identity.propose")
def propose(context: Context, request: ProposeChange) -> IdentityProposal:
    """Propose a change of a file.

    SOUL, AGENTS or HEARTBEAT as it should be, and why. Nothing changes before somebody approves it. With `base_version`, refused if
    another version is in force.
    """
    name = _locked(context, request.agent_id)
    base = versions.current(context.connection, name, request.file)
    _still(request.file, base, request.base_version)
    if base.content == request.suggested:
        raise InvalidRequest([f"suggested: is what {request.file} says already"])
    made = proposals.add(context.connection, name, base, request.suggested, request.reason, context.actor.name)
    context.audit(request.agent_id, proposal_id=made.proposal_id, file=request.file)
    return made


@action("identity.approve")
def approve(context: Context, request: DecideProposal) -> IdentityFile:
    """Approve a proposal.

    What it suggests becomes the next version of the file. In conflict if somebody else has decided, or the file has changed since.
    """
    proposal = _proposal(context, request.proposal_id)
    name = _locked(context, proposal.agent_id)
    written = proposals.approve(context.connection, proposal, name, context.actor.name, request.note)
    context.audit(proposal.agent_id, proposal_id=proposal.proposal_id, file=proposal.file, version=written.version)
    return written


@action("identity.reject")
def reject(context: Context, request: DecideProposal) -> IdentityProposal:
    """Reject a proposal.

    The file stays as it is. In conflict if somebody else has decided already.
    """
    proposal = _proposal(context, request.proposal_id)
    _locked(context, proposal.agent_id)
    proposals.decide(context.connection, proposal, context.group_id, "rejected", context.actor.name, request.note)
    context.audit(proposal.agent_id, proposal_id=proposal.proposal_id, file=proposal.file)
    return _proposal(context, request.proposal_id)


@action("identity.update_user")
def update_user(context: Context, request: UpdateUser) -> IdentityFile:
    """Add to the file USER.

    What people say of the user in their own words; it replaces what they said before. The rest of the file follows the profile.
    """
    name = _locked(context, request.agent_id)
    written = profile_file.note(context.connection, name, request.notes, context.actor.name)
    context.audit(request.agent_id, file="USER", version=written.version)
    return written


@action("identity.snapshot")
def snapshot(context: Context, request: TakeSnapshot) -> Snapshot:
    """Take a snapshot of the files.

    Notes which version of each is in force, to go back to it with identity.rollback.
    """
    name = _locked(context, request.agent_id)
    made = snapshots.take(context.connection, name, request.name, context.actor.name)
    context.audit(request.agent_id, snapshot_id=made.snapshot_id)
    return made


@action("identity.rollback")
def rollback(context: Context, request: Rollback) -> ChangedFiles:
    """Go back to an earlier version.

    Of one file, or of all to a snapshot. What they said then is written as new versions, so that this can be taken back as well.
    """
    name = _locked(context, request.agent_id)
    changed = []
    for file, number in _wanted(context, name, request).items():
        before = versions.current(context.connection, name, file)
        _still(file, before, request.base_version)
        then = versions.version(context.connection, name, file, number)
        if then is None:
            raise NotFound(f"version: {file} of {request.agent_id!r} has no version {number}; see identity.history")
        reason = request.reason or f"back to version {number}"
        written = versions.write(context.connection, name, file, then.content, reason=reason, author=context.actor.name)
        changed += [written] if written.version != before.version else []
    context.audit(request.agent_id, files={one.file: one.version for one in changed}, snapshot_id=request.snapshot_id)
    return ChangedFiles(files=changed)


def _wanted(context: Context, name: AgentName, request: Rollback) -> dict[File, int]:
    if request.snapshot_id is None:
        assert request.file is not None  # as its model has checked
        assert request.version is not None
        return {request.file: request.version}
    found = snapshots.find(context.connection, name, request.snapshot_id)
    if found is None:
        raise NotFound(f"snapshot_id: the agent {request.agent_id!r} has no snapshot {request.snapshot_id}; see identity.versions")
    return {file: found.versions[file] for file in FILES if file in found.versions}


def _still(file: File, now: IdentityFile, read: int | None) -> None:
    if read is not None and read != now.version:
        raise Conflict(f"base_version: version {now.version} of {file} is in force, not {read}; read it first")


def _locked(context: Context, agent_id: str) -> AgentName:
    """Nobody else changes the agent's files until this is committed."""
    name = (context.group_id, agent_id)
    if key_of(context.connection, *name) is None:
        raise no_agent(*name)
    lock_agents(context.connection, [name])
    return name


def _proposal(context: Context, proposal_id: UUID) -> IdentityProposal:
    found = proposals.find(context.connection, context.group_id, proposal_id)
    if found is None:
        raise NotFound(f"proposal_id: no proposal {proposal_id} in the group {context.group_id!r}; see identity.proposals")
    return found
