"""The part of a prompt that stays the same through a session, so that a model's provider can keep it in its prompt cache.

What it is made of comes from several subjects as sections. It may have half of the budget. The rest of the budget is for what is recalled
for one message; what was recalled for earlier ones is a part of the conversation by then, and may have twice the budget.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from engine.conversations.memories import LABELS
from jiyi.protocol.conversations import Profile
from jiyi.text.budget import estimate_tokens
from jiyi.text.prompt import Line, Prompt, joined
from jiyi.text.words import Language

#: Shares of the budget that the stable part may have, and what is recalled for a message that asks nothing.
STABLE_SHARE, TOLD_SHARE = 0.5, 1 / 24
#: So many budgets may all have that stands in a session's prompt; beyond that what was recalled for earlier messages makes room.
MOST_BUDGETS = 3
#: Up to so many tokens a session begins with what matters most: a cache has them for all its later prompts.
OPENING_TOKENS = 1_600
#: Fields of a profile that change from day to day.
_PASSING = frozenset({"recent_topics"})


@dataclass(frozen=True, slots=True)
class Basis:
    """What a line of the stable part rests on: it is written again when one of these facts no longer holds."""

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


def recall_room(budget: int, stable: int, earlier: int, *, tells: bool) -> int:
    """Tokens that may be recalled for a message: with the stable part at most the budget, for a mere statement a small share of it."""
    return max(0, min(budget - stable, int(budget * TOLD_SHARE) if tells else budget, MOST_BUDGETS * budget - stable - earlier))


def is_crowded(budget: int, stable: int, earlier: int) -> bool:
    """Whether what was recalled for earlier messages leaves a question less than half of what it may have."""
    return 2 * (MOST_BUDGETS * budget - stable - earlier) < budget - stable
