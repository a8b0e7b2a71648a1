"""What a browser sees in a page, as opposed to its text, in which other tests' texts may stand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"input", "link", "meta", "br", "hr", "img", "source", "wbr"}


@dataclass
class Tag:
    """An element with what is in it."""

    name: str
    attributes: dict[str, str | None]
    inside: list[Tag] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def get(self, attribute: str) -> str:
        return self.attributes.get(attribute) or ""

    def has(self, attribute: str) -> bool:
        return attribute in self.attributes

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def all(self, *names: str) -> Iterator[Tag]:
        """Those inside with one of these names (all if there are none), in the order of the page."""
        for tag in self.inside:
            if not names or tag.name in names:
                yield tag
            yield from tag.all(*names)

    def named(self, name: str) -> Tag:
        """The field of a form with this name."""
        return next(tag for tag in self.all("input", "textarea", "select") if tag.get("name") == name)


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open = [Tag("page", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].inside.append(element := Tag(tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        if any(element.name == tag for element in self.open):
            while self.open.pop().name != tag:
                pass

    def handle_data(self, data: str) -> None:
        self.open[-1].texts.append(data)


def parsed(html: str) -> Tag:
    """A page as a tree."""
    page = _Page()
    page.feed(html)
    return page.open[0]


def form(html: str, action: str) -> Tag:
    """The form of a page that is sent to an address with ``action`` in it."""
    return next(
        tag for tag in parsed(html).all("form") if tag.get("method") == "post" and action in tag.get("action")
    )


def attributes(html: str) -> set[str]:
    """The names of all attributes, as a browser reads them."""
    return {name for tag in parsed(html).all() for name in tag.attributes}


def code_in_attributes(html: str) -> set[str]:
    """Attributes that run code or style: no page of ours has any."""
    return {name for name in attributes(html) if name == "style" or name.startswith("on")}
