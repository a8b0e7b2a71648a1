"""``jiyi import`` and ``export``: memories from files and to files.

A JSON line holds an event in the full form, or in the short one with :meth:`jiyi.Client.observe`'s fields.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import IO, Annotated, Any, TextIO
from uuid import UUID, uuid5

import typer
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from jiyi.cli import output, stanford
from jiyi.cli.observe import publish, wait_for
from jiyi.cli.output import UNKNOWN
from jiyi.cli.shell import InvalidFile, Json, connect
from jiyi.client.client import Client, chunks
from jiyi.client.http import HttpTransport
from jiyi.client.write_methods import full_form
from jiyi.errors import InvalidEvent, NotAllowed, NotFound
from jiyi.protocol import event_bodies, limits
from jiyi.protocol import events as wire
from jiyi.protocol.base import JsonMapping, JsonObject
from jiyi.protocol.conversations import parse_uri, uri_of
from jiyi.protocol.events import Event, MemoryObserved
from jiyi.protocol.memory import Memory
from jiyi.protocol.origins import TRUST, claimable
from jiyi.protocol.parts import following

import_app = typer.Typer(no_args_is_help=True, help="Import memories from files.")

Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Return only when all are retrievable.")]
Timeout = Annotated[float, typer.Option(min=1, help="Seconds to wait at most.")]
#: Embedding a few ten thousand memories on one machine stays below it.
DEFAULT_TIMEOUT = 600.0


@import_app.command("jsonl")
def import_jsonl(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="One event a line; - reads stdin.")],
    agent: Annotated[str | None, typer.Option(help="Store every line as this agent's.")] = None,
    keep_group: Annotated[
        bool, typer.Option("--keep-group", help="Store each line in the group that it names.")
    ] = False,
    into_group: Annotated[
        str | None, typer.Option(help="Store all in this group, instead of --group.")
    ] = None,
    keep_ids: Annotated[
        bool, typer.Option("--keep-ids", help="Keep the ids of lines from another group or agent.")
    ] = False,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out lines that are no events.")] = False,
    wait: Wait = True,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: Json = False,
) -> None:
    """Events from JSON lines, as `jiyi export jsonl` writes them, or in short: {"agent_id": …, "description":
    …}.

    Every line is checked before anything is published. An event from another group gets an id of its own
    here.
    """
    if keep_group and into_group is not None:
        raise typer.BadParameter("give either --keep-group or --into-group")
    with connect(ctx, into_group) as client:
        target = EventTarget(
            default_group=group_of(client), keep_group=keep_group, agent=agent, keep_ids=keep_ids
        )
        if str(file) == "-":
            lines = read(_bounded(sys.stdin.buffer), target)
        else:
            with file.open("rb") as rows:
                lines = read(_bounded(rows), target)
        _refuse(lines, str(file), as_json=ctx.obj.json, skip_bad=skip_bad)
        _publish_events(
            ctx, client, lines.events, skipped=lines.bad, wait=wait, timeout=timeout, as_json=as_json
        )


@import_app.command("stanford")
def import_stanford(
    ctx: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A persona's folder.")],
    agent: Annotated[
        str | None, typer.Option(help="Name of the agent here; the persona's unless given.")
    ] = None,
    embedding_model: Annotated[
        str, typer.Option(help="What made the folder's vectors.")
    ] = stanford.ORIGINAL_MODEL,
    reembed: Annotated[
        bool,
        typer.Option("--reembed", help="Leave the folder's vectors behind: the service embeds the texts."),
    ] = False,
    wait: Wait = True,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: Json = False,
) -> None:
    """A persona's memory as saved by the original Generative Agents simulation. Says what it leaves out."""
    memory = stanford.read(folder)
    with connect(ctx) as client:
        model = None if reembed else embedding_model
        events = stanford.events(memory, group_of(client), agent or memory.persona, embedding_model=model)
        left_out = stanford.left_out(memory)
        _print_first("left out", left_out)
        skipped = len(memory.nodes) - sum(isinstance(event, MemoryObserved) for event in events)
        how: dict[str, Any] = {"wait": wait, "timeout": timeout, "as_json": as_json}
        _publish_events(ctx, client, events, skipped=skipped, left_out=left_out, **how)


def _print_first(what: str, sentences: Sequence[str]) -> None:
    """On stderr, the first few one by one."""
    for sentence in sentences[:MAX_SHOWN]:
        output.notice(f"{what}: {sentence}")
    if len(sentences) > MAX_SHOWN:
        output.notice(f"{what}: {len(sentences) - MAX_SHOWN:,} more")


def _refuse(read_lines: CheckedLines, name: str, *, as_json: bool, skip_bad: bool) -> None:
    """Print what is wrong with a file; raises :class:`InvalidFile` unless bad lines may be skipped."""
    if not read_lines.bad:
        return
    if skip_bad or not as_json:
        for problem in read_lines.problems:
            output.notice(problem)
        if len(read_lines.problems) == MAX_SHOWN:
            output.notice(f"… (at most {MAX_SHOWN} are shown)")
    if not skip_bad:
        lines = "line is" if read_lines.bad == 1 else "lines are"
        raise InvalidFile(
            f"{name}: {read_lines.bad:,} of {read_lines.total:,} {lines} wrong, nothing was published;"
            " --skip-bad leaves them out",
            read_lines.problems,
        )


def group_of(client: Client) -> str:
    """The group that a client speaks for. Over HTTP the key decides; each answer names it."""
    return _answered_for(client) or client.group


def _answered_for(client: Client) -> str | None:
    if not isinstance(client.transport, HttpTransport):
        return None
    with suppress(NotAllowed):  # a key that only publishes, or that does not speak for the group
        client.events.states(ids=[NAMESPACE])  # of no event: for what stands beside the answer
    return client.transport.answered_for


@contextmanager
def _clients(
    ctx: typer.Context, client: Client, events: Sequence[Event]
) -> Iterator[list[tuple[Client, list[Event]]]]:
    """Who publishes which events: over HTTP a client for each group. Raises NotAllowed, before any."""
    if not isinstance(client.transport, HttpTransport):
        yield [(client, list(events))]
        return
    own = group_of(client)
    of: dict[str, list[Event]] = {}
    for event in events:
        of.setdefault(event.group_id, []).append(event)
    with ExitStack() as opened:
        clients = {
            group: client if group == own else opened.enter_context(connect(ctx, group)) for group in of
        }
        for group, one in clients.items():
            if group != own and _answered_for(one) != group:
                raise NotAllowed(
                    f"--keep-group: lines are of the group {group!r}, and the key speaks for {own!r}; nothing"
                    " was published. Use an operator's key, or leave --keep-group out"
                )
        yield [(clients[group], those) for group, those in of.items()]


def _publish_events(
    ctx: typer.Context,
    client: Client,
    events: list[Event],
    *,
    skipped: int,
    left_out: Sequence[str] | None = None,
    wait: bool,
    timeout: float,
    as_json: bool,
) -> None:
    with _clients(ctx, client, events) as clients:
        for one, its in clients:
            publish(one, its)
        for one, its in clients if wait else ():
            wait_for(one, its, timeout)
    agents = sorted({event.agent_id for event in events})
    groups = sorted({event.group_id for event in events})
    if as_json:
        also = {} if left_out is None else {"left_out": list(left_out)}
        counts = {"published": len(events), "skipped": skipped, **also}
        output.document({**counts, "waited": wait, "groups": groups, "agents": agents})
        return
    without = f", {skipped:,} left out" if skipped else ""
    state = "retrievable" if wait else "published"
    output.line(
        f"{len(events):,} events {state}{without} (group {', '.join(groups) or UNKNOWN}; agent"
        f" {', '.join(agents) or UNKNOWN})"
    )


export_app = typer.Typer(no_args_is_help=True, help="Write memories to files.")

#: Rows of one page: with vectors of 1,536 numbers, about four megabytes.
PAGE = min(500, limits.MAX_PAGE)
STDOUT = Path("-")


@export_app.command("jsonl")
def export_jsonl(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="Where to; - is stdout.")] = STDOUT,
    agent: Annotated[str | None, typer.Option(help="Only this agent's.")] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Of all agents, and what came of the events.")
    ] = False,
    with_vectors: Annotated[
        bool, typer.Option("--with-vectors", help="With the vectors: no embedding on import.")
    ] = False,
    as_json: Json = False,
) -> None:
    """The group's events, one a line, as `jiyi import jsonl` takes them back."""
    if as_json and file == STDOUT:
        raise typer.BadParameter("--json needs a FILE: the events would come out between it")
    if everything and agent is not None:
        raise typer.BadParameter("give either --all or --agent")
    count = 0
    with connect(ctx) as client, writing(file) as out, output.progress(counted=False) as progress:
        task = progress.add_task("exporting", total=None)
        lines = all_lines if everything else partial(exported, agent=agent)
        for event in lines(client, with_vectors=with_vectors):
            out.write(json.dumps(event, ensure_ascii=False) + "\n")
            count += 1
            progress.advance(task)
    if as_json:
        output.document({"exported": count, "file": str(file)})
        return
    output.notice(f"{count:,} events exported")


def exported(client: Client, *, agent: str | None = None, with_vectors: bool) -> Iterator[JsonObject]:
    """Every event in order of arrival, without the fields that say nothing."""
    cursor: str | None = None
    while True:
        page = client.memory.export(agent_id=agent, cursor=cursor, with_vectors=with_vectors, limit=PAGE)
        for row in page.rows:
            yield {name: value for name, value in row.items() if value is not None}
        if page.next is None:
            return
        cursor = page.next


def all_lines(client: Client, *, with_vectors: bool) -> Iterator[JsonObject]:
    """Events, then the current memories from conversations and thoughts, each after what it rests on."""
    yield from exported(client, with_vectors=with_vectors)
    group = group_of(client)
    ids = [memory.node_id for memory in client.list(None, archived="with", page_size=PAGE)]
    for page in chunks(ids[::-1], PAGE):
        states = client.events.states(ids=page).rows
        for state in states:
            if state.state == "unknown":
                with suppress(NotFound):  # erased meanwhile
                    yield _derived(group, client.get(state.event_id))


#: What a memory and the payload of its event have under the same names.
SAME = {
    *("description", "subject", "predicate", "object", "keywords", "poignancy", "expires_at", "provenance"),
    *("kind", "uri", "user_id", "visibility"),
}


def _derived(group: str, memory: Memory) -> JsonObject:
    """A memory that came from no event, as the event that stores the same."""
    origin = claimable(memory.origin)
    payload = memory.model_dump(include=SAME) | {
        "node_type": memory.type,
        "embedding_key": memory.embedding_key if memory.embedding_key != memory.description else None,
        "evidence": memory.filling if memory.type == "thought" else None,
        "historic": True,
        "origin": origin,
        "trust": min(memory.trust, TRUST[origin]),
    }
    event = {
        "event_id": memory.node_id,
        "type": "memory.observed",
        "version": 1,
        "occurred_at": memory.created_at,
        "group_id": group,
        "agent_id": memory.agent_id,
        "session_id": memory.session_id,
        "payload": {name: value for name, value in payload.items() if value is not None and value != []},
    }
    plain: JsonObject = to_jsonable_python(
        {name: value for name, value in event.items() if value is not None}
    )
    return plain


@contextmanager
def writing(file: Path) -> Iterator[TextIO]:
    """A file that appears when it is whole: an export that fails leaves what was there before."""
    if file == STDOUT:
        yield sys.stdout
        return
    target = file.resolve()
    if target.exists() and not target.is_file():  # a pipe or a device cannot be replaced
        with target.open("w", encoding="utf-8") as out:
            yield out
        return
    part = target.with_name(f"{target.name}.part")
    try:
        with part.open("w", encoding="utf-8") as out:
            yield out
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


#: Problems that are printed one by one; of the others only the number.
MAX_SHOWN = 20
NAMESPACE = UUID("9d0f4c52-0c5e-5b0e-8a53-4a6f7c1b2e90")


class EventTarget(BaseModel, frozen=True):
    """Where the events of a file go. ``group`` None: each to the group it names, else ``default_group``."""

    default_group: str
    keep_group: bool = False
    agent: str | None = None
    keep_ids: bool = False

    def place(self, event: JsonMapping) -> JsonObject:
        """The event in the target's group (and agent), under an id of its own there if it moved.

        Ids are unique in the whole service; the new one follows from the old, so a second import changes
        nothing.
        """
        group = event.get("group_id", self.default_group) if self.keep_group else self.default_group
        agent = self.agent if self.agent is not None else event.get("agent_id")
        is_moved = event.get("group_id", group) != group or event.get("agent_id", agent) != agent
        placed = {**event, "group_id": group, "agent_id": agent}
        if agent is None:
            del placed["agent_id"]
        elif isinstance(payload := event.get("payload"), dict) and "uri" in payload:
            placed["payload"] = {**payload, "uri": address_of(str(agent), payload["uri"])}
        return _renamed(placed, f"{group}\n{agent}") if is_moved and not self.keep_ids else placed


def address_of(agent: str, uri: Any) -> Any:
    """The same address, of this agent; what is none is returned unchanged, to be refused by its own name."""
    try:
        _, kind, path = parse_uri(uri)
    except (ValueError, AttributeError, TypeError):
        return uri
    return uri_of(agent, kind, *path)


@dataclass(slots=True)
class CheckedLines:
    """The events of a file, and what is wrong with the lines that are none."""

    events: list[Event] = field(default_factory=list)
    total: int = 0
    bad: int = 0
    #: A sentence with its line's number for each of the first problems.
    problems: list[str] = field(default_factory=list)


def read(rows: Iterable[bytes], target: EventTarget) -> CheckedLines:
    """Every line of a file, checked. Blank lines are skipped; nothing raises."""
    lines = CheckedLines()
    times: Counter[bytes] = Counter()
    for number, row in enumerate(rows, start=1):
        text = row.removeprefix(b"\xef\xbb\xbf").strip()
        if not text:
            continue
        lines.total += 1
        key = sha256(text).digest()
        times[key] += 1
        try:
            lines.events.append(event_of(text, target, f"{key.hex()} {times[key]}"))
        except InvalidEvent as error:
            lines.bad += 1
            room = MAX_SHOWN - len(lines.problems)
            lines.problems += [f"line {number}: {problem}" for problem in error.problems[:room]]
    return lines


def _bounded(stream: IO[bytes]) -> Iterator[bytes]:
    """Lines; of one that is longer than any event only the beginning, which is refused."""
    while row := stream.readline(limits.MAX_MESSAGE_BYTES + 3):
        yield row
        while len(row) > limits.MAX_MESSAGE_BYTES and not row.endswith(b"\n"):
            row = stream.readline(limits.MAX_MESSAGE_BYTES)


def event_of(text: bytes, target: EventTarget, line: str) -> Event:
    """The event of one line; an id that it lacks follows from ``line``. Raises :class:`InvalidEvent`."""
    if len(text) > limits.MAX_MESSAGE_BYTES:
        raise InvalidEvent([f"the line has more than {limits.MAX_MESSAGE_BYTES:,} bytes"])
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidEvent([f"not JSON: {error}"]) from None
    if not isinstance(content, dict):
        raise InvalidEvent(["must be a JSON object"])
    short = "payload" not in content
    try:
        placed = target.place(full_form(content) if short else content)
        if "event_id" not in placed:
            placed["event_id"] = str(
                uuid5(NAMESPACE, f"{placed.get('group_id')}\n{placed.get('agent_id')}\n{line}")
            )
        event = wire.build(placed)
    except InvalidEvent as error:
        raise InvalidEvent(
            [problem.removeprefix("payload.") if short else problem for problem in error.problems]
        ) from None
    size, limit = len(event_bodies.encode([event])), limits.MAX_MESSAGE_BYTES
    if size > limit:
        raise InvalidEvent([f"payload: the event has {size:,} bytes, more than {limit:,}"])
    return event


def _renamed(event: JsonMapping, place: str) -> JsonObject:
    renamed = dict(event)
    if "event_id" in event:
        renamed["event_id"] = _new_id(event["event_id"], place)
    payload = event.get("payload")
    if isinstance(payload, dict) and isinstance(payload.get("evidence"), list):
        renamed["payload"] = {**payload, "evidence": [_new_id(old, place) for old in payload["evidence"]]}
    return renamed


def _new_id(old: Any, place: str) -> Any:
    """The id of an event's copy in another place. A UUIDv7 keeps its time, so its place in the order."""
    try:
        before = UUID(old)
    except (ValueError, TypeError, AttributeError):
        return old  # invalid: validation will report it
    return str(following(before, uuid5(NAMESPACE, f"{place}\n{before}")))
