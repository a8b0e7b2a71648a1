"""Snapshots: which version of each file was in force when somebody said so."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import Connection, bindparam, select, text
from sqlalchemy.dialects.postgresql import JSONB
from uuid6 import uuid7

from jiyi.protocol.growth.identity import Snapshot
from models.db.rows import columns, fetch, fetch_one
from models.growth.identity import versions
from models.growth.tables import IdentitySnapshot
from models.memory.agents.agents import AgentName


def take(connection: Connection, name: AgentName, called: str, author: str) -> Snapshot:
    """Note what is in force. Call it under the agent's lock."""
    now = {file: one.version for file, one in versions.everything(connection, name).items()}
    fields = {"id": uuid7(), "group": name[0], "agent": name[1], "name": called, "versions": now, "author": author}
    connection.execute(_TAKE, fields)
    made = fetch_one(connection, Snapshot, _ONE, group=name[0], id=fields["id"])
    assert made is not None  # it was just stored
    return made


def find(connection: Connection, name: AgentName, snapshot_id: UUID) -> Snapshot | None:
    found = fetch_one(connection, Snapshot, _ONE, group=name[0], id=snapshot_id)
    return found if found is not None and found.agent_id == name[1] else None


def page(connection: Connection, name: AgentName, before: UUID | None, limit: int) -> list[Snapshot]:
    """The agent's, the latest first."""
    wanted = _SHOWN.where(_S.group_id == name[0], _S.agent_id == name[1])
    if before is not None:
        wanted = wanted.where(_S.snapshot_id < before)
    return fetch(connection, Snapshot, wanted.order_by(_S.snapshot_id.desc()).limit(limit))


_S = IdentitySnapshot
_SHOWN = select(*columns(Snapshot, _S))
_ONE = _SHOWN.where(_S.group_id == bindparam("group"), _S.snapshot_id == bindparam("id"))
_TAKE = text("""
    INSERT INTO identity_snapshots (snapshot_id, group_id, agent_id, name, versions, author)
    VALUES (:id, :group, :agent, :name, :versions, :author)
""").bindparams(bindparam("versions", type_=JSONB))
