"""Agents: the list; one with its memories, keywords and settings; reflections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, get_args
from uuid import UUID

from flask import abort, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from engine.reflection import with_progress
from jiyi.protocol.agents import AgentSettings
from jiyi.protocol.base import BY_NAME, BY_NUMBER, BY_TIME, NodeType
from jiyi.protocol.memory import AgentState, KeywordStrength
from jiyi.protocol.reflection import State, Trigger
from jiyi.settings import WEIGHTS, Dedupe, Derive, DeriveKeywords, Mode, get_settings
from models.conversations import traces
from models.db.bounded_reads import from_database
from models.memory import agents as stored_agents
from models.memory import archive, memory_graph
from models.memory.agents import TimelineSpan
from models.memory.reads import MemoryFilter, search
from models.reflection import actions as reflection
from models.reflection.reflections import next_scheduled
from web.accounts.identity import need
from web.admin import inputs
from web.admin.acting import checked, form, perform
from web.admin.frame import MenuPage, parameter, storable, wants_fragment
from web.admin.pages import NO_AGENT, Context, Pages, listed, reads_database
from web.show import in_words

agent_pages = Pages("agents", __name__, MenuPage("agents", lazy_gettext("Agents"), "agents.index"))

AGENTS_PER_PAGE, NODES_PER_PAGE, KEYWORDS_PER_PAGE, TRACES_SHOWN, THOUGHTS_SHOWN = 50, 20, 20, 10, 5
#: Keywords that can be paged to; the weakest were met once each.
MAX_KEYWORDS = 1_000_000
NODE_TYPES: tuple[str, ...] = get_args(NodeType)


@agent_pages.page("/agents", "agents.html", "index")
def agents(connection: Connection, group: str) -> Context:
    states = stored_agents.agent_rows(connection, group, inputs.place(BY_NAME) or "", AGENTS_PER_PAGE + 1)
    rows = listed("agents", states, AGENTS_PER_PAGE, "agent_id")
    return {**rows, "agents": [with_progress(row, get_settings()) for row in rows["agents"]]}


@agent_pages.page(
    "/agents/<name:group>/<name:agent>",
    "agent.html",
    "agent",
    NO_AGENT,
    types=NODE_TYPES,
    drawing=lambda data: Timeline(data["timeline"]["unit"], data["timeline"]["spans"]),
    form=lambda data: settings_fields(data["agent"].settings),
    saved=False,
)
def agent(connection: Connection, group: str, agent: str) -> Context | None:
    memories = _nodes(connection, group, agent)  # first: wrong parameters are named whatever the agent
    state = stored_agents.agent_row(connection, group, agent)
    if state is None:
        return None
    keywords = stored_agents.keywords(connection, group, agent, KEYWORDS_PER_PAGE + 1)
    unit, spans = stored_agents.timeline(connection, group, agent, UNITS)
    gathered, thoughts = state.importance_ele_n, MemoryFilter(agent_id=agent, types=["thought"])
    return {
        **memories,
        "agent": with_progress(state, get_settings()),
        "scheduled_reflection": next_scheduled(connection, (group, agent), gathered, datetime.now(UTC)),
        **_keywords(keywords, 0),
        "traces": traces.traces(connection, group, agent, None, None, None, TRACES_SHOWN),
        "thoughts": search(connection, group, thoughts, None, THOUGHTS_SHOWN),
        "has": stored_agents.belongings(connection, group, agent),
        "timeline": {"unit": unit, "spans": spans},
    }


@agent_pages.page(
    "/agents/<name:group>/<name:agent>/graph",
    "memory_graph.html",
    "graph",
    NO_AGENT,
    most=memory_graph.MOST,
    numbers=lambda data: {memory.node_id: memory.node_count for memory in data["graph"].memories},
)
def graph(connection: Connection, group: str, agent: str) -> Context | None:
    """What joins an agent's memories, drawn and as a table."""
    if stored_agents.agent_row(connection, group, agent) is None:
        return None
    person, turns = parameter("person"), parameter("turns") is not None
    joined = memory_graph.memory_graph(connection, group, agent, person, turns=turns)
    return {"agent": agent, "person": person, "turns": turns, "graph": joined}


@agent_pages.get("/agents/<name:group>/<name:agent>/memories")
def memories(group: str, agent: str) -> str:
    """The list alone, for another type, another time or the next page."""
    storable(group, agent)
    data = reads_database(_nodes)(group, agent)
    return render_template("_agent_memories.html", group=group, agent={"agent_id": agent}, **data)


@agent_pages.get("/agents/<name:group>/<name:agent>/keywords")
def keywords(group: str, agent: str) -> str:
    """The next keywords, weaker ones."""
    storable(group, agent)
    offset, most = inputs.whole("offset", MAX_KEYWORDS) or 0, inputs.whole("most") or 1
    strengths = from_database(
        lambda c: stored_agents.keywords(c, group, agent, KEYWORDS_PER_PAGE + 1, offset=offset)
    )
    data = {"group": group, "agent": {"agent_id": agent}, **_keywords(strengths, offset)}
    return render_template("_keywords.html", strongest=most, **data)


@agent_pages.post("/agents/<name:group>/<name:agent>/settings")
def configure(group: str, agent: str) -> ResponseReturnValue:
    """Set what the form changes. Safe to repeat because it sets, and adds nothing."""
    need("admin")
    changes = settings_changes(_row(group, agent).settings, request.form)
    perform(archive.configure, checked(archive.configure.request, **{"agent_id": agent, **changes}))
    if not wants_fragment():
        return redirect(url_for("agents.agent", group=group, agent=agent), 303)
    row = _row(group, agent)
    data = {"group": group, "agent": row, "form": settings_fields(row.settings)}
    return render_template("_agent_settings.html", saved=True, **data)


def _begun(values: Context) -> str:
    return url_for("reflections.reflection", group=values["group"], reflection_id=values["id"])


REFLECT = "/agents/<name:group>/<name:agent>/reflect"
form(agent_pages, REFLECT, reflection.request_reflection, _begun, scope="admin")


def _keywords(strengths: Sequence[KeywordStrength], offset: int) -> Context:
    following = offset + KEYWORDS_PER_PAGE if len(strengths) > KEYWORDS_PER_PAGE else None
    return {"keywords": strengths[:KEYWORDS_PER_PAGE], "keywords_next": following}


def _row(group: str, agent: str) -> AgentState:
    storable(group, agent)
    state = from_database(lambda connection: stored_agents.agent_row(connection, group, agent))
    if state is None:
        abort(404, str(NO_AGENT) % {"agent": agent, "group": group})
    return state


def _nodes(connection: Connection, group: str, agent: str) -> Context:
    """The agent's memories as the address asks for them, and what it asks for."""
    type_, before = inputs.choice("type", NODE_TYPES), inputs.place(BY_NUMBER)
    begin, end = inputs.moment("from"), inputs.moment("to", end=True)
    times: Context = {"created_after": begin, "created_before": end}
    memory_filter = MemoryFilter(agent_id=agent, types=[type_] if type_ else (), archived="with", **times)
    memory_rows = search(connection, group, memory_filter, before, NODES_PER_PAGE + 1)
    nodes = listed("nodes", memory_rows, NODES_PER_PAGE, "node_count")
    return {"type": type_, "begin": parameter("from"), "end": parameter("to"), **nodes}


#: Setting → its choices; none: a number, or a text. What it is and does is in ``words.toml``.
SETTINGS: dict[str, tuple[str, ...]] = {
    "mode": get_args(Mode),
    **dict.fromkeys((*WEIGHTS, "recency_decay", "importance_trigger_max"), ()),
    "dedupe": get_args(Dedupe),
    **dict.fromkeys(("derive_poignancy", "derive_triple"), get_args(Derive)),
    "derive_keywords": get_args(DeriveKeywords),
    "tz": (),
}


def settings_fields(settings: Mapping[str, Any]) -> list[dict[str, object]]:
    """One row a setting: the agent's own value, and the deployment's, which holds without one."""
    deployment = AgentSettings().over(get_settings())
    return [
        {
            "name": name,
            "choices": choices,
            "title": in_words("setting_titles", name),
            "help": in_words("setting_helps", name),
            "value": settings.get(name, ""),
            "default": getattr(deployment, name),
        }
        for name, choices in SETTINGS.items()
    ]


def settings_changes(settings: Mapping[str, Any], typed: Mapping[str, str]) -> dict[str, str | None]:
    """What the form changes. An empty field gives the setting back to the deployment."""
    texts = {name: typed[name].strip() for name in SETTINGS if name in typed}
    return {name: text or None for name, text in texts.items() if text != _as_text(settings.get(name))}


def _as_text(value: Any) -> str:
    return "" if value is None else str(value)


#: Units from fine to coarse, and the longest time that is drawn in each: some hundred bars at most.
UNITS: tuple[tuple[str, timedelta], ...] = (
    ("hour", timedelta(days=4)),
    ("day", timedelta(days=120)),
    ("week", timedelta(days=800)),
    ("month", timedelta.max),
)
#: Most bars; older memories are only in the list.
MOST_BARS = 150
#: More bars than this are no stops of the tab key: the fields for the days do the same.
MOST_STOPS = 40
#: The drawing's own units.
HEIGHT, BAR, GAP = 90, 10, 3
TYPES = ("event", "thought", "chat")


class Timeline:
    """Bars for every unit from the first memory to the last, empty ones too."""

    def __init__(self, unit: str, spans: Sequence[TimelineSpan]) -> None:
        self.unit = unit
        counted = {row.start: row for row in spans}
        starts = list(_starts(unit, spans[0].start, spans[-1].start)) if spans else []
        self.cut = len(starts) > MOST_BARS
        starts = starts[-MOST_BARS:]
        self.most = max((counted[start].memories for start in starts if start in counted), default=0)
        self.width, self.height = max(len(starts), 1) * (BAR + GAP), HEIGHT
        self.bars = [self._bar(place, start, counted.get(start)) for place, start in enumerate(starts)]
        self.stops = len(self.bars) <= MOST_STOPS

    def __bool__(self) -> bool:
        return bool(self.bars)

    def _bar(self, place: int, start: datetime, row: TimelineSpan | None) -> dict[str, object]:
        segments, y = [], float(HEIGHT)
        for type_ in TYPES if row else ():
            height = getattr(row, type_) / self.most * (HEIGHT - 2) if row else 0.0
            if height:
                y -= height
                segments.append({"type": type_, "y": round(y, 2), "height": round(height, 2)})
        return {
            "x": place * (BAR + GAP),
            "width": BAR,
            "start": start,
            "end": _next(self.unit, start),
            "memories": row.memories if row else 0,
            "segments": segments,
        }


def _starts(unit: str, first: datetime, last: datetime) -> Sequence[datetime]:
    starts = [first]
    while starts[-1] < last and len(starts) < 100_000:
        starts.append(_next(unit, starts[-1]))
    return starts


def _next(unit: str, start: datetime) -> datetime:
    if unit == "month":
        return start.replace(year=start.year + start.month // 12, month=start.month % 12 + 1)
    return start + {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(weeks=1)}[unit]


reflection_pages = Pages(
    "reflections", __name__, MenuPage("agents", lazy_gettext("Reflections"), "reflections.page")
)

REFLECTIONS_PER_PAGE = 30
STATES: tuple[State, ...] = get_args(State)
TRIGGERS: tuple[Trigger, ...] = get_args(Trigger)
NO_REFLECTION = lazy_gettext("There is no reflection %(id)s in the group “%(group)s”.")


@reflection_pages.page(
    "/reflections", "reflections.html", rows="_reflections.html", states=STATES, triggers=TRIGGERS
)
def reflections(connection: Connection, group: str) -> Context:
    agent, place = parameter("agent"), inputs.place(BY_TIME)
    filters: Context = {
        name: inputs.choice(name, of) for name, of in (("state", STATES), ("trigger", TRIGGERS))
    }
    reflections = reflection.reflection_page(
        connection, group, agent_id=agent, before=place, limit=REFLECTIONS_PER_PAGE + 1, **filters
    )
    return {
        "filters": {"agent": agent, **filters},
        "agents": stored_agents.agent_names(connection, group),
        **listed("reflections", reflections, REFLECTIONS_PER_PAGE, "created_at", "reflection_id"),
    }


@reflection_pages.page(
    "/reflections/<name:group>/<uuid:reflection_id>", "reflection.html", "reflection", NO_REFLECTION
)
def one_reflection(connection: Connection, group: str, reflection_id: UUID) -> Context | None:
    reflection_ = reflection.find_reflection(connection, group, reflection_id)
    return None if reflection_ is None else {"reflection": reflection_}
