"""One session of an agent as a conversation: who said what, and what the agent noticed in between, in the order in which it came."""

from __future__ import annotations

from flask_babel import lazy_gettext
from sqlalchemy import Connection

from models.memory.search import FoundMemory, MemoryFilter, search
from web.admin import inputs
from web.admin.memory.memories import blueprint
from web.admin.pages import Context, listed, page

PER_PAGE = 200


class Turn(FoundMemory):
    """A memory of a session, and who it is about: of what was said, who said it."""

    subject: str | None


NO_SESSION = lazy_gettext("The agent “%(agent)s” has no session “%(session)s” in the group “%(group)s”.")


@page(blueprint, "/sessions/<name:group>/<name:agent>/<name:session>", "session.html", name="session", missing=NO_SESSION)
def one(connection: Connection, group: str, agent: str, session: str) -> Context | None:
    wanted = MemoryFilter(agent_id=agent, session_id=session, archived="with")
    before = inputs.whole("before")
    found = search(connection, Turn, group, wanted, before, PER_PAGE + 1)
    if not found and before is None:
        return None
    turns = listed("turns", found, PER_PAGE, "node_count")
    return {"agent_id": agent, "session_id": session, "turns": [_turn(one) for one in reversed(turns["turns"])], "older": turns["next"]}


def _turn(memory: Turn) -> Context:
    """A memory, and who speaks if it is something that was said."""
    return {**memory.model_dump(), "speaker": memory.subject if memory.kind == "session" else None}
