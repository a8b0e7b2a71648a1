"""Events: one model a type, with what all of them have."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from uuid6 import uuid7

from jiyi.errors import InvalidEvent, problems_of
from jiyi.protocol.events.payloads import (
    Configuration,
    Ending,
    Execution,
    ImportedCounters,
    Moment,
    Name,
    Observation,
    StepTaken,
    Turn,
    Vote,
    refuse_anothers_address,
    require_conversation,
    unstorable,
)
from jiyi.protocol.wire.json_values import JsonMapping

#: (event_id, group_id).
EventKey = tuple[UUID, str]


class _Event(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    event_id: UUID = Field(default_factory=uuid7)
    version: Literal[1] = 1
    occurred_at: Moment = Field(default_factory=lambda: datetime.now(UTC))
    group_id: Name
    agent_id: Name
    session_id: Name | None = None
    correlation_id: Name | None = None

    @property
    def key(self) -> EventKey:
        """What it is known by: its id is unique in its group only, because ids are their senders' choice."""
        return self.event_id, self.group_id


class MemoryObserved(_Event):
    """An agent perceived, thought or said something; it becomes one memory."""

    type: Literal["memory.observed"] = "memory.observed"
    payload: Observation

    @model_validator(mode="after")
    def _address_is_the_agents(self) -> Self:
        refuse_anothers_address(self.agent_id, self.payload.uri)
        return self


class AgentConfigured(_Event):
    """Somebody changed an agent's settings."""

    type: Literal["agent.configured"] = "agent.configured"
    payload: Configuration


class SessionEnded(_Event):
    """An agent's conversation is over: what of it is worth remembering? (chat end)"""

    type: Literal["session.ended"] = "session.ended"
    payload: Ending = Ending()

    @model_validator(mode="after")
    def _names_the_conversation(self) -> Self:
        require_conversation(self.session_id, self.payload)
        return self


class NodeExecuted(_Event):
    """A node of a workflow has put something out; it goes into quarantine, and into working memory if it may."""

    type: Literal["node.executed"] = "node.executed"
    payload: Execution


class TurnRecorded(_Event):
    """Somebody said something in a conversation with the agent; it is kept, and what it tells is extracted."""

    type: Literal["turn.recorded"] = "turn.recorded"
    payload: Turn

    @model_validator(mode="after")
    def _has_a_session(self) -> Self:
        if self.session_id is None:
            raise ValueError("session_id: required: which conversation it is")
        return self


class StepRecorded(_Event):
    """A step on the way to an answer was taken; a session's steps become its trajectory."""

    type: Literal["turn.step"] = "turn.step"
    payload: StepTaken

    @model_validator(mode="after")
    def _has_a_session(self) -> Self:
        if self.session_id is None:
            raise ValueError("session_id: required: which conversation it is")
        return self


class FeedbackGiven(_Event):
    """Somebody voted on a skill or a workflow; its trust is counted anew."""

    type: Literal["feedback.given"] = "feedback.given"
    payload: Vote


#: Every event type there is. A new one is added here, in ``docs/events.md`` and in the intake.
EVENT_CLASSES: tuple[type[_Event], ...] = (
    MemoryObserved,
    AgentConfigured,
    SessionEnded,
    NodeExecuted,
    TurnRecorded,
    StepRecorded,
    FeedbackGiven,
)
#: What events are made of.
_MODELS: tuple[type[BaseModel], ...] = (
    *EVENT_CLASSES,
    Observation,
    Configuration,
    ImportedCounters,
    Ending,
    Execution,
    Turn,
    StepTaken,
    Vote,
)
#: Of all events and what is in them: names that are ours, whoever sent them.
FIELD_NAMES = frozenset(name for cls in _MODELS for name in cls.model_fields)
EVENT_TYPES = tuple(cls.model_fields["type"].default for cls in EVENT_CLASSES)

Event = MemoryObserved | AgentConfigured | SessionEnded | NodeExecuted | TurnRecorded | StepRecorded | FeedbackGiven
#: Reads and writes one event.
#: pydantic keeps 16,384 short strings of the JSON that it reads, and what is erased would stay among them. Names of fields come
#: again; ids and what was said do not.
KEEPS_NO_VALUES = ConfigDict(cache_strings="keys")

ONE: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="type")], config=KEEPS_NO_VALUES)


def build(event: JsonMapping) -> Event:
    """A validated event from plain data; raises :class:`InvalidEvent` with a sentence per wrong field."""
    try:
        built = ONE.validate_python(event)
    except ValidationError as error:
        raise InvalidEvent(problems_of(error, Event)) from None
    problems = list(unstorable(built.model_dump()))
    if problems:
        raise InvalidEvent(problems)
    return built
