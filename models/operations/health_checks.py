"""Is it healthy? Each part gets one of four states, with a sentence; servers have named states."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import kombu
import redis

from engine import subjects
from engine.providers.health import ProviderHealth
from engine.providers.llms import slower_seconds
from jiyi.protocol.operations import Tick, WorkOwed
from jiyi.protocol.wire.broker import INTAKE_QUEUE
from jiyi.protocol.wire.calls import OF_VALKEY, state_of_valkey
from jiyi.protocol.wire.calls import State as Outage
from jiyi.settings import Settings, get_settings
from jiyi.text.translatable import Translatable, age
from models.accounts import users
from models.accounts.audit import OPERATOR
from models.db import valkey_keys
from models.db.bounded_reads import SourceReading, SourceUnavailable, from_database, source
from models.db.errors import OF_DATABASE, state_of_database
from models.db.valkey import valkey
from models.operations.budgets import Budget
from models.operations.worker_liveness import Canary, Worker
from models.queue.broker_queues import Depths, broker_client, redis_address, task_queues

State = Literal["ok", "unknown", "attention", "unreachable"]
#: From harmless to worst: the whole is as healthy as its worst part.
STATES: tuple[State, ...] = ("ok", "unknown", "attention", "unreachable")
#: Messages. The intake takes thousands of events a second, so that more than this is no passing burst.
MAX_INTAKE_WAITING = 1_000
#: A tick may be late by as much before the schedule needs attention.
LATE_TICKS = 3
#: … and by at least so many seconds: the upkeep worker may be at something else.
LATE_SECONDS = 60
#: Seconds that work may be due: several rounds of the reconciler, which wakes what was forgotten.
MAX_DUE_SECONDS = 180
#: Seconds that a worker may be silent because it is at work, by queue: the time limit of its longest task,
#: and some more.
BUSY_SECONDS = {"reflection": 960}
MAX_BUSY_SECONDS = 240
#: Seconds of silence after which the reader of a queue counts as stopped: fifteen heartbeats of a worker,
#: whether it is at work or idle.
STOPPED_SECONDS = 15
#: Seconds since its last canary was run in which a queue counts as read where no heartbeats are known.
CANARY_SECONDS = 120
#: Seconds since its last sign of life in which beat counts as alive: several canaries.
BEAT_SECONDS = 60
#: The job whose ticks show that the schedule runs.
PULSE = "reconcile"
#: Seconds that what is written to see whether anything can be written stays.
PROBE_LIVES = 60
#: Seconds; a broker other than Redis answers in milliseconds, too.
CONNECT_SECONDS = 2.0
#: Servers, and what people call them.
NAMES = {"database": "the database", "valkey": "Valkey", "broker": "the broker"}


@dataclass(frozen=True, slots=True)
class Reader:
    """Whether a queue is read. ``silent_seconds``: since its reader's last sign of life; None: never."""

    queue: str
    state: State
    silent_seconds: float | None
    #: Its workers accept no new work because an operator paused or stopped them.
    wished: Literal["paused", "stopped", ""] = ""
    #: Who wants it, and since when, in epoch seconds.
    wished_by: str = ""
    wished_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    state: State
    detail: str


def worst(checks: Sequence[Check]) -> State:
    return max((check.state for check in checks), key=STATES.index, default="unknown")


def reachable(name: str, reading: SourceReading[Any], detail: str) -> Check:
    return (
        Check(name, "ok", detail) if reading.value is not None else Check(name, "unreachable", reading.reason)
    )


def server(name: str, server_state: ServerState, detail: str) -> Check:
    if server_state.state == "ok":
        return Check(name, "ok", detail)
    return Check(name, "unreachable", f"{server_state.state}: {server_state.reason}")


def intake(
    settings: Settings,
    depths: SourceReading[Depths],
    living: Sequence[float] | None = None,
    oldest: float | None = None,
) -> Check:
    """``living``: seconds since each living intake's last word, None: unknown; ``oldest``: the next message's
    age.
    """
    name = Translatable("Intake")
    if depths.value is None:
        return Check(name, "unknown", depths.reason)
    waiting, flight = depths.value.waiting[INTAKE_QUEUE], depths.value.intake
    read = intake_reader(INTAKE_QUEUE, living, waiting, oldest)
    if read.state == "unreachable":
        arguments = {"age": age(read.silent_seconds or 0), "count": f"{waiting:,}"}
        return Check(
            name,
            "unreachable",
            Translatable("no sign of life for %(age)s, %(count)s messages wait", **arguments),
        )
    if waiting > MAX_INTAKE_WAITING:
        detail = Translatable(
            "%(count)s messages wait: is the intake running and keeping up?", count=f"{waiting:,}"
        )
        return Check(name, "attention", detail)
    if flight.oldest_seconds is not None and flight.oldest_seconds > settings.intake_redelivery_seconds:
        return Check(
            name,
            "attention",
            Translatable("a message has been in its hands for %(age)s", age=age(flight.oldest_seconds)),
        )
    if waiting and not flight.count and not living:  # an intake at work always holds what it reads
        detail = Translatable(
            "%(count)s waiting, none in flight: is the intake running?", count=f"{waiting:,}"
        )
        return Check(name, "unknown", detail)
    detail = Translatable(
        "%(waiting)s waiting, %(flight)s in flight", waiting=f"{waiting:,}", flight=f"{flight.count:,}"
    )
    return Check(name, "ok", detail)


def reader(queue: str, workers: Sequence[Worker] | None, canary: Canary | None) -> Reader:
    """Whether anybody reads one of Celery's queues. ``workers`` None: heartbeats are not known.

    A worker that lives without running canaries may be deaf, or at a long task: attention. What nobody was
    ever seen to read is unknown: its worker may be starting.
    """
    readers = [worker for worker in workers or [] if queue in worker.queues]
    mine = [worker.seen_seconds_ago for worker in readers if worker.report.mode == "running"]
    sung = [] if canary is None or canary.age is None else [canary.age]
    silent = min([*(worker.seen_seconds_ago for worker in readers), *sung], default=None)
    halts = [
        worker.report for worker in readers if worker.ended or worker.seen_seconds_ago <= STOPPED_SECONDS
    ]
    halts = sorted(
        (report for report in halts if report.mode != "running"), key=lambda report: report.wished_at
    )
    deaf = canary is not None and is_silent(canary)
    if any(seconds <= STOPPED_SECONDS for seconds in mine):
        return Reader(queue, "attention" if deaf else "ok", min(sung, default=silent) if deaf else silent)
    if halts:  # said by themselves, so that nobody has to wait
        wished: Literal["paused", "stopped"] = (
            "stopped" if {report.mode for report in halts} == {"stopped"} else "paused"
        )
        return Reader(
            queue, "attention", min(sung, default=0.0), wished, halts[-1].wished_by, halts[-1].wished_at
        )
    if silent is None:
        return Reader(queue, "unknown", None)
    if silent <= STOPPED_SECONDS:
        return Reader(queue, "ok", silent)
    if workers is not None:
        return Reader(queue, "unreachable", silent)
    return Reader(queue, "attention" if deaf else "ok" if silent <= CANARY_SECONDS else "unknown", silent)


def intake_reader(
    queue: str, living: Sequence[float] | None, waiting: int | None, oldest: float | None
) -> Reader:
    """The same of the intake's queue. ``living``: seconds since each living intake's last word."""
    if living is None:
        return Reader(queue, "unknown", None)
    silent = min(living, default=None)
    if silent is not None:
        return Reader(queue, "ok" if silent <= STOPPED_SECONDS else "unreachable", silent)
    abandoned = bool(waiting) and oldest is not None and oldest > STOPPED_SECONDS
    return Reader(queue, "unreachable" if abandoned else "unknown", oldest if abandoned else None)


def workers(
    reading: SourceReading[list[Worker]],
    canaries: Mapping[str, Canary] | None = None,
    oldest: Mapping[str, float | None] | None = None,
) -> Check:
    """As well off as the queue that is read worst. ``oldest``: the age of the next message, by queue."""
    name = Translatable("Workers")
    readers = [reader(queue, reading.value, (canaries or {}).get(queue)) for queue in task_queues()]

    def those(state: State) -> list[Reader]:
        return [reader for reader in readers if reader.state == state]

    if stopped := those("unreachable"):
        return Check(name, "unreachable", _stopped(stopped, oldest or {}))
    if deaf := those("attention"):
        return Check(name, "attention", _deaf(deaf))
    if unseen := those("unknown"):
        if reading.value is None:
            return Check(name, "unknown", reading.reason)
        return Check(
            name,
            "unknown",
            Translatable("no sign of life yet for %(queues)s: away, or starting", queues=_named(unseen)),
        )
    alive = [worker for worker in reading.value or [] if worker.seen_seconds_ago <= STOPPED_SECONDS]
    living = (
        Translatable("%(count)s live, every queue is read", count=len(alive))
        if alive
        else Translatable("every queue is read")
    )
    return Check(name, "ok", living)


def _deaf(readers: Sequence[Reader]) -> str:
    """Which queues are stopped or paused, by whom and since when; else since when they were silent."""
    stopped = [reader for reader in readers if reader.wished == "stopped"]
    affected = stopped or [reader for reader in readers if reader.wished == "paused"]
    if not affected:
        since = age(min(reader.silent_seconds or 0 for reader in readers))
        return Translatable("no sign of life from %(queues)s for %(age)s", queues=_named(readers), age=since)
    last = max(affected, key=lambda reader: reader.wished_at)
    since = f" ({datetime.fromtimestamp(last.wished_at, UTC):%Y-%m-%d %H:%M} UTC)" if last.wished_at else ""
    arguments = {
        "queues": _named(affected),
        "who": f"{last.wished_by.removeprefix('user:') or OPERATOR}{since}",
    }
    if stopped:
        return Translatable("stopped by %(who)s: %(queues)s. Resume it on the page of workers", **arguments)
    return Translatable("paused by %(who)s: %(queues)s. Resume it on the page of workers", **arguments)


def _stopped(readers: Sequence[Reader], oldest: Mapping[str, float | None]) -> str:
    """Which queues nobody reads, since when, and how long the next message has waited."""
    arguments = {"queues": _named(readers), "age": age(max(reader.silent_seconds or 0 for reader in readers))}
    waits = max(
        (seconds for reader in readers if (seconds := oldest.get(reader.queue)) is not None), default=None
    )
    if waits is None:
        return Translatable("nobody reads %(queues)s: its worker has been silent for %(age)s", **arguments)
    return Translatable(
        "nobody reads %(queues)s: its worker has been silent for %(age)s, the oldest message waits for"
        " %(oldest)s",
        **arguments,
        oldest=age(waits),
    )


def _named(readers: Sequence[Reader]) -> str:
    return ", ".join(reader.queue for reader in readers)


def is_silent(canary: Canary) -> bool:
    """For longer than a task of the queue may take, though it was sent something to answer."""
    limit = BUSY_SECONDS.get(canary.queue, MAX_BUSY_SECONDS) + slower_seconds(get_settings())
    return canary.outstanding > 0 and canary.age is not None and canary.age > limit


def budget(spending: Budget) -> Check:
    name = Translatable("LLM budget")
    arguments = {"spent": f"{spending.spent:,.2f}", "limit": f"{spending.limit:,.2f}"}
    if spending.state == "unreachable":
        return Check(
            name,
            "unreachable",
            Translatable("%(spent)s of %(limit)s are spent: work that needs the LLM waits", **arguments),
        )
    return Check(
        name, spending.state, Translatable("%(spent)s of %(limit)s are spent this month", **arguments)
    )


def work(pending: Sequence[WorkOwed] | None, reason: str) -> Check:
    name = Translatable("Work")
    if pending is None:
        return Check(name, "unknown", reason)
    # what is of subjects that are off waits for them
    due = [row for row in pending if row.overdue and subjects.of_kind(row.kind) is None]
    oldest = min(due, key=lambda row: row.oldest, default=None)
    if oldest is not None and _seconds_since(oldest.oldest) > MAX_DUE_SECONDS:
        detail = Translatable(
            "%(kind)s is due and has waited %(age)s", kind=oldest.kind, age=age(_seconds_since(oldest.oldest))
        )
        return Check(name, "attention", detail)
    return Check(name, "ok", Translatable("%(count)s due now", count=f"{sum(row.overdue for row in due):,}"))


def schedule(
    settings: Settings, runs: Mapping[str, Tick] | None, reason: str, beat_age: float | None = None
) -> Check:
    name = Translatable("Schedule")
    if runs is None:
        return Check(name, "unknown", reason)
    pulse = runs.get(PULSE)
    if pulse is None:
        return Check(name, "unknown", Translatable("%(job)s has not run yet", job=PULSE))
    since = _seconds_since(pulse.slot)
    if since > max(LATE_TICKS * settings.reconcile_seconds, LATE_SECONDS):
        detail = Translatable("%(job)s last ran %(age)s ago: is beat running?", job=PULSE, age=age(since))
        if beat_age is not None and beat_age <= BEAT_SECONDS:
            detail = Translatable(
                "%(job)s last ran %(age)s ago, though beat runs: is it done?", job=PULSE, age=age(since)
            )
        return Check(name, "attention", detail)
    failed = [job for job, run in runs.items() if run.state == "failed"]
    if failed:
        return Check(name, "attention", Translatable("failed: %(jobs)s", jobs=", ".join(failed)))
    return Check(name, "ok", Translatable("%(job)s ran %(age)s ago", job=PULSE, age=age(since)))


def provider(health: ProviderHealth) -> Check:
    """The embedder, the LLM, the reranker or the web search; to be switched off is ok."""
    names = {
        "embedder": Translatable("Embedder"),
        "llm": Translatable("LLM"),
        "reranker": Translatable("Reranker"),
        "search": Translatable("Web search"),
    }
    name = names[health.name]
    states: dict[str, State] = {"ok": "ok", "off": "ok", "unknown": "unknown"}
    state = states.get(health.state, "attention")
    return Check(name, state, Translatable("switched off") if health.state == "off" else health.detail)


def dead_letters(count: int | None, reason: str) -> Check:
    name = Translatable("Dead letters")
    if count is None:
        return Check(name, "unknown", reason)
    return Check(name, "attention" if count else "ok", Translatable("%(count)s open", count=f"{count:,}"))


def _seconds_since(then: datetime) -> float:
    return max(0.0, (datetime.now(UTC) - then).total_seconds())


@dataclass(frozen=True, slots=True)
class ServerState:
    """``reason``: a sentence's end for people, empty if all is well."""

    state: Outage = "ok"
    reason: str = ""


def ask_servers() -> Callable[[], dict[str, ServerState]]:
    """Ask all now; call the result for the states by server.

    Valkey and the broker are written to: without memory or disk they still answer questions.
    """
    settings = get_settings()
    answers = {
        "valkey": source("Valkey").begin(lambda: _write(valkey())),
        "broker": source("broker").begin(lambda: _broker(settings)),
    }

    def fetch() -> dict[str, ServerState]:
        states = {
            "database": _state(
                lambda: from_database(lambda connection: users.groups(connection) is not None),
                of_database=True,
            )
        }
        return states | {name: _state(answer) for name, answer in answers.items()}

    return fetch


def _write(client: redis.Redis) -> bool:
    return bool(client.set(valkey_keys.PROBE, 1, ex=PROBE_LIVES))


def _broker(settings: Settings) -> bool:
    address = redis_address(settings.need("broker_url"))
    if address is not None:
        return _write(broker_client(address))
    with kombu.Connection(settings.broker_url, connect_timeout=CONNECT_SECONDS) as connection:
        connection.ensure_connection(max_retries=1, interval_start=0)
    return True


def _state(answer: Callable[[], object], *, of_database: bool = False) -> ServerState:
    try:
        answer()
    except SourceUnavailable as error:
        cause = error.__cause__
        if cause is None:  # it hangs
            return ServerState("away", error.reason)
        state = state_of_database(cause) if of_database else state_of_valkey(cause)
        if state is None or state == "away":
            return ServerState("away", error.reason)
        return ServerState(state, (OF_DATABASE if of_database else OF_VALKEY)[state])
    return ServerState()
