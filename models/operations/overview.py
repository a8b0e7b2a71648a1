"""Is all well, and what is going on? All sources are asked at once, and each may be silent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from sqlalchemy import Connection

from engine.providers.health import providers
from engine.reflection import AgentOnItsWay, with_progress
from jiyi.protocol.base import encode_cursor
from jiyi.protocol.operations import Tick, WorkOwed
from jiyi.protocol.wire.broker import INTAKE_QUEUE
from jiyi.settings import Settings, get_settings
from jiyi.text.translatable import Translatable
from models.db import valkey_keys
from models.db.bounded_reads import SourceReading, SourceUnavailable, attempt, from_database, source
from models.db.valkey import valkey
from models.memory.agents import agent_rows
from models.operations import budgets, meters, numbers, worker_liveness
from models.operations import health_checks as checks
from models.operations.budgets import Budget
from models.operations.embedding_models import ActiveModel, active_model
from models.operations.health_checks import Check, ServerState, State
from models.operations.numbers import Totals
from models.operations.worker_liveness import Canary, Worker
from models.queue import broker_queues, pending_work
from models.queue.broker_queues import Depths, InFlight

AGENTS_PER_PAGE = 50
#: A group with so many memories has begun, whatever it was asked.
FIRST_NODES = 10
#: Minutes that can be looked back, and the minutes of one step of each.
SPANS = {60: 1, 360: 5, 1_440: 15}
#: Counts of :func:`models.operations.meters.series` that are plotted by the minute.
RATES: tuple[Literal["events", "events_rejected", "done", "failed"], ...] = (
    *("events", "events_rejected", "done", "failed"),
)


@dataclass(frozen=True)
class DatabaseFigures:
    """What the database knows; all unknown if it does not answer."""

    totals: Totals | None = None
    agents: list[AgentOnItsWay] | None = None
    #: The last of them, where there are more.
    agents_next: str | None = None
    work_owed: list[WorkOwed] | None = None
    open_dead_letters: int | None = None
    jobs: dict[str, Tick] | None = None
    budgets: list[Budget] | None = None
    #: None: the group has begun.
    first_steps: numbers.FirstSteps | None = None


@dataclass(frozen=True, slots=True)
class Overview:
    """``access_buffered``: accesses to memories that are still to be written; None: not known."""

    as_of: datetime
    state: State
    checks: list[Check]
    access_buffered: int | None
    queues: QueuesState
    stored: DatabaseFigures


def overview(group_id: str, after: str) -> Overview:
    """Of a group, with its agents after the one named; what is seen of other groups is up to the scope."""
    buffered = source("Valkey").begin(lambda: int(valkey().zcard(valkey_keys.ACCESS)))
    judged, figures, alive = _look(lambda connection: _stored(connection, group_id, after))
    cached, worst = attempt(buffered).value, checks.worst(judged)
    return Overview(datetime.now(UTC), worst, judged, cached, state_of_queues(alive), figures)


def of_service() -> tuple[list[Check], DatabaseFigures, Liveness]:
    """What is judged of the whole service, and what of it is known."""
    return _look(_of_service)


def _look(
    question: Callable[[Connection], tuple[DatabaseFigures, ActiveModel | None]],
) -> tuple[list[Check], DatabaseFigures, Liveness]:
    settings = get_settings()
    finish, states = begin(settings), checks.ask_servers()
    reading, alive = attempt(lambda: from_database(question)), finish()
    figures, embedder = reading.value or (DatabaseFigures(), None)
    spec = None if embedder is None else embedder.spec
    outside = attempt(source("providers").begin(lambda: providers(settings, spec)))
    judged = [*_judged(reading, figures, alive, states()), *map(checks.provider, outside.value or [])]
    return judged, figures, alive


def _of_service(connection: Connection) -> tuple[DatabaseFigures, ActiveModel | None]:
    figures = DatabaseFigures(
        work_owed=pending_work.by_kind(connection),
        open_dead_letters=numbers.open_letters(connection),
        jobs=numbers.last_runs(connection),
        budgets=budgets.of(connection, None),
    )
    return figures, active_model(connection)


def _stored(connection: Connection, group_id: str, after: str) -> tuple[DatabaseFigures, ActiveModel | None]:
    settings = get_settings()
    agents = agent_rows(connection, group_id, after, AGENTS_PER_PAGE + 1)
    rows = agents[:AGENTS_PER_PAGE]
    totals = numbers.totals(connection, group_id)
    first = numbers.first_steps(connection, group_id) if totals.nodes < FIRST_NODES else None
    figures = DatabaseFigures(
        totals=totals,
        agents=[with_progress(agent, settings) for agent in rows],
        agents_next=encode_cursor(rows[-1].agent_id) if len(agents) > AGENTS_PER_PAGE else None,
        work_owed=pending_work.by_kind(connection),
        open_dead_letters=numbers.open_letters(connection, group_id),
        jobs=numbers.last_runs(connection),
        budgets=budgets.of(connection, group_id),
        first_steps=None if first is None or (first.event and first.question) else first,
    )
    return figures, active_model(connection)


def _judged(
    reading: SourceReading[tuple[DatabaseFigures, ActiveModel | None]],
    figures: DatabaseFigures,
    alive: Liveness,
    states: dict[str, ServerState],
) -> list[Check]:
    settings, not_read = get_settings(), Translatable("the database did not answer")
    broker, signs = alive.broker.value, alive.signs.value
    oldest = broker.oldest if broker else {}
    return [
        checks.reachable(Translatable("Database"), reading, Translatable("answers"))
        if states["database"].state == "ok"
        else checks.server(Translatable("Database"), states["database"], ""),
        checks.server("Valkey", states["valkey"], Translatable("answers, and takes what is written")),
        checks.server(Translatable("Broker"), states["broker"], Translatable("takes what is published")),
        checks.intake(settings, alive.depths, broker.intakes if broker else None, oldest.get(INTAKE_QUEUE)),
        checks.workers(alive.workers, signs.canaries if signs else {}, oldest),
        checks.work(figures.work_owed, not_read),
        checks.schedule(settings, figures.jobs, not_read, signs.beat_age if signs else None),
        checks.dead_letters(figures.open_dead_letters, not_read),
        *map(checks.budget, figures.budgets or []),
    ]


def series(minutes: int) -> dict[str, Any]:
    """Columns of one length, by name. Counts become rates by the minute, whatever the step."""
    step = SPANS.get(minutes, max(1, minutes // 96))
    counted = meters.series(minutes, step)
    waits = [(task["wait"], task["wait_max"], task["done"]) for task in counted["tasks"].values()]
    places = range(len(counted["times"]))
    return {
        "step_seconds": counted["step_seconds"],
        "times": counted["times"],
        **{name: [count / step for count in counted[name]] for name in RATES},
        "retrieval_ms": counted["retrieval_ms"],
        "wait": [_mean([(wait[place], runs[place]) for wait, _most, runs in waits]) for place in places],
        "wait_max": [
            max((seconds for _, most, _ in waits if (seconds := most[place]) is not None), default=None)
            for place in places
        ],
    }


def _mean(waits: list[tuple[float | None, float]]) -> float | None:
    """Weighted by how many tasks waited so long."""
    pairs = [(wait, max(runs, 1)) for wait, runs in waits if wait is not None]
    total = sum(runs for _wait, runs in pairs)
    return sum(wait * runs for wait, runs in pairs) / total if total else None


@dataclass(frozen=True, slots=True)
class Broker:
    depths: Depths
    #: Seconds since the message was sent that is next, by queue.
    oldest: dict[str, float | None]
    #: Seconds since each living intake's last word.
    intakes: list[float]


@dataclass(frozen=True, slots=True)
class Signs:
    canaries: dict[str, Canary]
    beat_age: float | None
    workers: list[Worker]


@dataclass(frozen=True, slots=True)
class Liveness:
    broker: SourceReading[Broker]
    signs: SourceReading[Signs]

    @property
    def depths(self) -> SourceReading[Depths]:
        broker = self.broker.value
        return SourceReading(None if broker is None else broker.depths, self.broker.reason)

    @property
    def workers(self) -> SourceReading[list[Worker]]:
        signs = self.signs.value
        return SourceReading(None if signs is None else signs.workers, self.signs.reason)


@dataclass(frozen=True)
class QueuesState:
    """All queues, and what is known of all together."""

    #: Of each what :func:`_queue` says; None is unknown.
    queues: list[dict[str, Any]]
    in_flight: dict[str, InFlight] | None
    workers: list[Worker] | None
    beat_seconds: float | None


def begin(settings: Settings) -> Callable[[], Liveness]:
    """Ask both now; the answer is fetched by calling what is returned."""
    broker = source("broker").begin(lambda: _broker(settings))
    signs = source("Valkey").begin(_signs)
    return lambda: Liveness(attempt(broker), attempt(signs))


def address_of(settings: Settings) -> str:
    """The broker's, as Redis writes it. Raises :class:`SourceUnavailable` for another kind of broker."""
    address = broker_queues.redis_address(settings.need("broker_url"))
    if address is None:
        raise SourceUnavailable("broker", "only a Redis-like broker reports its queue depths here")
    return address


def state_of_queues(liveness: Liveness) -> QueuesState:
    depths, signs = liveness.depths.value, liveness.signs.value
    return QueuesState(
        queues=[_queue(queue, liveness) for queue in [INTAKE_QUEUE, *broker_queues.task_queues()]],
        in_flight=None if depths is None else {"intake": depths.intake, "tasks": depths.tasks},
        workers=liveness.workers.value,
        beat_seconds=None if signs is None else signs.beat_age,
    )


def _queue(queue: str, liveness: Liveness) -> dict[str, Any]:
    """``alive_seconds``: since the last sign of life of its reader."""
    broker, workers = liveness.broker.value, liveness.workers.value
    of_intake = queue not in broker_queues.task_queues()
    canary = liveness.signs.value.canaries.get(queue) if liveness.signs.value else None
    intakes = broker.intakes if broker else []
    waiting = None if broker is None else broker.depths.waiting.get(queue)
    oldest = None if broker is None else broker.oldest.get(queue)
    if of_intake:
        read = checks.intake_reader(queue, broker.intakes if broker else None, waiting, oldest)
    else:
        read = checks.reader(queue, workers, canary)
    return {
        "queue": queue,
        "reads": Translatable("events, for the intake") if of_intake else None,
        "waiting": waiting,
        "oldest_seconds": oldest,
        "in_flight": None if broker is None or not of_intake else broker.depths.intake.count,
        "alive_seconds": min(intakes, default=None) if of_intake else None if canary is None else canary.age,
        "waited_seconds": None if canary is None else canary.waited,
        "outstanding": None if canary is None else canary.outstanding,
        "intakes": len(intakes) if of_intake and broker else None,
        "workers": None
        if of_intake or workers is None
        else [worker for worker in workers if queue in worker.queues],
        "state": read.state,
        "silent_seconds": read.silent_seconds,
    }


def _broker(settings: Settings) -> Broker:
    address = address_of(settings)
    names = [INTAKE_QUEUE, *broker_queues.task_queues()]
    try:
        return Broker(
            broker_queues.depths(address, names),
            broker_queues.oldest(address, names),
            worker_liveness.intake_ages(address, INTAKE_QUEUE, settings.intake_redelivery_seconds),
        )
    except ValueError as error:  # redis-py's word for an address that it cannot read
        raise SourceUnavailable("broker", f"JIYI_BROKER_URL cannot be used: {error}") from None


def _signs() -> Signs:
    canaries = {canary.queue: canary for canary in worker_liveness.read_canaries(broker_queues.task_queues())}
    return Signs(canaries, worker_liveness.beat_age(), worker_liveness.workers())
