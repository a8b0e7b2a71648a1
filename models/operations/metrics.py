"""The service in numbers, for Prometheus (``docs/operations.md``); what is not known is left out.

Of the whole service, not by group: there may be any number of groups, and their names are private.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Iterable, Iterator
from functools import partial
from importlib.metadata import version
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.samples import Exemplar
from sqlalchemy import Connection

from engine.operations import JOBS
from engine.providers import breakers
from jiyi.protocol.wire.broker import INTAKE_QUEUE
from jiyi.settings import get_settings
from models.memory.access import access_counters
from models.operations import histograms, meters, numbers, worker_liveness
from models.queue import broker_queues, pending_work, ticks
from models.queue.wakeups import QUEUES
from models.retrieval import index_cache

MODEL_LABELS = histograms.MODEL.labels
#: The states of a circuit breaker, as numbers.
BREAKER_STATES = {"closed": 0, "half-open": 1, "open": 2}


def of_broker() -> list[Metric]:
    settings = get_settings()
    address = broker_queues.redis_address(settings.need("broker_url"))
    if address is None:
        return []  # its own exporter has these metrics
    names = [INTAKE_QUEUE, *broker_queues.task_queues()]
    depths, oldest = broker_queues.depths(address, names), broker_queues.oldest(address, names)
    living = worker_liveness.intake_ages(address, INTAKE_QUEUE, settings.intake_redelivery_seconds)
    ages = {name: (oldest[name] if waiting else 0.0) for name, waiting in depths.waiting.items()}
    in_flight = {"intake": depths.intake.count, "tasks": depths.tasks.count}
    age, lag = "Age of the message that is next; absent if it does not say.", ages[INTAKE_QUEUE]
    return [
        gauge("jiyi_queue_messages", "Messages that wait in a queue.", depths.waiting, "queue"),
        gauge("jiyi_queue_oldest_seconds", age, ages, "queue"),
        gauge("jiyi_in_flight_messages", "Taken and not acknowledged messages.", in_flight, "reader"),
        gauge("jiyi_intake_lag_seconds", "Age of the oldest event that waits for the intake.", lag),
        gauge("jiyi_intakes_alive", "Intakes that have said lately that they live.", len(living)),
    ]


def of_database(connection: Connection) -> list[Metric]:
    work, now = pending_work.by_kind(connection), time.time()
    pending, overdue = {row.kind: row.owed for row in work}, {row.kind: row.overdue for row in work}
    oldest = {row.kind: max(0.0, now - row.oldest.timestamp()) for row in work}
    runs = ticks.last(connection, list(JOBS))
    failed = {job: float(tick.state == "failed") for job, tick in runs.items()}
    letters = numbers.open_letters(connection)
    return [
        gauge("jiyi_work_owed", "Pending work, by kind.", pending, "kind"),
        gauge("jiyi_work_overdue", "Work that is due and unclaimed.", overdue, "kind"),
        gauge("jiyi_work_oldest_seconds", "Age of the oldest pending work.", oldest, "kind"),
        gauge("jiyi_job_failed", "Whether a scheduled job's last run failed.", failed, "job"),
        gauge("jiyi_dead_letters_open", "Dead letters that nobody has decided on.", letters),
    ]


def of_signs() -> list[Metric]:
    """Canaries, indexes and circuit breakers, as Valkey knows them."""
    canaries = worker_liveness.read_canaries(broker_queues.task_queues())
    ages = {canary.queue: canary.age for canary in canaries}
    waits = {canary.queue: canary.waited for canary in canaries}
    reports, states = index_cache.reports(), breakers.states()
    sizes, agents = ({worker: row[name] for worker, row in reports.items()} for name in ("bytes", "indexes"))
    breaker_numbers = {
        name: BREAKER_STATES[state] for name, state in states.items() if state in BREAKER_STATES
    }
    since, waited = (
        "Since a worker of the queue last gave a sign of life.",
        "How long it waited in its queue.",
    )
    return [
        gauge("jiyi_canary_age_seconds", since, ages, "queue"),
        gauge("jiyi_canary_wait_seconds", waited, waits, "queue"),
        gauge("jiyi_beat_age_seconds", "Since beat last gave a sign of life.", worker_liveness.beat_age()),
        gauge("jiyi_index_bytes", "Memory of a worker's agent indexes.", sizes, "worker"),
        gauge("jiyi_index_agents", "Agents indexed by a worker.", agents, "worker"),
        gauge(
            "jiyi_breaker_state",
            "Circuit breaker: 0 closed, 1 half open, 2 open.",
            breaker_numbers,
            "provider",
        ),
    ]


def of_meters() -> list[Metric]:
    """What was counted since the beginning (``models.operations.meters``)."""
    totals = meters.totals()
    access = access_counters()
    split = [(name.split(meters.SEPARATOR), number) for name, number in totals.items()]
    tasks = {(parts[1], parts[2]): number for parts, number in split if parts[0] == meters.TASK}
    work = {(parts[1], parts[2]): number for parts, number in split if parts[0] == meters.WORK}
    names = sorted({name for name, _ in tasks})
    # zeros, too: a failure is seen as a growth
    ends = {(name, end): tasks.get((name, end), 0) for name in names for end in ("done", "failed", "retried")}
    took, waited = ({name: tasks.get((name, kind), 0) for name in names} for kind in ("s", "wait"))
    nothing_yet = {(kind, outcome): 0.0 for kind in QUEUES for outcome in ("done", "failed")}
    tokens, errors = (_labelled(split, own) for own in (histograms.TOKENS, histograms.ERRORS))
    build = {(version("jiyi"), platform.python_version()): 1}
    subjects, together = "Subjects of work by what became of them.", "Accesses written with a later one."
    return [
        counter("jiyi_events_accepted", "Events stored.", totals.get("events", 0)),
        counter("jiyi_events_repeated", "Events that were known already.", totals.get("events|repeated", 0)),
        counter("jiyi_events_rejected", "Events that became dead letters.", totals.get("events|rejected", 0)),
        counter("jiyi_tasks", "Runs of a task by their end.", ends, "task", "outcome"),
        counter("jiyi_task_seconds", "Time spent in a task.", took, "task"),
        counter("jiyi_task_wait_seconds", "Time that a task waited in its queue.", waited, "task"),
        counter("jiyi_work", subjects, nothing_yet | work, "kind", "outcome"),
        _retrievals(totals),
        *_histograms(split),
        counter("jiyi_model_tokens", "Tokens, as vendors count them.", tokens, *MODEL_LABELS, "direction"),
        counter("jiyi_model_errors", "Calls of models that failed.", errors, *MODEL_LABELS, "error"),
        gauge("jiyi_build_info", "1; which version answers.", build, "version", "python"),
        counter("jiyi_access_updates", "Access times written.", access.updates),
        counter("jiyi_access_coalesced", together, access.coalesced),
    ]


def _labelled(split: Iterable[tuple[list[str], float]], own: str) -> dict[tuple[str, ...], float]:
    return {tuple(parts[1:]): number for parts, number in split if parts[0] == own}


def _histograms(split: Iterable[tuple[list[str], float]]) -> Iterator[Metric]:
    """What :mod:`models.operations.histograms` counts, with a trace as an example where there is one."""
    counts: dict[str, dict[tuple[str, ...], dict[str, float]]] = {kind.key: {} for kind in histograms.ALL}
    for parts, number in split:
        if parts[0] == histograms.HISTOGRAM and parts[1] in counts:
            counts[parts[1]].setdefault(tuple(parts[3:]), {})[parts[2]] = number
    examples = meters.examples()
    for kind in histograms.ALL:
        metric = HistogramMetricFamily(kind.name, kind.description, labels=kind.labels)
        for labels, classes in counts[kind.key].items():
            if len(labels) != len(kind.labels):
                continue  # of another version
            buckets: list[Any] = []
            below = 0.0
            for place, bound in enumerate((*kind.bounds, "+Inf")):
                below += classes.get(str(place), 0.0)
                example = examples.get(
                    histograms.name_of(histograms.HISTOGRAM, kind.key, str(place), *labels)
                )
                buckets.append((str(bound), below, *([] if example is None else [_exemplar(example)])))
            metric.add_metric(labels, buckets, classes.get(histograms.SUM, 0.0))
        yield metric


def _exemplar(text: str) -> Exemplar:
    trace, span, seconds, at = text.split()
    return Exemplar({"trace_id": trace, "span_id": span}, float(seconds), float(at))


def _retrievals(totals: dict[str, float]) -> Metric:
    metric = HistogramMetricFamily("jiyi_retrieval_seconds", "Retrievals, by the time that the worker took.")
    buckets, below = [], 0.0
    for place, bound in enumerate(meters.BOUNDS_MS):
        below += totals.get(f"{meters.RETRIEVAL}|b|{place}", 0)
        buckets.append((str(bound / 1_000), below))
    buckets.append(("+Inf", below + totals.get(f"{meters.RETRIEVAL}|b|{len(meters.BOUNDS_MS)}", 0)))
    metric.add_metric([], buckets, totals.get(f"{meters.RETRIEVAL}|s", 0))
    return metric


def _metric(
    kind: type[GaugeMetricFamily | CounterMetricFamily],
    name: str,
    description: str,
    values: Any,
    *labels: str,
) -> Metric:
    """One value, or with labels a mapping from theirs to values. None is left out: it is no number."""
    metric = kind(name, description, labels=labels or None)
    for key, value in (values if labels else {(): values}).items():
        if value is not None:
            metric.add_metric([key] if isinstance(key, str) else [*key], value)
    return metric


gauge = partial(_metric, GaugeMetricFamily)
counter = partial(_metric, CounterMetricFamily)
