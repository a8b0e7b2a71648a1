"""Publishing many events with progress, and waiting until they have their effect."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from uuid import UUID

from jiyi.cli import output
from jiyi.cli.shell import checked
from jiyi.client.calls import FIRST_POLL, LAST_POLL
from jiyi.client.client import STATES_A_CALL, Client, chunks
from jiyi.errors import EventRejected, NoAnswer, join_problems
from jiyi.protocol import events as wire
from jiyi.protocol.events import Event
from jiyi.protocol.queries import EventState, EventStatesQuery


def publish(client: Client, events: Sequence[Event]) -> None:
    """Raises :class:`jiyi.errors.BrokerUnavailable`; what was published before that stays so."""
    with output.progress() as progress:
        task = progress.add_task("publishing", total=len(events))
        for message, _ in wire.messages(events, client.settings):
            client.observe_many(message)
            progress.advance(task, len(message))


def wait_for(client: Client, events: Sequence[Event], timeout: float) -> None:
    """Return when every event has its effect; the first to come are asked about first.

    Raises:
        EventRejected: the service refused some; raised when nothing else is left to wait for.
        NoAnswer: some are not done after ``timeout`` seconds.
    """
    owners = {event.event_id: event.group_id for event in events}
    deadline, pause = time.monotonic() + timeout, FIRST_POLL
    dead: list[str] = []
    with output.progress() as progress:
        task = progress.add_task("waiting until retrievable", total=len(owners))
        total = len(owners)
        while owners:
            done = [state for state in _ask(client, owners, deadline) if state.final]
            dead += [f"{state.event_id}: {state.reason}" for state in done if state.state == "dead"]
            for state in done:
                del owners[state.event_id]
            progress.advance(task, len(done))
            if owners and time.monotonic() > deadline:
                raise NoAnswer(
                    f"{len(owners):,} of {total:,} events are published, but without effect after {timeout:g} s; "
                    "they are not lost: `jiyi stats` shows the work owed"
                )
            pause = FIRST_POLL if done else min(pause * 2, LAST_POLL)
            if owners:
                time.sleep(pause)
    if dead:
        raise EventRejected(f"{len(dead):,} of {total:,} were refused (see `jiyi dead list`): {join_problems(dead)}")


def _ask(client: Client, owners: dict[UUID, str], deadline: float) -> Iterator[EventState]:
    """The states of the first page of events in each group, until one page is not all done."""
    by_group: dict[str, list[UUID]] = {}
    for event_id, group in owners.items():
        by_group.setdefault(group, []).append(event_id)
    for group, event_ids in by_group.items():
        for page in chunks(event_ids, STATES_A_CALL):
            query = checked(EventStatesQuery, group_id=group, event_ids=page)
            states = [EventState.model_validate(row) for row in client.ask("event_states", query)]
            yield from states
            if time.monotonic() > deadline or not all(state.final for state in states):
                break
