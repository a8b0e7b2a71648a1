"""Erasures: their requests and their reports (``docs/tenants.md``)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self, TypedDict
from uuid import UUID

from pydantic import AfterValidator, BaseModel, Field, model_validator

from jiyi.protocol.base import Name, Request

#: A single character is part of too many words.
MIN_NAME_CHARS = 2
MAX_NAMES = 20
#: Most memories that are named one by one.
MAX_NODES = 1_000
#: Memories that a preview shows.
EXAMPLES = 10

Kind = Literal["agent", "person", "nodes"]
#: ``owed``: no worker has begun; ``incomplete``: something was found left, it is tried again; ``done``:
#: nothing is left.
State = Literal["owed", "running", "incomplete", "done"]


def _a_name(text: str) -> str:
    if sum(char.isalnum() for char in text) < MIN_NAME_CHARS:
        raise ValueError(
            f"{MIN_NAME_CHARS} letters or digits at least: shorter names are part of too many words"
        )
    return text


PersonName = Annotated[Name, AfterValidator(_a_name)]


class Erasure(Request):
    """What is to be erased: an agent, or a person by all of their names, or single memories."""

    agent_id: Name | None = Field(None, description="Everything of this agent.")
    person: PersonName | None = Field(None, description="Everything that names this person.")
    aliases: list[PersonName] = Field(
        default_factory=list,
        max_length=MAX_NAMES,
        description="Other names of the person: short forms, other spellings, other scripts.",
    )
    node_ids: list[UUID] = Field(default_factory=list, max_length=MAX_NODES, description="These memories.")
    delete_backups: bool = Field(False, description="Delete the backups of before, and make a new one.")

    @model_validator(mode="after")
    def _one_thing(self) -> Self:
        if (self.agent_id is not None) + (self.person is not None) + bool(self.node_ids) != 1:
            raise ValueError("give one of agent_id, person and node_ids")
        if self.aliases and self.person is None:
            raise ValueError("aliases: only a person has other names")
        return self

    @property
    def kind(self) -> Kind:
        if self.agent_id is not None:
            return "agent"
        return "nodes" if self.person is None else "person"

    @property
    def names(self) -> list[str]:
        """Of the agent, or all of the person's."""
        if self.agent_id is not None:
            return [self.agent_id]
        return [] if self.person is None else [self.person, *self.aliases]


class ErasureReport(TypedDict, total=False):
    """Proof of an erasure: where something was erased, changed or searched, and what is left."""

    erasure_id: str
    group_id: str
    kind: str
    #: Hashes of the names.
    names: list[str]
    #: Rows by table.
    erased: dict[str, int]
    scrubbed: dict[str, int]
    #: Of each kind of key, lines of logs, backups.
    valkey: dict[str, int]
    logs: dict[str, int]
    backups: dict[str, int]
    #: Of each server, ``valkey`` and ``broker``: ``rewritten``, ``off``, or why what was erased may still be
    #: in its append-only file.
    append_only_files: dict[str, str]
    agents: int
    #: What each retrieval worker dropped.
    workers: dict[str, dict[str, int]]
    #: Rows by table (``tables``), keys of Valkey (``keys``), log files (``log_files``).
    looked_through: dict[str, Any]
    #: Table → why not.
    not_looked_through: dict[str, str]
    left: int
    places: dict[str, list[str]]
    #: The ``folder``, how many there still hold what was erased (``holding_it``), and the hours until the
    #: last expires (``gone_after_hours``; None: it stays). Of copies elsewhere nothing is known.
    backups_left: dict[str, Any]
    seconds: float
    at: str
    #: Of the report without it.
    sha256: str


class ErasureState(BaseModel):
    """An erasure. ``what`` holds no names, only their hashes."""

    erasure_id: UUID
    group_id: str
    kind: Kind
    state: State
    step: str
    what: dict[str, Any] = {}
    requested_by: str
    created_at: datetime
    finished_at: datetime | None = None
    report: dict[str, Any] | None = None


class ExampleMemory(BaseModel):
    """A memory that would go."""

    node_id: UUID
    agent_id: str
    type: str
    description: str


class ErasurePreview(BaseModel):
    """What would be erased: how much by kind, whole agents by name, and some of the memories."""

    counts: dict[str, int]
    agents: list[str]
    examples: list[ExampleMemory]
