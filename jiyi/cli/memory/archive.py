"""``jiyi archive``: put away what has faded, see what was put away, bring it back."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

import typer

from jiyi.cli import output
from jiyi.cli.commands import Shown, show, shows
from jiyi.cli.operations import jobs
from jiyi.cli.shell import Json, connect
from jiyi.client.client import Client
from jiyi.protocol.base import DEFAULT_PAGE, Rows
from jiyi.protocol.memory import MAX_RESTORED, ArchivedRow
from jiyi.protocol.operations import Tick

app = typer.Typer(help="The archive: memories that are found only when they are asked for.")

#: What a dry run counts: what would go, and why the others stay.
VERDICTS = ("fades", "recent", "important", "evidence")


@app.callback(invoke_without_command=True)
def archive(
    ctx: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="Only tell what would be archived.")] = False,
    as_json: Json = False,
) -> None:
    """Archive the group's faded memories now, as the job does every night.

    A memory fades when it was long not accessed, is of little importance, and no live thought rests on it.
    """
    if ctx.invoked_subcommand is not None:
        return
    with connect(ctx) as client:
        tick = client.jobs.run("archive", dry_run=dry_run, whole_service=False)
    shown = jobs.finished(tick)
    show(Shown(tick, lambda: _print_verdicts(client.group, tick)) if dry_run else shown, as_json=as_json)


def _print_verdicts(group: str, tick: Tick) -> None:
    agents: list[dict[str, Any]] = tick.summary.get("by_agent", [])
    table = output.table(group, "agent", "not accessed since", *VERDICTS, right=VERDICTS)
    for agent in agents:
        output.row(table, agent["agent_id"], output.local_date(agent["accessed_before"]), *(agent[name] for name in VERDICTS))
    output.show(table)
    output.notice(
        f"{tick.summary.get('fades', 0):,} would be archived; the others stay: accessed or stored recently, important, "
        "or evidence of a live thought"
    )


@app.command("list")
@shows
def list_archived(
    client: Client,
    agent: Annotated[str, typer.Argument(help="Whose.")],
    limit: Annotated[int, typer.Option(min=1, help="Rows of the page.")] = DEFAULT_PAGE,
    before: Annotated[int | None, typer.Option(min=1, help="Only those before this number: the next page.")] = None,
) -> Shown:
    """An agent's archived memories, newest first."""
    page = client.archive.list(agent, before=before, limit=limit)
    return Shown(page, lambda: _print_page(agent, page))


def _print_page(agent: str, page: Rows[ArchivedRow]) -> None:
    table = output.table(agent, "id", "created", "archived", "why", "imp", "memory", right=["imp"], grow=["memory"])
    for row in page.rows:
        output.row(
            table,
            row.node_id,
            output.local_date(row.created_at),
            output.local_date(row.archived_at),
            row.archived_reason,
            row.poignancy,
            output.cut(row.description, 1_000, 1),
        )
    output.listing(table, page.next, "--before", f"nothing of {agent} is archived")


@app.command()
@shows
def restore(
    client: Client,
    node_ids: Annotated[list[UUID] | None, typer.Argument(help="Ids of archived memories.", metavar="[ID]…")] = None,
    agent: Annotated[str | None, typer.Option("--agent", help="All of this agent.")] = None,
) -> Shown:
    """Bring archived memories back. It counts as an access, and takes an expiry that has passed away."""
    if bool(node_ids) == (agent is not None):
        raise typer.BadParameter("give either ids or --agent NAME")
    done = client.archive.restore(*(node_ids or []), agent_id=agent)
    if node_ids and done.restored < len(set(node_ids)):
        output.notice(f"only {done.restored:,} of {len(set(node_ids)):,} were archived memories of this group")
    if done.restored >= MAX_RESTORED and agent is not None:
        output.notice("there may be more: run it again")
    return Shown(done, lambda: output.line(f"{done.restored:,} restored"))
