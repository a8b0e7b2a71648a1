"""The part of a prompt that stays the same through a session, so that prompt caches can keep it.

It may have half of the budget, and what is recalled for one message the rest. What was recalled for earlier
messages is a part of the conversation by then, and may have twice the budget.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from engine.conversations.attributes import attribute_of
from engine.conversations.injection import MemoryCandidate
from engine.conversations.memories import LABELS
from engine.heads.judgements import concerns_health, stated
from jiyi.protocol.conversations import Profile
from jiyi.text.budget import estimate_tokens
from jiyi.text.prompt import Line, Prompt, Section, joined
from jiyi.text.words import Language, text_digest

#: Shares of the budget that the stable part may have, and what is recalled for a message that asks nothing.
STABLE_SHARE, STATEMENT_SHARE = 0.5, 1 / 24
#: Budgets that all of a session's prompt may have; then what was recalled earlier makes room.
MOST_BUDGETS = 3
#: Up to so many tokens a session begins with what matters most, which a cache then has.
OPENING_TOKENS = 1_600
#: Tokens that vital statements (health and diet) may have, before all else: about a dozen.
VITAL_TOKENS = 200
VITAL: dict[Language, str] = {"en": "Health and diet", "zh": "健康与饮食"}
#: Attributes of health; others have its words by chance ("I love vegan ramen").
_VITAL_ATTRIBUTES = frozenset({"allergy", "diet", "health", "family"})
VITAL_FACT = "vital:"
#: Fields of a profile that change from day to day.
_PASSING = frozenset({"recent_topics"})


@dataclass(frozen=True, slots=True)
class Basis:
    """What a line of the stable part rests on: it is written again when one of these facts ceases to hold."""

    facts: tuple[str, ...]
    #: Of a memory: its id and its turns', which are not recalled beside it.
    node_ids: tuple[UUID, ...] = ()


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


def stable_of(prompt: Prompt) -> Stable:
    """A prompt whose lines have a :class:`Basis` each, with all that it rests on."""
    bases: list[Basis] = [one.line.item for one in prompt.lines]
    facts = dict.fromkeys(fact for basis in bases for fact in basis.facts)
    nodes = dict.fromkeys(node_id for basis in bases for node_id in basis.node_ids)
    return Stable(prompt.opening, prompt.body, list(facts), list(nodes))


def vital_section(memories: Iterable[MemoryCandidate], language: Language) -> Section:
    """What is vital of what is known, the newest first, whatever the message is about."""
    lines = [
        Line(memory.text, item=Basis((), (memory.node_id, *memory.turn_ids)))
        for memory in memories
        if is_vital_fact(memory.text)
    ]
    return Section(f"## {VITAL[language]}", lines, max_tokens=VITAL_TOKENS, priority=-1)


def is_vital_fact(text: str) -> bool:
    """Whether a memory mentions an allergy, an illness, a handicap, a medicine or a diet of somebody."""
    concerns = concerns_health(text)
    if concerns is not None:
        return concerns
    attribute = attribute_of(stated(text))
    return attribute is None or attribute.name in _VITAL_ATTRIBUTES


def vital_fact(section: Section) -> str:
    """A fact that changes as soon as a vital statement comes, ends or is marked, with room or without."""
    lines = (f"{line.item.node_ids[0]} {line.text}" for line in section.lines)
    return VITAL_FACT + text_digest("\n".join(lines)).hex()[:32]


def profile_lines(profile: Profile, language: Language) -> tuple[Line, ...]:
    """What is known of a user for longer than a day, a line for each field."""
    lines = []
    for name, label in LABELS[language].items():
        value = getattr(profile, name)
        if value and name not in _PASSING:
            values = value if isinstance(value, list) else [value]
            facts = tuple(f"profile:{name}:{entry}" for entry in values)
            lines.append(Line(f"{label}: {', '.join(values)}", item=Basis(facts)))
    return tuple(lines)


def recall_room(budget: int, stable: int, earlier: int, *, is_statement: bool) -> int:
    """Tokens that may be recalled for a message: what the budget leaves; for a statement a small share."""
    return max(
        0,
        min(
            budget - stable,
            int(budget * STATEMENT_SHARE) if is_statement else budget,
            MOST_BUDGETS * budget - stable - earlier,
        ),
    )


def is_crowded(budget: int, stable: int, earlier: int) -> bool:
    """Whether what was recalled for earlier messages leaves a question less than half of what it may have."""
    return 2 * (MOST_BUDGETS * budget - stable - earlier) < budget - stable
