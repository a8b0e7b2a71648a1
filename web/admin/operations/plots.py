"""What the overview plots over time: which figures, in which unit, under which name."""

from __future__ import annotations

from flask_babel import gettext as _


def plots() -> list[dict[str, object]]:
    """``column`` is a path into what :func:`models.operations.overview.series` gives; with ``gaps`` there are steps without a value."""
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
