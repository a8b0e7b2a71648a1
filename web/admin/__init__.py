"""The admin: a module a subject. Each has :class:`web.admin.pages.Pages`: a Flask blueprint for each kind of
page, with its place in the menu.

Their method ``page`` makes the routes of a page, of its JSON form and of the parts that are asked for
again. A route finds its group with ``frame.group()``, and whatever it asks the database is already bound to
it. Who may not what the entry's ``scope`` says is refused before a route begins; what needs more, a change
above all, begins with ``need(…)``.

``web.admin.acting.form`` makes the route of a form that does one action. Whatever form is
refused, ``web.admin.forms`` answers with its page as it was filled in.
"""

from __future__ import annotations

from flask import Flask

from web.admin import (
    accounts,
    agents,
    finder,
    forms,
    frame,
    memory,
    node,
    operations,
    retrieval,
    traces,
    users,
    wiring,
)
from web.admin.pages import Pages

#: In the order of the menu's tabs.
BLUEPRINTS: tuple[Pages, ...] = (
    operations.overview_pages,
    *(memory.memory_pages, retrieval.playground_pages, traces.trace_pages),
    *(users.user_pages, memory.conversation_pages, agents.agent_pages, agents.reflection_pages),
    *(memory.archive_pages, memory.event_pages),
    *wiring.PAGES,
    *(operations.work_pages, operations.letter_pages),
    *(operations.job_pages, operations.llm_pages),
    *(accounts.key_pages, accounts.people_pages, accounts.erasure_pages, accounts.audit_pages),
    *(accounts.account_pages, finder.finder_pages),
)
assert node  # its routes are those of memories


def register(app: Flask) -> None:
    frame.register(app, {pages.name: pages.entries for pages in BLUEPRINTS})
    for blueprint in BLUEPRINTS:
        app.register_blueprint(blueprint)
    forms.register(app, {blueprint.name for blueprint in BLUEPRINTS})
