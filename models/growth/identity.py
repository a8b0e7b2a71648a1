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

from engine.growth.questions import notes_of, render_user_file
from jiyi.errors import Conflict
from jiyi.protocol import limits
from jiyi.protocol.identity import FILES, File, IdentityFile, SnapshotState
from jiyi.protocol.proposals import FileProposal
from models.conversations import injections
from models.db.rows import columns, fetch, fetch_one
from models.growth import proposals, work
from models.growth.proposals import Decision, follows
from models.growth.tables import IdentitySnapshot, IdentityVersion
from models.memory.agents import AgentName, bind_name

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
    """The current versions of the four files."""
    written = {row.file: row for row in fetch(connection, IdentityFile, _ALL_LATEST, **bind_name(name))}
    return {file: written.get(file) or IdentityFile(file=file, version=0, content="") for file in FILES}


def file_history(
    connection: Connection, name: AgentName, file: File, before: int | None, limit: int
) -> list[IdentityFile]:
    """Versions without their texts, the newest first."""
    statement = _HISTORY if before is None else _HISTORY.where(_V.version < before)
    return fetch(connection, IdentityFile, statement.limit(limit), **_of(name, file))


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
_HISTORY = select(*_BRIEFS).where(*_OF_FILE).order_by(_V.version.desc())
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


def take_snapshot(connection: Connection, name: AgentName, called: str, author: str) -> SnapshotState:
    """Record the current versions. Call it under the agent's lock."""
    now = {file: current.version for file, current in current_files(connection, name).items()}
    snapshot_id: UUID = uuid7()
    own = {"snapshot_id": snapshot_id, "group_id": name[0], "agent_id": name[1]}
    connection.execute(insert(_S).values(**own, name=called, versions=now, author=author))
    snapshot = find_snapshot(connection, name, snapshot_id)
    assert snapshot is not None  # it was just stored
    return snapshot


def find_snapshot(connection: Connection, name: AgentName, snapshot_id: UUID) -> SnapshotState | None:
    snapshot = fetch_one(connection, SnapshotState, _ONE_SNAPSHOT, group=name[0], id=snapshot_id)
    return snapshot if snapshot is not None and snapshot.agent_id == name[1] else None


def snapshot_page(
    connection: Connection, name: AgentName, before: UUID | None, limit: int
) -> list[SnapshotState]:
    """The agent's, the latest first."""
    statement = _SHOWN_SNAPSHOT.where(_S.group_id == name[0], _S.agent_id == name[1])
    if before is not None:
        statement = statement.where(_S.snapshot_id < before)
    return fetch(connection, SnapshotState, statement.order_by(_S.snapshot_id.desc()).limit(limit))


_S = IdentitySnapshot
_SHOWN_SNAPSHOT = select(*columns(SnapshotState, _S))
_ONE_SNAPSHOT = _SHOWN_SNAPSHOT.where(_S.group_id == bindparam("group"), _S.snapshot_id == bindparam("id"))


#: Who wrote a version that only follows the profile.
BY_PROFILE = "profile"


def follow_profile(connection: Connection, name: AgentName) -> IdentityFile:
    """Write what the profile says now, with what people added. Call it under the agent's lock."""
    notes = notes_of(current_file(connection, name, "USER").content)
    return _write_user(connection, name, notes, "the profile has changed", BY_PROFILE)


def note_user(connection: Connection, name: AgentName, notes: str, author: str) -> IdentityFile:
    """Replace what people added. Call it under the agent's lock."""
    return _write_user(connection, name, notes, "notes", author)


def _write_user(
    connection: Connection, name: AgentName, notes: str, reason: str, author: str
) -> IdentityFile:
    content = render_user_file(injections.find_profile(connection, name), notes, limits.MAX_IDENTITY_CHARS)
    return write_version(connection, name, "USER", content, reason=reason, author=author)
