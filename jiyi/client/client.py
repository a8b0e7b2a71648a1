"""What an agent's program uses: ``Client.observe`` what happened, ``Client.retrieve`` what matters now."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from types import TracebackType
from typing import Any, Self, TypeVar
from uuid import UUID

import kombu
from kombu.exceptions import OperationalError
from kombu.pools import producers
from pydantic import BaseModel, ValidationError

from jiyi.accounts.keys import key_headers, key_of, service_headers
from jiyi.client.calls import Caller, retrieval_queue
from jiyi.errors import BrokerUnavailable, EventRejected, InvalidEvent, InvalidRequest, NoAnswer, SettingsError, join_problems, problems_of
from jiyi.memory.perceive import ATT_BANDWIDTH, RETENTION, Seen, observations
from jiyi.protocol import events as wire
from jiyi.protocol import operations, queries
from jiyi.protocol.broker import CONNECT_RETRY, bind_anew, exchange, intake_queue, stamp
from jiyi.protocol.events import Event
from jiyi.protocol.queries import EventState, EventStatesQuery, Page, Query
from jiyi.protocol.reembedding import QUEUE as MOVE_QUEUE
from jiyi.protocol.reembedding import STEP_SECONDS, MoveRequest, MoveState
from jiyi.protocol.reembedding import TASK as MOVE_TASK
from jiyi.protocol.reflection import Reasons, ReflectionQuery, ReflectionState, ReflectQuery, WhyQuery
from jiyi.protocol.retrieval import Answer, RetrievalRequest
from jiyi.protocol.tiers.digests import DigestsQuery, DigestState
from jiyi.protocol.tiers.knowledge import (
    Change,
    CurrentVersion,
    DemoteBody,
    Demoted,
    EditKnowledge,
    HistoryQuery,
    KnowledgePage,
    PromoteBody,
    Promoted,
)
from jiyi.protocol.tiers.quarantine import IngestState, WorkingState, ingest_event
from jiyi.protocol.tiers.query import MemoryAnswer, MemoryQuery
from jiyi.settings import Settings, get_settings

PUBLISH_RETRY = {"max_retries": 2, "interval_start": 0.1, "interval_step": 0.2}  # seconds
#: ``wait=True`` asks again after this, at first; seconds.
FIRST_POLL = 0.01
LAST_POLL = 0.5
#: What a job that is run now may take, in seconds.
JOB_SECONDS = 600.0
#: What a digest may take, in seconds: twenty questions to an LLM.
DIGEST_SECONDS = 120.0
#: Ids in one question about states.
STATES_A_CALL = 500

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


class Client:
    """A connection to a running Jiyi. Thread-safe; in asyncio call it through ``asyncio.to_thread``.

    Args:
        group: the group (tenant) to speak for; ``JIYI_GROUP`` unless given.
        settings: where the service is; the environment, or a running embedded copy, unless given.
        key: an API key with the right to publish, with which events are signed; ``JIYI_KEY`` unless given.

    Example::

        with Client() as jiyi:
            jiyi.observe("klaus", "Klaus is reading a book on gentrification", poignancy=4, wait=True)
            for node in jiyi.retrieve("klaus", "What does Klaus read?").retrieved_nodes:
                print(node.score, node.description)
    """

    def __init__(self, group: str | None = None, *, settings: Settings | None = None, key: str | None = None) -> None:
        self.settings = settings or get_settings()
        self.group = group or self.settings.group
        self._key = key_of(self.settings.key.get_secret_value() if key is None else key)
        self._caller = Caller(self.settings)
        try:
            self._connection = kombu.Connection(
                self.settings.need("broker_url"),
                connect_timeout=self.settings.publish_timeout,
                transport_options={"socket_connect_timeout": self.settings.publish_timeout, "socket_keepalive": True, **CONNECT_RETRY},
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

    def observe(self, agent_id: str, description: str, *, wait: bool = False, timeout: float | None = None, **fields: Any) -> UUID:
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

    def perceive(
        self,
        agent_id: str,
        seen: Iterable[Seen | tuple[Any, ...]],
        *,
        utterances: Sequence[tuple[str, str]] = (),
        att_bandwidth: int = ATT_BANDWIDTH,
        retention: int = RETENTION,
        stanford: bool = False,
        wait: bool = False,
        timeout: float | None = None,
        **fields: Any,
    ) -> list[UUID]:
        """Observe what an agent sees around it: the closest, and of that only what is new (:mod:`jiyi.memory.perceive`).

        Args:
            agent_id: whose memory; also its name among the subjects.
            seen: (subject, predicate, object, description, distance) each.
            utterances: what was said, (speaker, text) each, if the agent is seen chatting with somebody.
            att_bandwidth: how many of the things seen come to attention.
            retention: how many of the agent's latest events they are compared with.
            stanford: texts exactly as the original makes them.
            wait: return only when the memories are retrievable.
            timeout: seconds for ``wait``; the deployment's request time-out unless given.
            fields: of all the events (``occurred_at``, ``session_id``, …).

        Returns:
            The events' ids; with ``wait`` only of those that were new.
        """
        made = observations(
            agent_id, (Seen(*item) for item in seen), utterances=utterances, bandwidth=att_bandwidth, retention=retention, stanford=stanford
        )
        if not made:
            return []
        fields.setdefault("occurred_at", datetime.now(UTC))  # one look, one moment
        published = self.observe_many([{**item, **fields} for item in made], wait=wait, timeout=timeout)
        ids = [event_id for event_id, item in zip(published, made, strict=True) if item.get("node_type") != "chat"]
        if not wait:
            return ids
        return [state.event_id for state in self.event_states(ids, timeout) if state.state != "duplicate"]

    def configure(self, agent_id: str, *, wait: bool = False, timeout: float | None = None, **settings: Any) -> UUID:
        """Publish ``agent.configured``: set an agent's ``mode``, weights, ``recency_decay``, ``dedupe``, …"""
        event = wire.build({"type": "agent.configured", "group_id": self.group, "agent_id": agent_id, "payload": settings})
        return self.observe_many([event], wait=wait, timeout=timeout)[0]

    def end_session(self, agent_id: str, session_id: str | None = None, **fields: Any) -> UUID:
        """Publish ``session.ended``: the agent keeps two thoughts of the conversation. Returns the event's id, which is
        also that of the reflection.

        ``fields`` are ``partner``, ``chat_ids``, or of the envelope (``event_id``, ``occurred_at``, …).
        """
        envelope = {name: fields.pop(name) for name in _ENVELOPE_FIELDS & fields.keys()}
        event = wire.build(
            {"type": "session.ended", "group_id": self.group, "agent_id": agent_id, "session_id": session_id, **envelope, "payload": fields}
        )
        return self.observe_many([event])[0]

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
                raise NoAnswer(f"{len(open_ids)} of {len(event_ids)} events are not retrievable after {limit:g} s; they are not lost")
            if open_ids and not done:
                time.sleep(pause)
                pause = min(pause * 2, LAST_POLL)

    # Asking

    def retrieve(self, agent_id: str, focal: str | Sequence[str], *, timeout: float | None = None, **options: Any) -> Answer:
        """The agent's memories that matter most for the focal text or texts, with every component of their scores.

        ``options`` are the other fields of :class:`jiyi.protocol.retrieval.RetrievalRequest`: ``top_k``, ``mode``, weights,
        ``filters``, ``now``, ``touch``, ``vectors`` …

        Raises:
            InvalidRequest: with a sentence per wrong field.
            BrokerUnavailable, NoAnswer: the service cannot be reached, or did not answer in time.
            ModelMismatch: the vectors brought along cannot be compared with the agent's.
        """
        texts = [focal] if isinstance(focal, str) else list(focal)
        request = _checked(RetrievalRequest, group_id=self.group, agent_id=agent_id, focal_texts=texts, **options)
        queue = retrieval_queue(self.group, agent_id, self.settings.retrieval_shards)
        return Answer.model_validate_json(self._caller.call_for_json("retrieval.retrieve", queue, request, timeout))

    def event_states(self, event_ids: Sequence[UUID], timeout: float | None = None) -> list[EventState]:
        """What became of these events (at most 1,000), in their order."""
        query = _checked(EventStatesQuery, group_id=self.group, event_ids=list(event_ids))
        return [EventState.model_validate(row) for row in self.ask("event_states", query, timeout)]

    def related(self, agent_id: str, **triple: Any) -> dict[str, list[dict[str, Any]]]:
        """Keyword retrieval (GA-47): ``events`` and ``thoughts`` that share a keyword with ``subject``,
        ``predicate`` or ``object``."""
        query = _checked(queries.RelatedQuery, group_id=self.group, agent_id=agent_id, **triple)
        found: dict[str, list[dict[str, Any]]] = self.ask("related", query)
        return found

    def reflect(self, agent_id: str, *, wait: bool = True, timeout: float | None = None) -> ReflectionState:
        """Let an agent reflect on its latest memories, now; its thoughts, each with its evidence.

        Args:
            agent_id: who is to reflect.
            wait: return only when it is done; else at once, with a reflection that is owed.
            timeout: seconds for ``wait``; the deployment's request time-out unless given.

        Raises:
            NotFound: no such agent.
            NoAnswer: (``wait``) it is not done within the time given; it goes on.
        """
        asked = self.ask("reflect", _checked(ReflectQuery, group_id=self.group, agent_id=agent_id))
        limit = self.settings.request_timeout if timeout is None else timeout
        deadline, pause = time.monotonic() + limit, FIRST_POLL
        while True:
            found = self.reflection(asked["reflection_id"])
            if found.final or not wait:
                return found
            if time.monotonic() > deadline:
                why = f": {found.error}" if found.error else ""
                raise NoAnswer(f"the reflection {found.reflection_id} is {found.state} after {limit:g} s{why}; it goes on")
            time.sleep(pause)
            pause = min(pause * 2, LAST_POLL)

    def reflection(self, reflection_id: UUID | str) -> ReflectionState:
        """How far a reflection is, and its thoughts."""
        query = _checked(ReflectionQuery, group_id=self.group, reflection_id=reflection_id)
        return ReflectionState.model_validate(self.ask("reflection", query))

    def why(self, node_id: UUID | str, **bounds: int) -> Reasons:
        """What a memory rests on: ``depth`` levels of evidence, ``limit`` memories at most."""
        return Reasons.model_validate(self.ask("why", _checked(WhyQuery, group_id=self.group, node_id=node_id, **bounds)))

    def page(self, what: str, query: type[Query], **fields: Any) -> Page:
        """One page of a list: ``nodes``, ``keywords``, ``agents``, ``export`` or ``dead_letters``."""
        return Page.model_validate(self.ask(what, _checked(query, group_id=self.group, **fields)))

    def ask(self, what: str, query: BaseModel, timeout: float | None = None) -> Any:
        """Any question of :mod:`jiyi.protocol.queries`."""
        return self._caller.call(f"inspect.{what}", queries.QUEUE, query, timeout)

    def act(self, action: str, request: BaseModel, timeout: float | None = None) -> Any:
        """Have an action of the registry done; its result as plain data."""
        return self._caller.act(action, queries.CHANGES, self.group, request, timeout)

    # Three tiers (docs/tiers.md)

    def query_memory(self, query: str, *, group_id: str | None = None, timeout: float | None = None, **options: Any) -> MemoryAnswer:
        """What working and long-term memory of the group know about a text, with the state of each tier.

        ``options`` are the other fields of :class:`jiyi.protocol.tiers.query.MemoryQuestion`: ``max_results``, ``order``,
        ``time_range_days``, ``session_id``, ``web_results`` … Raises as :meth:`retrieve` does, and:

        Raises:
            TooManyQuestions: the group asks more often than it may.
        """
        group = group_id or self.group
        request = _checked(MemoryQuery, group_id=group, query=query, **options)
        queue = retrieval_queue(group, "", self.settings.retrieval_shards)
        return MemoryAnswer.model_validate_json(self._caller.call_for_json("retrieval.memory", queue, request, timeout))

    def ingest(self, content: str, *, wait: bool = True, timeout: float | None = None, **fields: Any) -> IngestState | UUID:
        """A text for the group's quarantine, and for working memory if the filters let it in (CN-54).

        Args:
            content: what was said.
            wait: return the filters' verdict; else at once the entry's id.
            timeout: seconds for ``wait``; the deployment's request time-out unless given.
            fields: the other ones of :class:`jiyi.protocol.tiers.quarantine.IngestBody`: ``session_id``, ``confidence``, ``node_id`` …

        Raises:
            InvalidRequest: with a sentence per wrong field; nothing was published.
            BrokerUnavailable: nothing was published.
            EventRejected, NoAnswer: (``wait``) as :meth:`observe` does.
        """
        request = _checked(IngestRequest, group_id=self.group, content=content, **fields)
        entry_id = self.observe_many([wire.build(ingest_event(request))])[0]
        return self.screened(entry_id, timeout) if wait else entry_id

    def screened(self, entry_id: UUID | str, timeout: float | None = None) -> IngestState:
        """What the filters said of a ``node.executed`` event; waits for it. Raises as :meth:`wait_for` does."""
        limit = self.settings.request_timeout if timeout is None else timeout
        query = _checked(ScreenedQuery, group_id=self.group, entry_id=entry_id)
        deadline, pause = time.monotonic() + limit, FIRST_POLL
        self.wait_for([query.entry_id], limit)
        while (found := self.ask("screened", query)) is None:
            if time.monotonic() > deadline:
                raise NoAnswer(f"{entry_id} is in quarantine, but was not screened within {limit:g} s; it will be")
            time.sleep(pause)
            pause = min(pause * 2, LAST_POLL)
        return IngestState.model_validate(found)

    def promote(self, *entry_ids: UUID | str, text: str | None = None, **fields: Any) -> Promoted:
        """Make long-term knowledge of entries of quarantine, or of a text, for which the entries stand (CN-34).

        ``fields`` are the other ones of :class:`jiyi.protocol.tiers.knowledge.PromoteBody`; with ``preview=True`` it only shows the
        pieces. Promoting again changes nothing.
        """
        request = _checked(PromoteBody, entry_ids=list(entry_ids), text=text, **fields)
        return Promoted.model_validate(self.act("knowledge.promote", request))

    def demote(self, *knowledge_ids: UUID | str, reason: str = "") -> list[UUID]:
        """Take knowledge back; returns what was in force. Its history stays."""
        request = _checked(DemoteBody, knowledge_ids=list(knowledge_ids), reason=reason)
        return Demoted.model_validate(self.act("knowledge.demote", request)).demoted

    def edit(self, knowledge_id: UUID | str, content: str, *, reason: str = "") -> UUID:
        """Put knowledge into other words; returns the id of the version that is in force."""
        request = _checked(EditKnowledge, knowledge_id=knowledge_id, content=content, reason=reason)
        return CurrentVersion.model_validate(self.act("knowledge.edit", request)).knowledge_id

    def knowledge(self, **wanted: Any) -> KnowledgePage:
        """A page of what is in the tiers; ``wanted`` are fields of :class:`jiyi.protocol.tiers.knowledge.KnowledgeFilter`."""
        return KnowledgePage.model_validate(self.ask("knowledge", _checked(KnowledgeQuery, group_id=self.group, **wanted)))

    def knowledge_history(self, knowledge_id: UUID | str) -> list[Change]:
        """Who promoted, demoted or edited it, oldest first."""
        rows = self.ask("knowledge_history", _checked(HistoryQuery, group_id=self.group, knowledge_id=knowledge_id))
        return [Change.model_validate(row) for row in rows]

    def working(self) -> WorkingState:
        """What is in working memory now, newest first, and what the filters have counted."""
        return WorkingState.model_validate(self.ask("working_memory", _checked(WorkingQuery, group_id=self.group)))

    def digest(self, days: float = 7, *, timeout: float = DIGEST_SECONDS) -> DigestState:
        """Digest the quarantine of the last days now, for those who promote; the weekly job does the same."""
        request = _checked(DigestRequest, group_id=self.group, days=days)
        return DigestState.model_validate(self._caller.call("memory.digest", "reflection", request, timeout))

    def digests(self, limit: int = 10) -> list[DigestState]:
        """The latest digests, newest first."""
        page = self.ask("digests", _checked(DigestsQuery, group_id=self.group, limit=limit))
        return [DigestState.model_validate(row) for row in page["rows"]]

    # Operating

    def run_job(self, job: str, *, dry_run: bool = False, whole_service: bool = True, timeout: float = JOB_SECONDS) -> operations.Tick:
        """Run a scheduled job now and wait for its end; or tell what it would do.

        Raises:
            NotFound: there is no such job.
            NoAnswer: it has not ended within ``timeout`` seconds, but goes on.
        """
        query = _checked(operations.RunJobQuery, group_id=self.group, job=job, dry_run=dry_run, whole_service=whole_service)
        tick = operations.Tick.model_validate(self.ask("run_job", query, timeout))
        deadline, pause = time.monotonic() + timeout, FIRST_POLL
        while tick.state in ("waiting", "running"):
            if time.monotonic() > deadline:
                raise NoAnswer(f"{job} has not ended within {timeout:g} s; it goes on: see `jiyi schedule`")
            time.sleep(pause)
            pause = min(pause * 2, LAST_POLL)
            found = self.ask("tick", _checked(operations.TickQuery, group_id=self.group, job=job, slot=tick.slot))
            tick = tick if found is None else operations.Tick.model_validate(found)
        return tick

    def move_embeddings(self, timeout: float = STEP_SECONDS, **fields: Any) -> MoveState:
        """One step of moving the deployment to another embedding model (:class:`jiyi.protocol.reembedding.MoveRequest`).

        Repeat it until its ``phase`` is ``done``. Raises as :meth:`retrieve` does, and:

        Raises:
            EmbeddingUnavailable, TextRefused: the new model's provider; the step may be repeated.
        """
        request = _checked(MoveRequest, group_id=self.group, **fields)
        return MoveState.model_validate(self._caller.call(MOVE_TASK, MOVE_QUEUE, request, timeout))

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
            raise BrokerUnavailable(f"cannot reach the broker: {error}; nothing was published. Is the service running?") from error

    def _publish_once(self, producer: kombu.Producer, body: bytes, routing_key: str) -> None:
        bind_anew(intake_queue(self.settings), producer.channel)
        producer.publish(
            body,
            exchange=exchange(self.settings),
            routing_key=routing_key,
            content_type=wire.CONTENT_TYPE,
            content_encoding="utf-8",
            delivery_mode="persistent",
            headers=stamp() | self._signature(body),
        )

    def _signature(self, body: bytes) -> dict[str, str]:
        """The service itself (the demo, an import on its machine) signs where signatures are required and it has no key."""
        if self._key is not None:
            return key_headers(self._key, body)
        secret_key = self.settings.secret_key.get_secret_value()
        if self.settings.require_signed_events and secret_key:
            return service_headers(secret_key, self.group, body)
        return {}


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
