"""The web: the admin's pages for people, the API for programs."""

from __future__ import annotations

from urllib.parse import quote

from flask import Flask
from werkzeug.routing import BaseConverter

from engine import operations
from jiyi.settings import get_settings
from web import admin, answers, api, mem0, preferences, probes, requests, security, show, stream
from web.accounts import api_keys, signin

#: Seconds that a browser keeps a static file; short, because our own stylesheet has no version in its name.
STATIC_SECONDS = 300


class NameConverter(BaseConverter):
    """Any name: slashes, and dots that would mean something, are escaped once more."""

    regex = r"[^/]+"

    def to_url(self, value: object) -> str:
        escaped = str(value).replace("%", "%25").replace("/", "%2F")
        if escaped.startswith(".") or escaped.endswith(".json"):
            escaped = escaped.replace(".", "%2E")
        return quote(escaped, safe="")

    def to_python(self, value: str) -> str:
        return value.replace("%2E", ".").replace("%2F", "/").replace("%25", "%")


def create_app() -> Flask:
    """The WSGI app. Reaches for nothing that could be dead until a page is asked for."""
    operations.install()
    app = Flask(__name__)
    app.config.update(SEND_FILE_MAX_AGE_DEFAULT=STATIC_SECONDS, PROVIDE_AUTOMATIC_OPTIONS=False)
    app.jinja_options = {"trim_blocks": True, "lstrip_blocks": True}
    app.url_map.converters["name"] = NameConverter
    requests.register(app)
    security.guard(app)
    preferences.register(app)
    answers.register(app)
    show.register(app)
    for part in (probes, signin, api_keys, api, mem0, stream, admin):
        part.register(app)
    show.register_macros(app)
    if get_settings().oidc_file:
        from web.accounts import single_sign_on

        single_sign_on.register(app)
    if get_settings().mcp_url:
        from web.accounts import oauth

        oauth.register(app)
    return app
