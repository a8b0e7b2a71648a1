"""``jiyi erasure request``: everything of an agent, of a person, or of single memories goes."""

from __future__ import annotations

import sys
from functools import partial
from typing import Annotated, Any, cast

import typer
from rich.table import Table

from jiyi.cli import output
from jiyi.cli.shell import CommandResult, shows
from jiyi.cli.subjects import options_of
from jiyi.client.calls import checked
from jiyi.client.client import Client
from jiyi.errors import JiyiError
from jiyi.polling import poll
from jiyi.protocol.erasure import Erasure, ErasureReport, ErasureState

#: Seconds that the command waits: a worker that died is waited for until its last report expires.
PATIENCE = 900.0
#: What an append-only file is that holds nothing any more.
SETTLED = ("rewritten", "off")


class ErasureOpen(JiyiError):  # noqa: N818 – its name says what happened
    """An erasure has not ended in the time given; it goes on in the background."""

    code = "erasure_open"


@partial(shows, options=options_of(Erasure))
def erase(
    client: Client,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Return only when it is done.")] = True,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds to wait.")] = PATIENCE,
    **what: Any,
) -> CommandResult:
    """Erase an agent, a person or memories, with everything derived from them. Cannot be undone.

    Asks for the name first; `jiyi erasure preview` says what would go. A person is found by every name that
    is given, as whole words; in Chinese, Japanese and the like wherever the characters stand.
    """
    request = checked(Erasure, **what)
    if not yes:
        _confirm(request)
    state = client.erasure.get(id=client.erasure.request(**what).erasure_id)
    if wait:
        state = _wait(client, state, timeout)
    goes_on = (
        f"the erasure {state.erasure_id} is {state.state}, at {state.step!r}, and goes on: see `jiyi erasure"
        " list`"
    )
    return CommandResult(
        state, lambda: print_state(state), ErasureOpen(goes_on) if wait and state.state != "done" else None
    )


def _confirm(what: Erasure) -> None:
    """Only who types the name means it."""
    if not sys.stdin.isatty():
        raise typer.BadParameter("erasing without a terminal to ask at needs --yes")
    name = what.names[0] if what.names else str(len(what.node_ids))
    label = "the name" if what.names else "the number of memories"
    if typer.prompt(f"This cannot be undone. Type {label} ({name}) to erase", err=True) != name:
        output.notice("nothing was erased")
        raise typer.Exit(1)


def _wait(client: Client, state: ErasureState, timeout: float) -> ErasureState:
    with output.progress(counted=False) as progress:
        task = progress.add_task("erasing", total=None)

        def look() -> ErasureState:
            current = client.erasure.get(id=state.erasure_id)
            progress.update(task, description=f"{current.state}: {current.step or 'waits for a worker'}")
            return current

        return poll(look, lambda current: current.state == "done", timeout)


def print_state(state: ErasureState) -> None:
    """An erasure with its report, if it has one."""
    if state.report is None:
        output.line(str(state.erasure_id))
        return
    output.show(report_table(cast("ErasureReport", state.report)))
    for place, where in state.report["places"].items():
        output.notice(f"left in {place}: {', '.join(where)}")
    for server, how in state.report.get("append_only_files", {}).items():
        if how not in SETTLED:
            output.notice(f"the append-only file of {server} may still hold it: {how}")
    backups = state.report["backups_left"]
    if not backups["holding_it"]:
        output.notice(f"no backup in {backups['folder']} holds it; copies elsewhere are not known")
    else:
        hours = backups["gone_after_hours"]
        until = (
            "they stay until somebody deletes them"
            if hours is None
            else f"the last goes after about {hours:,} h"
        )
        message = f"{backups['holding_it']:,} backups in {backups['folder']} still hold it; {until}"
        output.notice(f"{message}. See --delete-backups. Copies elsewhere are not known")
    output.line(f"{state.erasure_id} {state.state}, report sha256 {state.report['sha256']}")


def report_table(report: ErasureReport) -> Table:
    """Where something was erased, changed or searched, and how much."""
    searched = report["looked_through"]
    columns = ["erased", "changed", "searched", "left"]
    report_rows = output.table("", "place", *columns, right=columns)
    erased, scrubbed, places = report.get("erased", {}), report.get("scrubbed", {}), report["places"]
    for table in sorted({*searched["tables"], *erased, *scrubbed}):
        output.row(
            report_rows,
            table,
            erased.get(table) or None,
            scrubbed.get(table) or None,
            searched["tables"].get(table, 0),
            len(places.get(table, [])),
        )
    output.row(
        report_rows,
        "valkey",
        sum(report.get("valkey", {}).values()),
        None,
        searched["keys"],
        len(places.get("valkey", [])),
    )
    dropped = sum(worker.get("indexes", 0) for worker in report["workers"].values())
    output.row(report_rows, f"indexes of {len(report['workers'])} workers", dropped, None, None, None)
    output.row(report_rows, "log files", None, None, searched["log_files"], len(places.get("logs", [])))
    return report_rows
