"""Profiles: what is known about users in general, kept in one table (ZC-08, ZC-09, ZC-58…ZC-63)."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, text

from jiyi.conversations.stored.profiles import Profile, merged
from jiyi.conversations.types import ProfileSignals
from models.memory.agents import AgentName


def find(connection: Connection, name: AgentName, user_id: str | None = None) -> Profile | None:
    """What is known about the user; the user is the agent unless named (K-17)."""
    row = connection.execute(_FIND, _whose(name, user_id)).one_or_none()
    return None if row is None else Profile.model_validate(row, from_attributes=True)


def update(connection: Connection, name: AgentName, signals: ProfileSignals, now: datetime, user_id: str | None = None) -> None:
    """Add what was told. Call it under the agent's lock."""
    if signals == ProfileSignals():
        return
    known = find(connection, name, user_id) or Profile()
    connection.execute(_SAVE, {**_whose(name, user_id), **merged(known, signals).model_dump(exclude={"updated_at"}), "now": now})


def _whose(name: AgentName, user_id: str | None) -> dict[str, str]:
    return {"group": name[0], "agent": name[1], "user": user_id or name[1]}


_COLUMNS = ", ".join(name for name in Profile.model_fields if name != "updated_at")
_FIND = text(f"SELECT {_COLUMNS}, updated_at FROM user_profiles WHERE group_id = :group AND agent_id = :agent AND user_id = :user")  # noqa: S608 – our own names; values are parameters
_SAVE = text(f"""
    INSERT INTO user_profiles (group_id, agent_id, user_id, {_COLUMNS}, updated_at)
    VALUES (:group, :agent, :user, {", ".join(f":{name}" for name in Profile.model_fields if name != "updated_at")}, :now)
    ON CONFLICT (group_id, agent_id, user_id) DO UPDATE SET updated_at = :now,
        {", ".join(f"{name} = excluded.{name}" for name in Profile.model_fields if name != "updated_at")}
""")  # noqa: S608 – our own names; values are parameters
