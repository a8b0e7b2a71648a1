"""Conversations: what agents remember of them, kind by kind, their users' profiles, what was superseded, what was injected and why."""

from __future__ import annotations

from flask import Blueprint
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from jiyi.protocol.conversations import KINDS
from models.conversations import entries, profiles, reads
from models.memory import agent_reads
from web.admin import inputs
from web.admin.frame import Page, asked
from web.admin.pages import NO_AGENT, Context, listed, page

blueprint = Blueprint("conversations", __name__)
PAGES = (Page("memory", lazy_gettext("Conversations"), "conversations.index"),)

AGENTS_PER_PAGE, INJECTIONS_PER_PAGE = 50, 20
#: Memories of each kind that the page of an agent shows, the newest; and changes.
SHOWN, CHANGES_SHOWN = 20, 20
#: Characters of a line.
LINE_CHARS = 300


@page(blueprint, "/conversations", "conversations.html", name="index")
def index(connection: Connection, group: str) -> Context:
    after = asked("after") or ""
    agents = reads.agents(connection, group, after, AGENTS_PER_PAGE + 1)
    return {"after": after or None, **listed("agents", agents, AGENTS_PER_PAGE, "agent_id")}


@page(blueprint, "/conversations/<name:group>/<name:agent>", "conversation.html", name="agent", missing=NO_AGENT, chars=LINE_CHARS)
def one(connection: Connection, group: str, agent: str) -> Context | None:
    name = (group, agent)
    before = inputs.identifier("before")
    if agent_reads.agent(connection, group, agent) is None:
        return None
    injections = reads.injections(connection, name, before, INJECTIONS_PER_PAGE + 1)
    injected = entries.memories(connection, group, list({node_id for row in injections[:INJECTIONS_PER_PAGE] for node_id in row.node_ids}))
    return {
        "agent_id": agent,
        "kinds": {kind: reads.remembered(connection, name, kind, SHOWN) for kind in KINDS},
        "profile": profiles.find(connection, name),
        "changes": reads.superseded(connection, name, CHANGES_SHOWN),
        "injected": {str(entry.id): entry for entry in injected},
        **listed("injections", injections, INJECTIONS_PER_PAGE, "injection_id"),
    }
