"""Queues of the broker: how much waits, since when, who reads it, and what is inside."""

from __future__ import annotations

from flask import Blueprint
from flask_babel import lazy_gettext

from jiyi.settings import get_settings
from models.db.bounded_reads import source
from models.operations import overview
from models.queue import broker_queues
from web.admin.frame import Page
from web.admin.pages import Context, page

blueprint = Blueprint("queues", __name__)
PAGES = (Page("running", lazy_gettext("Queues"), "queues.page", "operator", of_service=True),)


@page(blueprint, "/queues", "queues.html", live="_queues.html")
def listed() -> Context:
    settings = get_settings()
    states = overview.begin(settings)()
    return {**vars(overview.state_of_queues(settings, states)), "unknown_reason": states.broker.reason or None}


@page(
    blueprint, "/queues/<name:queue>", "queue.html", name="one", live="_queue.html", missing=lazy_gettext("There is no queue “%(queue)s”.")
)
def inside(queue: str) -> Context | None:
    """What waits in it. Of a message only its name, id, age and size are read, never what it says."""
    settings = get_settings()
    if queue not in (settings.intake_queue, *broker_queues.task_queues()):
        return None
    messages = source("broker").ask(lambda: broker_queues.contents(overview.address_of(settings), queue))
    states = overview.state_of_queues(settings, overview.begin(settings)()).queues
    state = next(candidate for candidate in states if candidate.queue == queue)
    return {"queue": queue, "of_intake": queue == settings.intake_queue, "contents": messages, "state": state}
