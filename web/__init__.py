"""The web: the admin's pages for people, the API for programs."""

from __future__ import annotations

from importlib import import_module

from flask import Flask

from jiyi.operations import log_redaction
from web import admin, errors, languages, preferences, security, show
from web.operations import probes
from web.urls import NameConverter

#: Seconds that a browser keeps a static file; short, because our own stylesheet has no version in its name.
STATIC_SECONDS = 300


def create_app() -> Flask:
    """The WSGI app. Reaches for nothing that could be dead until a page is asked for."""
    log_redaction.install()
    app = Flask(__name__)
    app.config.update(SEND_FILE_MAX_AGE_DEFAULT=STATIC_SECONDS, PROVIDE_AUTOMATIC_OPTIONS=False)
    app.jinja_options = {"trim_blocks": True, "lstrip_blocks": True}
    app.url_map.converters["name"] = NameConverter
    languages.register(app)
    security.guard(app)
    preferences.register(app)
    errors.register(app)
    show.register(app)
    app.register_blueprint(probes.blueprint)
    for name in ("web.accounts.signin", "web.accounts.rate_limits", "web.api", "web.stream.routes", "web.operations.metrics"):
        import_module(name).register(app)
    admin.register(app)
    return app
