"""``jiyi stats``: the group in numbers, and what the service still owes."""

from __future__ import annotations

from datetime import UTC, datetime

from rich.console import Group
from rich.table import Table

from jiyi.cli import output
from jiyi.cli.commands import Shown, shows
from jiyi.client.client import Client
from jiyi.protocol.base import JsonMapping
from jiyi.protocol.operations import ServiceStats

#: Counts of the group in the order shown; what a newer service adds comes after them.
NAMES = {
    "agents": "agents",
    "events": "events",
    "nodes": "memories",
    "event_nodes": "… events",
    "thought_nodes": "… thoughts",
    "chat_nodes": "… chats",
    "not_embedded": "not embedded yet",
    "idle": "idle",
    "archived": "archived",
    "dead_letters": "open dead letters",
}


@shows
def stats(client: Client) -> Shown:
    """Counts of the group, pending work, and counters of the service."""
    counts = client.service.stats()
    return Shown(counts, lambda: stats_tables(client.group, counts, datetime.now(UTC)))


def stats_tables(group: str, found: ServiceStats, now: datetime) -> Group:
    counters = {**found.counters, "accesses not written yet": found.access_buffered}
    parts = [_counts(f"group {group}", {NAMES.get(name, name): value for name, value in found.group})]
    owed = output.table(
        "pending work (whole service)", "kind", "owed", "overdue", "retried", "oldest", right=["owed", "overdue", "retried", "oldest"]
    )
    for row in found.work_owed:
        output.row(owed, row.kind, row.owed, row.overdue, row.retried, output.age(row.oldest, now))
    if not found.work_owed:
        output.row(owed, "nothing")
    return Group(*parts, "", owed, "", _counts("counters (whole service)", counters), "", _indexes(found.indexes))


def _indexes(found: dict[str, dict[str, int]]) -> Table:
    table = output.table(
        "indexes in the retrieval workers", "worker", "agents", "memories", "MiB", "of", right=["agents", "memories", "MiB", "of"]
    )
    for worker, held in found.items():
        output.row(table, worker, held["indexes"], held["memories"], *(f"{held[name] / 2**20:,.0f}" for name in ("bytes", "limit_bytes")))
    if not found:
        output.row(table, "none lately")
    return table


def _counts(title: str, counts: JsonMapping) -> Table:
    table = output.table(title, "what", "count", right=["count"])
    for name, value in counts.items():
        output.row(table, name, value)
    return table
