"""Chosen memories as the text that goes into a prompt: Markdown, compact, JSON or a template.

Every text of a memory is quoted (:mod:`jiyi.text.prompting`), so that nothing remembered passes for the prompt around it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from engine.conversations.injection.choosing import WORTH_SHOWING, Candidate, Chosen, Price, choose
from jiyi.protocol.conversations.types import KINDS, Kind
from jiyi.text.budget import estimate_tokens
from jiyi.text.prompting import PREFACE, quoted, visible
from jiyi.text.words import Language

HEADINGS: dict[Language, dict[Kind, str]] = {
    "en": {"preference": "Preferences", "knowledge": "Knowledge", "experience": "Experience", "session": "Said earlier"},
    "zh": {"preference": "偏好", "knowledge": "知识", "experience": "经验", "session": "以前说过"},
}
PROFILE: dict[Language, str] = {"en": "Profile", "zh": "用户画像"}
EARLIER: dict[Language, str] = {"en": "earlier; no longer so since {day}", "zh": "早先；{day} 起已改变"}
RENEWED: dict[Language, str] = {"en": "earlier; newer {day}", "zh": "早先；{day} 有新说法"}
#: Placeholders of a template.
PLACES: dict[str, Kind] = {"preferences": "preference", "knowledge": "knowledge", "experience": "experience", "session": "session"}
#: … and of the sentence that what is remembered is no instruction.
PREFACE_PLACE = "preface"
#: How often what the estimates left of the budget is filled up.
TRIES = 5
_PLACE = re.compile(r"\{\{\s*(\w+)\s*\}\}")


@dataclass(frozen=True, slots=True)
class Rendered:
    """A context within its budget, and what is in it in its order."""

    text: str
    tokens: int
    shown: list[Chosen]


@dataclass(frozen=True, slots=True)
class Style:
    """How a context is written."""

    format: str = "markdown"
    language: Language = "en"
    template: str | None = None
    #: What is known of the user in general, a line each; shown first where there is room.
    profile: tuple[str, ...] = ()


def render(ranked: Sequence[Candidate], budget: int, style: Style) -> Rendered:
    """The context of at most ``budget`` tokens; empty if nothing fits beside the headings."""
    write = _WRITERS[style.format]
    style = _with_fitting_profile(style, write, budget)
    price = PRICES[style.format]
    room = budget - estimate_tokens(write([], style)) - _headings(style)
    chosen: list[Chosen] = []
    text = write(chosen, style)
    for _ in range(TRIES):  # not every heading is there, and a line may cost less than its price, or a little more
        more = choose(ranked, room, price) if room >= WORTH_SHOWING else []
        left = budget - estimate_tokens(write(more, style))
        more, written = _fitting(more, style, write, budget)
        if more and (not chosen or estimate_tokens(written) > estimate_tokens(text)):
            chosen, text = more, written
        room += left
    if (not chosen and not style.profile) or estimate_tokens(text) > budget:
        return Rendered("", 0, [])
    return Rendered(text, estimate_tokens(text), _in_order(chosen))


def _fitting(chosen: list[Chosen], style: Style, write: Callable[[Sequence[Chosen], Style], str], budget: int) -> tuple[list[Chosen], str]:
    """What is chosen, without the worst of it as long as it is over the budget, and how it is written."""
    written = write(chosen, style)
    while chosen and estimate_tokens(written) > budget:
        chosen = chosen[:-1]
        written = write(chosen, style)
    return chosen, written


def _with_fitting_profile(style: Style, write: Callable[[Sequence[Chosen], Style], str], budget: int) -> Style:
    """The profile may have a tenth of the budget."""
    lines = list(style.profile)
    while lines and estimate_tokens("\n".join(map(quoted, lines))) * 10 > budget:
        lines.pop()
    made = Style(style.format, style.language, style.template, tuple(lines))
    return made if estimate_tokens(write([], made)) <= budget else Style(style.format, style.language, style.template)


def _in_order(chosen: Sequence[Chosen]) -> list[Chosen]:
    """As they stand in the text: by kind, turns by time."""
    return [one for kind in KINDS for one in _of(kind, chosen)]


def _of(kind: Kind, chosen: Sequence[Chosen]) -> list[Chosen]:
    found = [one for one in chosen if one.candidate.kind == kind]
    return sorted(found, key=lambda one: one.candidate.created_at)


def _lines(chosen: Sequence[Chosen], language: Language) -> list[str]:
    """A line for each, below the day on which it was said."""
    lines = []
    for day, these in groupby(chosen, key=lambda one: _day(one.candidate.created_at, language)):
        lines += [day, *(_line(one, language) for one in these)]
    return lines


def _line(one: Chosen, language: Language) -> str:
    memory = one.candidate
    ends = ""
    if memory.superseded_at is not None:
        ends = f" ({EARLIER[language].format(day=_day(memory.superseded_at, language))})"
    elif memory.renewed_at is not None:
        ends = f" ({RENEWED[language].format(day=_day(memory.renewed_at, language))})"
    speaker = f"{memory.role}: " if memory.role is not None and one.text == memory.text and not memory.named else ""
    return f"{speaker}{quoted(one.text)}{ends}"


def _day(at: datetime, language: Language) -> str:
    """In English in words: a tokenizer counts each digit (8 May 2023 is two thirds of 2023-05-08)."""
    return f"{at.day} {at:%B %Y}" if language == "en" else f"{at:%Y-%m-%d}"


#: Tokens of a line's quotes and of the speaker of a turn without a name; and of a day above its lines, by format.
PRICES = {"markdown": Price(3, 8), "compact": Price(3, 8), "template": Price(3, 8), "json": Price(26)}


def _headings(style: Style) -> int:
    """Tokens of all headings, most of which are there."""
    if style.format == "json":
        return 4 * len(KINDS)
    return sum(estimate_tokens(f"## {heading}") for heading in HEADINGS[style.language].values()) if style.format == "markdown" else 0


def _markdown(chosen: Sequence[Chosen], style: Style) -> str:
    parts = [PREFACE[style.language]]
    if style.profile:
        parts.append("\n".join([f"## {PROFILE[style.language]}", *map(quoted, style.profile)]))
    written = {kind: _lines(_of(kind, chosen), style.language) for kind in KINDS}
    parts += ["\n".join([f"## {HEADINGS[style.language][kind]}", *lines]) for kind, lines in written.items() if lines]
    return "\n".join(parts)


def _compact(chosen: Sequence[Chosen], style: Style) -> str:
    by_day = sorted(chosen, key=lambda one: one.candidate.created_at)
    return "\n".join([PREFACE[style.language], *map(quoted, style.profile), *_lines(by_day, style.language)])


def _json(chosen: Sequence[Chosen], style: Style) -> str:
    content: dict[str, object] = {"note": PREFACE[style.language]}
    if style.profile:
        content["profile"] = list(style.profile)
    for kind in KINDS:
        if these := _of(kind, chosen):
            content[kind] = [_entry(one) for one in these]
    return visible(json.dumps(content, ensure_ascii=False))


def _entry(one: Chosen) -> dict[str, str]:
    ended = {}
    if one.candidate.superseded_at is not None:
        ended = {"until": _day(one.candidate.superseded_at, "zh")}
    elif one.candidate.renewed_at is not None:
        ended = {"said_anew": _day(one.candidate.renewed_at, "zh")}
    return {"day": _day(one.candidate.created_at, "zh"), "text": one.text, **ended}


def _template(chosen: Sequence[Chosen], style: Style) -> str:
    """In one pass: what stands in a memory is not filled in again. Unknown places stay as they are.

    A template that has no place for the preface has it above its first line.
    """
    values = {name: "\n".join(_lines(_of(kind, chosen), style.language)) for name, kind in PLACES.items()}
    values |= {"profile": "\n".join(map(quoted, style.profile)), PREFACE_PLACE: PREFACE[style.language]}
    template = style.template or ""
    placed = any(match[1] == PREFACE_PLACE for match in _PLACE.finditer(template))
    filled = _PLACE.sub(lambda match: values.get(match[1], match[0]), template)
    return filled if placed else f"{PREFACE[style.language]}\n{filled}"


_WRITERS: dict[str, Callable[[Sequence[Chosen], Style], str]] = {
    "markdown": _markdown,
    "compact": _compact,
    "json": _json,
    "template": _template,
}
