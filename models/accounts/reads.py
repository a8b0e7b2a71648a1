"""Reads of groups."""

from __future__ import annotations

from sqlalchemy import Connection, select

from models.accounts.tables import Group

#: Groups that the selector offers.
MAX_GROUPS = 200


def groups(connection: Connection) -> list[str]:
    """The names of the groups that may be seen, in order."""
    return list(connection.execute(select(Group.group_id).order_by(Group.group_id).limit(MAX_GROUPS)).scalars())
