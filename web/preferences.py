"""What a person chooses about the looks of the pages: language, light or dark. Kept in cookies, so that the
sign-in page has it too; chosen by following a link, so that it needs no script.

The languages are English as written in the code, and those of ``web/translations``.
"""

from __future__ import annotations

from urllib.parse import quote, urlencode

from flask import Flask, Response, redirect, request
from flask_babel import Babel

from web.answers import wants_json

#: By their codes in HTTP and HTML, each under its own name.
LANGUAGES = {"en": "English", "zh": "中文"}
LANGUAGE_COOKIE = "jiyi_language"


def language() -> str:
    """The person's choice, else the browser's, else English. What programs read is always English."""
    if wants_json() or request.path.startswith("/api/"):
        return "en"
    chosen = request.cookies.get(LANGUAGE_COOKIE, "")
    return chosen if chosen in LANGUAGES else request.accept_languages.best_match(LANGUAGES, "en")


#: Whether times are shown in UTC instead of the reader's own zone, which only the browser knows.
ZONE_COOKIE = "jiyi_zone"
#: Cookie → parameter of the link that sets it → what it may be; ``auto`` forgets the choice.
CHOICES = {
    LANGUAGE_COOKIE: ("language", (*LANGUAGES, "auto")),
    "jiyi_theme": ("theme", ("light", "dark", "auto")),
    ZONE_COOKIE: ("zone", ("utc", "local")),
}
#: Seconds that a browser keeps a choice: a year.
KEPT_SECONDS = 365 * 86_400


def theme() -> str | None:
    """``light`` or ``dark``; None: as the system has it."""
    chosen = request.cookies.get("jiyi_theme", "")
    return chosen if chosen in ("light", "dark") else None


def zone() -> str:
    """``utc`` or ``local``."""
    return "utc" if request.cookies.get(ZONE_COOKIE) == "utc" else "local"


def link(**choice: str) -> str:
    """The address of this page that sets a choice and then redirects to the page without it."""
    query = request.args.to_dict(flat=False)
    query.update({name: [value] for name, value in choice.items()})
    return _own(request.path) + "?" + urlencode(query, doseq=True)


def register(app: Flask) -> None:
    app.config.setdefault("BABEL_DEFAULT_LOCALE", "en")
    app.config.setdefault("BABEL_TRANSLATION_DIRECTORIES", "translations")
    Babel(app, locale_selector=language)
    app.before_request(_choose)
    app.context_processor(
        lambda: {
            "language": language(),
            "languages": LANGUAGES,
            "theme": theme(),
            "zone": zone(),
            "preference": link,
        }
    )


def _choose() -> Response | None:
    """A link that sets a choice: keep it, and show the same page without it in the address."""
    names = {name for name, _ in CHOICES.values()} & request.args.keys()
    if request.method != "GET" or request.path.startswith("/api/") or not names:
        return None
    rest = {name: values for name, values in request.args.to_dict(flat=False).items() if name not in names}
    answer = redirect(_own(request.path) + ("?" + urlencode(rest, doseq=True) if rest else ""), 303)
    for cookie, (name, allowed) in CHOICES.items():
        value = request.args.get(name)
        if value == "auto":
            answer.delete_cookie(cookie, samesite="Lax")
        elif value in allowed:
            answer.set_cookie(cookie, value, max_age=KEPT_SECONDS, samesite="Lax", httponly=True)
    assert isinstance(answer, Response)
    return answer


def _own(path: str) -> str:
    """The path as an address of this site: two slashes at its beginning would be another one's."""
    return "/" + quote(path.lstrip("/\\"), safe="/")
