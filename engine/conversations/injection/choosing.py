"""Which memories go before an answer: the best that fit into a budget, with a floor for each kind."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from uuid import UUID

from jiyi.protocol.conversations.types import Kind
from jiyi.text.budget import cut_to_tokens, estimate_tokens
from jiyi.text.tokens import tokens

#: Shares of the budget that each kind gets first (500, 800 and 700 of 2,000); what it leaves goes to the best of any kind.
FLOORS: Mapping[Kind, float] = {"preference": 0.25, "knowledge": 0.40, "experience": 0.35}
#: Only among so many of the best a memory has a right to its kind's floor: a floor is no reason to show what is beside the point.
FLOOR_PLACES = 10
#: A memory whose words are to this share in its turn adds nothing to it: the turn is shown in its place.
SAID_IN_TURN = 0.7
#: … unless the turn has more than so many times its tokens, and more than so many at all.
LONGER, SHORT_TOKENS = 2.0, 80
#: Share of the budget that one answer of the assistant, or any other turn, may have; and tokens that each may have anyhow.
ANSWER_SHARE, TURN_SHARE, LEAST_TOKENS = 0.125, 0.4, 40
#: Tokens of the mark that something is no longer so.
MARK_TOKENS = 18
#: Shorter rests of a text say nothing.
WORTH_SHOWING = 12
#: A day that was worked out for a memory is no word of it: the turn stands below its own day, from which "yesterday" follows.
_WORKED_OUT = re.compile(r" ?\(\d{4}-\d{2}-\d{2}[^()]{0,20}\)")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A memory that was retrieved."""

    node_id: UUID
    kind: Kind
    text: str
    created_at: datetime
    score: float
    #: Of a turn: who says it; an assistant's long answers must not crowd out what people said.
    role: str | None = None
    #: Of a turn: whether its text says who speaks.
    named: bool = False
    #: Of an extracted memory: the turns that it rests on.
    turn_ids: tuple[UUID, ...] = ()
    superseded_by: UUID | None = None
    superseded_at: datetime | None = None
    #: When a newer memory of the same answer says anew what this one said, as far as can be told without a model.
    renewed_at: datetime | None = None
    session_id: str | None = None


@dataclass(frozen=True, slots=True)
class Chosen:
    """A memory to be shown, with the text that is shown of it."""

    candidate: Candidate
    text: str
    why: str
    #: Beside its own: what it stands for, or what stands for it.
    node_ids: tuple[UUID, ...] = ()
    shortened: bool = False

    @property
    def tokens(self) -> int:
        """With the mark that it is no longer so, if it has one."""
        marked = self.candidate.superseded_at is not None or self.candidate.renewed_at is not None
        return estimate_tokens(self.text) + (MARK_TOKENS if marked else 0)


@dataclass(frozen=True, slots=True)
class Price:
    """Tokens beside a text: of its line, and of the day that stands once above all lines of a day and a kind."""

    line: int
    day: int = 0


@dataclass(slots=True)
class _Budget:
    """What is left, and what is taken already."""

    left: int
    price: Price
    taken: dict[Kind, int] = field(default_factory=dict)
    days: set[tuple[Kind, date]] = field(default_factory=set)

    def cost(self, chosen: Chosen) -> int:
        return chosen.tokens + self.price.line + (0 if _day(chosen) in self.days else self.price.day)

    def take(self, chosen: Chosen, cost: int) -> bool:
        if cost > self.left:
            return False
        self.left -= cost
        self.days.add(_day(chosen))
        kind = chosen.candidate.kind
        self.taken[kind] = self.taken.get(kind, 0) + cost
        return True


def _day(chosen: Chosen) -> tuple[Kind, date]:
    return chosen.candidate.kind, chosen.candidate.created_at.date()


def choose(ranked: Sequence[Candidate], budget: int, price: Price) -> list[Chosen]:
    """The memories that go into ``budget`` tokens, best first; ``ranked`` has the best first, too."""
    room = _Budget(budget, price)
    offered = _one_of_each(ranked, budget)
    taken: dict[UUID, Chosen] = {}
    full: set[Kind] = set()  # a kind's best does not fit any more: what is worse goes before no other's better
    for one in offered[:FLOOR_PLACES]:
        kind, cost = one.candidate.kind, room.cost(one)
        floor = FLOORS.get(kind, 0.0) * budget
        if kind in full or room.taken.get(kind, 0) + cost > floor or not room.take(one, cost):
            full.add(kind)
        else:
            taken[one.candidate.node_id] = replace(one, why=f"{one.why}, within the floor of its kind")
    for one in offered:
        if one.candidate.node_id not in taken and room.take(one, room.cost(one)):
            taken[one.candidate.node_id] = one
    return [taken[one.candidate.node_id] for one in offered if one.candidate.node_id in taken]


def _one_of_each(ranked: Sequence[Candidate], budget: int) -> list[Chosen]:
    """The candidates with the text to be shown, a memory and its turns once, at the better place of the two."""
    turns = {one.node_id: one for one in ranked if one.kind == "session"}
    told: dict[UUID, Candidate] = {}
    for one in ranked:
        if one.superseded_at is None:
            for turn_id in one.turn_ids:
                told.setdefault(turn_id, one)
    shown: set[UUID] = set()
    found = []
    for place, one in enumerate(ranked, 1):
        best = told.get(one.node_id, one) if one.kind == "session" else one
        if best.node_id in shown or one.node_id in shown or (one.superseded_at is not None and one.kind != "session"):
            continue
        sources = [turns[turn_id] for turn_id in best.turn_ids if turn_id in turns]
        text, others = _told(best, sources, one)
        renewed = next((candidate.renewed_at for candidate in (best, one, *sources) if candidate.renewed_at is not None), None)
        best = replace(best, renewed_at=renewed)
        shown.update((best.node_id, one.node_id, *others))
        found.append(_limited(best, text, f"place {place}", others, budget))
    return found


def _told(memory: Candidate, sources: Iterable[Candidate], ranked: Candidate) -> tuple[str, tuple[UUID, ...]]:
    """What is shown of a memory: its turn's words where they say all of it, else its own; and whose they are, too."""
    others = tuple(turn.node_id for turn in sources)
    if memory.kind == "session" or ranked.superseded_at is not None:
        return memory.text, ()
    words = set(tokens(_WORKED_OUT.sub("", memory.text)))
    for turn in sources:
        said = set(tokens(turn.text))
        short = estimate_tokens(turn.text) <= max(SHORT_TOKENS, LONGER * estimate_tokens(memory.text))
        if turn.superseded_at is None and short and words and len(words & said) >= SAID_IN_TURN * len(words):
            return turn.text, others
    return memory.text, others


def _limited(memory: Candidate, text: str, why: str, others: tuple[UUID, ...], budget: int) -> Chosen:
    share = ANSWER_SHARE if memory.role in ("assistant", "tool") else TURN_SHARE
    most = max(LEAST_TOKENS, int(share * budget))
    if estimate_tokens(text) <= most:
        return Chosen(memory, text, why, others)
    return Chosen(memory, cut_to_tokens(text, most), f"{why}, shortened", others, shortened=True)
