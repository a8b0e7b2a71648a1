"""The web: the admin's pages for people, the API for programs."""

from __future__ import annotations

from flask import Flask

from engine import operations
from web import admin, api, bidi, errors, languages, preferences, security, show
from web.accounts import rate_limits, signin
from web.operations import metrics, probes
from web.stream import routes
from web.urls import NameConverter

#: Seconds that a browser keeps a static file; short, because our own stylesheet has no version in its name.
STATIC_SECONDS = 300


def create_app() -> Flask:
    """The WSGI app. Reaches for nothing that could be dead until a page is asked for."""
    operations.install()
    app = Flask(__name__)
    app.config.update(SEND_FILE_MAX_AGE_DEFAULT=STATIC_SECONDS, PROVIDE_AUTOMATIC_OPTIONS=False)
    app.jinja_options = {"trim_blocks": True, "lstrip_blocks": True}
    app.url_map.converters["name"] = NameConverter
    languages.register(app)
    security.guard(app)
    preferences.register(app)
    errors.register(app)
    show.register(app)
    bidi.register(app)
    app.register_blueprint(probes.blueprint)
    for part in (signin, rate_limits, api, routes, metrics):
        part.register(app)
    admin.register(app)
    return app
