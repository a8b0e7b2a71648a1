"""Profiles: what is known about users in general, kept in one table."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, bindparam, select

from engine.conversations.profiles import merged
from jiyi.protocol.conversations import Profile, ProfileSignals
from models.conversations.tables import UserProfile
from models.db.rows import columns, upsert
from models.memory.agents import AgentName


def find(connection: Connection, name: AgentName, user_id: str | None = None) -> Profile | None:
    """What is known about the user; the user is the agent unless named."""
    row = connection.execute(_FIND, {"group": name[0], "agent": name[1], "user": user_id or name[1]}).one_or_none()
    return None if row is None else Profile.model_validate(row, from_attributes=True)


def update(connection: Connection, name: AgentName, signals: ProfileSignals, now: datetime, user_id: str | None = None) -> None:
    """Add what was told. Call it under the agent's lock."""
    if signals == ProfileSignals():
        return
    known = find(connection, name, user_id) or Profile()
    whose = {"group_id": name[0], "agent_id": name[1], "user_id": user_id or name[1]}
    connection.execute(_SAVE, {**whose, **merged(known, signals).model_dump(), "updated_at": now})


_FIND = select(*columns(Profile, UserProfile)).where(
    UserProfile.group_id == bindparam("group"), UserProfile.agent_id == bindparam("agent"), UserProfile.user_id == bindparam("user")
)
_SAVE = upsert(UserProfile, *Profile.model_fields)
