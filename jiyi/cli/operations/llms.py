"""``jiyi llms``: the LLM in use, the vendors one could use, and what questions have cost."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.table import Table

from jiyi.cli import output
from jiyi.cli.shell import Json, checked, connect
from jiyi.protocol.queries import LLMsQuery


def llms(
    ctx: typer.Context,
    days: Annotated[int, typer.Option(min=1, max=3_650, help="Usage of so many days, today included.")] = 30,
    as_json: Json = False,
) -> None:
    """The LLM in use and the state of its breaker, the vendors with keys, the group's usage."""
    with connect(ctx) as client:
        found = client.ask("llms", checked(LLMsQuery, group_id=client.group, days=days))
        group = client.group
    if as_json:
        output.document(found)
        return
    output.stdout().print(llms_tables(group, found, datetime.now(UTC)))
    if found["active"]["problem"]:
        output.notice(f"the LLM cannot be used: {found['active']['problem']}")


def llms_tables(group: str, found: dict[str, Any], now: datetime) -> Group:
    active = found["active"]
    breaker = active["breaker"] or {}
    used = output.table("", "", "", grow=[""])
    used.show_header = False
    output.row(used, "LLM", active["model"])
    output.row(used, "breaker", breaker.get("state", "none needed"))
    if breaker.get("last_error"):
        output.row(used, "last error", f"{output.age(breaker['last_error_at'], now)} ago: {breaker['last_error']}")
    return Group(used, "", _vendors(found["vendors"]), "", _usage(group, found))


def _vendors(vendors: list[dict[str, Any]]) -> Table:
    made = output.table("vendors", "vendor", "key", "default model")
    for row in vendors:
        key = "found" if row["key"] else "missing" if row["needs_key"] else "not needed"
        output.row(made, row["vendor"], key, row["model"] or None)
    return made


def _usage(group: str, found: dict[str, Any]) -> Table:
    numbers = ["calls", "failed", "tokens in", "tokens out", "cost"]
    made = output.table(f"usage of group {group}, {found['days']} days", "prompt", "model", *numbers, right=numbers)
    for row in found["usage"]:
        cost = f"{row['cost']:.4f}" if row["cost"] else None
        output.row(made, row["prompt"], row["model"], row["calls"], row["failures"], row["prompt_tokens"], row["completion_tokens"], cost)
    if not found["usage"]:
        output.row(made, "nothing")
    return made
