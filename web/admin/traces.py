"""Traces: what was asked of agents, and what was put before their answers, from the question to what was
remembered of it.
"""

from __future__ import annotations

from uuid import UUID

from flask_babel import gettext, lazy_gettext
from sqlalchemy import Connection

from jiyi.protocol.base import BY_ID, composed
from jiyi.settings import get_settings
from models.conversations import entries, traces
from models.conversations.traces import Injection
from models.db.bounded_reads import SourceReading
from models.memory import reads
from models.memory.agents import agent_names
from models.memory.reads import MemoryFilter
from models.retrieval import records
from web.admin import inputs
from web.admin.acting import perform
from web.admin.frame import MenuPage, parameter
from web.admin.pages import Context, Pages, listed
from web.admin.retrieval import compared, ranking

trace_pages = Pages("traces", __name__, MenuPage("retrieval", lazy_gettext("Traces"), "traces.page"))

PER_PAGE = 30
#: Turns around a question among which it, and its answer, are looked for.
TURNS_READ = 200
NO_TRACE = lazy_gettext("There is no trace %(id)s in the group “%(group)s”, or it is too old to be kept.")


@trace_pages.page("/traces", "traces.html", rows="_traces.html")
def page(connection: Connection, group: str) -> Context:
    agent, user, session = parameter("agent"), parameter("user"), parameter("session")
    of_whom = (agent, user and composed(user), session)
    rows = traces.traces(connection, group, *of_whom, inputs.place(BY_ID), PER_PAGE + 1)
    retention = {"retrievals": get_settings().retrievals_kept, "days": records.KEPT_DAYS}
    filters = {"agent": agent, "user": user, "session": session}
    whose = {"filters": filters, "agents": agent_names(connection, group), "kept": retention}
    return {**whose, **listed("traces", rows, PER_PAGE, "trace_id")}


@trace_pages.page("/traces/<name:group>/<uuid:trace_id>", "trace.html", "trace", NO_TRACE)
def trace(connection: Connection, group: str, trace_id: UUID) -> Context:
    """From the question to what was remembered of it; of a retrieval what it returned."""
    injection = traces.injection(connection, group, trace_id)
    if injection is not None:
        return {"retrieval": None, "injection": injection, **_around(connection, group, injection)}
    return {"retrieval": records.recorded(connection, group, trace_id), "injection": None}


def _around(connection: Connection, group: str, injection: Injection) -> Context:
    """The prompt, the memories in it, the turn, its answer, and what was remembered of the turn."""
    memories = {memory.node_id: memory for memory in reads.nodes_of(connection, group, injection.node_ids)}
    around: Context = {
        "prompt": traces.prompt_of(connection, group, injection),
        "memories": [
            {"node_id": node_id, "memory": memories.get(node_id), **reason}
            for node_id, reason in zip(injection.node_ids, injection.reasons, strict=False)
        ],
        **dict.fromkeys(("turn", "answer")),
        "remembered": [],
    }
    if injection.session_id is None:
        return around
    of_session = MemoryFilter(
        agent_id=injection.agent_id, session_id=injection.session_id, kinds=["session"], archived="with"
    )
    turns = reads.search(connection, group, of_session, None, TURNS_READ)[::-1]
    beginning = injection.query[: traces.COMPARED_CHARS]
    places = [place for place, turn in enumerate(turns) if turn.description.startswith(beginning)]
    if not places:
        return around
    turn, following = turns[places[-1]], turns[places[-1] + 1 :]
    of_turn = {turn.node_id: turn.node_count}
    remembered = entries.remembered_of(connection, (group, injection.agent_id), of_turn)
    return around | {
        "turn": turn,
        "answer": next((each for each in following if each.subject != turn.subject), None),
        "remembered": remembered.get(turn.node_id, []),
    }


@trace_pages.page("/traces/<name:group>/<uuid:trace_id>/again", "asked_again.html", "again", late=True)
def again(trace_id: UUID) -> Context:
    """A past retrieval, asked of what was known then and of what is known now, side by side."""
    retrieval = perform(records.ask_again, id=trace_id)
    titles = {"a": gettext("As known then"), "b": gettext("As known now")}
    sides = {"a": SourceReading(retrieval.then), "b": SourceReading(retrieval.now)}
    lists = {side: ranking(reading, side, {}) for side, reading in sides.items()}
    compared(lists)
    for side, title in titles.items():
        lists[side] |= {"address": {}, "title": title}
    question = {"focal": retrieval.record.queries[0], "agent": retrieval.record.agent_id}
    return {
        "record": retrieval.record,
        "same": retrieval.same,
        "notes": retrieval.notes,
        "found": lists,
        **question,
    }
