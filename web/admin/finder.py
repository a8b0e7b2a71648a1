"""Search from any page: pages of the menu, agents, users, memories and events by what is typed."""

from __future__ import annotations

from uuid import UUID

from flask import render_template
from sqlalchemy import Connection

from models.conversations import users
from models.db.bounded_reads import attempt
from models.memory import agents as stored_agents
from models.memory import events as stored_events
from models.memory import reads as memory_reads
from models.memory.reads import MAX_WORDS_CHARS, MemoryFilter
from web.admin import frame
from web.admin.pages import Context, Pages, reads_database

finder_pages = Pages("finder", __name__)

#: Of each kind; more are on the page of the kind.
SHOWN = 6


@finder_pages.get("/find")
def find() -> str:
    """What fits, as a part of a page."""
    words = (frame.parameter("q", MAX_WORDS_CHARS) or "").strip()
    reading = attempt(lambda: _matches(frame.group(), words)) if words else None
    return render_template(
        "_found.html",
        group=frame.group(),
        words=words,
        pages=_pages(words),
        matches=reading and reading.value,
        why_unknown=reading and reading.reason,
    )


def _pages(words: str) -> list[frame.MenuPage]:
    """Pages whose title, of the menu or of the tab, contains the words; all if nothing is typed."""
    text = words.casefold()
    sections, unused = frame.menu(frame.group())
    return [
        page
        for entry in [*(entry for _, entries in sections for entry in entries), *unused]
        for page in entry.pages
        if text in f"{entry.title} {page.title} {page.endpoint}".casefold()
    ]


@reads_database
def _matches(connection: Connection, group: str, words: str) -> Context:
    try:
        typed_id = UUID(words)
    except ValueError:
        memories = memory_reads.search(connection, group, MemoryFilter(words=words), None, SHOWN)
        return {
            "agents": stored_agents.agent_names(connection, group, SHOWN, words),
            "users": [row.user_id for row in users.users(connection, group, words, "", SHOWN)],
            "memories": memories,
            "event": None,
        }
    memory = memory_reads.node(connection, group, typed_id)
    became = stored_events.became(connection, group, typed_id)
    return {
        "agents": [],
        "users": [],
        "memories": [memory] if memory else [],
        "event": typed_id if became.event or became.letters else None,
    }
