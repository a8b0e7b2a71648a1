"""Events as they arrive: a list that grows by itself while it is looked at, and each event with what became of it."""

from __future__ import annotations

from uuid import UUID

from flask import Blueprint, render_template
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from models.memory import events as stored
from models.memory.agents import reads as agent_reads
from web.admin import frame, inputs
from web.admin.frame import Page, asked
from web.admin.pages import page, reads_database, split_page

blueprint = Blueprint("events", __name__)
PAGES = (Page("memory", lazy_gettext("Events"), "events.page"),)

PER_PAGE = 50
#: Rows that one look for news brings; when more have arrived, the page says so.
MOST_NEWS = 100
AGENTS_OFFERED = 500


@page(blueprint, "/events", "events.html", most_news=MOST_NEWS)
def listed(group: str) -> dict[str, object]:
    return _data(group, inputs.whole("before", inputs.MAX_BIGINT), None, PER_PAGE)


@blueprint.get("/events/rows")
def rows() -> str:
    """The following events, to be put in the place of the button that asked for them; or, with ``after``, the news."""
    after = inputs.whole("after", inputs.MAX_BIGINT, least=0)  # the first position is 1
    before = inputs.whole("before", inputs.MAX_BIGINT)
    group = frame.group()
    data = _data(group, before, after, PER_PAGE if after is None else MOST_NEWS)
    return render_template("_events.html", group=group, news=after is not None, **data)


@reads_database
def _data(connection: Connection, group: str, before: int | None, after: int | None, limit: int) -> dict[str, object]:
    agent = asked("agent")
    found = stored.events(connection, group, agent, before=before, after=after, limit=limit + 1)
    events, following = split_page(found, limit, lambda last: last.position)
    agents = agent_reads.names(connection, group, AGENTS_OFFERED)
    return {"agent": agent, "before": before, "agents": agents, "events": events, "next": following}


@page(
    blueprint,
    "/events/<name:group>/<uuid:event_id>",
    "event.html",
    name="event",
    missing=lazy_gettext("There is no event %(id)s in the group “%(group)s”."),
)
@reads_database
def event(connection: Connection, group: str, event_id: UUID) -> dict[str, object] | None:
    found = stored.event(connection, stored.EventRecord, group, event_id)
    owed, letters = stored.owed(connection, group, event_id), stored.letters(connection, group, event_id)
    return {"event_id": event_id, "event": found, "owed": owed, "letters": letters} if found or letters else None
