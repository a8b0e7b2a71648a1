"""The forms of a page, with the places of their fields in its text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from html.parser import HTMLParser

#: Attributes of a tag, as :class:`HTMLParser` gives them.
Attributes = list[tuple[str, str | None]]
#: A place in a text: where it begins and ends.
Span = tuple[int, int]
#: Fields that people fill in by writing or choosing one of several.
WRITTEN = ("input", "textarea", "select")
#: Kinds of ``input`` that show nothing of what was typed.
UNWRITTEN = ("hidden", "password", "file", "submit", "button", "image", "reset")


@dataclass(slots=True)
class Tag:
    """A start tag; ``within`` is what stands between it and its end tag, ``end`` where that ends."""

    name: str
    attributes: Attributes
    place: Span
    within: Span = (0, 0)
    end: int = 0
    changed: bool = False

    def get(self, attribute: str) -> str:
        return next((value or "" for name, value in self.attributes if name == attribute), "")

    def has(self, attribute: str) -> bool:
        return any(name == attribute for name, _ in self.attributes)

    def set(self, attribute: str, value: str | None) -> None:
        self.drop(attribute)
        self.attributes.append((attribute, value))
        self.changed = True

    def drop(self, attribute: str) -> None:
        self.attributes = [one for one in self.attributes if one[0] != attribute]
        self.changed = True

    def written(self) -> str:
        attributes = [name if value is None else f'{name}="{escape(value)}"' for name, value in self.attributes]
        return f"<{' '.join([self.name, *attributes])}>"

    @property
    def kind(self) -> str:
        """``text``, ``checkbox``, ``hidden`` …, or the name of the tag."""
        return (self.get("type") or "text").lower() if self.name == "input" else self.name


@dataclass(slots=True)
class Form:
    """A form, the ``details`` around it, its fields, and the options of its selects."""

    tag: Tag
    folded: list[Tag]
    fields: list[Tag] = field(default_factory=list)
    options: list[tuple[Tag, Tag]] = field(default_factory=list)

    def named(self, name: str) -> Iterator[Tag]:
        return (one for one in self.fields if one.get("name") == name)

    def changed(self) -> Iterator[Tag]:
        """The tags that are to be written anew."""
        options = [option for _, option in self.options]
        return (one for one in (*self.folded, *self.fields, *options) if one.changed)


class Page(HTMLParser):
    """The forms of a page of ours: well-formed, with every end tag that is not void."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html, self.forms = html, list[Form]()
        self.main: Tag | None = None
        self._open: list[Tag] = []
        self._select: Tag | None = None
        self._lines = [0]
        for line in html.split("\n"):
            self._lines.append(self._lines[-1] + len(line) + 1)
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: Attributes) -> None:
        begin = self._place()
        found = Tag(tag, attrs, (begin, begin + len(self.get_starttag_text() or "")))
        found.end = found.place[1]
        if tag == "main":
            self.main = found
        elif tag == "form":
            self.forms.append(Form(found, [one for one in self._open if one.name == "details"]))
        elif tag in WRITTEN and self._form is not None:
            self._form.fields.append(found)
        elif tag == "option" and self._form is not None and self._select is not None:
            self._form.options.append((self._select, found))
        if tag == "select":
            self._select = found
        if tag in ("form", "details", "textarea", "select", "option"):
            self._open.append(found)

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open[-1].name != tag:
            return
        found, begin = self._open.pop(), self._place()
        found.within = (found.place[1], begin)
        found.end = begin + len(tag) + 3

    @property
    def _form(self) -> Form | None:
        return self.forms[-1] if any(one.name == "form" for one in self._open) else None

    def _place(self) -> int:
        line, column = self.getpos()
        return self._lines[line - 1] + column
