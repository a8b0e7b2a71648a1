"""REST operations on events, memories, agents, retrievals (which alone need workers) and erasures."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import TimeoutError as Late
from datetime import UTC, datetime
from urllib.parse import quote
from uuid import UUID

import psycopg
from sqlalchemy import Connection

from engine import subjects
from jiyi.errors import NoAnswer
from jiyi.protocol.base import Made
from jiyi.protocol.erasure import ErasureState
from jiyi.protocol.event_requests import (
    MAX_STATES_GET,
    Accepted,
    EventsBody,
    EventState,
    SessionEnd,
    ShortEvent,
    WaitQuery,
)
from jiyi.protocol.events import Event
from jiyi.protocol.openapi.document import PREFIX
from jiyi.protocol.rest import FieldProblem, OnceQuery
from jiyi.protocol.retrieval import Answer, RetrievalRequest, RetrieveBody
from jiyi.protocol.wire.calls import retrieval_queue
from jiyi.settings import get_settings
from models.conversations import actions as conversations
from models.db.bounded_reads import FAILURES, PATIENCE, SourceUnavailable, from_database, one_line
from models.erasure import actions as erasure_actions
from models.memory import archive, inbox, questions
from models.memory import events as stored
from models.memory.agents import key_of
from models.memory.ingest import StatusPoller, StoredCounts, group_commit
from models.queue.dead_letters import VECTOR_FIELD, MisfitVectors, ReusedIds, reason_of
from models.reflection import actions as reflection
from models.retrieval import records
from web.actions import caller
from web.api.bodies import give_back_room
from web.api.problems import RETRY_SECONDS, RequestRefused
from web.api.registry import expose, operation
from web.api.running import Reply, RequestContext

#: The database is away, gives no answer, or refuses a value; these are distinguished when the request is
#: answered.
AWAY: tuple[type[Exception], ...] = (psycopg.OperationalError, psycopg.DataError, *FAILURES)


def keep(events: Sequence[Event]) -> StoredCounts:
    """Return when they are in the database.

    Raises:
        RequestRefused: an id is taken, vectors do not fit, an event belongs to a subject that is off, or
            (504) the database is slow: then whether they were stored is not known.
        SourceUnavailable: the database refuses a value, or is away.
    """
    for event in events:
        if (subject := subjects.of_event(event.type)) is not None:
            raise RequestRefused(422, str(subject.refusal), code=subject.refusal.code)
    try:
        return group_commit().store(events, PATIENCE)
    except Late:
        raise RequestRefused(
            504, _perhaps_stored(events), code=NoAnswer.code, Retry_After=str(RETRY_SECONDS)
        ) from None
    except ReusedIds as error:
        problems = [FieldProblem(field="event_id", message=reason_of(event)) for event in error.events]
        raise RequestRefused(409, str(error), problems, code=error.code) from None
    except MisfitVectors as error:
        places = {event.key: place for place, event in enumerate(events)}
        problems = [
            FieldProblem(field=_vector_field(places[misfit.event.key], len(events)), message=misfit.reason)
            for misfit in error.misfits
        ]
        raise RequestRefused(422, str(error), problems, code=error.code) from None
    except inbox.CollisionError:
        raise RequestRefused(409, "event_id: already used; choose another.") from None
    except AWAY as error:
        raise SourceUnavailable("database", one_line(error)) from error


def _perhaps_stored(events: Sequence[Event]) -> str:
    """The message to the client when the database has not confirmed in time."""
    which = (
        f"the event {events[0].event_id} may be" if len(events) == 1 else f"these {len(events)} events may be"
    )
    again = "this event_id" if len(events) == 1 else "the same event_ids"
    return (
        f"The database has not confirmed within {PATIENCE:g} s: {which} stored. To send again with {again} is"
        " harmless."
    )


def _vector_field(place: int, count: int) -> str:
    """Where a request with so many events has the vector of one of them."""
    return VECTOR_FIELD if count == 1 else f"events.{place}.{VECTOR_FIELD}"


def _erasure_reply(_context: RequestContext, erasure: ErasureState) -> Reply:
    return Reply(erasure, {"Location": f"{PREFIX}/erasures/{erasure.erasure_id}"})


expose(
    erasure_actions.request_erasure,
    "DELETE /nodes/<uuid:id>",
    "erase_memory",
    "memories",
    status=202,
    from_parts=lambda parts: {"node_ids": [parts["id"]]},
    present=_erasure_reply,
    doc="""Erase one memory.

    The memory and everything derived from it goes, everywhere, for good, and so do its words in what was
    said. A job does it:
    it is pending until the state is done, and the memory may be found until then. Erasing it again meanwhile
    begins nothing new,
    and says how far it is, as get_erasure does; afterwards there is no such memory.
    """,
)
expose(
    erasure_actions.request_erasure,
    "POST /erasures",
    "erase",
    "erasure",
    status=202,
    errors=(404,),
    present=_erasure_reply,
)


expose(erasure_actions.list_erasures, "GET /erasures", "list_erasures", "erasure")
expose(erasure_actions.get_erasure, "GET /erasures/<uuid:id>", "get_erasure", "erasure")


@operation(
    "POST /events",
    "events",
    large=True,
    scope="publish",
    answer=Accepted,
    status=202,
    errors=(409, 504),
    flat="agent_id description node_type poignancy session_id user_id visibility origin"
    " subject predicate object occurred_at event_id",
    flat_body=ShortEvent,
)
def observe(context: RequestContext, body: EventsBody, query: WaitQuery) -> Reply:
    """Remember what happened.

    Stores one event, or several as {"events": […]}, in an agent's long-term memory. Call it after something
    worth remembering was seen, said, done or decided: one statement each, in any language, naming who did
    what. Answers as soon as the events are stored durably (status 202); they can be retrieved a moment later.
    With wait (seconds) it answers when they can be, or when the time is up; states says what has become of
    them. Several events are stored together or not at all, in the order given. Give an event_id of your own
    to make sending it again harmless; an event_id that another event has, with other content, is refused
    (409, code id_reused). Besides the short form there are the full events (memory.observed,
    agent.configured, session.ended, node.executed) with type and payload.
    """
    try:
        events = body.as_events(context.group_id)
    except ValueError as error:
        raise RequestRefused(422, str(error)) from None
    return accepted(once(events, body.given(), query.once), query.wait or 0.0)


expose(questions.event_states, "GET /events/status", "event_states", "events", without="digests")
expose(
    questions.event_states,
    "POST /events/status",
    "event_states_of_many",
    "events",
    doc="""Get the states of many events.

    As event_states, for up to 1,000 ids, which are more than an address can hold. Changes nothing.
    """,
)
expose(
    questions.get_event,
    "GET /events/<uuid:id>",
    "get_event",
    "events",
    missing="event {id}. It may have been refused: see the dead letters",
)


@operation(
    "POST /sessions/<anything:session_id>/end",
    "events",
    scope="publish",
    answer=Accepted,
    status=202,
    errors=(409, 504),
    flat="agent_id user_id partner",
    flat_body=SessionEnd,
)
def end_session(context: RequestContext, session_id: str, body: SessionEnd, query: OnceQuery) -> Reply:
    """End a conversation.

    Notifies an agent that a session is over: it reflects on the conversation and keeps what is worth it. The
    event's id is also that of the reflection: see get_reflection.
    """
    if from_database(lambda connection: key_of(connection, context.group_id, body.agent_id)) is None:
        raise RequestRefused(404, f"There is no agent {body.agent_id!r}.")
    return accepted(once([body.as_event(context.group_id, session_id)], [body.model_fields_set], query.once))


def once(events: Sequence[Event], field_names: Sequence[Collection[str]], seconds: int) -> Sequence[Event]:
    """The events with the ids that what they say has for so many seconds (:mod:`models.memory.events`); 0:
    with those that they have.

    ``field_names``: the fields of the envelope that the sender sent, event by event.
    """
    if not seconds:
        return events
    return from_database(
        lambda connection: stored.with_ids(connection, events, field_names, seconds, datetime.now(UTC))
    )


def accepted(events: Sequence[Event], wait: float = 0) -> Reply:
    """Store events durably, each once; answer after up to ``wait`` seconds with their states."""
    result = keep(events)
    ids = [event.event_id for event in events]
    url, states = status_url(ids), None
    if wait:
        give_back_room()
        by_id = _states.wait(events[0].group_id, ids, wait)
        states = None if by_id is None else [by_id[event_id] for event_id in ids]
    answer = Accepted(
        event_ids=ids, accepted=result.accepted, repeated=result.repeated, status_url=url, states=states
    )
    return Reply(answer.model_dump(mode="json", exclude_none=True), {"Location": url})


def _read_states(connection: Connection, group_id: str, ids: Sequence[UUID]) -> dict[UUID, EventState]:
    return {state.event_id: state for state in stored.states(connection, group_id, ids)}


#: The states of events, for requests that wait for them.
_states = StatusPoller(_read_states, lambda state: state.final)


def status_url(ids: Sequence[UUID]) -> str:
    """The address of the events' states; for more ids than fit into it, the address to post the ids to."""
    address = f"{PREFIX}/events/status"
    unique = list(dict.fromkeys(ids))
    return (
        address
        if len(unique) > MAX_STATES_GET
        else f"{address}?ids={quote(','.join(map(str, unique)), safe=',')}"
    )


@operation(
    "POST /retrieve",
    "retrieval",
    scope="read",
    answer=Answer,
    errors=(504,),
    flat="agent_id query user_id top_k mode recency_w relevance_w importance_w recency_decay",
    needed="query",
)
def retrieve_memories(context: RequestContext, body: RetrieveBody) -> bytes:
    """Recall what matters now.

    Searches an agent's memory for what matters for a question, or for what is going on. Call it before
    answering a user or deciding what to do. Memories are ranked by recency, relevance and importance; each
    comes with its description, its score and every part of it. Ask in the language of the conversation;
    memories in another language are found, too. What is returned counts as accessed. An agent without
    memories that fit gives the status no_candidates, one that nothing has been stored of unknown_agent;
    neither is an error.
    """
    settings = get_settings()
    fields = {name: getattr(body, name) for name in RetrievalRequest.model_fields if name != "group_id"}
    request = RetrievalRequest.model_construct(group_id=context.group_id, **fields)
    queue = retrieval_queue(context.group_id, body.agent_id, settings.retrieval_shards)
    answer = caller().call_for_json("retrieval.retrieve", queue, request, body.timeout, actor=context.actor)
    return Answer.model_validate_json(answer).groups[0].model_dump_json().encode() if body.flat else answer


expose(records.list_retrievals, "GET /retrievals", "list_retrievals", "retrieval", errors=(404,))
expose(
    records.ask_again,
    "GET /retrievals/<uuid:id>/again",
    "ask_retrieval_again",
    "retrieval",
    errors=(404, 504),
)


expose(
    questions.list_memories,
    "GET /nodes",
    "list_memories",
    "memories",
    errors=(404,),
    flat="agent_id words keyword session_id user_id created_after created_before limit cursor",
)
expose(questions.get_memory, "GET /nodes/<uuid:id>", "get_memory", "memories", missing="memory {id}")
expose(archive.update_memory, "PATCH /nodes/<uuid:id>", "update_memory", "memories")
expose(
    archive.reinstate_memory,
    "POST /nodes/<uuid:id>/reinstate",
    "reinstate_memory",
    "memories",
    errors=(404, 409),
)
expose(conversations.forget, "POST /forget", "forget_memories", "memories", errors=(404, 504))
expose(
    questions.build_context,
    "POST /context",
    "recall_context",
    "retrieval",
    errors=(504,),
    flat="agent_id query user_id max_tokens session_id",
)
expose(reflection.why, "GET /nodes/<uuid:id>/evidence", "explain_memory", "memories", flat="depth")
expose(questions.keywords, "GET /keywords", "list_keywords", "memories", errors=(404,))
expose(questions.related, "GET /related", "related_memories", "memories")


expose(questions.agents, "GET /agents", "list_agents", "agents", flat="limit cursor")
expose(
    conversations.agent_get,
    "GET /agents/<anything:agent_id>",
    "get_agent",
    "agents",
    missing="agent {agent_id!r}",
)
expose(
    archive.configure,
    "PATCH /agents/<anything:agent_id>/settings",
    "configure_agent",
    "agents",
    errors=(409, 504),
)


def _reflection_reply(_context: RequestContext, reflection: Made) -> Reply:
    return Reply(reflection, {"Location": f"{PREFIX}/reflections/{reflection.id}"})


expose(
    reflection.request_reflection,
    "POST /agents/<anything:agent_id>/reflect",
    "reflect",
    "reflections",
    present=_reflection_reply,
    status=202,
)


expose(reflection.list_reflections, "GET /reflections", "list_reflections", "reflections")
expose(reflection.get, "GET /reflections/<uuid:id>", "get_reflection", "reflections")
