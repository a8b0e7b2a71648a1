"""What the service refuses, or cannot do now, in whole sentences, in the language of whoever reads them.

REST, the command line and the log say them in English, and the service hands them over as finished text; here each is known by its
template, which gives back its values. What no template fits is shown as it is. A test compares the templates with the code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from flask_babel import gettext

from web.show import WORDS

_VALUE = re.compile(r"%\((\w{1,40})\)s")
#: Values that are words of ours, not of people.
_STATES = frozenset({"state", "kind", "verb", "states"})


SENTENCES: tuple[str, ...] = tuple(WORDS["sentences"])


def told(text: str) -> str:
    """A sentence of the service in the language of the request."""
    for template in SENTENCES:
        values = values_of(template, text)
        if values is not None:
            translated: str = gettext(template) % {name: _word(value) if name in _STATES else value for name, value in values.items()}
            return translated
    return text


def values_of(template: str, text: str) -> dict[str, str] | None:
    """What stands in a text where its template has values; None if it is no text of this template. A value is as short as it can be."""
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
