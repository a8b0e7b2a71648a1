"""What an agent's program uses: ``Client.observe`` what happened, ``Client.retrieve`` what matters now."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from operator import attrgetter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack
from uuid import UUID

from pydantic import BaseModel

from jiyi.accounts.api_keys import key_of
from jiyi.client.agents import Agents
from jiyi.client.archive import Archive
from jiyi.client.arguments import (
    AgentArguments,
    ContextArguments,
    EndingArguments,
    Envelope,
    IngestArguments,
    MemoryArguments,
    ObservationArguments,
    RetrievalArguments,
)
from jiyi.client.calls import Calls, Id, checked
from jiyi.client.commands.conversations import Conversations
from jiyi.client.commands.growth import Growth
from jiyi.client.dead_letters import DeadLetters
from jiyi.client.embeddings import Embeddings
from jiyi.client.erasure import Erasure
from jiyi.client.jobs import Jobs
from jiyi.client.keys import Keys
from jiyi.client.memory import Memory
from jiyi.client.observations import many, observation, split
from jiyi.client.people import People
from jiyi.client.reflections import Reflections
from jiyi.client.service import Service
from jiyi.client.tiers import Tiers
from jiyi.client.transports import Transport
from jiyi.errors import EventRejected, IdReused, join_problems
from jiyi.memory.perceive import ATT_BANDWIDTH, RETENTION, Seen, observations
from jiyi.polling import poll
from jiyi.protocol import events as wire
from jiyi.protocol.event_content import digests_of
from jiyi.protocol.event_states import EventState
from jiyi.protocol.events import Event
from jiyi.protocol.queries import Page
from jiyi.protocol.reflection import DEFAULT_DEPTH, DEFAULT_LIMIT, Reasons, ReflectionState, WhyQuery
from jiyi.protocol.retrieval import Answer, RetrievalRequest
from jiyi.protocol.tiers.context import ContextAnswer, ContextBody
from jiyi.protocol.tiers.quarantine import IngestBody, IngestState, ingest_event
from jiyi.protocol.tiers.query import MemoryAnswer, MemoryQuery
from jiyi.protocol.wire.calls import retrieval_queue
from jiyi.settings import Settings, get_settings

#: Ids in one question about states.
STATES_A_CALL = 500
#: Where methods of version 0.1 are now; their old names go with version 0.3.
MOVED = {
    "event_states": "memory.event_states",
    "related": "memory.related",
    "reflection": "reflections.state",
    "screened": "tiers.screened",
    "promote": "tiers.promote",
    "demote": "tiers.demote",
    "edit": "tiers.edit",
    "knowledge": "tiers.knowledge",
    "knowledge_history": "tiers.history",
    "working": "tiers.working",
    "digest": "tiers.digest",
    "digests": "tiers.digests",
    "run_job": "jobs.run",
    "move_embeddings": "embeddings.move",
}

T = TypeVar("T")


class Client:
    """A connection to a running Jiyi. Thread-safe; in asyncio call it through ``asyncio.to_thread``.

    Here stand the verbs that everybody needs; the others are in namespaces: ``client.tiers.promote``, ``client.jobs.run`` …

    Args:
        group: the group (tenant) to speak for; ``JIYI_GROUP`` unless given.
        settings: where the service is; the environment, or a running embedded copy, unless given.
        key: an API key, with which events and calls are signed; ``JIYI_KEY`` unless given, else the service's own secret where
            it is known (``JIYI_SECRET_KEY``, or that of the running embedded copy).
        url: of the service's REST API (``https://memory.example.org``): the way in for everybody outside of the service's own network,
            with an API key, which also says which group it is. ``JIYI_URL`` unless given; without one the client speaks to the broker.
        transport: another way to reach the service.

    Example::

        with Client() as jiyi:
            jiyi.observe("klaus", "Klaus is reading a book on gentrification", poignancy=4, wait=True)
            for node in jiyi.retrieve("klaus", "What does Klaus read?").retrieved_nodes:
                print(node.score, node.description)
    """

    def __init__(
        self,
        group: str | None = None,
        *,
        settings: Settings | None = None,
        key: str | None = None,
        url: str | None = None,
        transport: Transport | None = None,
    ) -> None:
        self.settings = settings or get_settings()
        self.group = group or self.settings.group
        self.transport = transport or _transport(self.settings, group, self.settings.key.get_secret_value() if key is None else key, url)
        self._calls = calls = Calls(self.transport, self.settings, self.group)
        self.agents = Agents(calls)
        self.archive = Archive(calls)
        self.conversations = Conversations(calls)
        self.dead_letters = DeadLetters(calls)
        self.embeddings = Embeddings(calls)
        self.erasure = Erasure(calls)
        self.growth = Growth(calls)
        self.jobs = Jobs(calls)
        self.keys = Keys(calls)
        self.memory = Memory(calls)
        self.people = People(calls)
        self.reflections = Reflections(calls)
        self.service = Service(calls)
        self.tiers = Tiers(calls)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self.transport.close()

    # Telling

    def observe(
        self, agent_id: str, description: str, *, wait: bool = False, timeout: float | None = None, **fields: Unpack[ObservationArguments]
    ) -> UUID:
        """Publish one ``memory.observed`` event; returns its id, which is also its memory's.

        Args:
            agent_id: whose memory.
            description: what happened, one statement.
            wait: return only when the memory is retrievable.
            timeout: seconds for ``wait``; the deployment's request time-out unless given.
            fields: other fields of the event (``occurred_at``, ``session_id``, ``event_id``, …) and of its
                payload (``node_type``, ``keywords``, ``poignancy``, ``evidence``, …; see ``docs/events.md``).

        Raises:
            InvalidEvent: with a sentence per wrong field; nothing was published.
            BrokerUnavailable: nothing was published.
            EventRejected: (``wait``) the service refused it; the dead letters say why. :class:`IdReused` is one: another event has
                its ``event_id``, and says something else.
            NoAnswer: (``wait``) it is accepted, but not retrievable within the time given.
        """
        event = observation(self.group, {"agent_id": agent_id, "description": description, **fields})
        return self._tell(event, wait=wait, timeout=timeout)

    def observe_many(
        self, observations: Iterable[dict[str, Any] | Event], *, wait: bool = False, timeout: float | None = None
    ) -> list[UUID]:
        """Publish many observations, up to ``JIYI_MAX_EVENTS_PER_MESSAGE`` in a message; returns their ids in order.

        Each is a dict of :meth:`observe`'s arguments, or an event. All are checked before any is published.
        Raises as :meth:`observe` does; the field names then begin with the position of the observation.
        """
        built = list(many(self.group, observations))
        for message, body in list(wire.messages(built, self.settings)):
            self.transport.publish(body, message[0].type)
        ids = [event.event_id for event in built]
        if wait:
            self._wait_for(ids, digests_of(built), timeout)
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
        **fields: Unpack[Envelope],
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
        return [state.event_id for state in self.memory.event_states(ids, timeout) if state.state != "duplicate"]

    def configure(self, agent_id: str, *, wait: bool = False, timeout: float | None = None, **settings: Unpack[AgentArguments]) -> UUID:
        """Publish ``agent.configured``: set an agent's ``mode``, weights, ``recency_decay``, ``dedupe``, …

        What is not given stays as it is; None takes the agent's own setting back.
        """
        event = wire.build({"type": "agent.configured", "group_id": self.group, "agent_id": agent_id, "payload": settings})
        return self._tell(event, wait=wait, timeout=timeout)

    def end_session(self, agent_id: str, session_id: str | None = None, **fields: Unpack[EndingArguments]) -> UUID:
        """Publish ``session.ended``: the agent keeps two thoughts of the conversation. Returns the event's id, which is
        also that of the reflection.

        ``fields`` are ``partner``, ``chat_ids``, or of the envelope (``event_id``, ``occurred_at``, …).
        """
        envelope, payload = split({"session_id": session_id, **fields})
        return self._tell(
            wire.build({"type": "session.ended", "group_id": self.group, "agent_id": agent_id, **envelope, "payload": payload})
        )

    def wait_for(self, event_ids: Sequence[UUID], timeout: float | None = None) -> None:
        """Return when every event has its effect. Raises :class:`EventRejected`, :class:`IdReused` or :class:`NoAnswer`."""
        self._wait_for(event_ids, {}, timeout)

    def _wait_for(self, event_ids: Sequence[UUID], digests: Mapping[UUID, str], timeout: float | None) -> None:
        limit = self._calls.wait(timeout)
        left = list(event_ids)

        def look() -> int:
            """Events without effect yet; asks on at once while whole pages are done."""
            while left:
                page = left[:STATES_A_CALL]
                states = self.memory.event_states(page, digests=digests)
                if refused := refusal(states):
                    raise refused
                left[: len(page)] = [state.event_id for state in states if not state.final]
                if not all(state.final for state in states):
                    break
            return len(left)

        poll(
            look,
            lambda count: not count,
            limit,
            lambda count: f"{count} of {len(event_ids)} events are not retrievable after {limit:g} s; they are not lost",
        )

    # Asking

    def retrieve(
        self, agent_id: str, focal: str | Sequence[str], *, timeout: float | None = None, **options: Unpack[RetrievalArguments]
    ) -> Answer:
        """The agent's memories that matter most for the focal text or texts, with every component of their scores.

        ``options`` are the other fields of :class:`jiyi.protocol.retrieval.RetrievalRequest`: ``top_k``, ``mode``, weights,
        ``filters``, ``now``, ``touch``, ``vectors`` …

        Raises:
            InvalidRequest: with a sentence per wrong field.
            BrokerUnavailable, NoAnswer: the service cannot be reached, or did not answer in time.
            ModelMismatch: the vectors brought along cannot be compared with the agent's.
        """
        texts = [focal] if isinstance(focal, str) else list(focal)
        request = checked(RetrievalRequest, group_id=self.group, agent_id=agent_id, focal_texts=texts, **options)
        queue = retrieval_queue(self.group, agent_id, self.settings.retrieval_shards)
        return Answer.model_validate_json(self._calls.call("retrieval.retrieve", queue, request, timeout))

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
        reflection_id = self.reflections.request(agent_id)
        limit = self._calls.wait(timeout)

        def late(found: ReflectionState) -> str:
            why = f": {found.error}" if found.error else ""
            return f"the reflection {found.reflection_id} is {found.state} after {limit:g} s{why}; it goes on"

        return poll(lambda: self.reflections.state(reflection_id), lambda found: found.final or not wait, limit, late)

    def why(self, node_id: Id, *, depth: int = DEFAULT_DEPTH, limit: int = DEFAULT_LIMIT) -> Reasons:
        """What a memory rests on: ``depth`` levels of evidence, ``limit`` memories at most."""
        query = checked(WhyQuery, node_id=node_id, depth=depth, limit=limit)
        return Reasons.model_validate(self._calls.ask("memory.why", query))

    def query_memory(
        self, query: str, *, group_id: str | None = None, timeout: float | None = None, **options: Unpack[MemoryArguments]
    ) -> MemoryAnswer:
        """What working and long-term memory of the group know about a text, with the state of each tier.

        ``options`` are the other fields of :class:`jiyi.protocol.tiers.query.MemoryQuestion`: ``max_results``, ``order``,
        ``time_range_days``, ``session_id``, ``web_results`` … Raises as :meth:`retrieve` does, and:

        Raises:
            TooManyQuestions: the group asks more often than it may.
        """
        group = group_id or self.group
        request = checked(MemoryQuery, group_id=group, query=query, **options)
        queue = retrieval_queue(group, "", self.settings.retrieval_shards)
        return MemoryAnswer.model_validate_json(self._calls.call("retrieval.memory", queue, request, timeout))

    def context(self, proposal: str, *, timeout: float | None = None, **options: Unpack[ContextArguments]) -> ContextAnswer:
        """A whole prompt for an agent: who it is, what the group knows, and what is to be decided, within a budget (CN-56).

        ``options`` are the other fields of :class:`jiyi.protocol.tiers.context.ContextBody`: ``system``, ``persona``, ``budget``
        (tokens, 2,000 unless given), ``query``, ``agent_id`` … Raises as :meth:`query_memory` does.
        """
        request = checked(ContextBody, proposal=proposal, **options)
        return ContextAnswer.model_validate(self._calls.ask("context.build", request, timeout))

    def ingest(
        self, content: str, *, wait: bool = True, timeout: float | None = None, **fields: Unpack[IngestArguments]
    ) -> IngestState | UUID:
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
        body = checked(IngestBody, content=content, **fields)
        entry_id = self._tell(wire.build(ingest_event(self.group, body)), wait=wait, timeout=timeout)
        return self.tiers.screened(entry_id, timeout) if wait else entry_id

    def page(self, what: str, query: type[BaseModel], **fields: Any) -> Page:
        """As in version 0.1: one page of ``nodes``, ``keywords``, ``agents``, ``export``, ``archived``. Use the namespaces."""
        warnings.warn("Client.page goes with version 0.3; use client.memory, client.agents …", DeprecationWarning, stacklevel=2)
        group = {"group_id": self.group} if "group_id" in query.model_fields else {}
        return Page.model_validate(self._calls.inspect(what, checked(query, **group, **fields)))

    def ask(self, what: str, query: BaseModel, timeout: float | None = None) -> Any:
        """As in version 0.1: any question, by its old name. Use the namespaces."""
        warnings.warn("Client.ask goes with version 0.3; use client.service, client.memory …", DeprecationWarning, stacklevel=2)
        return self._calls.inspect(what, query, timeout)

    def _tell(self, event: Event, *, wait: bool = False, timeout: float | None = None) -> UUID:
        return self.observe_many([event], wait=wait, timeout=timeout)[0]

    if not TYPE_CHECKING:  # a type checker shall see that these names are going

        def __getattr__(self, name: str) -> Any:
            where = MOVED.get(name)
            if where is None:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            warnings.warn(f"Client.{name} is now Client.{where}; the old name goes with version 0.3", DeprecationWarning, stacklevel=2)
            return attrgetter(where)(self)


def refusal(states: Sequence[EventState]) -> EventRejected | None:
    """The error that says which events were refused; None if none was."""
    if dead := [f"{state.event_id}: {state.reason}" for state in states if state.state == "dead"]:
        return EventRejected(join_problems(dead))
    reused = [f"{state.event_id}: {state.reason}" for state in states if state.state == "id_reused"]
    return IdReused(reused) if reused else None


def _transport(settings: Settings, group: str | None, key: str, url: str | None) -> Transport:
    """The way to the service. Imported late, so that importing jiyi stays light, and that HTTP needs no Celery."""
    address = settings.url if url is None else url
    if address:
        from jiyi.client.transports.http import HttpTransport

        key_of(key)  # its form
        return HttpTransport(address, settings, group, key)
    from jiyi.client.transports.broker import BrokerTransport

    return BrokerTransport(settings, group or settings.group, key_of(key))


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of ``size`` items, the last one shorter."""
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk
