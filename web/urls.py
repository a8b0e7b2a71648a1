"""Names of groups and agents as parts of an address."""

from __future__ import annotations

from urllib.parse import quote

from werkzeug.routing import BaseConverter


class NameConverter(BaseConverter):
    """Any name, also one with a slash, dots only, or ``.json`` at its end: those are escaped once more, because
    servers and browsers undo the first escaping before they look at the path.
    """

    regex = r"[^/]+"

    def to_url(self, value: str) -> str:
        escaped = value.replace("%", "%25").replace("/", "%2F")
        if escaped.startswith(".") or escaped.endswith(".json"):
            escaped = escaped.replace(".", "%2E")
        return quote(escaped, safe="")

    def to_python(self, value: str) -> str:
        return value.replace("%2E", ".").replace("%2F", "/").replace("%25", "%")
