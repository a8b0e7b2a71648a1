"""Events over the REST API: bodies with one, several or a short one, and states. The group is the key's."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import reduce
from operator import or_
from types import new_class
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import BaseModel, Discriminator, Field, RootModel, Tag, ValidationError, model_validator
from uuid6 import uuid7

from jiyi.errors import InvalidRequest, problems_of
from jiyi.protocol import events as wire
from jiyi.protocol import limits
from jiyi.protocol.base import Moment, Name, Request, UserId
from jiyi.protocol.events import KEEPS_NO_VALUES, Ending, Event, Observation, SessionEnded
from jiyi.protocol.parts import parts_of
from jiyi.protocol.rest import FOREIGN_GROUP, OnceQuery
from jiyi.zones import TimeZone, by_clock

#: Fields of a request that are none of its event.
OF_REQUEST = frozenset({"split", "tz"})


class _Envelope(BaseModel, frozen=True, extra="ignore"):
    event_id: UUID = Field(
        default_factory=uuid7,
        description=(
            "Your own id. The same event sent twice with the same id is stored once; without one it gets a"
            " new id."
        ),
    )
    occurred_at: Moment = Field(
        default_factory=lambda: datetime.now(UTC),
        description="When it happened, with a time zone; now unless given.",
    )
    tz: TimeZone | None = Field(
        None,
        description=(
            "Whose day it was, where `occurred_at` has no offset: the speaker's time zone; the agent's unless"
            " given."
        ),
    )
    agent_id: Name = Field(description="The agent. It exists from its first event on.")
    session_id: Name | None = Field(None, description="The conversation or run that it belongs to.")
    correlation_id: Name | None = Field(None, description="Any name of yours, to find what belongs together.")
    split: bool = Field(
        False,
        description=(
            f"A text of more than {limits.MAX_DESCRIPTION_CHARS:,} characters becomes several memories, each"
            " of which says which part it is (provenance.part); without it, such a text is refused."
        ),
    )


class _Sent(_Envelope, frozen=True):
    """What a program sends of an event with type and payload (:mod:`jiyi.protocol.events`)."""

    version: Literal[1] = 1
    group_id: Name | None = Field(None, description="Leave out: the key says which group it is.")
    type: str

    def as_event(self, group_id: str) -> Event:
        """The event on the wire; raises ``ValueError`` if it names a foreign group."""
        if self.group_id not in (None, group_id):
            raise ValueError(FOREIGN_GROUP)
        wire = EVENTS[self.type]
        fields = {name: getattr(self, name) for name in wire.model_fields}
        fields["occurred_at"] = by_clock(self.occurred_at, self.tz)
        event: Event = wire.model_construct(**{**fields, "group_id": group_id})
        return event


def _form_of(event: Any) -> type[_Sent]:
    """What a program sends of an event of this class: with the payload and the rules of the event."""
    annotations = {
        "type": event.model_fields["type"].annotation,
        "session_id": event.model_fields["session_id"].annotation,
    }
    namespace: dict[str, Any] = {
        "__module__": __name__,
        "__doc__": f"`{event.model_fields['type'].default}`: {event.__doc__}",
        "__annotations__": annotations,
    }
    if not event.model_fields["session_id"].is_required():
        namespace["session_id"] = _Envelope.model_fields["session_id"]
    form: type[_Sent] = new_class(
        event.__name__, (_Sent, event), exec_body=lambda body: body.update(namespace)
    )
    return form


#: Type → event, and what a program sends of it.
EVENTS: dict[str, Any] = {event.model_fields["type"].default: event for event in wire.EVENT_CLASSES}
FORMS = {type_: _form_of(event) for type_, event in EVENTS.items()}


class ShortEvent(Observation, _Envelope, frozen=True, extra="forbid", title="ShortEvent"):
    """One observation, without envelope and payload: `{"agent_id": "klaus", "description": "He reads"}`."""

    @model_validator(mode="after")
    def _address_is_the_agents(self) -> Self:
        wire.refuse_anothers_address(self.agent_id, self.uri)
        return self

    def as_event(self, group_id: str) -> Event:
        """The event on the wire."""
        payload_fields = {
            name: getattr(self, name) for name in self.model_fields_set & Observation.model_fields.keys()
        }
        envelope = {name: getattr(self, name) for name in _Envelope.model_fields if name not in OF_REQUEST}
        envelope["occurred_at"] = by_clock(self.occurred_at, self.tz)
        payload = Observation.model_construct(**payload_fields)
        return wire.MemoryObserved.model_construct(**envelope, group_id=group_id, payload=payload)


def _tag_of(value: Any) -> str | None:
    """Which of the forms it is; names with a dot, because those are left out of an error's path."""
    if not isinstance(value, dict):
        return None if isinstance(value, list) else getattr(value, "type", "short.form")
    if "type" in value:
        return str(value["type"])
    return "short.form"


_SHORT = Annotated[ShortEvent, Tag("short.form")]
AnyEvent: Any = Annotated[
    reduce(or_, (Annotated[form, Tag(type_)] for type_, form in FORMS.items()), _SHORT),
    Discriminator(
        _tag_of,
        custom_error_type="unknown_event",
        custom_error_message=(
            f"must be an object whose type is one of {', '.join(wire.EVENT_TYPES)}, or one without type"
        ),
    ),
]


class EventList(BaseModel, frozen=True, extra="forbid"):
    """Several events, stored together or not at all, in this order."""

    events: Annotated[list[AnyEvent], Field(min_length=1, max_length=limits.MAX_EVENTS_PER_MESSAGE)]


class EventsBody(RootModel[Any]):
    """One event, or several as `{"events": […]}`."""

    model_config = KEEPS_NO_VALUES

    root: Annotated[
        Annotated[EventList, Tag("several.events")] | Annotated[AnyEvent, Tag("one.event")],
        Discriminator(
            lambda value: "several.events" if isinstance(value, dict) and "events" in value else "one.event"
        ),
    ]

    @model_validator(mode="before")
    @classmethod
    def _long_ones_in_parts(cls, body: Any) -> Any:
        """Before the texts are validated, which reports any other mistake."""
        events = body.get("events") if isinstance(body, dict) and "events" in body else [body]
        if not isinstance(events, list) or not any(
            isinstance(event, dict) and event.get("split") is True for event in events
        ):
            return body
        parts = [part for event in events for part in _parts(event)]
        if "events" in body:
            return {**body, "events": parts}
        return parts[0] if len(parts) == 1 else {"events": parts}

    @property
    def _given(self) -> list[Any]:
        return self.root.events if isinstance(self.root, EventList) else [self.root]

    def as_events(self, group_id: str) -> list[Event]:
        return [event.as_event(group_id) for event in self._given]

    def given(self) -> list[set[str]]:
        """The fields of the envelope that each event was given with."""
        return [event.model_fields_set for event in self._given]


def _parts(event: Any) -> list[Any]:
    """An event of a body in as many as it takes, each in the form that it has."""
    if not isinstance(event, dict) or event.get("split") is not True:
        return [event]
    if "type" in event:
        return parts_of(event)
    envelope = {name: value for name, value in event.items() if name in _Envelope.model_fields}
    payload_fields = {name: value for name, value in event.items() if name not in envelope}
    parts = parts_of({"type": "memory.observed", **envelope, "payload": payload_fields})
    split = []
    for part in parts:
        payload = part.pop("payload")
        assert isinstance(payload, dict)
        split.append({**{name: value for name, value in part.items() if name != "type"}, **payload})
    return split


class SessionEnd(BaseModel, extra="forbid"):
    """Whose conversation it was."""

    agent_id: Name = Field(description="The agent that is to reflect on the conversation.")
    user_id: UserId | None = Field(None, description="With which user of the agent; a session is one user's.")
    partner: Name | None = Field(None, description="Only the chats with this partner.")
    chat_ids: Annotated[list[UUID], Field(max_length=500)] = Field([], description="Only these chats.")
    event_id: UUID = Field(default_factory=uuid7, description="Your own id: the same sent twice counts once.")
    occurred_at: Moment = Field(default_factory=lambda: datetime.now(UTC))

    def as_event(self, group_id: str, session_id: str) -> Event:
        """The event that it stands for. Raises InvalidRequest if the conversation cannot have that name."""
        try:
            return SessionEnded(
                event_id=self.event_id,
                occurred_at=self.occurred_at,
                group_id=group_id,
                agent_id=self.agent_id,
                session_id=session_id,
                payload=Ending(user_id=self.user_id, partner=self.partner, chat_ids=self.chat_ids),
            )
        except ValidationError as error:
            raise InvalidRequest(problems_of(error)) from None


#: Events whose states one GET may ask for: so many ids fit into a request line of 8 KiB.
MAX_STATES_GET = 200
#: Seconds that a request may wait for its events to have their effect: it holds one of the server's threads.
MAX_WAIT = 30.0


class EventStatesQuery(Request):
    """What became of these events?"""

    ids: Annotated[list[UUID], Field(min_length=1, max_length=1_000)] = Field(
        description=(
            f"Ids of events; in an address up to {MAX_STATES_GET}, given several times, or with commas"
            " between."
        )
    )
    digests: dict[UUID, str] = Field(
        {},
        max_length=1_000,
        description="What they say, by id, as SHA-256: an id that stands for something else is `id_reused`.",
    )


class EventState(BaseModel):
    """``unknown``: not arrived yet. ``stored``: a node, not embedded yet. ``retrievable``, ``duplicate`` (of
    ``node_id``), ``applied`` (settings), ``erased``, ``dead`` (with the reason) and ``id_reused`` (another
    event has the id; ``node_id`` is that one's) are final.
    """

    event_id: UUID
    state: Literal["unknown", "stored", "retrievable", "duplicate", "applied", "erased", "dead", "id_reused"]
    node_id: UUID | None = None
    reason: str = ""

    @property
    def final(self) -> bool:
        return self.state not in ("unknown", "stored")


class Accepted(BaseModel):
    """The events are stored durably; embedding and the rest follows. `status_url` has the progress."""

    event_ids: list[UUID] = Field(description="In the order given. A memory has the id of its event.")
    accepted: int = Field(description="Events that were new.")
    repeated: int = Field(description="Events that were there already, by their ids; nothing was changed.")
    status_url: str
    states: list[EventState] | None = Field(None, description="With `wait`: what has become of them by now.")


class WaitQuery(OnceQuery, extra="forbid"):
    """What is one event, and how long may the answer take?"""

    wait: float | None = Field(None, ge=0, le=MAX_WAIT, allow_inf_nan=False)
    """Seconds to wait until memories can be retrieved (0 unless given), or until the filters have decided
    on a text (5)."""


class StoredEvent(EventState):
    """An event as it came, and what became of it."""

    type: str
    agent_id: str
    session_id: str | None
    correlation_id: str | None
    occurred_at: datetime
    payload: dict[str, Any]
