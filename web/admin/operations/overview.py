"""The overview: is all well, and what is going on?"""

from __future__ import annotations

from flask import Blueprint, Response, render_template
from flask_babel import gettext as _
from flask_babel import lazy_gettext

from models.db.bounded_reads import source
from models.operations import overview as reads
from models.operations.overview import overview
from web.accounts.identity import need, who
from web.admin import frame, inputs
from web.admin.frame import Page, across_groups, asked
from web.admin.pages import Context
from web.answers import answer, json_answer

blueprint = Blueprint("overview", __name__)
PAGES = (Page("overview", lazy_gettext("Overview"), "overview.page"),)

#: Minutes that can be plotted at most: a day.
MAX_MINUTES = 1_440


@blueprint.get("/")
@blueprint.get("/overview.json", endpoint="page_json")
def page() -> Response:
    operator = who().may("operator")
    data = {**gather(frame.group(), asked("after") or ""), "groups": frame.groups()}
    return answer("overview.html", data=data, plots=plots() if operator else [], spans=spans())


@blueprint.get("/overview/live")
def live() -> str:
    """The parts that a browser asks for again and again."""
    return render_template("_overview.html", refreshed=True, **gather(frame.group(), asked("after") or ""))


@blueprint.get("/overview/series.json")
def series() -> Response:
    """Figures of the whole service over time."""
    need("operator")
    minutes = min(inputs.whole("minutes", MAX_MINUTES) or 60, MAX_MINUTES)
    return json_answer(source("Valkey").ask(lambda: reads.series(minutes)))


def gather(group: str, after: str) -> Context:
    with across_groups():
        data = overview(group, after)
    told = {name: getattr(data, name) for name in ("as_of", "state", "checks", "access_buffered")}
    return {**told, "group": group, **vars(data.queues), **vars(data.stored)}


def plots() -> list[dict[str, object]]:
    """``column`` is a path into what :func:`models.operations.rates.series` gives; with ``gaps`` there are steps without a value."""
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
