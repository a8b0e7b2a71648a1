"""The overview: is all well, and what is going on?"""

from __future__ import annotations

from flask import Blueprint, Response, render_template
from flask_babel import lazy_gettext

from models.db.bounded_reads import source
from models.operations import overview as reads
from models.operations.overview import overview
from web.accounts.identity import need, who
from web.admin import frame, inputs
from web.admin.frame import Page, across_groups, asked
from web.admin.operations import plots
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
    return answer("overview.html", data=data, plots=plots.plots() if operator else [], spans=plots.spans())


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
        found = overview(group, after)
    told = {name: getattr(found, name) for name in ("as_of", "state", "checks", "access_buffered")}
    return {**told, "group": group, **vars(found.queues), **vars(found.stored)}
