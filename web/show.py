"""How values look in the templates, and characters that change the direction of what follows.

Such characters are shown for what they are: in a name they make one thing look like another. U+202E lets
``Maria<U+202E>nimda`` read as ``Mariaadmin``. Texts in Hebrew, Arabic and the like need none of these;
elements with ``dir="auto"`` keep their direction to themselves.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from flask import Flask, Response
from flask_babel import gettext
from flask_babel import gettext as _
from jinja2.runtime import Macro

from jiyi.protocol.wire.bounds import MESSAGE
from jiyi.text import translatable
from jiyi.text.translatable import Translatable
from jiyi.text.words import CJK


def translated(text: str) -> str:
    """What the service says in English in the page's language, if it says it for people."""
    if not isinstance(text, Translatable):
        return text
    values = {
        name: translated(value) if isinstance(value, str) else value for name, value in text.values.items()
    }
    return str(_(text.pattern, **values))


def age(seconds: float | None) -> str:
    return translated(translatable.age(seconds))


def ago(then: datetime | None) -> str:
    return "–" if then is None else _("%(age)s ago", age=age(seconds_since(then)))


def since(then: datetime) -> str:
    return age(seconds_since(then))


def until(then: datetime) -> str:
    seconds = (then - datetime.now(UTC)).total_seconds()
    return str(_("in %(age)s", age=age(seconds)) if seconds > 0 else _("due"))


def duration(seconds: float | None) -> str:
    """Short times too: ``4 ms``, ``1.2 s``, ``5 min``."""
    if seconds is None:
        return "–"
    if seconds < 1:
        return str(_("%(count)s ms", count=number(round(seconds * 1_000))))
    return str(_("%(count)s s", count=number(round(seconds, 1)))) if seconds < 60 else age(seconds)


def seconds_since(then: datetime) -> float:
    return max(0.0, (datetime.now(UTC) - then).total_seconds())


def moment(then: datetime | None) -> str:
    return "–" if then is None else then.astimezone(UTC).strftime("%Y-%m-%d %H:%M")


def number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


#: Characters of each version that are compared: the time that it takes grows with their square. Words that
#: make up more than a hundredth of a long text are no places to begin at (``autojunk``): "a a a …" beside "b
#: b b …" would take half a minute.
COMPARED_CHARS = 2_000
_WORD = re.compile(rf"[{CJK}]|\w+|\s+|.", re.DOTALL)
#: A text in pieces, each with whether the other version has it not.
Pieces = list[tuple[str, bool]]


def compare(older: str, newer: str) -> tuple[Pieces, Pieces]:
    """Two versions word by word, Chinese character by character, with what each has of its own."""
    old, new = (_WORD.findall(text[:COMPARED_CHARS]) for text in (older, newer))
    versions: tuple[Pieces, Pieces] = ([], [])
    for what, start, end, new_start, new_end in difflib.SequenceMatcher(None, old, new).get_opcodes():
        for pieces, words in zip(versions, (old[start:end], new[new_start:new_end]), strict=True):
            if words:
                pieces.append(("".join(words), what != "equal"))
    return versions


def pretty_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


def readable_body(body: str | None) -> str:
    """A refused message as it came; indented if it is JSON (whole, not cut)."""
    try:
        MESSAGE.check((body or "").encode("utf-8", "replace"))
        return pretty_json(json.loads(body or ""))
    except (ValueError, RecursionError):
        return body or ""


def summary(value: Mapping[str, Any]) -> str:
    """What a job did, without what it found none of."""
    parts = (
        f"{in_words('results', name).replace('_', ' ')}{_(': ')}{_plain(item)}"
        for name, item in value.items()
        if item
    )
    return str(_(", ")).join(parts) or _("nothing to do")


def _plain(item: Any) -> str:
    if isinstance(item, list):
        return str(len(item))
    return (
        ", ".join(f"{name} {count}" for name, count in item.items())
        if isinstance(item, Mapping)
        else str(item)
    )


#: What the service calls by a name, in words for people.
WORDS: dict[str, Any] = tomllib.loads((Path(__file__).parent / "words.toml").read_text(encoding="utf-8"))


def in_words(table: str, name: str) -> str:
    """In the page's language; the name itself if the table has no words for it."""
    words = WORDS[table].get(name)
    return name if words is None else str(_(words))


def word(name: str) -> str:
    return in_words("words", name)


def intent(name: str) -> str:
    """What a question asks for, or the kind of a memory, in the page's language."""
    return in_words("kinds" if name in WORDS["kinds"] else "intents", name)


#: Parts of why a memory is in a prompt, as ``engine.conversations.injection`` writes them.
_PLACE = re.compile(r"(?P<in_words>in the words of )?place (?P<place>\d+)")


def why_injected(why: str) -> str:
    """Why a memory is in a prompt, in the page's language."""
    return ", ".join(_why_part(part) for part in why.split(", "))


def _why_part(part: str) -> str:
    match = _PLACE.fullmatch(part)
    if match is None:
        return in_words("why", part)
    place = match["place"]
    return str(
        _("in the words of rank %(place)s", place=place)
        if match["in_words"]
        else _("rank %(place)s", place=place)
    )


def person(actor: str) -> str:
    """``user:mia`` → ``mia``."""
    return actor.removeprefix("user:")


#: Files of macros that every template has; those of optional subjects are imported where they are used.
MACROS = ("_forms", "_parts", "_memory", "_grown", "_living")


def register_macros(app: Flask) -> None:
    """After all filters."""
    for name in MACROS:
        macros = vars(app.jinja_env.get_template(f"{name}.html").module)
        app.jinja_env.globals.update({key: each for key, each in macros.items() if isinstance(each, Macro)})


def register(app: Flask) -> None:
    app.after_request(_show_controls)
    by_name: tuple[Callable[..., str], ...] = (
        *(age, ago, moment, number, pretty_json, readable_body, since, until, duration, summary),
        *(translated, person, word, intent, why_injected, localize),
    )
    app.jinja_env.filters.update({each.__name__: each for each in by_name})
    tables = {"memory_kind": "kinds", "memory_origin": "origins", "attribute": "attributes"}
    app.jinja_env.filters.update({name: partial(in_words, table) for name, table in tables.items()})
    app.jinja_env.filters.update(compared_with=compare, node_type=word, role=word)


#: Embeddings, overrides and isolates, with their ends.
CONTROLS = "\u202a-\u202e\u2066-\u2069"
#: The same as bytes of UTF-8: pages without any are not decoded.
_IN_BYTES = re.compile(rb"\xe2(?:\x80[\xaa-\xae]|\x81[\xa6-\xa9])")
_CONTROL = re.compile(f"[{CONTROLS}]")
#: What stands between tags. Attributes (values of forms, addresses) and text fields stay as they are: they
#: are sent back.
_SHOWN = re.compile(r"</?textarea\b|(?<=>)[^<>]++")


def show_controls(html: str) -> str:
    r"""The page with such characters as ``\u202e`` wherever they would be seen."""
    in_field = False

    def escaped(match: re.Match[str]) -> str:
        nonlocal in_field
        if match[0].startswith("<"):
            in_field = not match[0].startswith("</")
            return match[0]
        return match[0] if in_field else _CONTROL.sub(_escaped, match[0])

    return _SHOWN.sub(escaped, html)


def _escaped(control: re.Match[str]) -> str:
    return f"\\u{ord(control[0]):04x}"


def _show_controls(response: Response) -> Response:
    if response.mimetype == "text/html" and not response.is_streamed:
        data = response.get_data()
        if _IN_BYTES.search(data):
            response.set_data(show_controls(data.decode()))
    return response


_VALUE = re.compile(r"%\((\w{1,40})\)s")
#: Values that are words of ours, not of people.
_STATES = frozenset({"state", "kind", "verb", "states"})


#: What the service refuses, or cannot do now, in whole sentences. REST, the command line and the log say them
#: in English. Here a template recognizes each and returns its values; a sentence that no template fits is
#: shown unchanged. A test compares the templates with the code.
SENTENCES: tuple[str, ...] = tuple(WORDS["sentences"])


def localize(text: str) -> str:
    """A sentence of the service in the language of the request."""
    for template in SENTENCES:
        values = values_of(template, text)
        if values is not None:
            translated: str = gettext(template) % {
                name: _word(value) if name in _STATES else value for name, value in values.items()
            }
            return translated
    return text


def values_of(template: str, text: str) -> dict[str, str] | None:
    """A text's values in the places of its template, each as short as it can be; None if it does not fit."""
    parts = _VALUE.split(template)
    fixed, names = parts[::2], parts[1::2]
    if not names:
        return {} if text == template else None
    if not text.startswith(fixed[0]) or not text.endswith(fixed[-1]):
        return None
    between = list(_between(text[len(fixed[0]) : len(text) - len(fixed[-1])], fixed[1:-1]))
    return dict(zip(names, between, strict=True)) if len(between) == len(names) and all(between) else None


def _between(text: str, fixed: list[str]) -> Iterator[str]:
    """The parts of a text between fixed ones, in order; fewer if one is not there."""
    for piece in fixed:
        before, here, text = text.partition(piece)
        if not here:
            return
        yield before
    yield text


def _word(value: str) -> str:
    return " / ".join(gettext(word) for word in value.split(" or "))
