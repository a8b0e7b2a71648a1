"""Memories of a group: search, sessions, export; events; the archive; conversations."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, get_args
from uuid import UUID

from flask import Response, abort, render_template, request, stream_with_context, url_for
from flask_babel import gettext as _
from flask_babel import lazy_gettext
from pydantic import BaseModel
from pydantic_core import to_json
from sqlalchemy import Connection

from engine.text import keywords
from jiyi.protocol.base import BY_NAME, BY_NUMBER, BY_POSITION, BY_TIME, NodeType, OfAgents, composed
from jiyi.protocol.conversations import KINDS
from jiyi.protocol.memory import MAX_RESTORED, ExportQuery, Memory
from jiyi.protocol.origins import ORIGINS
from jiyi.protocol.recall import Archived
from models.conversations import actions, entries, experiences, traces, users
from models.conversations.injections import find_profile
from models.db.actions import Action
from models.db.bounded_reads import attempt, from_database
from models.memory import agents as stored_agents
from models.memory import events as stored_events
from models.memory import questions
from models.memory import reads as memory_reads
from models.memory.archive import add_memory, list_mistakes, restore
from models.memory.reads import MAX_WORDS_CHARS, MemoryFilter, search
from web.accounts.identity import need
from web.admin import frame, inputs
from web.admin.acting import form, ids_of, perform
from web.admin.frame import MenuPage, parameter
from web.admin.pages import NO_AGENT, Context, Pages, listed, reads_database
from web.answers import answer

memory_pages = Pages("memories", __name__, MenuPage("memories", lazy_gettext("Memories"), "memories.index"))
memory_pages.add_app_template_filter(keywords.pieces, "pieces")

MEMORIES_PER_PAGE = 30
NODE_TYPES: tuple[str, ...] = get_args(NodeType)
ALL_KINDS: tuple[str, ...] = ("memory", *KINDS)
ARCHIVED: tuple[str, ...] = get_args(Archived)
FILTERS = (
    "q agent type kind origin session user from to importance keyword archived superseded vector"
).split()


@memory_pages.get("/memories")
@memory_pages.get("/memories.json", endpoint="index_json")
def index() -> Response:
    group, gathered = frame.group(), _matches()
    names = attempt(lambda: from_database(lambda connection: stored_agents.agent_names(connection, group)))
    choices = {"types": NODE_TYPES, "kinds": ALL_KINDS, "origins": ORIGINS}
    data = {"group": group, "agents": names.value or [], **choices, **gathered}
    status = 200 if gathered["nodes"] is not None else 503
    return answer("memories.html", status, data=data, archived_choices=ARCHIVED)


@memory_pages.get("/memories/rows")
def rows() -> str:
    """The following memories, to be put in the place of the button that asked for them."""
    return render_template("_memories.html", group=frame.group(), **_matches())


@memory_pages.get("/memories/kinds")
def kinds() -> str:
    """The number of matches of each kind, and of those superseded that are left out; returned after the page,
    since all are counted.
    """
    group, memory_filter = frame.group(), _memory_filter()
    whole = replace(memory_filter, superseded=True)

    def counted(connection: Connection) -> tuple[dict[str, int], int]:
        by_kind = memory_reads.kind_counts(connection, group, memory_filter)
        if memory_filter.superseded:
            return by_kind, 0
        every = memory_reads.kind_counts(connection, group, whole)
        return by_kind, sum(every.values()) - sum(by_kind.values())

    counts = attempt(lambda: from_database(counted))
    by_kind, hidden = counts.value or (None, 0)
    result = {"counts": by_kind, "hidden": hidden, "why_unknown": counts.reason}
    return render_template("_kinds.html", group=group, filters=_filters(), **result)


def _added(values: Context) -> str:
    return url_for("memories.node", group=frame.group(), node_id=values["id"])


#: Sent again it adds another one, unless the agent remembers each content once.
form(memory_pages, "/memories/add", add_memory, _added)


def _matches() -> Context:
    """One page of the search, which may take too long."""
    group, memory_filter = frame.group(), _memory_filter()
    before = inputs.place(BY_TIME) if memory_filter.agent_id is None else inputs.place(BY_NUMBER)
    reading = attempt(
        lambda: from_database(lambda c: search(c, group, memory_filter, before, MEMORIES_PER_PAGE + 1))
    )
    place = ("created_at", "node_id") if memory_filter.agent_id is None else ("node_count",)
    page: Context = {"nodes": None, "cursor": None, "next": None}
    if reading.value is not None:
        page = listed("nodes", reading.value, MEMORIES_PER_PAGE, *place)
    return {**page, "why_unknown": reading.reason or None, "filters": _filters()}


def _filters() -> Context:
    """As an address has them."""
    several = {"type": inputs.choices("type", NODE_TYPES), "kind": inputs.choices("kind", ALL_KINDS)}
    return {**inputs.parameters(FILTERS), **{name: values for name, values in several.items() if values}}


def _memory_filter() -> MemoryFilter:
    archived = inputs.choice("archived", ARCHIVED)
    return MemoryFilter(
        words=parameter("q", MAX_WORDS_CHARS) or "",
        agent_id=parameter("agent"),
        types=inputs.choices("type", NODE_TYPES),
        kinds=inputs.choices("kind", ALL_KINDS),
        origins=[origin] if (origin := inputs.choice("origin", ORIGINS)) else (),
        session_id=parameter("session"),
        from_user=None if (user := parameter("user")) is None else composed(user),
        created_after=inputs.moment("from"),
        created_before=inputs.moment("to", end=True),
        importance=inputs.decimal("importance", 0, 10),
        keywords=[keyword] if (keyword := parameter("keyword")) else (),
        archived=archived if archived in ("with", "only") else "without",  # type: ignore[arg-type]
        superseded=parameter("superseded") is not None,
        without_vector=inputs.choice("vector", ("without",)) is not None,
    )


#: Memories chosen on one page.
MAX_CHOSEN = 200
#: Events of one transaction of an export.
EXPORTED_AT_ONCE = 200


@memory_pages.get("/memories/export.jsonl")
def export() -> Response:
    """The events of the group, an agent or a user, one a line, as ``jiyi import jsonl`` takes them back."""
    return _file(questions.export, partial(ExportQuery, user_id=parameter("user")), "jiyi")


@memory_pages.post("/memories/chosen.jsonl")
def export_chosen() -> Response:
    """The same of the memories that were chosen; who may choose may export them."""
    need("admin")
    return _file(questions.export, partial(ExportQuery, node_ids=chosen_ids()), "jiyi")


def chosen_ids() -> list[UUID]:
    """The memories of a form; 400 for none, and for too many."""
    return ids_of(request.form.getlist("node_id"), "node_id", MAX_CHOSEN) or abort(
        400, _("Choose at least one memory.")
    )


def _file(action: Action[Any, Any], query: Callable[..., BaseModel], name: str) -> Response:
    """All pages of a list as a file, of the agent that the address names or of all."""
    agent = parameter("agent")

    def gathered(cursor: str | None) -> Any:
        return perform(action, query(agent_id=agent, cursor=cursor, limit=EXPORTED_AT_ONCE))

    of = re.sub(r"[^A-Za-z0-9]", "-", parameter("user") or agent or frame.group())[:80]
    headers = {"Content-Disposition": f'attachment; filename="{name}-{of}.jsonl"'}
    # What is wrong is said before the file begins.
    lines = stream_with_context(_lines(gathered, gathered(None)))
    return Response(lines, mimetype="application/x-ndjson", headers=headers)


def _lines(gathered: Callable[[str | None], Any], page: Any) -> Iterator[str]:
    while True:
        for row in page.rows:
            yield to_json(row, by_alias=False).decode() + "\n"
        if page.next is None:
            return
        page = gathered(page.next)


TURNS_PER_PAGE = 200


NO_SESSION = lazy_gettext("The agent “%(agent)s” has no session “%(session)s” in the group “%(group)s”.")


@memory_pages.page(
    "/sessions/<name:group>/<name:agent>/<name:session>", "session.html", "session", NO_SESSION
)
def session_page(connection: Connection, group: str, agent: str, session: str) -> Context | None:
    memory_filter = MemoryFilter(agent_id=agent, session_id=session, archived="with")
    before = inputs.place(BY_NUMBER)
    nodes = search(connection, group, memory_filter, before, TURNS_PER_PAGE + 1)
    if not nodes and before is None:
        return None
    page = listed("turns", nodes, TURNS_PER_PAGE, "node_count")
    numbers = {node.node_id: node.node_count for node in nodes if node.kind == "session"}
    judged = entries.judgements(connection, group, numbers)
    remembered = entries.remembered_of(connection, (group, agent), numbers)
    texts = {node.node_id: node.description for node in nodes}
    before_answers = traces.injections_for(connection, (group, agent), session, texts)
    turns = [
        {**_turn(turn, judged, remembered), "trace": before_answers.get(turn.node_id)}
        for turn in reversed(page["turns"])
    ]
    where = {"agent_id": agent, "session_id": session, "older": page["next"], "cursor": page["cursor"]}
    return {**where, "turns": turns}


def _turn(memory: Memory, judged: Mapping[UUID, bool], remembered: Mapping[UUID, list[Memory]]) -> Context:
    """A memory, who speaks, what was remembered of it, and whether somebody judged it worth that."""
    speaker = memory.subject if memory.kind == "session" else None
    of_it = [fact.model_dump(exclude={"filling"}) for fact in remembered.get(memory.node_id, ())]
    details = {"speaker": speaker, "judged": judged.get(memory.node_id), "remembered": of_it}
    return {**memory.model_dump(), **details}


def _turn_address(values: Context) -> str:
    """The same page of the session, at the turn that was judged."""
    place = {name: values.get(name) or None for name in ("group", "agent", "session", "cursor")}
    return url_for("memories.session", **place, _anchor=f"t{values['node_id']}")


JUDGE = "/sessions/<name:group>/<name:agent>/<name:session>/<uuid:node_id>/judge"
form(memory_pages, JUDGE, actions.judge_turn, _turn_address)


@memory_pages.get("/judged.jsonl")
def judged() -> Response:
    """The turns that were judged, as ``facts_<writer>.jsonl`` to train on."""
    return _file(actions.judged_turns, OfAgents, "facts")


@memory_pages.get("/mistakes.jsonl")
def mistakes() -> Response:
    """The supersessions that were mistakes, as ``changes_<writer>.jsonl`` to train on."""
    return _file(list_mistakes, OfAgents, "changes")


event_pages = Pages("events", __name__, MenuPage("memories", lazy_gettext("Events"), "events.page"))

EVENTS_PER_PAGE = 50
#: Most rows that one request for new events returns; when more have arrived, the page says so.
MAX_ARRIVALS = 100
NO_EVENT = lazy_gettext("There is no event %(id)s in the group “%(group)s”.")


@event_pages.page("/events", "events.html", max_arrivals=MAX_ARRIVALS)
def events_page(group: str) -> Context:
    return _events(group, inputs.place(BY_POSITION), None, EVENTS_PER_PAGE)


@event_pages.get("/events/rows", endpoint="rows")
def event_rows() -> str:
    """The following events; or, with ``after``, those that have arrived since."""
    after = inputs.whole("after", inputs.MAX_BIGINT, least=0)  # the first position is 1
    before = inputs.place(BY_POSITION)
    group = frame.group()
    data = _events(group, before, after, EVENTS_PER_PAGE if after is None else MAX_ARRIVALS)
    return render_template("_events.html", group=group, arrived=after is not None, **data)


@reads_database
def _events(connection: Connection, group: str, before: int | None, after: int | None, limit: int) -> Context:
    agent, agents = parameter("agent"), stored_agents.agent_names(connection, group)
    events = stored_events.events(connection, group, agent, before=before, after=after, limit=limit + 1)
    return {"agent": agent, "agents": agents, **listed("events", events, limit, "position")}


@event_pages.page("/events/<name:group>/<uuid:event_id>", "event.html", "event", NO_EVENT)
def event_page(connection: Connection, group: str, event_id: UUID) -> Context | None:
    became = stored_events.became(connection, group, event_id)
    return {"event_id": event_id, **became._asdict()} if became.event or became.letters else None


archive_pages = Pages("archive", __name__, MenuPage("memories", lazy_gettext("Archive"), "archive.page"))

ARCHIVED_PER_PAGE = 50
AGENTS_COUNTED = 100
WHY_ARCHIVED = ("faded", "expired", "chosen")


@archive_pages.page("/archive", "archive.html", rows="_archive.html", why=WHY_ARCHIVED, most=MAX_RESTORED)
def archive(connection: Connection, group: str) -> Context:
    agent, reason = parameter("agent"), inputs.choice("reason", WHY_ARCHIVED)
    place: Context = {"before": inputs.place(BY_TIME), "limit": ARCHIVED_PER_PAGE + 1}
    archived = memory_reads.archived(connection, group, agent_id=agent, reason=reason, **place)
    counts = memory_reads.archived_counts(connection, group, AGENTS_COUNTED)
    nodes = listed("nodes", archived, ARCHIVED_PER_PAGE, "archived_at", "node_id")
    return {"agent": agent, "reason": reason, "counts": counts, **nodes}


def _restored(values: Context) -> str:
    back = values.get("back") or None
    return url_for("archive.page", group=frame.group(), agent=back, restored=values["count"])


form(archive_pages, "/archive/<name:group>/restore", restore, _restored, names={"ids": "node_id"})


conversation_pages = Pages(
    "conversations", __name__, MenuPage("users", lazy_gettext("Conversations"), "conversations.index")
)

AGENTS_PER_PAGE = 50
#: Memories of each kind that the page of an agent shows, the newest; changes; and users to choose from.
SHOWN, CHANGES_SHOWN, USERS_SHOWN = 20, 20, 50
#: Characters of a line.
LINE_CHARS = 300


@conversation_pages.page("/conversations", "conversations.html", "index")
def conversations(connection: Connection, group: str) -> Context:
    agents = entries.agents(connection, group, inputs.place(BY_NAME) or "", AGENTS_PER_PAGE + 1)
    return listed("agents", agents, AGENTS_PER_PAGE, "agent_id")


@conversation_pages.page(
    "/conversations/<name:group>/<name:agent>", "conversation.html", "agent", NO_AGENT, chars=LINE_CHARS
)
def conversation(connection: Connection, group: str, agent: str) -> Context | None:
    """What an agent remembers of its conversations, of all users or of one."""
    name = (group, agent)
    if stored_agents.agent_row(connection, group, agent) is None:
        return None
    user = None if (typed := parameter("user")) is None else composed(typed)
    kinds = {kind: entries.remembered(connection, name, kind, user, SHOWN) for kind in KINDS}
    experience_rows = experiences.shown(connection, group, [row.node_id for row in kinds["experience"]])
    return {
        "agent_id": agent,
        "user": user,
        "users": users.users_of(connection, name, USERS_SHOWN),
        "kinds": kinds,
        "experiences": {str(row.id): row for row in experience_rows},
        "profile": find_profile(connection, name, user),
        "changes": entries.superseded(connection, name, user, CHANGES_SHOWN),
    }
