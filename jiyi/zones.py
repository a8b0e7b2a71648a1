"""Time zones by their IANA names, and by whose clock a time is read."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, Field


@lru_cache(maxsize=1_024)
def zone_of(name: str) -> ZoneInfo:
    """The time zone of an IANA name, such as ``Asia/Shanghai``. Raises ValueError for an unknown one."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(
            f"no time zone {name[:100]!r}; use a name such as Asia/Shanghai or Europe/Berlin"
        ) from error


def by_clock(moment: datetime | None, tz: str | None) -> datetime:
    """A moment by the speaker's clock; now, unless one is given. One with an offset keeps it; one in UTC, as
    machines note it, is read in the zone ``tz``, if that is given and known here.
    """
    at = moment or datetime.now(UTC)
    if tz is None or at.utcoffset():
        return at
    try:
        return at.astimezone(zone_of(tz))
    except ValueError:  # stored by a machine that knows more zones
        return at


#: Gives the time zone of a user by its id; None: the agent's.
ZoneOf = Callable[[str | None], str | None]


def zone_of_user(tz: str | ZoneOf | None) -> ZoneOf:
    """What gives each user's time zone, from the one zone of all or from what gives it already."""
    return tz if callable(tz) else lambda _: tz


def _is_zone(name: str) -> str:
    zone_of(name)
    return name


#: Of a question's field.
TZ_DESCRIPTION = (
    "Whose days it talks about, where `now` has no offset: the user's time zone; the agent's unless given."
)
TimeZone = Annotated[
    str,
    Field(max_length=100, description="Name of a time zone, such as Asia/Shanghai (IANA)."),
    AfterValidator(_is_zone),
]
