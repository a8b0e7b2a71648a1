"""Versions of an agent's files: nothing is overwritten, the latest is in force."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import Connection, bindparam, delete, func, select, text

from jiyi.protocol.growth.identity import FileState, IdentityFile, VersionBrief
from jiyi.protocol.growth.identity_files import FILES, File
from models.db.rows import columns, fetch, fetch_one
from models.growth.identity.tables import IdentityVersion
from models.growth.tracking import tallies
from models.memory.agents.agents import AgentName, bind_name

#: Versions of each agent's file USER that are kept; those of the other files all are.
USER_VERSIONS = 50


def current(connection: Connection, name: AgentName, file: File) -> IdentityFile:
    """The file in force; version 0 and empty where nothing was written yet."""
    return fetch_one(connection, IdentityFile, _LATEST, **_of(name, file)) or IdentityFile(file=file, version=0, content="")


def version(connection: Connection, name: AgentName, file: File, number: int) -> IdentityFile | None:
    """One version; 0 is the empty file that was there before all others."""
    if number == 0:
        return IdentityFile(file=file, version=0, content="")
    return fetch_one(connection, IdentityFile, _VERSION, **_of(name, file), version=number)


def everything(connection: Connection, name: AgentName) -> dict[File, IdentityFile]:
    """The four files in force."""
    return {file: current(connection, name, file) for file in FILES}


def states(connection: Connection, name: AgentName) -> list[FileState]:
    """The four files without their texts, each with how many proposals wait."""
    found = {row.file: row for row in fetch(connection, FileState, _STATES, group=name[0], agent=name[1])}
    return [found.get(file) or FileState(file=file, version=0, characters=0, updated_at=None, pending=0) for file in FILES]


def history(connection: Connection, name: AgentName, file: File, before: int | None, limit: int) -> list[VersionBrief]:
    """Versions without their texts, the newest first."""
    wanted = _HISTORY if before is None else _HISTORY.where(_V.version < before)
    return fetch(connection, VersionBrief, wanted.limit(limit), **_of(name, file))


def write(
    connection: Connection, name: AgentName, file: File, content: str, *, reason: str, author: str, proposal_id: UUID | None = None
) -> IdentityFile:
    """The next version; nothing is written where the file says just that already. Call it under the agent's lock."""
    before = current(connection, name, file)
    if before.content == content:
        return before
    fields = {"version": before.version + 1, "content": content, "reason": reason, "author": author, "proposal": proposal_id}
    connection.execute(_WRITE, _of(name, file) | fields)
    tallies.note(connection, name, "identity", grown=1)
    if file == "USER":
        connection.execute(_PRUNE, _of(name, file) | {"oldest": before.version + 1 - USER_VERSIONS})
    return current(connection, name, file)


def _of(name: AgentName, file: File) -> dict[str, str]:
    return {**bind_name(name), "file": file}


_V = IdentityVersion
_OF_FILE = (_V.group_id == bindparam("group"), _V.agent_id == bindparam("agent"), _V.file == bindparam("file"))
_LATEST = select(*columns(IdentityFile, _V)).where(*_OF_FILE).order_by(_V.version.desc()).limit(1)
_VERSION = select(*columns(IdentityFile, _V)).where(*_OF_FILE, _V.version == bindparam("version"))
_STATES = text("""
    SELECT f.file, coalesce(v.version, 0) AS version, coalesce(char_length(v.content), 0) AS characters, v.created_at AS updated_at,
        (SELECT count(*) FROM identity_proposals p
         WHERE p.group_id = :group AND p.agent_id = :agent AND p.file = f.file AND p.status = 'pending') AS pending
    FROM unnest(ARRAY['SOUL', 'AGENTS', 'USER', 'HEARTBEAT']) AS f(file)
    LEFT JOIN LATERAL (
        SELECT version, content, created_at FROM identity_versions
        WHERE group_id = :group AND agent_id = :agent AND file = f.file ORDER BY version DESC LIMIT 1
    ) AS v ON true
""")
_HISTORY = select(*columns(VersionBrief, _V, characters=func.char_length(_V.content))).where(*_OF_FILE).order_by(_V.version.desc())
_WRITE = text("""
    INSERT INTO identity_versions (group_id, agent_id, file, version, content, reason, author, proposal_id, created_at)
    VALUES (:group, :agent, :file, :version, :content, :reason, :author, :proposal, clock_timestamp())
""")
_PRUNE = delete(_V).where(*_OF_FILE, _V.version <= bindparam("oldest"))
