"""Events as they arrive: a list that grows by itself while it is looked at, and each event with what became of it."""

from __future__ import annotations

from uuid import UUID

from flask import Blueprint, render_template
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from models.memory import agents
from models.memory import events as stored
from web.admin import frame, inputs
from web.admin.frame import Page, asked
from web.admin.pages import Context, listed, page, reads_database

blueprint = Blueprint("events", __name__)
PAGES = (Page("memory", lazy_gettext("Events"), "events.page"),)

PER_PAGE = 50
#: Rows that one look for news brings; when more have arrived, the page says so.
MOST_NEWS = 100
NONE = lazy_gettext("There is no event %(id)s in the group “%(group)s”.")


@page(blueprint, "/events", "events.html", most_news=MOST_NEWS)
def some(group: str) -> Context:
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
def _data(connection: Connection, group: str, before: int | None, after: int | None, limit: int) -> Context:
    agent = asked("agent")
    events = stored.events(connection, group, agent, before=before, after=after, limit=limit + 1)
    return {"agent": agent, "agents": agents.agent_names(connection, group), **listed("events", events, limit, "position")}


@page(blueprint, "/events/<name:group>/<uuid:event_id>", "event.html", name="event", missing=NONE)
def event(connection: Connection, group: str, event_id: UUID) -> Context | None:
    became = stored.became(connection, group, event_id)
    return {"event_id": event_id, **became._asdict()} if became.event or became.letters else None
