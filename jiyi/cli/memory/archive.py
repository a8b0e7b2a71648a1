"""``jiyi archive``: put away what has faded, see what was put away, bring it back."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

import typer

from jiyi.cli import output
from jiyi.cli.operations import jobs
from jiyi.cli.shell import Json, connect
from jiyi.protocol.archive import MAX_RESTORED
from jiyi.protocol.queries import DEFAULT_PAGE

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
    if as_json or not dry_run:
        jobs.finish(tick, as_json=as_json)
        return
    agents: list[dict[str, Any]] = tick.summary.get("by_agent", [])
    made = output.table(client.group, "agent", "not accessed since", *VERDICTS, right=VERDICTS)
    for agent in agents:
        output.row(made, agent["agent_id"], output.local_date(agent["accessed_before"]), *(agent[name] for name in VERDICTS))
    output.stdout().print(made)
    output.notice(
        f"{tick.summary.get('fades', 0):,} would be archived; the others stay: accessed or stored recently, important, "
        "or evidence of a live thought"
    )


@app.command("list")
def list_archived(
    ctx: typer.Context,
    agent: Annotated[str, typer.Argument(help="Whose.")],
    limit: Annotated[int, typer.Option(min=1, help="Rows of the page.")] = DEFAULT_PAGE,
    before: Annotated[int | None, typer.Option(min=1, help="Only those before this number: the next page.")] = None,
    as_json: Json = False,
) -> None:
    """An agent's archived memories, newest first."""
    with connect(ctx) as client:
        page = client.archive.list(agent, before=before, limit=limit)
    if as_json:
        output.document(page.model_dump(mode="json"))
        return
    made = output.table(agent, "id", "created", "archived", "why", "imp", "memory", right=["imp"], grow=["memory"])
    for row in page.rows:
        output.row(
            made,
            row["node_id"],
            output.local_date(row["created_at"]),
            output.local_date(row["archived_at"]),
            row["archived_reason"],
            row["poignancy"],
            output.cut(row["description"], 1_000, 1),
        )
    if page.rows:
        output.stdout().print(made)
    else:
        output.notice(f"nothing of {agent} is archived")
    if page.next is not None:
        output.notice(f"more: --before {page.next}")


@app.command()
def restore(
    ctx: typer.Context,
    node_ids: Annotated[list[UUID] | None, typer.Argument(help="Ids of archived memories.", metavar="[ID]…")] = None,
    agent: Annotated[str | None, typer.Option("--agent", help="All of this agent.")] = None,
    as_json: Json = False,
) -> None:
    """Bring archived memories back. It counts as an access, and takes an expiry that has passed away."""
    if bool(node_ids) == (agent is not None):
        raise typer.BadParameter("give either ids or --agent NAME")
    with connect(ctx) as client:
        done = client.archive.restore(*(node_ids or []), agent_id=agent)
    if node_ids and done.restored < len(set(node_ids)):
        output.notice(f"only {done.restored:,} of {len(set(node_ids)):,} were archived memories of this group")
    if done.restored >= MAX_RESTORED and agent is not None:
        output.notice("there may be more: run it again")
    if as_json:
        output.document(done.model_dump())
        return
    output.line(f"{done.restored:,} restored")
