"""``jiyi import``: memories from files."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from jiyi.cli import output
from jiyi.cli.memory import stanford
from jiyi.cli.memory.json_lines import MAX_SHOWN, Lines, Target, read
from jiyi.cli.memory.publish import publish, wait_for
from jiyi.cli.output import UNKNOWN
from jiyi.cli.shell import InvalidFile, Json, connect, session
from jiyi.client.client import Client
from jiyi.protocol.events import Event, MemoryObserved

app = typer.Typer(no_args_is_help=True, help="Bring memories in from files.")

Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Return only when all are retrievable.")]
Timeout = Annotated[float, typer.Option(min=1, help="Seconds to wait at most.")]
#: Embedding a few ten thousand memories on one machine stays below it.
DEFAULT_TIMEOUT = 600.0


@app.command("jsonl")
def jsonl(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="One event a line; - reads stdin.")],
    agent: Annotated[str | None, typer.Option(help="Store every line as this agent's.")] = None,
    keep_group: Annotated[bool, typer.Option("--keep-group", help="Store each line in the group that it names.")] = False,
    into_group: Annotated[str | None, typer.Option(help="Store all in this group, instead of --group.")] = None,
    keep_ids: Annotated[bool, typer.Option("--keep-ids", help="Keep the ids of lines from another group or agent.")] = False,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out lines that are no events.")] = False,
    wait: Wait = True,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: Json = False,
) -> None:
    """Events from JSON lines, as `jiyi export jsonl` writes them, or in short: {"agent_id": …, "description": …}.

    Every line is checked before anything is published. An event from another group gets an id of its own here.
    """
    if keep_group and into_group is not None:
        raise typer.BadParameter("give either --keep-group or --into-group")
    with connect(ctx, into_group) as client:
        target = Target(default_group=client.group, keep_group=keep_group, agent=agent, keep_ids=keep_ids)
        if str(file) == "-":
            lines = read(sys.stdin.buffer, target)
        else:
            with file.open("rb") as rows:
                lines = read(rows, target)
        _refuse(lines, str(file), told=session(ctx).json, skip_bad=skip_bad)
        _bring_in(client, lines.events, skipped=lines.bad, wait=wait, timeout=timeout, as_json=as_json)


@app.command("stanford")
def stanford_folder(
    ctx: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A persona's folder.")],
    agent: Annotated[str | None, typer.Option(help="Name of the agent here; the persona's unless given.")] = None,
    embedding_model: Annotated[str, typer.Option(help="What made the folder's vectors.")] = stanford.ORIGINAL_MODEL,
    embed_anew: Annotated[
        bool, typer.Option("--embed-anew", help="Leave the folder's vectors behind: the service embeds the texts.")
    ] = False,
    wait: Wait = True,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: Json = False,
) -> None:
    """A persona's memory as saved by the original Generative Agents simulation. What of it cannot be kept is left out, and told."""
    memory = stanford.read(folder)
    with connect(ctx) as client:
        model = None if embed_anew else embedding_model
        events = stanford.events(memory, client.group, agent or memory.persona, embedding_model=model)
        left_out = stanford.left_out(memory)
        _tell("left out", left_out)
        skipped = len(memory.nodes) - sum(isinstance(event, MemoryObserved) for event in events)
        _bring_in(client, events, skipped=skipped, left_out=left_out, wait=wait, timeout=timeout, as_json=as_json)


def _tell(what: str, sentences: Sequence[str]) -> None:
    """On stderr, the first few one by one."""
    for sentence in sentences[:MAX_SHOWN]:
        output.notice(f"{what}: {sentence}")
    if len(sentences) > MAX_SHOWN:
        output.notice(f"{what}: {len(sentences) - MAX_SHOWN:,} more")


def _refuse(read_lines: Lines, name: str, *, told: bool, skip_bad: bool) -> None:
    """Tell what is wrong with a file; raises :class:`InvalidFile` unless bad lines may be skipped."""
    if not read_lines.bad:
        return
    if skip_bad or not told:
        for problem in read_lines.problems:
            output.notice(problem)
        if len(read_lines.problems) == MAX_SHOWN:
            output.notice(f"… (at most {MAX_SHOWN} are shown)")
    if not skip_bad:
        lines = "line is" if read_lines.bad == 1 else "lines are"
        raise InvalidFile(
            f"{name}: {read_lines.bad:,} of {read_lines.total:,} {lines} wrong, nothing was published; --skip-bad leaves them out",
            read_lines.problems,
        )


def _bring_in(
    client: Client, events: list[Event], *, skipped: int, left_out: Sequence[str] | None = None, wait: bool, timeout: float, as_json: bool
) -> None:
    publish(client, events)
    if wait:
        wait_for(client, events, timeout)
    agents = sorted({event.agent_id for event in events})
    groups = sorted({event.group_id for event in events})
    if as_json:
        also = {} if left_out is None else {"left_out": list(left_out)}
        output.document({"published": len(events), "skipped": skipped, **also, "waited": wait, "groups": groups, "agents": agents})
        return
    without = f", {skipped:,} left out" if skipped else ""
    state = "retrievable" if wait else "published"
    output.line(f"{len(events):,} events {state}{without} (group {', '.join(groups) or UNKNOWN}; agent {', '.join(agents) or UNKNOWN})")
