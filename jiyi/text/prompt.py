"""One prompt of many parts, within a budget of tokens.

The parts stand in the order given. Where there is not room for all, the budget goes first to what must be there (who the
agent is, what is to be decided), then to the rest by priority; what was cut, and why, is said. The same parts and the same
budget always give the same text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from pydantic import BaseModel, Field, model_validator

from jiyi.text.budget import cut_to_tokens, estimate_tokens
from jiyi.text.prompting import PREFACE, quoted, quoted_to_tokens
from jiyi.text.words import Language

#: Between two parts.
SEPARATOR = "\n\n---\n\n"
#: Tokens of a context unless told otherwise: a few hundred words beside the conversation itself.
BUDGET = 2_000
MAX_BUDGET = 1_000_000
#: A shorter rest of an item says nothing, and is left out.
LEAST_TOKENS = 12


class Section(BaseModel, frozen=True, extra="forbid"):
    """A part: one text, or items with the most important first."""

    name: str = Field(pattern=r"\S", max_length=100)
    items: list[str] = []
    #: A line above each item, which is not quoted; none, or one an item.
    labels: list[str] = []
    heading: str = ""
    #: The items are memories: they stand quoted below the preface in this language (:mod:`jiyi.text.prompting`).
    remembered: Language | None = None
    #: 1 gets its tokens first.
    priority: int = Field(ge=0, le=1_000)
    #: Gets its tokens before all that are not.
    essential: bool = False
    max_items: int | None = Field(None, ge=0)
    max_tokens: int | None = Field(None, ge=0)

    @model_validator(mode="after")
    def _one_label_an_item(self) -> Self:
        if self.labels and len(self.labels) != len(self.items):
            raise ValueError(f"labels: {len(self.labels)} of {len(self.items)} items")
        return self


@dataclass(frozen=True, slots=True)
class Part:
    """What became of a section. ``dropped`` items are not there at all, a ``shortened`` one ends in …."""

    name: str
    kept: int
    dropped: int
    shortened: bool
    tokens: int
    #: A sentence; empty if nothing was cut.
    why: str


@dataclass(frozen=True, slots=True)
class Context:
    text: str
    tokens: int
    budget: int
    parts: tuple[Part, ...]

    @property
    def cut(self) -> list[str]:
        """What was cut, and why: a sentence a section."""
        return [part.why for part in self.parts if part.why]


def build_context(sections: Sequence[Section], budget: int = BUDGET) -> Context:
    """The sections as one text of at most ``budget`` tokens, as :func:`jiyi.text.budget.estimate_tokens` counts.

    Raises:
        ValueError: the budget is out of bounds, or two sections have the same name.
    """
    if not 1 <= budget <= MAX_BUDGET:
        raise ValueError(f"budget: {budget:,} is not between 1 and {MAX_BUDGET:,} tokens")
    names = [section.name for section in sections]
    if len(set(names)) < len(names):
        raise ValueError(f"sections: every name may be there once, of {', '.join(names)}")
    room = budget
    written: dict[str, tuple[str, Part]] = {}
    for section in sorted(sections, key=lambda section: (not section.essential, section.priority)):  # stable
        price = estimate_tokens(SEPARATOR) if any(text for text, _ in written.values()) else 0
        text, part = _write(section, room - price)
        written[section.name] = text, part
        room -= part.tokens + price if text else 0
    text = SEPARATOR.join(found for name in names if (found := written[name][0]))
    return Context(text, estimate_tokens(text), budget, tuple(written[name][1] for name in names))


def _write(section: Section, room: int) -> tuple[str, Part]:
    """The section's text within the room, and its own limits, and what became of it."""
    labels = section.labels or [""] * len(section.items)
    items = [(label, item.strip()) for label, item in zip(labels, section.items, strict=True) if label or item.strip()]
    limited = items if section.max_items is None else items[: section.max_items]
    most = room if section.max_tokens is None else min(room, section.max_tokens)
    whole, beginning = (str, cut_to_tokens) if section.remembered is None else (quoted, quoted_to_tokens)
    kept: list[str] = []
    shortened = False
    for label, item in limited:
        above = f"{label}\n" if label else ""
        if estimate_tokens(_joined(section, [*kept, above + whole(item)])) <= most:
            kept.append(above + whole(item))
            continue
        rest = most - estimate_tokens(_joined(section, [*kept, above]))
        if rest >= LEAST_TOKENS and (cut := beginning(item, rest)):
            kept.append(above + cut)
            shortened = True
        break  # what follows is less important than what found no room
    text = _joined(section, kept) if kept else ""
    part = Part(
        section.name,
        len(kept),
        len(items) - len(kept),
        shortened,
        estimate_tokens(text),
        _why(section, len(items), len(limited), len(kept), shortened=shortened, most=most, room=room),
    )
    return text, part


def _joined(section: Section, items: Sequence[str]) -> str:
    preface = "" if section.remembered is None else PREFACE[section.remembered]
    return "\n\n".join([*filter(None, (section.heading, preface)), *items])


def _why(section: Section, given: int, limited: int, kept: int, *, shortened: bool, most: int, room: int) -> str:
    reasons = []
    if given > limited:
        reasons.append(f"{given - limited} of {given} items are more than its limit of {section.max_items}")
    whose = "its own limit" if most < room else "what the budget leaves"
    if limited > kept:
        reasons.append(f"{limited - kept} of {given} items do not fit into {whose}, {max(most, 0):,} tokens")
    if shortened:
        reasons.append(f"the last one was shortened to {whose}, {most:,} tokens")
    return f"{section.name}: {'; '.join(reasons)}" if reasons else ""
