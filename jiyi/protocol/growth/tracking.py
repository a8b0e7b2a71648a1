"""Request and answer of the command on what grew, and what of it was used."""

from __future__ import annotations

from datetime import date

from pydantic import BaseModel, Field

from jiyi.protocol.growth.identity import OfAgent

#: Days that one answer covers, unless asked otherwise, and at most.
DAYS, MAX_DAYS = 30, 366


class Tally(BaseModel):
    """Of one kind of thing on one day (UTC): how many there came to be, and how often one was used."""

    day: date
    what: str
    grown: int
    used: int


class TallyQuery(OfAgent):
    """Of which agent, and how many days back, today included."""

    days: int = Field(DAYS, ge=1, le=MAX_DAYS)


class Tallies(BaseModel):
    """The newest day first."""

    agent_id: str
    tallies: list[Tally]
