"""Publishing many events with progress, and waiting until they have their effect."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from uuid import UUID

from jiyi.cli import output
from jiyi.client.calls import Calls
from jiyi.client.client import Client, chunks
from jiyi.client.memory import Memory
from jiyi.client.steps import Blocking
from jiyi.client.write_methods import STATES_A_CALL
from jiyi.errors import EventRejected, IdReused, join_problems
from jiyi.polling import poll
from jiyi.protocol import event_bodies
from jiyi.protocol.event_bodies import digests_of
from jiyi.protocol.event_requests import EventState
from jiyi.protocol.events import Event


def publish(client: Client, events: Sequence[Event]) -> None:
    """Raises :class:`jiyi.errors.BrokerUnavailable`; what was published before that stays so."""
    with output.progress() as progress:
        task = progress.add_task("publishing", total=len(events))
        for message, _ in event_bodies.messages(events, client.settings):
            client.observe_many(message)
            progress.advance(task, len(message))


def wait_for(client: Client, events: Sequence[Event], timeout: float) -> None:
    """Return when every event has its effect; the first to come are asked about first.

    Raises:
        EventRejected, IdReused: the service refused some; raised when nothing else is left to wait for.
        NoAnswer: some are not done after ``timeout`` seconds.
    """
    owners = {event.event_id: event.group_id for event in events}
    digests = digests_of(events)
    deadline, total = time.monotonic() + timeout, len(owners)
    dead: list[str] = []
    reused: list[str] = []
    with output.progress() as progress:
        task = progress.add_task("waiting until retrievable", total=total)

        def look() -> int:
            """Events that are left."""
            done = [state for state in _ask(client, owners, digests, deadline) if state.final]
            dead.extend(f"{state.event_id}: {state.reason}" for state in done if state.state == "dead")
            reused.extend(f"{state.event_id}: {state.reason}" for state in done if state.state == "id_reused")
            for state in done:
                del owners[state.event_id]
            progress.advance(task, len(done))
            return len(owners)

        poll(
            look,
            lambda left: not left,
            timeout,
            lambda left: (
                f"{left:,} of {total:,} events are published, but without effect after {timeout:g} s; "
                "they are not lost: `jiyi stats` shows the pending work"
            ),
        )
    if dead:
        raise EventRejected(f"{len(dead) + len(reused):,} of {total:,} were refused (see `jiyi dead list`): {join_problems(dead + reused)}")
    if reused:
        raise IdReused(f"{len(reused):,} of {total:,} were refused (see `jiyi dead list`): {join_problems(reused)}")


def _ask(client: Client, owners: dict[UUID, str], digests: Mapping[UUID, str], deadline: float) -> Iterator[EventState]:
    """The states of the first page of events in each group, until one page is not all done."""
    by_group: dict[str, list[UUID]] = {}
    for event_id, group in owners.items():
        by_group.setdefault(group, []).append(event_id)
    for group, event_ids in by_group.items():
        memory: Memory[Blocking] = Memory(Calls(client.transport, client.settings, group))
        for page in chunks(event_ids, STATES_A_CALL):
            states = memory.event_states(page, digests=digests)
            yield from states
            if time.monotonic() > deadline or not all(state.final for state in states):
                break
