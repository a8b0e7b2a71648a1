"""What a browser sees in a page, as opposed to its text, in which other tests' texts may stand."""

from __future__ import annotations

from html.parser import HTMLParser


class _Attributes(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.update(name for name, _ in attrs)


def attributes(html: str) -> set[str]:
    """The names of all attributes, as a browser reads them."""
    parser = _Attributes()
    parser.feed(html)
    return parser.names


def code_in_attributes(html: str) -> set[str]:
    """Attributes that run code or style: no page of ours has any."""
    return {name for name in attributes(html) if name == "style" or name.startswith("on")}
