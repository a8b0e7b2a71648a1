"""What the overview plots over time: which figures, in which unit, under which name."""

from __future__ import annotations

from typing import Any

from flask_babel import gettext as _

from models.operations import meters

#: Minutes that can be looked back, and the minutes of one step of each.
SPANS = {60: 1, 360: 5, 1_440: 15}


def plots() -> list[dict[str, Any]]:
    """``column`` is a path into what :func:`series` gives; with ``gaps`` there are steps without a value."""
    return [
        {
            "title": _("Events accepted, a minute"),
            "unit": "",
            "columns": [
                {"column": "events", "label": _("accepted"), "colour": "accent"},
                {"column": "events_rejected", "label": _("refused"), "colour": "unreachable"},
            ],
        },
        {
            "title": _("Tasks, a minute"),
            "unit": "",
            "columns": [
                {"column": "done", "label": _("done"), "colour": "accent"},
                {"column": "failed", "label": _("failed"), "colour": "unreachable"},
            ],
        },
        {
            "title": _("Retrieval, milliseconds"),
            "unit": "ms",
            "columns": [
                {"column": "retrieval_ms.p50", "label": _("median"), "colour": "accent", "gaps": True},
                {"column": "retrieval_ms.p95", "label": _("95th percentile"), "colour": "thought", "gaps": True},
            ],
        },
        {
            "title": _("Waiting for a worker, seconds"),
            "unit": "s",
            "columns": [
                {"column": "wait", "label": _("mean"), "colour": "accent", "gaps": True},
                {"column": "wait_max", "label": _("longest"), "colour": "thought", "gaps": True},
            ],
        },
    ]


def spans() -> list[tuple[int, str]]:
    return [(60, _("1 hour")), (360, _("6 hours")), (1_440, _("1 day"))]


def series(minutes: int) -> dict[str, Any]:
    """Columns of one length, by the names used above. Counts become rates by the minute, whatever the step."""
    step = SPANS.get(minutes, max(1, minutes // 96))
    found = meters.series(minutes, step)
    waits = [(one["wait"], one["wait_max"], one["done"]) for one in found["tasks"].values()]
    places = range(len(found["times"]))
    return {
        "step_seconds": found["step_seconds"],
        "times": found["times"],
        **{name: [count / step for count in found[name]] for name in ("events", "events_rejected", "done", "failed")},
        "retrieval_ms": found["retrieval_ms"],
        "wait": [_mean([(wait[place], done[place]) for wait, _most, done in waits]) for place in places],
        "wait_max": [_greatest([most[place] for _mean_wait, most, _done in waits]) for place in places],
    }


def _mean(waits: list[tuple[float | None, float]]) -> float | None:
    """Weighted by how many tasks waited so long."""
    known = [(wait, max(done, 1)) for wait, done in waits if wait is not None]
    total = sum(done for _wait, done in known)
    return sum(wait * done for wait, done in known) / total if total else None


def _greatest(values: list[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
