"""What the tests of the tiers share: outputs of nodes, stored and screened in this process."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from importlib import import_module
from typing import Any
from uuid import UUID

from sqlalchemy import text

from jiyi.protocol.events import Event, build
from jiyi.protocol.tier_questions import MemoryAnswer, MemoryQuery, TierStatus
from models.db.connection import unit_of_work
from models.db.scope import for_groups
from models.tiers import working
from models.tiers.working import WorkingEntry
from tests.integration.memory.test_inbox import rows, save
from web.show import WORDS

#: Long enough for the filters, and unlike each other for the hashing embedder.
TEXTS = [
    "The first kiln of the spring was opened today, and none of the forty cups inside had cracked.",
    "Harriet measured the clay shrinkage again; seven percent, which the supplier had never mentioned.",
    "渡口今天停航，因为上游下了一夜的雨，镇上的人都在等水退下去再过河。",
    "A buyer from the northern market asked for two hundred bowls before the harvest festival begins.",
    "陶坊的釉料只剩三袋，林岚打算明天去镇上问一问还有没有同样颜色的货。",
]


def output(group: str, text: str, **fields: Any) -> Event:
    """A ``node.executed`` event. ``fields`` are of the envelope or of the payload."""
    names = ("event_id", "occurred_at", "session_id", "agent_id")
    envelope = {name: fields.pop(name) for name in names if name in fields}
    payload = {"node_id": "n1", "output": text, **fields}
    return build(
        {"type": "node.executed", "group_id": group, "agent_id": "speaker", **envelope, "payload": payload}
    )


def tasks(name: str) -> Any:
    """A module of tasks; they read the settings when they are imported, so not before they are there."""
    return import_module(f"tasks.{name}")


def run(kind: str, module: str, handler: str) -> int:
    """Do all due work of a kind, here."""
    work = tasks("framework.work")
    done: int = work.run_until_idle(kind, getattr(tasks(module), handler))
    return done


def screen() -> int:
    return run("ingress", "tiers", "ingress")


def embed() -> int:
    return run("embed_knowledge", "tiers", "embed_knowledge")


def say(group: str, *texts: str, **fields: Any) -> list[UUID]:
    """Outputs with these texts, stored and screened; their ids."""
    events = [output(group, text, **fields) for text in texts]
    save(*events)
    screen()
    return [event.event_id for event in events]


def hot(group: str) -> list[WorkingEntry]:
    found = working.read(group)
    assert found is not None
    return found


def entry(entry_id: UUID) -> dict[str, Any]:
    (row,) = rows("SELECT * FROM quarantine_logs WHERE entry_id = :id", id=entry_id)
    return row


def ask(group: str, text: str, *, embedder: bool = True, **options: Any) -> MemoryAnswer:
    """The tiers' answer, as the worker gives it."""
    from models.tiers import query as memory

    query = MemoryQuery(group_id=group, query=text, **options)
    with for_groups(group):
        return memory.query_memory(query, tasks("tiers").embed_query if embedder else None)


def long_ago(group: str, days: float = 400) -> None:
    """Everything that the group knows was promoted so many days ago."""
    with unit_of_work() as connection, for_groups(group):
        moved = {"group": group, "age": timedelta(days=days)}
        connection.execute(
            text("UPDATE knowledge SET promoted_at = promoted_at - :age WHERE group_id = :group"), moved
        )


def tier(answer: MemoryAnswer, name: str) -> TierStatus:
    return next(status for status in answer.tiers if status.tier == name)


def job(name: str, group: str | None = None, now: datetime | None = None) -> dict[str, Any]:
    """A run of a job, here; its summary."""
    from datetime import UTC

    jobs = tasks("framework.jobs")
    made = jobs.Run(name, now or datetime.now(UTC), group_id=group)
    function: Callable[[Any], None] = jobs.FUNCTIONS[name]
    with made.scope():
        function(made)
    found: dict[str, Any] = made.summary
    assert found.keys() <= {*WORDS["results"], "more"}, "what the page of jobs has no word for"
    return found
