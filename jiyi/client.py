"""What an agent's program uses: ``Client.observe`` what happened, ``Client.retrieve`` what matters now."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from types import TracebackType
from typing import Any, Self, TypeVar
from uuid import UUID

import kombu
from kombu.exceptions import OperationalError
from kombu.pools import producers
from pydantic import BaseModel, ValidationError

from jiyi import events as wire
from jiyi import inspection
from jiyi.broker import CONNECT_RETRY, bind_anew, exchange, intake_queue
from jiyi.calls import Caller
from jiyi.errors import (
    BrokerUnavailable,
    EventRejected,
    InvalidEvent,
    InvalidRequest,
    NoAnswer,
    SettingsError,
    join_problems,
    problems_of,
)
from jiyi.events import Event
from jiyi.inspection import EventState, EventStatesQuery, Page, Query
from jiyi.requests import Answer, RetrievalRequest
from jiyi.settings import Settings, get_settings

#: Connections that one process keeps for publishing: more threads than this wait for each other.
PRODUCERS = 8
PUBLISH_RETRY = {"max_retries": 2, "interval_start": 0.1, "interval_step": 0.2}  # seconds
#: ``wait=True`` asks again after this, at first; seconds.
FIRST_POLL = 0.01
LAST_POLL = 0.5
#: Ids in one question about states.
STATES_A_CALL = 500

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


class Client:
    """A connection to a running Jiyi. Thread-safe; in asyncio call it through ``asyncio.to_thread``.

    Args:
        group: the group (tenant) to speak for; ``JIYI_GROUP`` unless given.
        settings: where the service is; the environment, or a running embedded copy, unless given.

    Example::

        with Client() as jiyi:
            jiyi.observe("klaus", "Klaus is reading a book on gentrification", poignancy=4, wait=True)
            for node in jiyi.retrieve("klaus", "What does Klaus read?").retrieved_nodes:
                print(node.score, node.description)
    """

    def __init__(self, group: str | None = None, *, settings: Settings | None = None) -> None:
        self.settings = settings or get_settings()
        self.group = group or self.settings.group
        self._caller = Caller(self.settings)
        try:
            self._connection = kombu.Connection(
                self.settings.need("broker_url"),
                connect_timeout=self.settings.publish_timeout,
                transport_options={
                    "socket_connect_timeout": self.settings.publish_timeout,
                    "socket_keepalive": True,
                    **CONNECT_RETRY,
                },
            )
        except (KeyError, ValueError) as error:
            raise SettingsError(f"JIYI_BROKER_URL: kombu knows no such broker: {error}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._caller.close()
        self._connection.release()

    # Telling

    def observe(
        self, agent_id: str, description: str, *, wait: bool = False, timeout: float | None = None, **fields: Any
    ) -> UUID:
        """Publish one ``memory.observed`` event; returns its id, which is also its memory's.

        Args:
            agent_id: whose memory.
            description: what happened, one statement.
            wait: return only when the memory is retrievable.
            timeout: seconds for ``wait``; the deployment's request time-out unless given.
            fields: any other field of the event (``occurred_at``, ``session_id``, ``event_id``, …) or of its
                payload (``node_type``, ``keywords``, ``poignancy``, ``evidence``, …; see ``docs/events.md``).

        Raises:
            InvalidEvent: with a sentence per wrong field; nothing was published.
            BrokerUnavailable: nothing was published.
            EventRejected: (``wait``) the service refused it; the dead letters say why.
            NoAnswer: (``wait``) it is accepted, but not retrievable within the time given.
        """
        event = wire.build(self._envelope({"agent_id": agent_id, "description": description, **fields}))
        return self.observe_many([event], wait=wait, timeout=timeout)[0]

    def observe_many(
        self, observations: Iterable[dict[str, Any] | Event], *, wait: bool = False, timeout: float | None = None
    ) -> list[UUID]:
        """Publish many observations, up to ``JIYI_MAX_EVENTS_PER_MESSAGE`` in a message; returns their ids in order.

        Each is a dict of :meth:`observe`'s arguments, or an event. All are checked before any is published.
        Raises as :meth:`observe` does; the field names then begin with the position of the observation.
        """
        built = list(self._build_all(observations))
        for message, body in list(wire.messages(built, self.settings)):
            self._publish(body, message[0].type)
        ids = [event.event_id for event in built]
        if wait:
            self.wait_for(ids, timeout)
        return ids

    def configure(self, agent_id: str, *, wait: bool = False, timeout: float | None = None, **settings: Any) -> UUID:
        """Publish ``agent.configured``: set an agent's ``mode``, weights, ``recency_decay``, ``dedupe``, …"""
        event = wire.build({"type": "agent.configured", "group_id": self.group, "agent_id": agent_id, "payload": settings})
        return self.observe_many([event], wait=wait, timeout=timeout)[0]

    def wait_for(self, event_ids: Sequence[UUID], timeout: float | None = None) -> None:
        """Return when every event has its effect. Raises :class:`EventRejected` or :class:`NoAnswer`."""
        limit = self.settings.request_timeout if timeout is None else timeout
        deadline = time.monotonic() + limit
        open_ids, pause = list(event_ids), FIRST_POLL
        while open_ids:
            states = self.event_states(open_ids[:STATES_A_CALL])
            dead = [f"{state.event_id}: {state.reason}" for state in states if state.state == "dead"]
            if dead:
                raise EventRejected(join_problems(dead))
            done = {state.event_id for state in states if state.final}
            open_ids = [event_id for event_id in open_ids if event_id not in done]
            if open_ids and time.monotonic() > deadline:
                raise NoAnswer(
                    f"{len(open_ids)} of {len(event_ids)} events are not retrievable after {limit:g} s; they are not lost"
                )
            if open_ids and not done:
                time.sleep(pause)
                pause = min(pause * 2, LAST_POLL)

    # Asking

    def retrieve(self, agent_id: str, focal: str | Sequence[str], *, timeout: float | None = None, **options: Any) -> Answer:
        """The agent's memories that matter most for the focal text or texts, with every component of their scores.

        ``options`` are the other fields of :class:`jiyi.requests.RetrievalRequest`: ``top_k``, ``mode``, weights,
        ``filters``, ``now``, ``touch``, ``vectors`` …

        Raises:
            InvalidRequest: with a sentence per wrong field.
            BrokerUnavailable, NoAnswer: the service cannot be reached, or did not answer in time.
            ModelMismatch: the vectors brought along cannot be compared with the agent's.
        """
        texts = [focal] if isinstance(focal, str) else list(focal)
        request = _checked(RetrievalRequest, group_id=self.group, agent_id=agent_id, focal_texts=texts, **options)
        return Answer.model_validate(self._caller.call("retrieval.retrieve", "retrieval", request, timeout))

    def event_states(self, event_ids: Sequence[UUID], timeout: float | None = None) -> list[EventState]:
        """What became of these events (at most 1,000), in their order."""
        query = _checked(EventStatesQuery, group_id=self.group, event_ids=list(event_ids))
        return [EventState.model_validate(row) for row in self.ask("event_states", query, timeout)]

    def related(self, agent_id: str, **triple: Any) -> dict[str, list[dict[str, Any]]]:
        """Keyword retrieval (GA-47): ``events`` and ``thoughts`` that share a keyword with ``subject``,
        ``predicate`` or ``object``."""
        query = _checked(inspection.RelatedQuery, group_id=self.group, agent_id=agent_id, **triple)
        found: dict[str, list[dict[str, Any]]] = self.ask("related", query)
        return found

    def page(self, what: str, query: type[Query], **fields: Any) -> Page:
        """One page of a list: ``nodes``, ``keywords``, ``agents``, ``export`` or ``dead_letters``."""
        return Page.model_validate(self.ask(what, _checked(query, group_id=self.group, **fields)))

    def ask(self, what: str, query: Query, timeout: float | None = None) -> Any:
        """Any question of :mod:`jiyi.inspection`."""
        return self._caller.call(f"inspect.{what}", inspection.QUEUE, query, timeout)

    # Plumbing

    def _build_all(self, observations: Iterable[dict[str, Any] | Event]) -> Iterator[Event]:
        for position, observation in enumerate(observations):
            if isinstance(observation, wire.Event):
                yield observation
                continue
            if not isinstance(observation, dict):
                raise InvalidEvent([f"{position}: must be a dict or an event, not {type(observation).__name__}"])
            try:
                yield wire.build(self._envelope(observation))
            except InvalidEvent as error:
                raise InvalidEvent([f"{position}.{problem}" for problem in error.problems]) from None

    def _envelope(self, observation: dict[str, Any]) -> dict[str, Any]:
        if "payload" in observation:
            return {"group_id": self.group, **observation}
        unknown = observation.keys() - _ENVELOPE_FIELDS - wire.Observation.model_fields.keys()
        if unknown:
            raise InvalidEvent([f"{name}: no such field" for name in sorted(unknown)])
        envelope = {name: value for name, value in observation.items() if name in _ENVELOPE_FIELDS}
        payload = {name: value for name, value in observation.items() if name not in _ENVELOPE_FIELDS}
        return {"type": "memory.observed", "group_id": self.group, **envelope, "payload": payload}

    def _publish(self, body: bytes, routing_key: str) -> None:
        broken = (OperationalError, OSError, *self._connection.connection_errors, *self._connection.channel_errors)
        try:
            with producers[self._connection].acquire(block=True, timeout=self.settings.publish_timeout) as producer:
                publish = producer.connection.ensure(producer, self._publish_once, **PUBLISH_RETRY)
                publish(producer, body, routing_key)
        except broken as error:
            raise BrokerUnavailable(
                f"cannot reach the broker: {error}; nothing was published. Is the service running?"
            ) from error

    def _publish_once(self, producer: kombu.Producer, body: bytes, routing_key: str) -> None:
        bind_anew(intake_queue(self.settings), producer.channel)
        producer.publish(
            body, exchange=exchange(self.settings), routing_key=routing_key,
            content_type=wire.CONTENT_TYPE, content_encoding="utf-8", delivery_mode="persistent",
        )  # fmt: skip


_ENVELOPE_FIELDS = wire.MemoryObserved.model_fields.keys() - {"payload"}


def _checked(model: type[M], **fields: Any) -> M:
    try:
        return model(**fields)
    except ValidationError as error:
        raise InvalidRequest(problems_of(error)) from None


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of ``size`` items, the last one shorter."""
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk
