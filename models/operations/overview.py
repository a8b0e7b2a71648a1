"""Is all well, and what is going on? All sources are asked at once, each allowed to be silent."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection

from engine.providers.health import providers
from engine.reflection import AgentOnItsWay, with_progress
from jiyi.protocol.operations import Tick, WorkOwed
from jiyi.settings import get_settings
from jiyi.text.translatable import Translatable
from models.db import valkey_keys
from models.db.bounded_reads import Reading, attempt, from_database, source
from models.db.valkey import valkey
from models.memory import agent_reads
from models.operations import health_checks as checks
from models.operations import liveness, meters, reads, servers
from models.operations.embedding_models import ActiveModel, active_model
from models.operations.health_checks import Check, State
from models.operations.liveness import Liveness, QueuesState
from models.operations.reads import Totals
from models.operations.servers import ServerState
from models.queue import reads as pending

AGENTS_PER_PAGE = 50


@dataclass(frozen=True)
class Stored:
    """What the database knows; all unknown if it does not answer."""

    totals: Totals | None = None
    agents: list[AgentOnItsWay] | None = None
    #: The last of them, where there are more.
    agents_next: str | None = None
    work_owed: list[WorkOwed] | None = None
    open_dead_letters: int | None = None
    jobs: dict[str, Tick] | None = None


@dataclass(frozen=True, slots=True)
class Overview:
    """``access_buffered``: accesses to memories that are still to be written; None: not known."""

    as_of: datetime
    state: State
    checks: list[Check]
    access_buffered: int | None
    queues: QueuesState
    stored: Stored


def overview(group_id: str, after: str) -> Overview:
    """Of a group, with its agents after the one named; what is seen of other groups is up to the scope."""
    settings = get_settings()
    buffered = source("Valkey").begin(lambda: int(valkey().zcard(valkey_keys.ACCESS)))
    asked, states = liveness.begin(settings), servers.begin()
    stored = attempt(lambda: from_database(lambda connection: _stored(connection, group_id, after)))
    cached, alive = attempt(buffered), asked()
    found, embedder = stored.value or (Stored(), None)
    outside = attempt(source("providers").begin(lambda: providers(settings, None if embedder is None else embedder.spec)))
    judged = [*_judged(stored, found, alive, states()), *map(checks.provider, outside.value or [])]
    return Overview(datetime.now(UTC), checks.worst(judged), judged, cached.value, liveness.state_of_queues(settings, alive), found)


def _stored(connection: Connection, group_id: str, after: str) -> tuple[Stored, ActiveModel | None]:
    settings = get_settings()
    agents = agent_reads.agents(connection, group_id, after, AGENTS_PER_PAGE + 1)
    shown = agents[:AGENTS_PER_PAGE]
    known = Stored(
        totals=reads.totals(connection, group_id),
        agents=[with_progress(agent, settings) for agent in shown],
        agents_next=shown[-1].agent_id if len(agents) > AGENTS_PER_PAGE else None,
        work_owed=pending.by_kind(connection),
        open_dead_letters=reads.open_letters(connection, group_id),
        jobs=reads.last_runs(connection),
    )
    return known, active_model(connection)


def _judged(
    stored: Reading[tuple[Stored, ActiveModel | None]], found: Stored, alive: Liveness, states: dict[str, ServerState]
) -> list[Check]:
    settings, not_read = get_settings(), Translatable("the database did not answer")
    broker, signs = alive.broker.value, alive.signs.value
    oldest = broker.oldest if broker else {}
    return [
        checks.reachable(Translatable("Database"), stored, Translatable("answers"))
        if states["database"].state == "ok"
        else checks.server(Translatable("Database"), states["database"], ""),
        checks.server("Valkey", states["valkey"], Translatable("answers, and takes what is written")),
        checks.server(Translatable("Broker"), states["broker"], Translatable("takes what is published")),
        checks.intake(settings, alive.depths, broker.intakes if broker else None, oldest.get(settings.intake_queue)),
        checks.workers(alive.workers, signs.canaries if signs else {}, oldest),
        checks.work(found.work_owed, not_read),
        checks.schedule(settings, found.jobs, not_read, signs.beat_age if signs else None),
        checks.dead_letters(found.open_dead_letters, not_read),
    ]


#: Minutes that can be looked back, and the minutes of one step of each.
SPANS = {60: 1, 360: 5, 1_440: 15}


def series(minutes: int) -> dict[str, Any]:
    """Columns of one length, by name. Counts become rates by the minute, whatever the step."""
    step = SPANS.get(minutes, max(1, minutes // 96))
    found = meters.series(minutes, step)
    waits = [(task["wait"], task["wait_max"], task["done"]) for task in found["tasks"].values()]
    places = range(len(found["times"]))
    return {
        "step_seconds": found["step_seconds"],
        "times": found["times"],
        "events": _by_minute(found["events"], step),
        "events_rejected": _by_minute(found["events_rejected"], step),
        "done": _by_minute(found["done"], step),
        "failed": _by_minute(found["failed"], step),
        "retrieval_ms": found["retrieval_ms"],
        "wait": [_mean([(wait[place], done[place]) for wait, _most, done in waits]) for place in places],
        "wait_max": [_greatest([most[place] for _mean_wait, most, _done in waits]) for place in places],
    }


def _by_minute(counts: list[float], step: int) -> list[float]:
    return [count / step for count in counts]


def _mean(waits: list[tuple[float | None, float]]) -> float | None:
    """Weighted by how many tasks waited so long."""
    known = [(wait, max(done, 1)) for wait, done in waits if wait is not None]
    total = sum(done for _wait, done in known)
    return sum(wait * done for wait, done in known) / total if total else None


def _greatest(values: list[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
