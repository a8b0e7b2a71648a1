"""Where memories come from, and how far they are trusted for that. ``docs/decisions.md`` has the reasons."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, BaseModel, Field

from jiyi.protocol.base import Fraction, Role

Origin = Literal["operator", "user", "rules", "model", "import", "assistant", "document", "tool"]
ORIGINS: tuple[Origin, ...] = get_args(Origin)
#: Origins that a program may give for an event: the others follow from the service's own interfaces.
Claimed = Literal["user", "import", "assistant", "document", "tool"]
#: How far what comes from somewhere is trusted, 0 … 1, if it rests on nothing that is trusted less.
TRUST: dict[Origin, float] = {
    "operator": 1.0,
    "user": 0.8,
    "rules": 0.8,
    "model": 0.7,
    "import": 0.6,
    "assistant": 0.5,
    "document": 0.4,
    "tool": 0.3,
}
_CLAIMED: dict[Origin, Claimed] = {origin: origin for origin in get_args(Claimed)}
DEFAULT_ORIGIN: Origin = "user"
#: What is trusted less is data wherever it is shown: never a user's fact, a standing preference, a profile's
#: line or a skill's step.
STANDING_TRUST = 0.5
#: Whom a message comes from by its role. A program's own instructions are not the user's.
ORIGIN_OF_ROLE: dict[Role, Claimed] = {
    "user": "user",
    "assistant": "assistant",
    "system": "assistant",
    "tool": "tool",
}

Trust = Fraction
ORIGIN_DESCRIPTION = (
    "Where it comes from: `user` (or the agent's program for them), `assistant`, `tool`, `document` or"
    " `import`."
)


def claimable(origin: Origin) -> Claimed:
    """What is said of a memory from elsewhere: nobody there speaks for this service or its operators."""
    return _CLAIMED.get(origin, "import")


def _each_once(origins: list[Origin]) -> list[Origin]:
    return list(dict.fromkeys(origins))


class BySource(BaseModel, frozen=True, extra="forbid"):
    """What can be asked of memories by where they come from."""

    origins: Annotated[list[Origin], Field(fail_fast=True), AfterValidator(_each_once)] = Field(
        [], description="Only what comes from these; all unless given."
    )
    min_trust: Trust | None = Field(None, description="Only what is trusted at least so much, 0 … 1.")
