"""The part of a prompt that stays the same through a session, so that a model's provider can keep it in its prompt cache.

What it is made of comes from several subjects as sections. It may have half of the budget: sections are taken in their order, and of a
section that does not fit whole the first lines. The rest of the budget is for what is recalled for one message; what was recalled for
earlier ones is a part of the conversation by then, and may have twice the budget.
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

#: Shares of the budget that the stable part may have, and what is recalled for a message that asks nothing.
STABLE_SHARE, TOLD_SHARE = 0.5, 1 / 24
#: So many budgets may all have that stands in a session's prompt; beyond that what was recalled for earlier messages makes room.
MOST_BUDGETS = 3
#: Up to so many tokens a session begins with what matters most: a cache has them for all its later prompts.
OPENING_TOKENS = 1_600
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
    #: Most of the stable part's tokens that it may have.
    share: float = 1.0


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
        fitting = _fitting(section, min(room - around, int(most * section.share)))
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


def recall_room(budget: int, stable: int, earlier: int, *, tells: bool) -> int:
    """Tokens that may be recalled for a message: with the stable part at most the budget, for a mere statement a small share of it."""
    return max(0, min(budget - stable, int(budget * TOLD_SHARE) if tells else budget, MOST_BUDGETS * budget - stable - earlier))


def is_crowded(budget: int, stable: int, earlier: int) -> bool:
    """Whether what was recalled for earlier messages leaves a question less than half of what it may have."""
    return 2 * (MOST_BUDGETS * budget - stable - earlier) < budget - stable
