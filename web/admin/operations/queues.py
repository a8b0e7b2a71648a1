"""Queues of the broker: how much waits, since when, who reads it, and what is inside."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, abort, render_template
from flask_babel import gettext as _
from flask_babel import lazy_gettext

from jiyi.settings import get_settings
from models.queue import broker_queues
from web.admin import frame
from web.admin.frame import Page
from web.admin.operations import liveness
from web.answers import answer
from web.sources import source

blueprint = Blueprint("queues", __name__)
PAGES = (Page("running", lazy_gettext("Queues"), "queues.page", "operator", of_service=True),)


@blueprint.get("/queues")
@blueprint.get("/queues.json", endpoint="json")
def page() -> Response:
    return answer("queues.html", data=_all())


@blueprint.get("/queues/live")
def live() -> str:
    return render_template("_queues.html", **_all())


@blueprint.get("/queues/<name:queue>")
@blueprint.get("/queues/<name:queue>.json", endpoint="one_json")
def one(queue: str) -> Response:
    """What waits in it. Of a message only its name, id, age and size are read, never what it says."""
    return answer("queue.html", data=_inside(queue))


@blueprint.get("/queues/<name:queue>/live")
def one_live(queue: str) -> str:
    return render_template("_queue.html", **_inside(queue))


def _all() -> dict[str, Any]:
    settings = get_settings()
    found = liveness.begin(settings)()
    depths, signs = found.depths.value, found.signs.value
    return {
        "group": frame.group(),
        "queues": liveness.rows(settings, found),
        "unknown_reason": found.broker.reason or None,
        "in_flight": depths and {"intake": depths.intake, "tasks": depths.tasks},
        "beat_seconds": signs and signs.beat_age,
        "workers": found.workers.value,
    }


def _inside(queue: str) -> dict[str, Any]:
    settings = get_settings()
    if queue not in (settings.intake_queue, *broker_queues.task_queues()):
        abort(404, _("There is no queue “%(queue)s”.", queue=queue))
    found = source("broker").ask(lambda: broker_queues.contents(liveness.address_of(settings), queue))
    return {"group": frame.group(), "queue": queue, "of_intake": queue == settings.intake_queue, "contents": found}
