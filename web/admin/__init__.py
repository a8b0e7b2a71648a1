"""The admin: a module a page. Each has

- ``blueprint``: a Flask blueprint, named as the module;
- ``PAGES``: its entries in the navigation (:class:`web.admin.frame.Page`), most have one, in the order of ``MODULES``.

``web.admin.pages.page`` makes the routes of a page, of its JSON form and of the parts that are asked for again. A route finds its
group with ``frame.group()``, and whatever it asks the database is already bound to it. Who may not what ``PAGES[0].scope`` says
is refused before a route begins; what needs more, a change above all, begins with ``need(…)``.

``web.admin.acting.action_form_route`` makes the route of a form that does one action. Whatever form is refused, ``web.admin.forms``
answers with its page as it was filled in.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from flask import Flask

from engine import subjects
from web.admin import conversations, erasure, forms, frame, reflection
from web.admin.accounts import account, audit, keys, people
from web.admin.memory import agents, archive, events, memories, node
from web.admin.operations import dead_letters, llm_use, overview, pending_work, queues, schedules
from web.admin.retrieval import playground, retrievals

#: In the order of the navigation.
MODULES: tuple[ModuleType, ...] = (
    overview,
    *(memories, playground, retrievals, agents, conversations, reflection, archive, events),
    *(import_module(module) for subject in subjects.on() for module in subject.admin),
    *(queues, pending_work, dead_letters, schedules, llm_use),
    *(keys, people, erasure, audit, account),
)


assert node  # its routes are those of memories


def register(app: Flask) -> None:
    frame.register(app, MODULES)
    for module in MODULES:
        app.register_blueprint(module.blueprint)
    forms.register(app, {module.blueprint.name for module in MODULES})
