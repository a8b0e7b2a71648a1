"""What became of events: the questions about it, and the answers."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from jiyi.protocol.queries import Request

#: Events whose states one GET may ask for: so many ids fit into a request line of 8 KiB.
MAX_STATES_GET = 200
#: Seconds that a request may wait for its events to have their effect: it holds one of the server's threads.
MAX_WAIT = 30.0


class EventStatesQuery(Request):
    """What became of these events?"""

    event_ids: Annotated[list[UUID], Field(min_length=1, max_length=1_000)]
    #: What they say, by id (:func:`jiyi.protocol.events.content.digest`): an id that stands for something else is ``id_reused``.
    digests: dict[UUID, str] = Field({}, max_length=1_000)


class EventState(BaseModel):
    """``unknown``: not arrived yet. ``stored``: a node, not embedded yet. ``retrievable``, ``duplicate`` (of
    ``node_id``), ``applied`` (settings), ``erased``, ``dead`` (with the reason) and ``id_reused`` (another event has the id;
    ``node_id`` is that one's) are final.
    """

    event_id: UUID
    state: Literal["unknown", "stored", "retrievable", "duplicate", "applied", "erased", "dead", "id_reused"]
    node_id: UUID | None = None
    reason: str = ""

    @property
    def final(self) -> bool:
        return self.state not in ("unknown", "stored")


class Accepted(BaseModel):
    """The events are stored durably; embedding and the rest follows. `status_url` tells how far it is."""

    event_ids: list[UUID] = Field(description="In the order given. A memory has the id of its event.")
    accepted: int = Field(description="Events that were new.")
    repeated: int = Field(description="Events that were there already, by their ids; nothing was changed.")
    status_url: str
    states: list[EventState] | None = Field(None, description="With `wait`: what had become of them when the answer was sent.")


class WaitQuery(BaseModel):
    """How long the answer may take."""

    model_config = ConfigDict(extra="forbid")

    wait: float = Field(
        0, ge=0, le=MAX_WAIT, description="Seconds to wait until the memories can be retrieved; without it the answer comes at once."
    )


class StatesQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    id: Annotated[list[UUID], Field(min_length=1, max_length=MAX_STATES_GET)] = Field(
        description=f"Ids of events, up to {MAX_STATES_GET}; given several times, or with commas between."
    )


class StatesBody(BaseModel):
    """Ids of events."""

    model_config = ConfigDict(extra="forbid")

    ids: Annotated[list[UUID], Field(min_length=1, max_length=500)]


class EventStates(BaseModel):
    """One state an event, in the order asked."""

    events: list[EventState]


class EventRequest(Request):
    """Which event?"""

    event_id: UUID


class StoredEvent(EventState):
    """An event as it came, and what became of it."""

    type: str
    agent_id: str
    session_id: str | None
    correlation_id: str | None
    occurred_at: datetime
    payload: dict[str, Any]
