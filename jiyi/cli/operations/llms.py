"""``jiyi llms``: the LLM in use, the vendors one could use, and what questions have cost."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Group
from rich.table import Table

from jiyi.cli import output
from jiyi.cli.commands import Shown, shows
from jiyi.client.client import Client
from jiyi.protocol.providers import LLMReport, LLMVendor


@shows
def llms(client: Client, days: Annotated[int, typer.Option(min=1, max=3_650, help="Usage of so many days, today included.")] = 30) -> Shown:
    """The LLM in use and the state of its breaker, the vendors with keys, the group's usage."""
    report = client.service.llms(days)
    return Shown(report, lambda: _print_report(client.group, report))


def _print_report(group: str, found: LLMReport) -> None:
    output.stdout().print(llms_tables(group, found, datetime.now(UTC)))
    if found.active.problem:
        output.notice(f"the LLM cannot be used: {found.active.problem}")


def llms_tables(group: str, found: LLMReport, now: datetime) -> Group:
    breaker = found.active.breaker
    used = output.table("", "", "", grow=[""])
    used.show_header = False
    output.row(used, "LLM", found.active.model)
    output.row(used, "breaker", "none needed" if breaker is None else breaker.state)
    if breaker is not None and breaker.last_error:
        output.row(used, "last error", f"{output.age(breaker.last_error_at, now)} ago: {breaker.last_error}")
    return Group(used, "", _vendors(found.vendors), "", _usage(group, found))


def _vendors(vendors: list[LLMVendor]) -> Table:
    table = output.table("vendors", "vendor", "key", "default model")
    for row in vendors:
        key = "found" if row.key else "missing" if row.needs_key else "not needed"
        output.row(table, row.vendor, key, row.model or None)
    return table


def _usage(group: str, report: LLMReport) -> Table:
    numbers = ["calls", "failed", "tokens in", "tokens out", "cost"]
    table = output.table(f"usage of group {group}, {report.days} days", "prompt", "model", *numbers, right=numbers)
    for row in report.usage:
        cost = f"{row.cost:.4f}" if row.cost else None
        output.row(table, row.prompt, row.model, row.calls, row.failures, row.prompt_tokens, row.completion_tokens, cost)
    if not report.usage:
        output.row(table, "nothing")
    return table
