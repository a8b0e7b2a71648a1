"""Text for a model, made of sections of lines, which are chosen within a budget, quoted, dated and marked
here.

Callers give :class:`Section` objects to :func:`compose`. Lines of memories are quoted
(:mod:`jiyi.text.prompting`) below the preface, so that none can pass for the prompt around it. The same
sections and budget give the same text.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from itertools import groupby
from typing import Any, Literal, NamedTuple
from uuid import UUID

from jiyi.text.budget import TOKEN, cost_of, cut_to_tokens, estimate_tokens
from jiyi.text.prompting import PREFACE, quoted, visible
from jiyi.text.words import Language

#: Tokens of a context by default: a few hundred words beside the conversation itself.
BUDGET = 2_000
MAX_BUDGET = 1_000_000
#: Tokens below which the beginning of a line says nothing, and is left out.
LEAST_TOKENS = 12
#: Only so many of the best lines have a right to their section's floor.
FLOOR_PLACES = 5
#: The places of a template: ``{{name of a section}}``, and the one of the preface.
PLACE, PREFACE_PLACE = re.compile(r"\{\{\s*(\w+)\s*\}\}"), "preface"

EARLIER: dict[Language, str] = {"en": "earlier; no longer so since {day}", "zh": "早先；{day} 起已改变"}
RENEWED: dict[Language, str] = {"en": "earlier; newer {day}", "zh": "早先；{day} 有新说法"}
CONCLUDED: dict[Language, str] = {"en": "concluded", "zh": "推断"}
#: A day without and with its year; in English in words, because a tokenizer counts each digit.
_DAYS: dict[Language, tuple[str, str]] = {
    "en": ("{0.day} {0:%B}", "{0.day} {0:%B %Y}"),
    "zh": ("{0:%m-%d}", "{0:%Y-%m-%d}"),
}


class Over(NamedTuple):
    """A part of a line that ended on a ``day``; not ``sure``: it may have, by what was said on that day.

    ``reason``: the words that ended it; ``by``: the id of the memory that has them.
    """

    text: str
    day: date
    sure: bool = True
    by: UUID | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A text that may stand in a prompt, and what is to be said of it."""

    text: str
    #: Lower gets room first among lines of one priority; 0: it is not ranked.
    rank: int = 0
    #: When it was said, by the speaker's clock.
    at: datetime | None = None
    #: Since when it is no longer so, or there is something newer.
    ended: date | None = None
    renewed: date | None = None
    #: Parts of it that have ended, or may have.
    over: Sequence[Over] = ()
    speaker: str = ""
    #: Nobody said it: it was concluded from what was said.
    concluded: bool = False
    #: Stands above it in a line of its own, or behind it; not quoted.
    label: str = ""
    behind: str = ""
    #: Most of the budget that its text may have, 0 … 1.
    share: float = 1.0
    #: What is done to the text of a line only if there is room for it.
    finish: Callable[[str], str] | None = None
    #: The caller's own key of the line.
    item: Any = None


@dataclass(frozen=True, slots=True)
class Section:
    """Lines below a title, in the order in which they are shown."""

    #: A line of its own; empty for none. By days, neighbours of one title are one.
    title: str
    lines: Sequence[Line]
    #: Shares of the budget, 0 … 1: what its best lines get first, and the most of all of them.
    least: float = 0.0
    share: float = 1.0
    #: What templates, JSON and accounts call it. Sections of one name have one share together.
    name: str = ""
    #: The lowest gets its tokens first.
    priority: int = 0
    max_lines: int | None = None
    max_tokens: int | None = None
    #: The program's or the agent's own words: neither quoted nor below the preface.
    own: bool = False
    #: … which stand before the program's own prompt.
    opens: bool = False
    #: The first line that does not fit is shortened, and ends the section; else it is left out.
    shortens: bool = False
    #: The line below the last one.
    end: str = ""


@dataclass(frozen=True, slots=True)
class PromptStyle:
    """How sections become a text."""

    language: Language = "en"
    form: Literal["text", "json", "template"] = "text"
    template: str = ""
    #: Days in lines of their own, above all lines of a day; or in each line, before its text.
    days: Literal["", "above", "before"] = ""
    #: Before each line; ``{number}`` is its number in the section.
    bullet: str = ""
    #: Between lines, and between sections.
    between: str = "\n"
    apart: str = "\n"
    #: Lines around all of it.
    first: str = ""
    last: str = ""
    #: For models. Without, it is for people: as it was said, and without the preface.
    quotes: bool = True


#: Of parts that are not all one speaker's.
SEVERAL_SPEAKERS: dict[Language, PromptStyle] = {
    language: PromptStyle(language, between="\n\n", apart="\n\n---\n\n") for language in ("en", "zh")
}


@dataclass(frozen=True, slots=True)
class Part:
    """What became of a section. ``dropped`` lines are not there at all, a ``shortened`` one ends in …."""

    name: str
    kept: int
    dropped: int
    shortened: bool
    tokens: int
    #: A sentence; empty if nothing was cut.
    why: str


@dataclass(frozen=True, slots=True)
class WrittenLine:
    """A line that is in the prompt, with what is shown of its text and the tokens that it takes."""

    line: Line
    text: str
    tokens: int
    #: It had room before better ones; it has less than its text.
    floor: bool = False
    shortened: bool = False


@dataclass(frozen=True, slots=True)
class Prompt:
    """The text, in two halves where sections open the program's own prompt, and what is in it, in order."""

    opening: str
    body: str
    budget: int
    lines: list[WrittenLine] = field(default_factory=list)
    parts: tuple[Part, ...] = ()

    @property
    def text(self) -> str:
        return joined(self.opening, self.body)

    @property
    def tokens(self) -> int:
        return estimate_tokens(self.opening) + estimate_tokens(self.body)

    @property
    def cut(self) -> list[str]:
        """What was cut, and why: a sentence a section."""
        return [part.why for part in self.parts if part.why]


def joined(*parts: str) -> str:
    """Parts of a prompt with an empty line between them; empty ones are left out."""
    return "\n\n".join(filter(None, parts))


def compose(sections: Sequence[Section], budget: int, style: PromptStyle = PromptStyle()) -> Prompt:
    """The sections within ``budget`` tokens (:func:`jiyi.text.budget.estimate_tokens`); empty if no line
    fits.

    Room goes to floors, then to sections by priority and to lines by rank. A title and a day are paid by the
    first line that needs them.
    """
    composer = _Composer(sections, budget, style)
    composer.choose()
    return composer.prompt()


@dataclass(slots=True)
class _Composer:
    sections: Sequence[Section]
    budget: int
    style: PromptStyle
    #: Hundredths of a token that remain; what sections used by name; what already stands around their
    #: lines.
    remaining: int = 0
    spent: Counter[str] = field(default_factory=Counter)
    paid: set[tuple[Any, ...]] = field(default_factory=set)
    #: Section → place of a line → what is shown of it.
    written: dict[int, dict[int, WrittenLine]] = field(default_factory=lambda: defaultdict(dict))
    costs: Counter[int] = field(default_factory=Counter)
    #: Sections whose last line was shortened, or had no room.
    full: dict[int, bool] = field(default_factory=dict)
    #: Number of what a section is written together with, and of those that share a preface.
    block: list[int] = field(default_factory=list)
    run: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        by_day = self.style.form == "text" and self.style.days == "above"
        for place, section in enumerate(self.sections):
            before = self.sections[place - 1] if place else None
            apart = before is None or (before.own, before.opens) != (section.own, section.opens)
            new = apart or not by_day or before is None or before.title != section.title
            self.block.append(self.block[-1] + new if self.block else 0)
            self.run.append(self.run[-1] + apart if self.run else 0)
        # Each half is rounded up separately.
        rounded = TOKEN if any(section.opens for section in self.sections) else 0
        self.remaining = self.budget * TOKEN - cost_of(self._frame()) - rounded

    def choose(self) -> None:
        """Take the lines that fit."""
        entries = [
            (place, number, line)
            for place, section in enumerate(self.sections)
            for number, line in enumerate(self._offered(section)[: section.max_lines])
        ]
        entries.sort(key=lambda entry: (self.sections[entry[0]].priority, entry[2].rank))  # stable
        over = set[int]()  # a section's best does not fit its floor: what is worse goes before no better one
        for place, number, line in [entry for entry in entries if entry[2].rank][:FLOOR_PLACES]:
            floor = int(self.sections[place].least * self.budget * TOKEN)
            if floor and place not in over and not self._take(place, number, line, floor):
                over.add(place)
        for place, number, line in entries:
            if place not in self.full and number not in self.written[place]:
                self._take(place, number, line)

    def prompt(self) -> Prompt:
        """What was taken, as text."""
        lines = [one for _, ones in self._blocks() for one in ones]
        opening = self._text(opens=True)
        body = self._text(opens=False)
        parts = tuple(self._part(place, section) for place, section in enumerate(self.sections))
        return Prompt(opening, body, self.budget, lines, parts)

    # What a line costs

    def _offered(self, section: Section) -> list[Line]:
        places = self._places(section)
        return [line for line in section.lines if places and (line.text.strip() or line.label or line.over)]

    def _places(self, section: Section) -> int:
        """How often the section is written."""
        if self.style.form != "template":
            return 1
        return sum(match[1] == section.name for match in PLACE.finditer(self.style.template))

    def _take(self, place: int, number: int, line: Line, floor: int | None = None) -> bool:
        section, text = self.sections[place], line.text.strip()
        around, keys = self._around(place, line)
        room = min(self.remaining, self._most(section) - self.spent[section.name]) - around
        if floor is not None:
            room = min(room, floor - self.spent[section.name])
        times = self._places(section)
        most = max(LEAST_TOKENS, int(line.share * self.budget)) if line.share < 1 else MAX_BUDGET
        size = cost_of(text)
        if not section.shortens and room < times * size <= times * most * TOKEN:
            return False  # cheaper to see than what is made of it
        if line.finish is not None:
            text = line.finish(text)
        whole = text
        text = cut_to_tokens(text, most)
        cost = times * self._cost(place, line, text)
        ends = False
        if cost > room and floor is None and section.shortens:
            text = self._beginning(place, line, text, room // times)
            self.full[place] = ends = text != ""
            cost = times * self._cost(place, line, text)
        if cost > room or (place in self.full and not ends):
            return False
        self.remaining -= cost + around
        self.spent[section.name] += cost + around
        self.costs[place] += cost + around
        self.paid |= keys
        self.written[place][number] = WrittenLine(
            line, text, -(-cost // TOKEN), floor is not None, text != whole
        )
        return True

    def _beginning(self, place: int, line: Line, text: str, room: int) -> str:
        """As much of a text as fits; empty if that says nothing."""
        most = (room - self._cost(place, line, "")) // TOKEN
        while most >= LEAST_TOKENS:
            begun = cut_to_tokens(text, most)
            over = self._cost(place, line, begun) - room
            if over <= 0:
                return begun
            most -= max(1, over // TOKEN)  # escapes take more tokens than what they stand for
        return ""

    def _most(self, section: Section) -> int:
        share = int(section.share * self.budget * TOKEN)
        return share if section.max_tokens is None else min(share, section.max_tokens * TOKEN)

    def _cost(self, place: int, line: Line, text: str) -> int:
        if self.style.form == "json":
            return cost_of(visible(json.dumps(_entry(line, text), ensure_ascii=False))) + TOKEN  # and a comma
        together = (other for other, block in enumerate(self.block) if block == self.block[place])
        lines = sum(len(self.written[other]) for other in together)
        return cost_of(self._written(line, text, self.sections[place], lines + 1))

    def _around(self, place: int, line: Line) -> tuple[int, set[tuple[Any, ...]]]:
        """What a line needs that does not stand yet: title, preface and day; and keys of it."""
        section, style, block = self.sections[place], self.style, self.block[place]
        needed: dict[tuple[Any, ...], str] = {}
        if style.form == "json":
            needed[("name", section.name)] = f'"{section.name}": [],'
        elif style.form == "text":
            needed[("title", block)] = f"{section.title} {section.end}"
            if any(key[0] == "title" and self._opens(key[1]) == section.opens for key in self.paid):
                needed[("title", block)] += style.apart
            if self._has_preface(section):
                needed[("preface", self.run[place])] = PREFACE[style.language]
        if line.at is not None and style.days == "above" and style.form != "json":
            day = line.at.date()
            with_year = ("year", block, day.year) not in self.paid
            heading = f"{day_of(day, style.language, with_year=with_year)} "
            needed[("day", block, day)] = heading * self._places(section)
            needed[("year", block, day.year)] = ""
        new = {key: text for key, text in needed.items() if key not in self.paid}
        return sum(map(cost_of, new.values())), set(new)

    def _opens(self, block: int) -> bool:
        return self.sections[self.block.index(block)].opens

    def _has_preface(self, section: Section) -> bool:
        return self.style.quotes and not section.own

    def _frame(self) -> str:
        """What stands around all sections."""
        style = self.style
        if style.form == "json":
            return json.dumps({"note": PREFACE[style.language]}, ensure_ascii=False)
        if style.form == "template":
            places = {PREFACE_PLACE, *(section.name for section in self.sections)}
            plain = PLACE.sub(lambda match: " " if match[1] in places else match[0], style.template)
            return plain + PREFACE[style.language] * max(1, self._prefaces())
        return f"{style.first} {style.apart if style.last else ''} {style.last}"

    def _prefaces(self) -> int:
        return sum(match[1] == PREFACE_PLACE for match in PLACE.finditer(self.style.template))

    # The text

    def _written(self, line: Line, text: str, section: Section, number: int) -> str:
        """A line, or several if it has a label or parts that have ended."""
        style = self.style
        whole = quoted if style.quotes and not section.own else str
        bullet = style.bullet.format(number=number)
        if line.at is not None and style.days == "before":
            bullet += f"{line.at:%Y-%m-%d}: "
        written = [line.label] if line.label else []
        if text or not line.over:
            speaker = f"{line.speaker}: " if line.speaker else ""
            concluded = f" ({CONCLUDED[style.language]})" if line.concluded else ""
            mark = self._mark(line.ended, line.renewed)
            written.append(f"{bullet}{speaker}{whole(text)}{line.behind}{concluded}{mark}")
        for part in line.over:
            reason = whole(part.reason) if part.reason else ""
            mark = self._mark(part.day, None, reason) if part.sure else self._mark(None, part.day, reason)
            written.append(f"{bullet}{whole(part.text)}{mark}")
        return "\n".join(written)

    def _mark(self, ended: date | None, renewed: date | None = None, reason: str = "") -> str:
        since = ended or renewed
        if since is None:
            return ""
        words = (RENEWED if ended is None else EARLIER)[self.style.language]
        day = f"{since:%Y-%m-%d}" if self.style.days == "before" else day_of(since, self.style.language)
        return f" ({words.format(day=day)}{f': {reason}' if reason else ''})"

    def _blocks(self) -> Iterator[tuple[Section, list[WrittenLine]]]:
        for _, places in groupby(range(len(self.sections)), key=lambda place: self.block[place]):
            of_block = list(places)
            lines = [one for place in of_block for _, one in sorted(self.written[place].items())]
            if self.style.days == "above" and self.style.form != "json":
                lines.sort(key=lambda one: one.line.at.timestamp() if one.line.at else float("-inf"))
            if lines:
                yield self.sections[of_block[0]], lines

    def _lines(self, section: Section, lines: Sequence[WrittenLine]) -> Iterator[str]:
        """Each line, below its day; the first of a year says it, because its digits cost most."""
        day = year = None
        for number, one in enumerate(lines, 1):
            at = one.line.at
            if at is not None and self.style.days == "above" and at.date() != day:
                day = at.date()
                yield day_of(day, self.style.language, with_year=day.year != year)
                year = day.year
            yield self._written(one.line, one.text, section, number)

    def _text(self, *, opens: bool) -> str:
        style = self.style
        halves = style.form == "text"
        blocks = [
            (section, lines) for section, lines in self._blocks() if (halves and section.opens) == opens
        ]
        if not blocks:
            return ""
        if style.form == "json":
            return self._json()
        if style.form == "template":
            return self._filled()
        texts: list[str] = []
        quotes = False
        for section, lines in blocks:
            preface = [PREFACE[style.language]] if self._has_preface(section) and not quotes else []
            quotes = self._has_preface(section)
            title = [style.first] if style.first and not texts and not opens else []
            of_block = [*title, *preface, section.title, *self._lines(section, lines), section.end]
            texts.append(style.between.join(filter(None, of_block)))
        if opens:
            return joined(*texts)
        return style.apart.join(texts) + (f"{style.apart}{style.last}" if style.last else "")

    def _json(self) -> str:
        content: dict[str, Any] = {"note": PREFACE[self.style.language]}
        for place, section in enumerate(self.sections):
            if entries := [_entry(one.line, one.text) for _, one in sorted(self.written[place].items())]:
                content[section.name] = entries
        return visible(json.dumps(content, ensure_ascii=False))

    def _filled(self) -> str:
        """In one pass: what stands in a memory is not filled in again. Unknown places stay.

        A template that has no place for the preface has it above its first line.
        """
        preface = PREFACE[self.style.language]
        values = {section.name: "" for section in self.sections} | {PREFACE_PLACE: preface}
        values |= {section.name: "\n".join(self._lines(section, lines)) for section, lines in self._blocks()}
        filled = PLACE.sub(lambda match: values.get(match[1], match[0]), self.style.template)
        return filled if self._prefaces() else f"{preface}\n{filled}"

    # The account

    def _part(self, place: int, section: Section) -> Part:
        lines = self._offered(section)
        limited = lines[: section.max_lines]
        count, shortened = len(self.written[place]), self.full.get(place, False)
        reasons = []
        if more := len(lines) - len(limited):
            reasons.append(f"{more} of {len(lines)} items are more than its limit of {section.max_lines}")
        most = self._most(section)
        its_own = most < self.remaining + self.costs[place]
        whose = "its own limit" if its_own else "what the budget leaves"
        if len(limited) > count:
            reasons.append(f"{len(limited) - count} of {len(lines)} items do not fit into {whose}")
        tokens = -(-self.costs[place] // TOKEN)
        if shortened:
            reasons.append(f"the last one was shortened to {whose}, {tokens:,} tokens")
        why = f"{section.name}: {'; '.join(reasons)}" if reasons else ""
        return Part(section.name, count, len(lines) - count, shortened, tokens, why)


def day_of(day: date, language: Language, *, with_year: bool = True) -> str:
    return _DAYS[language][with_year].format(day)


def _entry(line: Line, text: str) -> Any:
    """A line as JSON has it; a plain string if nothing is to be said of it."""
    if line.at is None:
        return text
    entry: dict[str, Any] = (
        {"day": f"{line.at:%Y-%m-%d}"} | ({"speaker": line.speaker} if line.speaker else {}) | {"text": text}
    )
    if line.concluded:
        entry["concluded"] = True
    if line.ended is not None:
        entry["until"] = f"{line.ended:%Y-%m-%d}"
    elif line.renewed is not None:
        entry["said_anew"] = f"{line.renewed:%Y-%m-%d}"
    if line.over:
        entry["no_longer"] = "; ".join(
            f"{part.text} ({'until' if part.sure else 'newer'} {part.day:%Y-%m-%d}"
            f"{f': {part.reason}' if part.reason else ''})"
            for part in line.over
        )
    return entry
