"""Characters that change the direction of what follows are shown for what they are: in a name they make one thing look like another.

U+202E lets ``Maria<U+202E>nimda`` read as ``Mariaadmin``. Texts in Hebrew, Arabic and the like need none of these; elements with
``dir="auto"`` keep their direction to themselves.
"""

from __future__ import annotations

import re

from flask import Flask, Response

#: Embeddings, overrides and isolates, with their ends.
CONTROLS = "\u202a-\u202e\u2066-\u2069"
#: As bytes of UTF-8 that all of them begin with: most pages have none, and are not looked at closer.
_MAY_HAVE = (b"\xe2\x80", b"\xe2\x81")
_CONTROL = re.compile(f"[{CONTROLS}]")
#: What stands between tags. Attributes (values of forms, addresses) and text fields stay as they are: they are sent back.
_SHOWN = re.compile(r"<textarea\b.*?</textarea>|(?<=>)[^<]+(?=<)", re.DOTALL)


def register(app: Flask) -> None:
    app.after_request(_show_controls)


def shown(html: str) -> str:
    r"""The page with such characters as ``\u202e`` wherever they would be seen."""
    return _SHOWN.sub(lambda found: found[0] if found[0].startswith("<") else _CONTROL.sub(_escaped, found[0]), html)


def _escaped(control: re.Match[str]) -> str:
    return f"\\u{ord(control[0]):04x}"


def _show_controls(response: Response) -> Response:
    if response.mimetype == "text/html" and not response.is_streamed:
        data = response.get_data()
        if any(prefix in data for prefix in _MAY_HAVE):
            page = data.decode()
            if _CONTROL.search(page):
                response.set_data(shown(page))
    return response
