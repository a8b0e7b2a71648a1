"""``jiyi observe`` and ``end-session``: publish what happened, and wait for the effect."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from functools import partial
from inspect import Parameter
from typing import Annotated, Any

import typer

from jiyi.cli import output
from jiyi.cli.shell import CommandResult, changed, connect, keyword_only, shows, with_parameters
from jiyi.cli.subjects import options_of
from jiyi.client.calls import Calls
from jiyi.client.client import Client
from jiyi.client.steps import Blocking
from jiyi.client.write_methods import WriteMethods, in_parts
from jiyi.errors import InvalidEvent
from jiyi.protocol import event_bodies
from jiyi.protocol.base import JsonObject
from jiyi.protocol.event_requests import SessionEnd, ShortEvent
from jiyi.protocol.events import Event

Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Return only when it has its effect.")]
ARGUMENTS = [
    keyword_only("agent", Annotated[str, typer.Argument(help="The agent.")], Parameter.empty),
    keyword_only(
        "text",
        Annotated[str, typer.Argument(help="What happened, one statement; - reads one a line from stdin.")],
        Parameter.empty,
    ),
]


OPTIONS = [*options_of(ShortEvent, "agent_id", "description", "tz"), keyword_only("wait", Wait, True)]


@partial(with_parameters, own=[*ARGUMENTS, *OPTIONS])
def observe(ctx: typer.Context, *, agent: str, text: str, wait: bool, as_json: bool, **options: Any) -> None:
    """Record what an agent perceived, thought or said; prints the new memory's id."""
    fields = changed(options, OPTIONS)
    split = fields.pop("split", False)
    lines = [row.strip() for row in sys.stdin] if text == "-" else [text]
    with connect(ctx) as client:
        built: list[Event] = []
        for number, description in enumerate(lines, start=1):
            if description or text != "-":
                event = {"agent_id": agent, "description": description, **fields}
                built += _build(client.group, event, f"line {number}: " if text == "-" else "", split=split)
        _send(ctx, client, built, wait=wait, as_json=as_json)


@partial(shows, options=options_of(SessionEnd, "agent_id"))
def end_session(
    client: Client,
    agent: Annotated[str, typer.Argument(help="Whose conversation.")],
    session: Annotated[str, typer.Argument(help="Name of the session that has ended.")],
    **options: Any,
) -> CommandResult:
    """Record that a conversation is over: the agent keeps two thoughts of it. Prints the event's id."""
    event_id = client.end_session(agent, session, **options)
    return CommandResult({"event_ids": [event_id]}, lambda: output.line(str(event_id)))


def _build(group: str, event: JsonObject, where: str, *, split: bool) -> list[Event]:
    try:
        return in_parts(group, event, split=split)
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
    """Return when every event has its effect, of whichever group it is. Raises as the client's does."""
    deadline = time.monotonic() + timeout
    with output.progress() as progress:
        task = progress.add_task("waiting until retrievable", total=len(events))
        for group in dict.fromkeys(event.group_id for event in events):
            methods: WriteMethods[Blocking] = WriteMethods(Calls(client.transport, client.settings, group))
            methods.wait_for(
                [event for event in events if event.group_id == group],
                max(0.0, deadline - time.monotonic()),
                on_progress=partial(progress.advance, task),
            )
