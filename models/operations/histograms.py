"""Durations in classes, for Prometheus, since the beginning; with a trace as an example of each class."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from engine.providers.calls import ModelCall
from jiyi import tracing
from models.operations.meters import SEPARATOR, lasting, quantile, totals

#: Seconds: upper bounds of the classes of what somebody waits for, and of what is done in the background.
QUICK = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SLOW = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
#: What all names of theirs begin with among the meters; then the histogram's key, what it counts, and the
#: labels.
HISTOGRAM, SUM, TOKENS, ERRORS = "h", "s", "model_tokens", "model_errors"
#: Seconds; an id that is older was not made when its event was published: an import's.
IMPORTED_AFTER = 3_600.0
UUIDV7 = 7


@dataclass(frozen=True, slots=True)
class Histogram:
    """One family of Prometheus'."""

    key: str
    name: str
    description: str
    bounds: tuple[float, ...]
    labels: tuple[str, ...] = ()

    def observe(self, seconds: Iterable[float], *labels: str) -> None:
        """Count durations with these labels, which are few different ones."""
        sums: dict[str, float] = {}
        examples: dict[str, str] = {}
        ids, now = tracing.ids(), time.time()
        for duration in seconds:
            field = name_of(HISTOGRAM, self.key, str(bisect_left(self.bounds, duration)), *labels)
            sums[field] = sums.get(field, 0.0) + 1
            total = name_of(HISTOGRAM, self.key, SUM, *labels)
            sums[total] = sums.get(total, 0.0) + duration
            if ids is not None:
                examples[field] = f"{ids[0]} {ids[1]} {duration:.6f} {now:.3f}"
        lasting(sums, examples)


def name_of(*parts: str) -> str:
    return SEPARATOR.join(part.replace(SEPARATOR, "_") for part in parts)


HTTP = Histogram(
    "http",
    "jiyi_http_request_seconds",
    "Requests, until their answer begins.",
    QUICK,
    ("method", "route", "status"),
)
RUN = Histogram("run", "jiyi_task_run_seconds", "Runs of tasks.", SLOW, ("task",))
QUEUED = Histogram(
    "queued", "jiyi_task_queued_seconds", "How long tasks waited in their queues.", SLOW, ("task",)
)
RETRIEVABLE = Histogram(
    "retrievable",
    "jiyi_observed_to_retrievable_seconds",
    "From the making of an event until its memory can be found by its meaning.",
    SLOW,
)
MODEL = Histogram(
    "model",
    "jiyi_model_call_seconds",
    "Calls of LLMs, embedders and rerankers.",
    SLOW,
    ("operation", "provider", "model"),
)
ALL = (HTTP, RUN, QUEUED, RETRIEVABLE, MODEL)


def quantiles(histogram: Histogram, shares: tuple[float, ...]) -> dict[str, tuple[float | None, ...]]:
    """First label → for each share the seconds that so many of its durations stay below."""
    classes: dict[str, list[float]] = {}
    for name, number in totals().items():
        kind, key, place, *labels = [*name.split(SEPARATOR), "", "", ""]
        if (kind, key) == (HISTOGRAM, histogram.key) and place.isdigit():
            classes.setdefault(labels[0], [0.0] * (len(histogram.bounds) + 1))[int(place)] += number
    return {
        label: tuple(quantile(counts, share, histogram.bounds) for share in shares)
        for label, counts in classes.items()
    }


def retrievable(node_ids: Iterable[UUID]) -> None:
    """Memories have got their vectors; their ids contain when their events were made."""
    now = time.time()
    ages = [now - (node_id.int >> 80) / 1_000 for node_id in node_ids if node_id.version == UUIDV7]
    RETRIEVABLE.observe(max(0.0, age) for age in ages if age < IMPORTED_AFTER)


def called(call: ModelCall) -> None:
    """A model was called (:func:`engine.providers.calls.on_call`)."""
    labels = (call.operation, call.provider, call.model)
    MODEL.observe([call.seconds], *labels)
    counts = {
        name_of(TOKENS, *labels, "input"): call.input_tokens,
        name_of(TOKENS, *labels, "output"): call.output_tokens,
    }
    if call.error:
        counts[name_of(ERRORS, *labels, call.error)] = 1
    lasting({name: float(number) for name, number in counts.items() if number}, {})
