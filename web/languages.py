"""The languages of the pages: English as written in the code, and those of ``web/translations``."""

from __future__ import annotations

from flask import Flask, request
from flask_babel import Babel

from web.answers import wants_json

#: By their codes in HTTP and HTML, each under its own name.
LANGUAGES = {"en": "English", "zh": "中文"}
COOKIE = "jiyi_language"


def language() -> str:
    """The person's choice, else the browser's, else English. What programs read is always English."""
    if wants_json() or request.path.startswith("/api/"):
        return "en"
    chosen = request.cookies.get(COOKIE, "")
    return chosen if chosen in LANGUAGES else request.accept_languages.best_match(LANGUAGES, "en")


def register(app: Flask) -> None:
    app.config.setdefault("BABEL_DEFAULT_LOCALE", "en")
    app.config.setdefault("BABEL_TRANSLATION_DIRECTORIES", "translations")
    Babel(app, locale_selector=language)
