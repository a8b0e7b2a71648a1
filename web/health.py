"""Is it healthy? Each part gets one of four states, and what is not known is called unknown, not down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from jiyi.settings import Settings
from models.queues import Depths, task_queues
from web.show import age, number, seconds_since
from web.sources import Reading
from web.workers import Worker

State = Literal["ok", "unknown", "attention", "unreachable"]
#: From harmless to worst: the whole is as healthy as its worst part.
STATES: tuple[State, ...] = ("ok", "unknown", "attention", "unreachable")

#: Messages. The intake takes thousands of events a second, so that more than this is no passing burst.
MAX_INTAKE_WAITING = 1_000
#: A tick may be late by as much before the schedule needs attention.
LATE_TICKS = 3
#: Seconds that work may be due: several rounds of the reconciler, which wakes what was forgotten.
MAX_DUE_SECONDS = 180
#: The job whose ticks show that the schedule runs.
PULSE = "reconcile"


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    state: State
    detail: str


def worst(checks: Sequence[Check]) -> State:
    return max((check.state for check in checks), key=STATES.index, default="unknown")


def reachable(name: str, reading: Reading[Any], detail: str) -> Check:
    return Check(name, "ok", detail) if reading.value is not None else Check(name, "unreachable", reading.reason)


def intake(settings: Settings, depths: Reading[Depths]) -> Check:
    if depths.value is None:
        return Check("Intake", "unknown", depths.reason)
    waiting, flight = depths.value.waiting[settings.intake_queue], depths.value.intake
    if waiting > MAX_INTAKE_WAITING:
        return Check("Intake", "attention", f"{number(waiting)} messages wait: is the intake running and keeping up?")
    if flight.oldest_seconds is not None and flight.oldest_seconds > settings.intake_redelivery_seconds:
        return Check("Intake", "attention", f"a message has been in its hands for {age(flight.oldest_seconds)}")
    if waiting and not flight.count:  # an intake at work always holds what it reads
        return Check("Intake", "unknown", f"{number(waiting)} waiting, none in flight: is the intake running?")
    return Check("Intake", "ok", f"{number(waiting)} waiting, {number(flight.count)} in flight")


def workers(roll: Reading[list[Worker]]) -> Check:
    """A queue nobody answered for is unknown: its worker may be away, or at work and silent."""
    if roll.value is None:
        return Check("Workers", "unknown", roll.reason)
    read = {queue for worker in roll.value if worker.counts for queue in worker.queues}
    missing = [queue for queue in task_queues() if queue not in read]
    if missing:
        return Check("Workers", "unknown", f"no answer yet for {', '.join(missing)}: away, or busy")
    return Check("Workers", "ok", f"{sum(worker.counts for worker in roll.value)} answer, every queue is read")


def work(owed: Sequence[dict[str, Any]] | None, reason: str) -> Check:
    if owed is None:
        return Check("Work", "unknown", reason)
    rows = [row for row in owed if row["overdue"]]
    late = [row for row in rows if row["oldest_seconds"] > MAX_DUE_SECONDS]
    if late:
        oldest = max(late, key=lambda row: float(row["oldest_seconds"]))
        return Check("Work", "attention", f"{oldest['kind']} is due and has waited {age(oldest['oldest_seconds'])}")
    return Check("Work", "ok", f"{number(sum(row['overdue'] for row in rows))} due now")


def schedule(settings: Settings, ticks: Sequence[dict[str, Any]] | None, reason: str) -> Check:
    if ticks is None:
        return Check("Schedule", "unknown", reason)
    pulse = next((tick for tick in ticks if tick["job"] == PULSE), None)
    if pulse is None:
        return Check("Schedule", "unknown", f"{PULSE} has not run yet")
    since = seconds_since(pulse["slot"])
    if since > LATE_TICKS * settings.reconcile_seconds:
        return Check("Schedule", "attention", f"{PULSE} last ran {age(since)} ago: is beat running?")
    failed = [f"{tick['job']}: {tick['error']}" for tick in ticks if tick["state"] == "failed"]
    if failed:
        return Check("Schedule", "attention", "; ".join(failed))
    return Check("Schedule", "ok", f"{PULSE} ran {age(since)} ago")


def dead_letters(count: int | None, reason: str) -> Check:
    if count is None:
        return Check("Dead letters", "unknown", reason)
    return Check("Dead letters", "attention" if count else "ok", f"{number(count)} open")
