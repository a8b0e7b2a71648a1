"""The admin: what the service is doing and what its agents remember. Read-only for now."""

from __future__ import annotations

from flask import Flask

from web import errors, pages, security, show
from web.urls import NameConverter

#: Seconds that a browser keeps a static file; short, because our own stylesheet has no version in its name.
STATIC_SECONDS = 300


def create_app() -> Flask:
    """The WSGI app. Reaches for nothing that could be dead until a page is asked for."""
    app = Flask(__name__)
    app.config.update(SEND_FILE_MAX_AGE_DEFAULT=STATIC_SECONDS, PROVIDE_AUTOMATIC_OPTIONS=False)
    app.jinja_options = {"trim_blocks": True, "lstrip_blocks": True}
    app.url_map.converters["name"] = NameConverter
    security.guard(app)
    errors.register(app)
    show.register(app)
    app.register_blueprint(pages.blueprint)
    return app
