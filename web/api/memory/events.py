"""Events in, and what became of them."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote
from uuid import UUID

from sqlalchemy import Connection

from jiyi.protocol.event_requests import (
    MAX_STATES_GET,
    Accepted,
    EventsBody,
    EventState,
    SessionEnd,
    ShortEvent,
    StatesBody,
    StatesQuery,
    WaitQuery,
)
from jiyi.protocol.events import Event
from jiyi.protocol.openapi.document import PREFIX
from models.db.bounded_reads import from_database
from models.memory import events as stored
from models.memory import questions
from models.memory.agents import key_of
from models.memory.looks import Looks
from web.api.bodies import give_back_room
from web.api.memory.storing import keep
from web.api.problems import Refused
from web.api.registry import expose, operation
from web.api.running import Asker, Reply


@operation(
    "POST",
    "/events",
    id="observe",
    large=True,
    scope="publish",
    tag="events",
    query=WaitQuery,
    body=EventsBody,
    answer=Accepted,
    status=202,
    errors=(409,),
    flat=("agent_id", "description", "node_type", "poignancy", "session_id", "subject", "predicate", "object", "occurred_at", "event_id"),
    flat_body=ShortEvent,
)
def observe(asker: Asker, body: EventsBody, query: WaitQuery) -> Reply:
    """Remember what happened.

    Stores one event, or several as {"events": […]}, in an agent's long-term memory. Call it after something
    worth remembering was seen, said, done or decided: one statement each, in any language, naming who did what. Answers as
    soon as the events are stored durably (status 202); they can be retrieved a moment later. With wait (seconds) it answers
    when they can be, or when the time is up; states says what has become of them. Several events are stored
    together or not at all, in the order given. Give an event_id of your own to make sending it again harmless; an
    event_id that another event has, with other content, is refused (409, code id_reused). Besides the short form
    there are the full events (memory.observed, agent.configured, session.ended, node.executed) with type and payload.
    """
    try:
        events = body.as_events(asker.group_id)
    except ValueError as error:
        raise Refused(422, str(error)) from None
    return accepted(events, query.wait)


expose(
    questions.states_of_events,
    "GET",
    "/events/status",
    id="event_states",
    tag="events",
    query=StatesQuery,
    given=lambda query: {"ids": query["id"]},
)
expose(
    questions.states_of_events,
    "POST",
    "/events/status",
    id="event_states_of_many",
    tag="events",
    body=StatesBody,
    doc="""Tell what became of many events.

    As event_states, for up to 500 ids, which are more than an address can hold. Changes nothing.
    """,
)
expose(
    questions.get_event,
    "GET",
    "/events/<uuid:event_id>",
    id="get_event",
    tag="events",
    missing="There is no event {event_id}. It may have been refused: see the dead letters.",
)


@operation(
    "POST",
    "/sessions/<anything:session_id>/end",
    id="end_session",
    scope="publish",
    tag="events",
    body=SessionEnd,
    answer=Accepted,
    status=202,
    errors=(409,),
    flat=("agent_id", "partner"),
    flat_body=SessionEnd,
)
def end_session(asker: Asker, session_id: str, body: SessionEnd) -> Reply:
    """End a conversation.

    Tells an agent that a session is over: it reflects on what was said and keeps what is worth it. The
    event's id is also that of the reflection: see get_reflection.
    """
    if from_database(lambda connection: key_of(connection, asker.group_id, body.agent_id)) is None:
        raise Refused(404, f"There is no agent {body.agent_id!r}.")
    return accepted([body.as_event(asker.group_id, session_id)])


def accepted(events: Sequence[Event], wait: float = 0) -> Reply:
    """Store events durably, each once, and tell so; after up to ``wait`` seconds with what has become of them."""
    kept = keep(events)
    ids = [event.event_id for event in events]
    url, states = status_url(ids), None
    if wait:
        give_back_room()
        known = _states.wait(events[0].group_id, ids, wait)
        states = None if known is None else [known[event_id] for event_id in ids]
    done = Accepted(event_ids=ids, accepted=kept.accepted, repeated=kept.repeated, status_url=url, states=states)
    return Reply(done.model_dump(mode="json", exclude_none=True), {"Location": url})


def _look(connection: Connection, group_id: str, ids: Sequence[UUID]) -> dict[UUID, EventState]:
    return {state.event_id: state for state in stored.states(connection, group_id, ids)}


#: What becomes of events, for requests that wait for it.
_states = Looks(_look, lambda state: state.final)


def status_url(ids: Sequence[UUID]) -> str:
    """Where the events' states are told; of more than fit into an address, where the ids are to be posted."""
    address = f"{PREFIX}/events/status"
    unique = list(dict.fromkeys(ids))
    return address if len(unique) > MAX_STATES_GET else f"{address}?id={quote(','.join(map(str, unique)), safe=',')}"
