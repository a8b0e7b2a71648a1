"""What every request and answer passes: own names only, bounded bodies, strict headers."""

from __future__ import annotations

import re
import secrets
from functools import lru_cache

from flask import Flask, Response, abort, request
from werkzeug.middleware.proxy_fix import ProxyFix

from jiyi.errors import SettingsError
from jiyi.protocol import limits
from jiyi.settings import Settings, get_settings

#: Addresses that only this machine reaches.
LOOPBACK = ("127.0.0.1", "localhost", "::1")
OWN_MACHINE = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)
#: A year, for which a browser comes by https only.
HSTS = "max-age=31536000"

HEADERS = {
    # Pico draws its check marks and arrows with data: images.
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self';"
        " frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


def require_login_on_public_bind(settings: Settings, *, somebody_signs_in: bool) -> None:
    """Raises :class:`SettingsError` if others reach the web, but nobody has a password yet."""
    if settings.web_host not in LOOPBACK and not somebody_signs_in:
        raise SettingsError(
            f"JIYI_WEB_HOST: {settings.web_host!r} is not this machine alone, and nobody can sign in yet: add"
            " somebody first with `jiyi people add NAME --role operator`, or use one of"
            f" {', '.join(LOOPBACK)}"
        )


def is_loopback(host: str) -> bool:
    return OWN_MACHINE.fullmatch(host) is not None


def guard(app: Flask) -> None:
    settings = get_settings()
    # Without a secret of its own (tests) sessions end with the process; `workers.web.serve` insists on one.
    app.secret_key = settings.secret_key.get_secret_value() or secrets.token_hex()
    # For callers not identified yet. Signed-in users and the API may send more (``web.accounts.signin``,
    # ``web.api.bodies``).
    app.config["MAX_CONTENT_LENGTH"] = limits.STRANGERS_BYTES
    if settings.web_proxies:
        # Not the Host: a proxy passes on that of the request, or sets its own.
        behind = ProxyFix(app.wsgi_app, x_for=settings.web_proxies, x_proto=settings.web_proxies, x_host=0)
        app.wsgi_app = behind  # type: ignore[method-assign]
    app.before_request(_refuse_foreign_host)
    app.after_request(_add_headers)


@lru_cache(maxsize=8)
def _allowed(names: str) -> re.Pattern[str]:
    alternatives = "|".join(re.escape(name.strip()) for name in names.split(",") if name.strip())
    return re.compile(rf"({alternatives})(:[0-9]{{1,5}})?", re.IGNORECASE)


def _refuse_foreign_host() -> None:
    """Another name means that a foreign site's name was made to point here (DNS rebinding)."""
    names = get_settings().web_hosts
    if not _allowed(names).fullmatch(request.headers.get("Host", "")):
        abort(400, f"This web answers to the names {names.replace(',', ', ')} only (JIYI_WEB_HOSTS).")


def _add_headers(response: Response) -> Response:
    response.headers.update(HEADERS)
    if request.is_secure:
        response.headers["Strict-Transport-Security"] = HSTS
    if request.endpoint != "static":
        response.headers["Cache-Control"] = "no-store"
    return response
