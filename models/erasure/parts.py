"""What optional subjects, on or off, add to an erasure: each registers it here, with its tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, Select
from sqlalchemy.orm import InstrumentedAttribute

from engine import subjects
from engine.erasure import Names


class Scrubbed(NamedTuple):
    """A table that is searched for names; what it says of ``change`` happens to the rows that are found."""

    table: str
    key: str
    texts: str
    #: A statement without its condition; empty: they are deleted.
    change: str = ""
    #: The rows of the group.
    whose: str = "group_id = :group"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasurePart:
    scrubbed: tuple[Scrubbed, ...] = ()
    #: Tables that are vacuumed when rows of them went.
    vacuumed: tuple[str, ...] = ()
    #: Ids of rows that are an agent's own: noted with the agent.
    of_agents: tuple[InstrumentedAttribute[UUID], ...] = ()
    #: Names of agents of the group ``:group``, who may have no memories.
    agents: tuple[Select[Any], ...] = ()
    #: Notes rows that name a person; how many.
    note_named: Callable[[Connection, UUID, str, Names], int] = lambda *_: 0
    #: Notes what rests on something noted, one level; how many.
    note_resting: Callable[[Connection, UUID, str], int] = lambda *_: 0
    #: Deletes what these noted ids are, and what rests on them, while the memories among them are still
    #: there; rows by table.
    delete: Callable[[Connection, str, Sequence[UUID]], Counter[str]] = lambda *_: Counter()
    #: Deletes what else is these agents'; rows by table.
    delete_of_agents: Callable[[Connection, str, Sequence[str]], Counter[str]] = lambda *_: Counter()
    #: Deletes what nothing refers to any more, after texts were searched; rows by table.
    tidy: Callable[[Connection, str], Counter[str]] = lambda *_: Counter()
    #: Clears what Valkey holds of the group; how many entries of what.
    clear_valkey: Callable[[str], dict[str, int]] = lambda *_: {}
    #: Drops what this process remembers of texts.
    forget: Callable[[], None] = lambda: None
    #: Ids of rows that a preview counts besides memories and events, by what it calls them.
    previewed: Mapping[str, InstrumentedAttribute[UUID]] = field(default_factory=dict)


_REGISTERED: list[ErasurePart] = []


def register(part: ErasurePart) -> None:
    _REGISTERED.append(part)


@cache
def parts() -> Sequence[ErasurePart]:
    """What all subjects add, on or off."""
    subjects.need_all()
    return _REGISTERED
