"""The files that say who an agent is: versions, proposals to change one, snapshots; ``USER`` follows the
profile.

Nothing is overwritten, the latest version is current. A proposal is approved only while the version that it
rests on is current.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from sqlalchemy import Connection, bindparam, delete, func, insert, select, text
from sqlalchemy.dialects.postgresql import distinct_on
from uuid6 import uuid7

from engine.growth.questions import compose_prompt, notes_of, render_user_file
from jiyi.errors import Conflict, InvalidRequest, NotFound
from jiyi.protocol import limits
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
from models.conversations import injections
from models.db.actions import Context, action
from models.db.rows import behind, columns, fetch, fetch_one, page
from models.growth import proposals, work
from models.growth.proposals import Decision, follows
from models.growth.tables import IdentitySnapshot, IdentityVersion
from models.memory.agents import AgentName, belonging, bind_name, known_agent

#: Versions of each agent's file USER that are kept; those of the other files all are.
USER_VERSIONS = 50


def current_file(connection: Connection, name: AgentName, file: File) -> IdentityFile:
    """The current version of the file; version 0 and empty where nothing was written yet."""
    return fetch_one(connection, IdentityFile, _LATEST, **_of(name, file)) or IdentityFile(
        file=file, version=0, content=""
    )


def file_version(connection: Connection, name: AgentName, file: File, number: int) -> IdentityFile | None:
    """One version; 0 is the empty file that was there before all others."""
    if number == 0:
        return IdentityFile(file=file, version=0, content="")
    return fetch_one(connection, IdentityFile, _VERSION, **_of(name, file), version=number)


def current_files(connection: Connection, name: AgentName) -> dict[File, IdentityFile]:
    written = {row.file: row for row in fetch(connection, IdentityFile, _ALL_LATEST, **bind_name(name))}
    return {file: written.get(file) or IdentityFile(file=file, version=0, content="") for file in FILES}


def file_history(
    connection: Connection, name: AgentName, file: File, before: int | None, limit: int
) -> list[IdentityFile]:
    """Versions without their texts, the newest first."""
    versions = behind(_HISTORY, before, _V.version).limit(limit)
    return fetch(connection, IdentityFile, versions, **_of(name, file))


def write_version(
    connection: Connection,
    name: AgentName,
    file: File,
    content: str,
    *,
    reason: str,
    author: str,
    proposal_id: UUID | None = None,
) -> IdentityFile:
    """The next version, unless the file says just that already. Call it under the agent's lock."""
    before = current_file(connection, name, file)
    if before.content == content:
        return before
    own = {"group_id": name[0], "agent_id": name[1], "file": file, "version": before.version + 1}
    says = {"content": content, "reason": reason, "author": author, "proposal_id": proposal_id}
    connection.execute(insert(_V).values(**own, **says, created_at=func.clock_timestamp()))
    work.note(connection, name, "identity", grown=1)
    if file == "USER":
        connection.execute(_PRUNE, _of(name, file) | {"oldest": before.version + 1 - USER_VERSIONS})
    return current_file(connection, name, file)


def _of(name: AgentName, file: File) -> dict[str, str]:
    return {**bind_name(name), "file": file}


_V = IdentityVersion
_OF_FILE = (
    *(_V.group_id == bindparam("group"), _V.agent_id == bindparam("agent")),
    _V.file == bindparam("file"),
)
_SHOWN = select(*columns(IdentityFile, _V, characters=None))
_LATEST = _SHOWN.where(*_OF_FILE).order_by(_V.version.desc()).limit(1)
_ALL_LATEST = _SHOWN.where(*_OF_FILE[:2]).order_by(_V.file, _V.version.desc()).ext(distinct_on(_V.file))
_VERSION = _SHOWN.where(*_OF_FILE, _V.version == bindparam("version"))
_BRIEFS = columns(IdentityFile, _V, content=None, characters=func.char_length(_V.content))
_HISTORY = select(*_BRIEFS).where(*_OF_FILE)
_PRUNE = delete(_V).where(*_OF_FILE, _V.version <= bindparam("oldest"))


def add_proposal(
    connection: Connection,
    name: AgentName,
    base: IdentityFile,
    suggested: str,
    by: str,
    *,
    reflection_id: UUID | None = None,
    **values: Any,
) -> FileProposal:
    """Store a change of a file, to be decided on. ``values``: of :func:`models.growth.proposals.add`."""
    work.note(connection, name, "identity_proposal", grown=1)
    says: dict[str, Any] = {
        "file": base.file,
        "base_version": base.version,
        "current": base.content,
        "suggested": suggested,
        "reflection_id": reflection_id and str(reflection_id),
    }
    proposal = proposals.add(connection, name, "identity", says, by, **values)
    assert isinstance(proposal, FileProposal)  # one does not exclude another
    return proposal


def suggested_lines(connection: Connection, name: AgentName, file: File) -> list[str]:
    """What pending and rejected proposals of a file suggest to add: lines that the file then had not."""
    rows = connection.execute(_SUGGESTIONS, {"group": name[0], "agent": name[1], "file": file})
    added = [
        line for row in rows for line in row.suggested.splitlines() if line not in row.current.splitlines()
    ]
    return [line.strip("- ") for line in added if line.strip()]


@follows("identity")
def write_approved(decision: Decision) -> None:
    """The suggested text becomes the next version; in conflict, and pending, if the file has changed."""
    proposal: FileProposal = decision.proposal
    if decision.choice.outcome != "approved":
        return
    connection, name = decision.connection, decision.name
    base = current_file(connection, name, proposal.file)
    if base.version != proposal.base_version:
        raise Conflict(
            f"id: it rests on version {proposal.base_version} of {proposal.file}, and {base.version} is"
            " current now; read that, and propose the change again"
        )
    work.note(connection, name, "identity_proposal", used=1)
    why, by = proposal.reason, decision.by
    written = write_version(
        connection, name, proposal.file, proposal.suggested, reason=why, author=by, proposal_id=proposal.id
    )
    decision.became["version"] = written.version


_SUGGESTIONS = text("""
    SELECT content ->> 'suggested' AS suggested, content ->> 'current' AS current FROM proposals
    WHERE group_id = :group AND agent_id = :agent AND kind = 'identity' AND content ->> 'file' = :file
    AND status IN ('pending', 'rejected')
    ORDER BY proposal_id DESC LIMIT 100
""")


def find_snapshot(connection: Connection, name: AgentName, snapshot_id: UUID) -> SnapshotState | None:
    snapshot = fetch_one(connection, SnapshotState, _ONE_SNAPSHOT, group=name[0], id=snapshot_id)
    return snapshot if snapshot is not None and snapshot.agent_id == name[1] else None


def snapshot_page(
    connection: Connection, name: AgentName, before: UUID | None, limit: int
) -> list[SnapshotState]:
    """The agent's, the latest first."""
    statement = _SHOWN_SNAPSHOT.where(_S.group_id == name[0], _S.agent_id == name[1])
    return fetch(connection, SnapshotState, behind(statement, before, _S.snapshot_id).limit(limit))


_S = IdentitySnapshot
_SHOWN_SNAPSHOT = select(*columns(SnapshotState, _S))
_ONE_SNAPSHOT = _SHOWN_SNAPSHOT.where(_S.group_id == bindparam("group"), _S.snapshot_id == bindparam("id"))


#: Who wrote a version that only follows the profile.
BY_PROFILE = "profile"


def follow_profile(connection: Connection, name: AgentName) -> IdentityFile:
    """Write what the profile says now, with what people added. Call it under the agent's lock."""
    notes = notes_of(current_file(connection, name, "USER").content)
    return _write_user(connection, name, notes, "the profile has changed", BY_PROFILE)


def _write_user(
    connection: Connection, name: AgentName, notes: str, reason: str, author: str
) -> IdentityFile:
    content = render_user_file(injections.find_profile(connection, name), notes, limits.MAX_IDENTITY_CHARS)
    return write_version(connection, name, "USER", content, reason=reason, author=author)


@action("identity.get")
def get_file(context: Context, request: GetFile) -> IdentityFile:
    """Get a file.

    The current version, or the version named; version 0 and empty where nothing was written yet.
    """
    name = known_agent(context.connection, context.group_id, request.agent_id)
    if request.version is None:
        return current_file(context.connection, name, request.file)
    return _version_of(context, name, request.file, request.version)


@action("identity.prompt")
def compose(context: Context, request: ComposePrompt) -> ComposedPrompt:
    """Compose the files for a prompt.

    SOUL and AGENTS as they stand, USER as quoted data, within a budget of tokens.
    """
    name = known_agent(context.connection, context.group_id, request.agent_id)
    files = current_files(context.connection, name)
    composed = compose_prompt({file: current.content for file, current in files.items()}, request.max_tokens)
    return ComposedPrompt(prompt=composed, tokens=estimate_tokens(composed))


@action("identity.history")
def history(context: Context, request: FileHistory) -> Rows[IdentityFile]:
    """List a file's versions.

    Newest first, each with who wrote it and why.
    """
    name = known_agent(context.connection, context.group_id, request.agent_id)
    before = request.place(BY_NUMBER)
    versions = file_history(context.connection, name, request.file, before, request.limit + 1)
    return page(versions, request.limit, lambda last: last.version)


@action("identity.versions")
def list_snapshots(context: Context, request: ListSnapshots) -> Rows[SnapshotState]:
    """List snapshots.

    The latest first, each with the version of each file that was current then.
    """
    name = known_agent(context.connection, context.group_id, request.agent_id)
    rows = snapshot_page(context.connection, name, request.place(BY_ID), request.limit + 1)
    return page(rows, request.limit, lambda last: last.snapshot_id)


def _version_of(context: Context, name: AgentName, file: File, number: int) -> IdentityFile:
    version = file_version(context.connection, name, file, number)
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
    base = current_file(context.connection, name, request.file)
    _still(request.file, base, request.base_version)
    if base.content == request.suggested:
        raise InvalidRequest([f"suggested: is already the content of {request.file}"])
    proposal = add_proposal(
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
    written = _write_user(context.connection, name, request.notes, "notes", context.actor.name)
    context.audit(request.agent_id, file="USER", version=written.version)
    return written


@action("identity.snapshot")
def snapshot(context: Context, request: TakeSnapshot) -> SnapshotState:
    """Take a snapshot of the files.

    Records the current version of each, to go back to it with identity.rollback.
    """
    name = known_agent(context.connection, context.group_id, request.agent_id, lock=True)
    now = {file: current.version for file, current in current_files(context.connection, name).items()}
    snapshot_id = uuid7()
    own = {"snapshot_id": snapshot_id, "group_id": name[0], "agent_id": name[1]}
    says = {"name": request.name, "versions": now, "author": context.actor.name}
    context.connection.execute(insert(_S).values(**own, **says))
    context.audit(request.agent_id, snapshot_id=snapshot_id)
    state = find_snapshot(context.connection, name, snapshot_id)
    assert state is not None  # it was just stored
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
        before = current_file(context.connection, name, file)
        _still(file, before, request.base_version)
        then = _version_of(context, name, file, number)
        reason = request.reason or f"back to version {number}"
        written = write_version(
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
    state = find_snapshot(context.connection, name, request.snapshot_id)
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
