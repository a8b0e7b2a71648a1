"""What every request and answer passes through while there is no sign-in: loopback only, own pages only."""

from __future__ import annotations

import re

from flask import Flask, Response, abort, request

from jiyi.errors import SettingsError
from jiyi.settings import Settings

LOOPBACK = ("127.0.0.1", "localhost", "::1")

#: Another name in ``Host`` means that a foreign site's name was made to point here (DNS rebinding).
OWN_HOST = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)

HEADERS = {
    # Pico draws its check marks and arrows with data: images.
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


def refuse_foreign_address(settings: Settings) -> None:
    """Raises :class:`SettingsError` unless the admin is to listen on this machine only."""
    if settings.web_host not in LOOPBACK:
        raise SettingsError(
            f"JIYI_WEB_HOST: {settings.web_host!r} is not this machine alone, and the admin has no sign-in yet, so that "
            f"anybody who reaches it could read every memory; use one of {', '.join(LOOPBACK)}"
        )


def guard(app: Flask) -> None:
    app.before_request(_refuse_foreign_host)
    app.after_request(_add_headers)


def _refuse_foreign_host() -> None:
    if not OWN_HOST.fullmatch(request.headers.get("Host", "")):
        abort(400, "This admin answers only to localhost, 127.0.0.1 and [::1].")


def _add_headers(response: Response) -> Response:
    response.headers.update(HEADERS)
    if request.endpoint != "static":
        response.headers["Cache-Control"] = "no-store"
    return response
