"""``jiyi observe`` and ``end-session``: publish what happened, and wait for the effect."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated
from uuid import UUID

import typer

from jiyi.cli import output
from jiyi.cli.shell import CommandResult, Json, connect, moment, non_empty, shows
from jiyi.client.actions import EventsActions
from jiyi.client.calls import Calls
from jiyi.client.client import Client, chunks
from jiyi.client.steps import Blocking
from jiyi.client.write_methods import STATES_A_CALL
from jiyi.errors import EventRejected, IdReused, InvalidEvent, join_problems
from jiyi.polling import poll
from jiyi.protocol import event_bodies
from jiyi.protocol import events as wire
from jiyi.protocol.base import JsonObject, NodeType
from jiyi.protocol.event_bodies import digests_of
from jiyi.protocol.event_requests import EventState
from jiyi.protocol.events import Event
from jiyi.protocol.origins import Claimed
from jiyi.protocol.parts import parts_of

Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Return only when it has its effect.")]
Agent = Annotated[str, typer.Argument(help="The agent.")]


def observe(
    ctx: typer.Context,
    agent: Agent,
    text: Annotated[str, typer.Argument(help="What happened, one statement; - reads one a line from stdin.")],
    node_type: Annotated[NodeType, typer.Option("--type", help="What it is.")] = "event",
    poignancy: Annotated[
        float | None,
        typer.Option("--poignancy", "--importance", help="How much it matters: 1 mundane … 10 poignant."),
    ] = None,
    keyword: Annotated[
        list[str] | None, typer.Option(help="Instead of those found in the text; may be repeated.")
    ] = None,
    subject: Annotated[str | None, typer.Option(help="Of the statement.")] = None,
    predicate: Annotated[str | None, typer.Option(help="Of the statement.")] = None,
    object_: Annotated[str | None, typer.Option("--object", help="Of the statement.")] = None,
    session: Annotated[str | None, typer.Option(help="Name of the session it belongs to.")] = None,
    user: Annotated[
        str | None, typer.Option(help="Which of the agent's users it comes from; only they see it.")
    ] = None,
    shared: Annotated[bool, typer.Option("--shared", help="With --user: visible to others, too.")] = False,
    origin: Annotated[Claimed | None, typer.Option(help="Where it comes from, if not from the user.")] = None,
    evidence: Annotated[
        list[UUID] | None, typer.Option(help="Id of an event that a thought rests on; may be repeated.")
    ] = None,
    at: Annotated[
        datetime | None,
        typer.Option(parser=moment, metavar="ISO", help="When it happened; now unless given."),
    ] = None,
    split: Annotated[bool, typer.Option("--split", help="A long text becomes several memories.")] = False,
    wait: Wait = True,
    as_json: Json = False,
) -> None:
    """Record what an agent perceived, thought or said; prints the new memory's id."""
    payload = non_empty(
        node_type=node_type,
        poignancy=poignancy,
        keywords=keyword,
        subject=subject,
        predicate=predicate,
        object=object_,
        evidence=evidence,
    )
    payload |= non_empty(user_id=user, visibility="agent" if shared else None, origin=origin)
    lines = [row.strip() for row in sys.stdin] if text == "-" else [text]
    with connect(ctx) as client:
        envelope = non_empty(
            type="memory.observed", group_id=client.group, agent_id=agent, session_id=session, occurred_at=at
        )
        built = []
        for number, description in enumerate(lines, start=1):
            if description or text != "-":
                where = f"line {number}: " if text == "-" else ""
                event = {**envelope, "payload": {**payload, "description": description}}
                built += [_build(part, where) for part in (parts_of(event) if split else [event])]
        _send(ctx, client, built, wait=wait, as_json=as_json)


@shows
def end_session(
    client: Client,
    agent: Annotated[str, typer.Argument(help="Whose conversation.")],
    session: Annotated[str, typer.Argument(help="Name of the session that has ended.")],
    partner: Annotated[str | None, typer.Option(help="Only the conversation with this one.")] = None,
) -> CommandResult:
    """Record that a conversation is over: the agent keeps two thoughts of it. Prints the event's id."""
    event_id = client.end_session(agent, session, **non_empty(partner=partner))
    return CommandResult({"event_ids": [event_id]}, lambda: output.line(str(event_id)))


def _build(event: JsonObject, where: str) -> Event:
    try:
        return wire.build(event)
    except InvalidEvent as error:
        raise InvalidEvent([where + problem.removeprefix("payload.") for problem in error.problems]) from None


def _send(ctx: typer.Context, client: Client, events: list[Event], *, wait: bool, as_json: bool) -> None:
    """The ids come out before the waiting: they hold even if the waiting fails."""
    publish(client, events)
    if not as_json:
        for event in events:
            output.line(str(event.event_id))
        sys.stdout.flush()
    if wait:
        wait_for(client, events, client.settings.request_timeout)
    if ctx.obj.json:
        output.document({"event_ids": [str(event.event_id) for event in events]})


def publish(client: Client, events: Sequence[Event]) -> None:
    """Raises :class:`jiyi.errors.BrokerUnavailable`; what was published before that stays so."""
    with output.progress() as progress:
        task = progress.add_task("publishing", total=len(events))
        for message, _ in event_bodies.messages(events):
            client.observe_many(message)
            progress.advance(task, len(message))


def wait_for(client: Client, events: Sequence[Event], timeout: float) -> None:
    """Return when every event has its effect.

    Raises:
        EventRejected, IdReused: the service refused some; raised when all others are done.
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
            finished = [state for state in _ask(client, owners, digests, deadline) if state.final]
            dead.extend(f"{state.event_id}: {state.reason}" for state in finished if state.state == "dead")
            reused.extend(
                f"{state.event_id}: {state.reason}" for state in finished if state.state == "id_reused"
            )
            for state in finished:
                del owners[state.event_id]
            progress.advance(task, len(finished))
            return len(owners)

        poll(
            look,
            lambda remaining: not remaining,
            timeout,
            lambda remaining: (
                f"{remaining:,} of {total:,} events are published, but without effect after {timeout:g} s; "
                "they are not lost: `jiyi stats show` has the pending work"
            ),
        )
    if dead or reused:
        error_type = EventRejected if dead else IdReused
        message = f"{len(dead) + len(reused):,} of {total:,} were refused (see `jiyi dead_letters list`)"
        raise error_type(f"{message}: {join_problems(dead + reused)}")


def _ask(
    client: Client, owners: dict[UUID, str], digests: Mapping[UUID, str], deadline: float
) -> Iterator[EventState]:
    """The states of the first page of events in each group, until one page is not all done."""
    by_group: dict[str, list[UUID]] = {}
    for event_id, group in owners.items():
        by_group.setdefault(group, []).append(event_id)
    for group, event_ids in by_group.items():
        of: EventsActions[Blocking] = EventsActions(Calls(client.transport, client.settings, group))
        for page in chunks(event_ids, STATES_A_CALL):
            states = of.states(ids=page, digests={one: digests[one] for one in page if one in digests}).rows
            yield from states
            if time.monotonic() > deadline or not all(state.final for state in states):
                break
