"""Actions on the files that say who an agent is: read, compare, propose, roll back."""

from __future__ import annotations

from engine.growth.questions import compose_prompt
from jiyi.errors import Conflict, InvalidRequest, NotFound
from jiyi.protocol.base import BY_ID, BY_NUMBER, Rows
from jiyi.protocol.identity import (
    FILES,
    ComposedPrompt,
    ComposePrompt,
    File,
    FileHistory,
    GetFile,
    IdentityFile,
    ListSnapshots,
    ProposeChange,
    Rollback,
    SnapshotState,
    TakeSnapshot,
    UpdateUser,
)
from jiyi.protocol.proposals import FileProposal
from jiyi.text.budget import estimate_tokens
from models.db.actions import Context, action
from models.db.rows import page
from models.growth import identity
from models.memory.agents import AgentName, belonging, known_agent


@action("identity.get")
def get_file(context: Context, request: GetFile) -> IdentityFile:
    """Get a file.

    The current version, or the version named; version 0 and empty where nothing was written yet.
    """
    name = known_agent(context.connection, context.group_id, request.agent_id)
    if request.version is None:
        return identity.current_file(context.connection, name, request.file)
    return _version_of(context, name, request.file, request.version)


@action("identity.prompt")
def compose(context: Context, request: ComposePrompt) -> ComposedPrompt:
    """Compose the files for a prompt.

    SOUL and AGENTS as they stand, USER as quoted data, within a budget of tokens.
    """
    name = known_agent(context.connection, context.group_id, request.agent_id)
    files = identity.current_files(context.connection, name)
    composed = compose_prompt({file: current.content for file, current in files.items()}, request.max_tokens)
    return ComposedPrompt(prompt=composed, tokens=estimate_tokens(composed))


@action("identity.history")
def history(context: Context, request: FileHistory) -> Rows[IdentityFile]:
    """List a file's versions.

    Newest first, each with who wrote it and why.
    """
    name = known_agent(context.connection, context.group_id, request.agent_id)
    before = request.place(BY_NUMBER)
    versions = identity.file_history(context.connection, name, request.file, before, request.limit + 1)
    return page(versions, request.limit, lambda last: last.version)


@action("identity.versions")
def list_snapshots(context: Context, request: ListSnapshots) -> Rows[SnapshotState]:
    """List snapshots.

    The latest first, each with the version of each file that was current then.
    """
    name = known_agent(context.connection, context.group_id, request.agent_id)
    rows = identity.snapshot_page(context.connection, name, request.place(BY_ID), request.limit + 1)
    return page(rows, request.limit, lambda last: last.snapshot_id)


def _version_of(context: Context, name: AgentName, file: File, number: int) -> IdentityFile:
    version = identity.file_version(context.connection, name, file, number)
    if version is None:
        raise NotFound(f"version: {file} of {name[1]!r} has no version {number}; see identity.history")
    return version


@action("identity.propose")
def propose(context: Context, request: ProposeChange) -> FileProposal:
    """Propose a change of a file.

    SOUL, AGENTS or HEARTBEAT as it should be, and why. Nothing changes before somebody approves it
    (proposals.decide). With `base_version`, refused if another version is current.
    """
    name = known_agent(context.connection, context.group_id, request.agent_id, lock=True)
    base = identity.current_file(context.connection, name, request.file)
    _still(request.file, base, request.base_version)
    if base.content == request.suggested:
        raise InvalidRequest([f"suggested: is already the content of {request.file}"])
    proposal = identity.add_proposal(
        context.connection, name, base, request.suggested, context.actor.name, reason=request.reason
    )
    context.audit(request.agent_id, proposal_id=proposal.id, file=request.file)
    return proposal


@action("identity.update_user")
def update_user(context: Context, request: UpdateUser) -> IdentityFile:
    """Add to the file USER.

    What people say of the user in their own words; it replaces what they said before. The rest of the file
    follows the profile.
    """
    name = known_agent(context.connection, context.group_id, request.agent_id, lock=True)
    written = identity.note_user(context.connection, name, request.notes, context.actor.name)
    context.audit(request.agent_id, file="USER", version=written.version)
    return written


@action("identity.snapshot")
def snapshot(context: Context, request: TakeSnapshot) -> SnapshotState:
    """Take a snapshot of the files.

    Records the current version of each, to go back to it with identity.rollback.
    """
    name = known_agent(context.connection, context.group_id, request.agent_id, lock=True)
    state = identity.take_snapshot(context.connection, name, request.name, context.actor.name)
    context.audit(request.agent_id, snapshot_id=state.snapshot_id)
    return state


@action("identity.rollback")
def rollback(context: Context, request: Rollback) -> Rows[IdentityFile]:
    """Go back to an earlier version.

    Of one file, or of all to a snapshot. What they said then is written as new versions, so that this can be
    taken back as well.
    """
    name = known_agent(context.connection, context.group_id, request.agent_id, lock=True)
    changed = []
    for file, number in _target_versions(context, name, request).items():
        before = identity.current_file(context.connection, name, file)
        _still(file, before, request.base_version)
        then = _version_of(context, name, file, number)
        reason = request.reason or f"back to version {number}"
        written = identity.write_version(
            context.connection, name, file, then.content, reason=reason, author=context.actor.name
        )
        changed += [written] if written.version != before.version else []
    context.audit(
        request.agent_id, files={file.file: file.version for file in changed}, snapshot_id=request.snapshot_id
    )
    return Rows(rows=changed)


def _target_versions(context: Context, name: AgentName, request: Rollback) -> dict[File, int]:
    if request.snapshot_id is None:
        assert request.file is not None  # as its model has checked
        assert request.version is not None
        return {request.file: request.version}
    state = identity.find_snapshot(context.connection, name, request.snapshot_id)
    if state is None:
        raise NotFound(
            f"snapshot_id: the agent {request.agent_id!r} has no snapshot {request.snapshot_id}; see"
            " identity.versions"
        )
    return {file: state.versions[file] for file in FILES if file in state.versions}


def _still(file: File, now: IdentityFile, read: int | None) -> None:
    if read is not None and read != now.version:
        raise Conflict(f"base_version: version {now.version} of {file} is current, not {read}; read it first")


belonging("identity", "SELECT FROM agents WHERE group_id = :group AND agent_id = :agent")
