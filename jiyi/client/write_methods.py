"""The verbs that send events to the service, checked and published one by one or many at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Unpack
from uuid import UUID

from pydantic import BaseModel

from jiyi.client.actions import QuarantineActions, Subjects
from jiyi.client.arguments import (
    AgentArguments,
    EndingArguments,
    Envelope,
    EventArguments,
    IngestArguments,
    ObservationArguments,
)
from jiyi.client.calls import W, checked
from jiyi.client.perceive import ATT_BANDWIDTH, RETENTION, Seen, observations
from jiyi.client.steps import EventMessage, Steps, polled
from jiyi.client.verbs import verb
from jiyi.errors import EventRejected, IdReused, InvalidEvent, NoAnswer, join_problems, unknown_option
from jiyi.protocol import event_bodies
from jiyi.protocol import events as wire
from jiyi.protocol.base import JsonMapping, JsonObject, Role, Rows
from jiyi.protocol.event_bodies import digests_of
from jiyi.protocol.event_requests import EventState
from jiyi.protocol.events import Event
from jiyi.protocol.knowledge import IngestBody, IngestState, ingest_event
from jiyi.protocol.origins import Claimed
from jiyi.protocol.parts import parts_of
from jiyi.zones import by_clock

#: Ids in one question about states.
STATES_A_CALL = 500


class WriteMethods(Subjects[W]):
    """What happened, what was said, how agents are set."""

    @verb
    def observe(
        self,
        agent_id: str,
        description: str,
        *,
        importance: float | None = None,
        split: bool = False,
        wait: bool = False,
        timeout: float | None = None,
        **fields: Unpack[ObservationArguments],
    ) -> Steps[UUID]:
        """Publish one ``memory.observed`` event; returns its id, which is also its memory's.

        Args:
            agent_id: the agent.
            description: what happened, one statement.
            importance: another name of ``poignancy``: how much it matters, 1 … 10.
            split: a description of more than 20,000 characters becomes several memories
                (:mod:`jiyi.protocol.parts`), and the id that is returned is the first one's. Without it, such
                a description is refused.
            wait: return only when the memory is retrievable.
            timeout: seconds for ``wait``; the deployment's request time-out unless given.
            fields: other fields of the event (``occurred_at``, ``session_id``, ``event_id``, …) and of its
                payload (``node_type``, ``keywords``, ``poignancy``, ``evidence``, …; see ``docs/events.md``).

        Raises:
            InvalidEvent: with a sentence per wrong field; nothing was published.
            BrokerUnavailable: nothing was published, unless the connection broke.
            NoAnswer: no answer in time, and it may be stored: the message names the ``event_id`` to send it
                again with. (``wait``) Or it is stored, but not retrievable in time.
            EventRejected: (``wait``) the service refused it; the dead letters say why. :class:`IdReused` is
                one: another event has its ``event_id``, and says something else.
        """
        event = {"agent_id": agent_id, "description": description, **fields}
        events = in_parts(
            self._group, event if importance is None else {**event, "importance": importance}, split=split
        )
        return self._publish_events(*events, wait=wait, timeout=timeout)

    @verb
    def observe_many(
        self,
        observations: Iterable[JsonMapping | Event],
        /,
        *,
        split: bool = False,
        wait: bool = False,
        timeout: float | None = None,
    ) -> Steps[list[UUID]]:
        """Publish many observations, up to ``limits.MAX_EVENTS_PER_MESSAGE`` in a message; returns their ids
        in order. With ``split`` long ones become several, each with an id.

        Each is a dict of :meth:`observe`'s arguments, or an event. All are checked before any is published.
        Raises as :meth:`observe` does; the field names then begin with the position of the observation.
        """
        return self._publish(list(many(self._group, observations, split=split)), wait=wait, timeout=timeout)

    @verb
    def add_turn(
        self,
        agent_id: str,
        role: Role,
        text: str,
        session_id: str,
        *,
        name: str | None = None,
        user_id: str | None = None,
        origin: Claimed | None = None,
        provenance: JsonMapping | None = None,
        split: bool = False,
        wait: bool = False,
        timeout: float | None = None,
        **fields: Unpack[EventArguments],
    ) -> Steps[UUID]:
        """Publish one ``turn.recorded`` event: something that was said in a conversation with the agent;
        returns its id.

        Args:
            agent_id: with whom.
            role: who said it: ``user``, ``assistant``, ``system`` or ``tool``.
            text: what was said. Passwords and keys in it are masked.
            session_id: which conversation it is.
            name: of the speaker.
            user_id: in whose conversation, of an agent that talks with several people: only they see it.
            origin: if it is less the speaker's own than the role says: ``document``, ``import``, ``tool`` …
            provenance: where it comes from: any small JSON object.
            split: a long text becomes several turns, as in :meth:`observe`.
            wait: return only when the turn is retrievable; its statements are extracted later.
            timeout: seconds for ``wait``.
            fields: ``event_id``, ``occurred_at`` … Raises as :meth:`observe` does.
        """
        turn: dict[str, Any] = {"role": role, "text": text, "name": name, "provenance": provenance or {}}
        turn |= {"agent_id": agent_id, "session_id": session_id, "user_id": user_id, "origin": origin}
        events = self._short("turn.recorded", split=split, **turn, **fields)
        return self._publish_events(*events, wait=wait, timeout=timeout)

    @verb
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
    ) -> Steps[list[UUID]]:
        """Observe what an agent sees around it: the closest, and of that only what is new
        (:mod:`jiyi.client.perceive`).

        Args:
            agent_id: the agent; also its name among the subjects.
            seen: (subject, predicate, object, description, distance) each.
            utterances: what was said, (speaker, text) each, if the agent is seen chatting with somebody.
            att_bandwidth: how many of the things seen come to attention.
            retention: how many of the agent's latest events they are compared with.
            stanford: texts exactly as the original makes them.
            wait: return only when the memories are retrievable.
            timeout: seconds for ``wait``.
            fields: of all the events (``occurred_at``, ``session_id``, …).

        Returns:
            The events' ids; with ``wait`` only of those that were new.
        """
        items = observations(
            agent_id,
            (Seen(*item) for item in seen),
            utterances=utterances,
            bandwidth=att_bandwidth,
            retention=retention,
            stanford=stanford,
        )
        if not items:
            return []
        fields.setdefault("occurred_at", datetime.now(UTC))  # one look, one moment
        events = list(many(self._group, [{**item, **fields} for item in items]))
        published = yield from self._publish(events, wait=wait, timeout=timeout)
        ids = [
            event_id
            for event_id, item in zip(published, items, strict=True)
            if item.get("node_type") != "chat"
        ]
        if not wait:
            return ids
        states = yield from self._states(ids, timeout)
        return [state.event_id for state in states if state.state != "duplicate"]

    @verb
    def configure(
        self,
        agent_id: str,
        *,
        wait: bool = False,
        timeout: float | None = None,
        **settings: Unpack[AgentArguments],
    ) -> Steps[UUID]:
        """Publish ``agent.configured``: set an agent's ``mode``, weights, ``recency_decay``, ``dedupe``, …

        What is not given stays unchanged; None removes the agent's own setting.
        """
        return self._publish_events(
            *self._short("agent.configured", agent_id=agent_id, **settings), wait=wait, timeout=timeout
        )

    @verb
    def end_session(
        self, agent_id: str, session_id: str | None = None, **fields: Unpack[EndingArguments]
    ) -> Steps[UUID]:
        """Publish ``session.ended``: the agent keeps two thoughts of the conversation. Returns the event's
        id, which is also that of the reflection.

        ``fields`` are ``user_id``, ``partner``, ``chat_ids``, or of the envelope (``event_id``,
        ``occurred_at``, …).
        """
        return self._publish_events(
            *self._short("session.ended", agent_id=agent_id, session_id=session_id, **fields)
        )

    @verb
    def ingest(
        self,
        content: str,
        *,
        wait: bool = True,
        timeout: float | None = None,
        **fields: Unpack[IngestArguments],
    ) -> Steps[IngestState | UUID]:
        """A text for the group's quarantine, and for working memory if the filters let it in.

        Args:
            content: what was said.
            wait: return the filters' verdict; else at once the entry's id.
            timeout: seconds for ``wait``.
            fields: of :class:`jiyi.protocol.knowledge.IngestBody`. With an ``event_id`` of your own the call
                may be repeated: the text is taken once. Raises as :meth:`observe` does, and InvalidRequest.
        """
        body = checked(IngestBody, content=content, **fields)
        entry_id = yield from self._publish_events(
            wire.build(ingest_event(self._group, body)), wait=wait, timeout=timeout
        )
        if not wait:
            return entry_id
        return (yield from QuarantineActions.wait_for.steps(self.quarantine, entry_id, timeout))

    @verb
    def wait_for(
        self,
        events: Sequence[UUID | Event],
        timeout: float | None = None,
        *,
        on_progress: Callable[[int], object] = lambda _count: None,
    ) -> Steps[None]:
        """Return when every event has its effect. Raises :class:`EventRejected`, :class:`IdReused` or
        :class:`NoAnswer`, when all others are done.

        Args:
            events: the events, or their ids alone, which do not show whether an id is another event's.
            timeout: seconds; the deployment's request time-out unless given.
            on_progress: called with how many more are done.
        """
        limit = self._wait(timeout)
        digests = digests_of(event for event in events if isinstance(event, wire.Event))
        pending = [event.event_id if isinstance(event, wire.Event) else event for event in events]
        refused: list[EventState] = []

        def look() -> Steps[int]:
            """Events without effect yet; asks on at once while whole pages are done."""
            while pending:
                page = pending[:STATES_A_CALL]
                states = yield from self._states(page, digests=digests)
                refused.extend(state for state in states if state.state in ("dead", "id_reused"))
                pending[: len(page)] = [state.event_id for state in states if not state.final]
                on_progress(sum(state.final for state in states))
                if not all(state.final for state in states):
                    break
            return len(pending)

        count = yield from polled(look, lambda count: not count, limit)
        if (refusal_error := refusal(refused)) is not None:
            raise refusal_error
        if count:
            late = f"of {len(events)} events are not retrievable after {limit:g} s; they are not lost"
            raise NoAnswer(f"{count} {late}")

    def _short(self, kind: str, *, split: bool = False, **fields: Any) -> list[Event]:
        return _built({"group_id": self._group, **full_form(fields, kind)}, split=split)

    def _publish_events(
        self, *events: Event, wait: bool = False, timeout: float | None = None
    ) -> Steps[UUID]:
        ids = yield from self._publish(list(events), wait=wait, timeout=timeout)
        return ids[0]

    def _publish(self, events: list[Event], *, wait: bool, timeout: float | None) -> Steps[list[UUID]]:
        if self._tz is not None:
            events = [
                event.model_copy(update={"occurred_at": by_clock(event.occurred_at, self._tz)})
                for event in events
            ]
        ids = [event.event_id for event in events]
        for message, body in list(event_bodies.messages(events)):
            try:
                yield EventMessage(body, message[0].type)
            except NoAnswer as error:
                which = (
                    f"event_id={ids[0]}" if len(ids) == 1 else f"the same ids, of which the first is {ids[0]}"
                )
                raise NoAnswer(
                    f"{error}; it may be stored: to publish it again with {which} is harmless"
                ) from error
        if wait:
            yield from WriteMethods.wait_for.steps(self, events, timeout)
        return ids

    def _states(
        self, ids: Sequence[UUID], timeout: float | None = None, digests: Mapping[UUID, str] | None = None
    ) -> Steps[list[EventState]]:
        own = {event_id: digests[event_id] for event_id in ids if digests and event_id in digests}
        page: Rows[EventState] = yield from self._call("events.states", timeout, ids=[*ids], digests=own)
        return page.rows


def refusal(states: Sequence[EventState]) -> EventRejected | None:
    """The error that says which events were refused; None if none was."""
    if dead := [f"{state.event_id}: {state.reason}" for state in states if state.state == "dead"]:
        return EventRejected(join_problems(dead))
    reused = [f"{state.event_id}: {state.reason}" for state in states if state.state == "id_reused"]
    return IdReused(reused) if reused else None


#: What many call poignancy.
IMPORTANCE = "importance"
#: Type → names of its payload's fields. What travels may have others, of a newer version; what is made here
#: may not.
PAYLOADS = {
    cls.model_fields["type"].default: {
        *payload.model_fields,
        *([IMPORTANCE] if "poignancy" in payload.model_fields else []),
    }
    for cls in wire.EVENT_CLASSES
    if isinstance(payload := cls.model_fields["payload"].annotation, type) and issubclass(payload, BaseModel)
}
ENVELOPE_FIELDS = wire.MemoryObserved.model_fields.keys() - wire.ONLY_IN_PAYLOAD - {"payload"}


def in_parts(group: str, fields: JsonMapping, *, split: bool) -> list[Event]:
    """A ``memory.observed`` event of flat arguments, or what a dict with a ``payload`` is; with ``split`` as
    many as it takes. Raises InvalidEvent.
    """
    if "payload" in fields:
        payload_fields = PAYLOADS.get(str(fields.get("type")))
        if payload_fields is not None and isinstance(fields["payload"], dict):
            _refuse_unknown(fields["payload"], payload_fields)
        return _built({"group_id": group, **fields}, split=split)
    return _built({"group_id": group, **full_form(fields)}, split=split)


def _built(event: JsonMapping, *, split: bool) -> list[Event]:
    return [wire.build(part) for part in (parts_of(event) if split else [event])]


def full_form(fields: JsonMapping, kind: str = "memory.observed") -> JsonObject:
    """An event of its short form, with the payload's fields among the envelope's. Raises InvalidEvent for
    others.
    """
    _refuse_unknown(fields, ENVELOPE_FIELDS | PAYLOADS[kind])
    payload = {name: value for name, value in fields.items() if name not in ENVELOPE_FIELDS}
    if IMPORTANCE in payload:
        if payload.get("poignancy") is not None:
            raise InvalidEvent([f"{IMPORTANCE}: another name of poignancy; give one of them"])
        payload["poignancy"] = payload.pop(IMPORTANCE)
    return {
        "type": kind,
        **{name: value for name, value in fields.items() if name in ENVELOPE_FIELDS},
        "payload": payload,
    }


def many(group: str, observations: Iterable[JsonMapping | Event], *, split: bool = False) -> Iterator[Event]:
    """Events of observations. Raises as :func:`in_parts` does; the field names begin with the position."""
    for position, one in enumerate(observations):
        if isinstance(one, wire.Event):
            yield one
            continue
        if not isinstance(one, dict):
            raise InvalidEvent([f"{position}: must be a dict or an event, not {type(one).__name__}"])
        try:
            yield from in_parts(group, one, split=split)
        except InvalidEvent as error:
            raise InvalidEvent([f"{position}.{problem}" for problem in error.problems]) from None


def _refuse_unknown(fields: Iterable[str], names: Collection[str]) -> None:
    """A name that the event does not have would otherwise be left out in silence."""
    unknown = sorted(set(fields) - set(names))
    if unknown:
        raise InvalidEvent([unknown_option(name, names) for name in unknown])
