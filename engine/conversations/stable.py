"""The part of a prompt that stays the same through a session, so that a model's provider can keep it in its prompt cache.

What it is made of comes from several subjects as sections. It may have half of the budget: sections are taken in their order, and of a
section that does not fit whole the first lines. The rest of the budget is for what is recalled message by message.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from uuid import UUID

from engine.conversations.memories import LABELS
from jiyi.protocol.conversations import Profile
from jiyi.text.budget import cut_to_tokens, estimate_tokens
from jiyi.text.prompting import PREFACE, quoted
from jiyi.text.words import Language

#: Share of the budget that the stable part may have, and share of what is left that one message's recalled memories may have.
STABLE_SHARE, RECALL_SHARE = 0.5, 1 / 3
#: With less room left than this nothing is recalled any more: what was recalled for earlier messages makes room.
LEAST_RECALL = 80
#: Tokens below which the beginning of a line says nothing.
LEAST_CUT = 20
#: Fields of a profile that change from day to day.
_PASSING = frozenset({"recent_topics"})


@dataclass(frozen=True, slots=True)
class Line:
    """A line as it is written, and what it states: when one of its facts is withdrawn the stable part is made anew."""

    text: str
    facts: tuple[str, ...]
    #: Of a memory: its id and its turns', which are not recalled beside it.
    node_ids: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """Lines below a heading; with ``opens`` they are instructions and stand before the program's own prompt."""

    heading: str
    lines: tuple[Line, ...]
    end: str = ""
    opens: bool = False


@dataclass(frozen=True, slots=True)
class Stable:
    """The stable part: what stands before the program's own prompt, and what stands behind it."""

    opening: str = ""
    body: str = ""
    facts: list[str] = field(default_factory=list)
    node_ids: list[UUID] = field(default_factory=list)

    @property
    def text(self) -> str:
        return joined(self.opening, self.body)

    @property
    def tokens(self) -> int:
        return estimate_tokens(self.opening) + estimate_tokens(self.body)


def joined(*parts: str) -> str:
    """Parts of a prompt with an empty line between them; empty ones are left out."""
    return "\n\n".join(filter(None, parts))


def compose(sections: Iterable[Section], most: int, language: Language) -> Stable:
    """The sections within so many tokens."""
    room = most
    opening: list[str] = []
    body: list[str] = []
    lines: list[Line] = []
    for section in sections:
        preface = [] if section.opens or body else [PREFACE[language]]
        around = sum(map(estimate_tokens, [*preface, section.heading, section.end]))
        fitting = _fitting(section, room - around)
        if fitting:
            room -= around + sum(estimate_tokens(line.text) for line in fitting)
            written = [section.heading, *(line.text for line in fitting), *filter(None, [section.end])]
            (opening if section.opens else body).append("\n".join([*preface, *written]))
            lines += fitting
    facts = dict.fromkeys(fact for line in lines for fact in line.facts)
    nodes = dict.fromkeys(node_id for line in lines for node_id in line.node_ids)
    return Stable("\n\n".join(opening), "\n".join(body), list(facts), list(nodes))


def _fitting(section: Section, room: int) -> list[Line]:
    """The first lines that fit; of instructions also the beginning of the next one."""
    fitting: list[Line] = []
    for line in section.lines:
        tokens = estimate_tokens(line.text)
        if tokens > room:
            return [*fitting, replace(line, text=cut_to_tokens(line.text, room))] if section.opens and room >= LEAST_CUT else fitting
        room -= tokens
        fitting.append(line)
    return fitting


def profile_lines(profile: Profile, language: Language) -> tuple[Line, ...]:
    """What is known of a user for longer than a day, a line for each field."""
    lines = []
    for name, label in LABELS[language].items():
        value = getattr(profile, name)
        if value and name not in _PASSING:
            values = value if isinstance(value, list) else [value]
            lines.append(Line(quoted(f"{label}: {', '.join(values)}"), tuple(f"profile:{name}:{entry}" for entry in values)))
    return tuple(lines)


def recall_room(room: int) -> int:
    """Tokens that what is recalled for one message may have, of those that are left."""
    return min(room, max(LEAST_RECALL, int(room * RECALL_SHARE)))
