"""Events as they arrive: a list that grows by itself while it is looked at, and each event with what became of it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from flask import Blueprint, Response, abort, render_template
from flask_babel import gettext, lazy_gettext
from sqlalchemy import Connection

from models.memory import agent_reads
from models.memory import events as stored
from web.admin import frame, inputs
from web.admin.frame import Page, asked
from web.answers import answer
from web.sources import from_database

blueprint = Blueprint("events", __name__)
PAGES = (Page("memory", lazy_gettext("Events"), "events.page"),)

PER_PAGE = 50
#: Rows that one look for news brings; when more have arrived, the page says so.
MOST_NEWS = 100
AGENTS_OFFERED = 500


@blueprint.get("/events")
@blueprint.get("/events.json", endpoint="page_json")
def page() -> Response:
    return answer("events.html", data=_data(inputs.whole("before", inputs.MAX_BIGINT), None, PER_PAGE), most_news=MOST_NEWS)


@blueprint.get("/events/rows")
def rows() -> str:
    """The following events, to be put in the place of the button that asked for them; or, with ``after``, the news."""
    after = inputs.whole("after", inputs.MAX_BIGINT, least=0)  # the first position is 1
    before = inputs.whole("before", inputs.MAX_BIGINT)
    data = _data(before, after, PER_PAGE if after is None else MOST_NEWS)
    return render_template("_events.html", news=after is not None, **data)


def _data(before: int | None, after: int | None, limit: int) -> dict[str, Any]:
    group, agent = frame.group(), asked("agent")

    def question(connection: Connection) -> dict[str, Any]:
        found = stored.events(connection, group, agent, before=before, after=after, limit=limit + 1)
        return {
            "agents": agent_reads.names(connection, group, AGENTS_OFFERED),
            "events": found[:limit],
            "next": found[limit - 1].position if len(found) > limit else None,
        }

    return {"group": group, "agent": agent, "before": before, **from_database(question)}


@blueprint.get("/events/<name:group>/<uuid:event_id>")
@blueprint.get("/events/<name:group>/<uuid:event_id>.json", endpoint="event_json")
def event(group: str, event_id: UUID) -> Response:
    def question(connection: Connection) -> dict[str, Any]:
        return {
            "event": stored.event(connection, stored.EventRecord, group, event_id),
            "owed": stored.owed(connection, group, event_id),
            "letters": stored.letters(connection, group, event_id),
        }

    data = from_database(question)
    if data["event"] is None and not data["letters"]:
        abort(404, gettext("There is no event %(id)s in the group “%(group)s”.", id=event_id, group=group))
    return answer("event.html", data={"group": group, "event_id": event_id, **data})
