"""The admin: a module a page. Each has

- ``blueprint``: a Flask blueprint, named as the module;
- ``PAGES``: its entries in the navigation (:class:`web.admin.frame.Page`), most have one, in the order of ``MODULES``.

A route finds its group with ``frame.group()``, and whatever it asks the database is already bound to it; it answers with
``web.answers.answer``, which gives its JSON form, too. Who may not what ``PAGES[0].scope`` says is refused before a route
begins; what needs more, a change above all, begins with ``need(…)``.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from flask import Flask

from web.admin import frame

#: In the order of the navigation.
MODULES = (
    "overview",
    "memories",
    "playground",
    "agents",
    "reflections",
    "archive",
    "events",
    "tiers",
    "quarantine",
    "working",
    "knowledge",
    "promotion",
    "digests",
    "recall",
    "queues",
    "work",
    "letters",
    "schedules",
    "keys",
    "people",
    "erasure",
    "audit",
    "account",
)


def register(app: Flask) -> None:
    modules = load()
    frame.register(app, modules)
    for module in modules:
        app.register_blueprint(module.blueprint)


def load() -> list[ModuleType]:
    return [import_module(f"{__name__}.{name}") for name in MODULES]
