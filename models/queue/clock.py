"""The database's clock: the one that all of the service's machines have in common."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import Connection, text

#: What was noted further ahead than this was noted while the clock was wrong. Programs' clocks may differ by less.
AHEAD = timedelta(minutes=2)


def now(connection: Connection) -> datetime:
    """The time by the database, at this statement."""
    moment: datetime = connection.execute(_NOW).scalar_one()
    return moment


_NOW = text("SELECT clock_timestamp()")
