"""What the overview plots over time: which figures, in which unit, under which name."""

from __future__ import annotations

from flask_babel import gettext as _

from models.operations import meters

#: Minutes that can be looked back, and the minutes of one step of each.
SPANS = {60: 1, 360: 5, 1_440: 15}


def plots() -> list[dict[str, object]]:
    """``column`` is a path into what :func:`series` gives; with ``gaps`` there are steps without a value."""
    refused, longest = "unreachable", "thought"  # their colours
    return [
        _plot(_("Events accepted, a minute"), "", ("events", _("accepted")), ("events_rejected", _("refused")), refused),
        _plot(_("Tasks, a minute"), "", ("done", _("done")), ("failed", _("failed")), refused),
        _plot(_("Retrieval, milliseconds"), "ms", ("retrieval_ms.p50", _("median")), ("retrieval_ms.p95", _("95th percentile")), longest),
        _plot(_("Waiting for a worker, seconds"), "s", ("wait", _("mean")), ("wait_max", _("longest")), longest),
    ]


def _plot(title: str, unit: str, usual: tuple[str, str], other: tuple[str, str], colour: str) -> dict[str, object]:
    """Durations have steps without a value, counts have none."""
    lines = ((*usual, "accent"), (*other, colour))
    gaps = {"gaps": True} if unit else {}
    return {
        "title": title,
        "unit": unit,
        "columns": [{"column": name, "label": label, "colour": hue, **gaps} for name, label, hue in lines],
    }


def spans() -> list[tuple[int, str]]:
    return [(60, _("1 hour")), (360, _("6 hours")), (1_440, _("1 day"))]


def series(minutes: int) -> dict[str, object]:
    """Columns of one length, by the names used above. Counts become rates by the minute, whatever the step."""
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
