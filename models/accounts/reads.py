"""Reads of groups."""

from __future__ import annotations

from sqlalchemy import Connection, select, text

from models.accounts.tables import Group

#: Groups that the selector offers.
MAX_GROUPS = 200


def home_group(connection: Connection, configured: str) -> str | None:
    """The configured group, unless only others have memories: then the one with the most. None while there are none."""
    if connection.execute(_HAS_MEMORIES, {"group": configured}).scalar_one_or_none() is not None:
        return configured
    fullest: str | None = connection.execute(_FULLEST).scalar_one_or_none()
    return fullest


def groups(connection: Connection) -> list[str]:
    """The names of the groups that may be seen, in order."""
    return list(connection.execute(select(Group.group_id).order_by(Group.group_id).limit(MAX_GROUPS)).scalars())


_FULLEST = text("SELECT group_id FROM agents GROUP BY group_id ORDER BY sum(node_count) DESC, group_id LIMIT 1")
_HAS_MEMORIES = text("SELECT 1 FROM agents WHERE group_id = :group AND node_count > 0 LIMIT 1")
