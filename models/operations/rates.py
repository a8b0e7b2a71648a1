"""Figures of the service over time, as they are plotted: rates by the minute, and how long tasks waited."""

from __future__ import annotations

from typing import Any

from models.operations import meters

#: Minutes that can be looked back, and the minutes of one step of each.
SPANS = {60: 1, 360: 5, 1_440: 15}


def series(minutes: int) -> dict[str, Any]:
    """Columns of one length, by name. Counts become rates by the minute, whatever the step."""
    step = SPANS.get(minutes, max(1, minutes // 96))
    found = meters.series(minutes, step)
    waits = [(one["wait"], one["wait_max"], one["done"]) for one in found["tasks"].values()]
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
