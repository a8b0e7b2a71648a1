"""The text that goes before an answer: the best memories that fit into a budget, with a floor for each kind.

Every text of a memory is quoted (:mod:`jiyi.text.prompting`), so that nothing remembered passes for the prompt around it.

What a query asks for: its intent, its keywords, and words of the same meaning.

The intent is told with the context and shown to people. It changes what is searched only where it is ``identity_recall``: weights and kinds
by intent were measured, and find no more or less (docs/decisions.md).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import cache
from itertools import groupby
from typing import cast
from uuid import UUID

from engine.heads.judgements import WORKED_OUT
from engine.text.keywords import keywords_ranked, single_characters
from engine.text.wordings import Told
from jiyi.protocol.conversations import KINDS, Intent, Kind, QueryAnalysis
from jiyi.text.budget import cut_to_tokens, estimate_tokens
from jiyi.text.prompting import PREFACE, quoted, visible
from jiyi.text.sections import first, sections, union, unions
from jiyi.text.words import Language, normalise, tokens

#: Shares of the budget that each kind gets first (500, 800 and 700 of 2,000); what it leaves goes to the best of any kind.
FLOORS: Mapping[Kind, float] = {"preference": 0.25, "knowledge": 0.40, "experience": 0.35}
#: Only among so many of the best a memory has a right to its kind's floor: a floor is no reason to show what is beside the point.
FLOOR_PLACES = 5
#: A memory whose words are to this share in its turn adds nothing to it: the turn is shown in its place.
SAID_IN_TURN = 0.7
#: … unless the turn has more than so many times its tokens, and more than people usually say at a time.
LONGER, SHORT_TOKENS = 2.0, 150
#: Share of the budget that one answer of the assistant, or any other turn, may have; and tokens that each may have anyhow.
ANSWER_SHARE, TURN_SHARE, LEAST_TOKENS = 0.125, 0.4, 40
#: Tokens of the mark that something is no longer so.
MARK_TOKENS = 18
#: Shorter rests of a text say nothing.
WORTH_SHOWING = 12
#: What a memory says it was the answer to.
_ASKED = re.compile(r"\(asked \".{1,400}?\"\) |（被问“.{1,400}?”）")


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
    #: Of whom, from whom and for whom it is: what two people say stands beside each other.
    subject: str | None = None
    user_id: str | None = None
    visibility: str | None = None
    trust: float = 0.0
    #: Parts of it that have ended, each with the day on which it did.
    ended: tuple[tuple[str, date], ...] = ()


@dataclass(frozen=True, slots=True)
class Chosen:
    """A memory to be shown, with the text that is shown of it."""

    candidate: Candidate
    text: str
    why: str
    #: Beside its own: what it stands for, or what stands for it.
    node_ids: tuple[UUID, ...] = ()
    #: With the mark that it is no longer so, if it has one.
    tokens: int = 0
    #: How many memories it stands for that tell the same, and the ids of the others.
    seen: int = 1
    folded: tuple[UUID, ...] = ()

    @property
    def ids(self) -> tuple[UUID, ...]:
        return self.candidate.node_id, *self.node_ids


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
        return chosen.tokens + self.price.line + (0 if _kind_and_day(chosen) in self.days else self.price.day)

    def take(self, chosen: Chosen, cost: int) -> bool:
        if cost > self.left:
            return False
        self.left -= cost
        self.days.add(_kind_and_day(chosen))
        kind = chosen.candidate.kind
        self.taken[kind] = self.taken.get(kind, 0) + cost
        return True


def _kind_and_day(chosen: Chosen) -> tuple[Kind, date]:
    return chosen.candidate.kind, chosen.candidate.created_at.date()


def choose(ranked: Sequence[Candidate], budget: int, price: Price) -> list[Chosen]:
    """The memories that go into ``budget`` tokens, best first; ``ranked`` has the best first, too."""
    return _chosen(_one_of_each(ranked, budget), budget, price)


def _chosen(offered: Sequence[Chosen], budget: int, price: Price) -> list[Chosen]:
    room = _Budget(budget, price)
    taken: dict[UUID, Chosen] = {}
    full: set[Kind] = set()  # a kind's best does not fit any more: what is worse goes before no other's better
    for choice in offered[:FLOOR_PLACES]:
        kind, cost = choice.candidate.kind, room.cost(choice)
        floor = FLOORS.get(kind, 0.0) * budget
        if kind in full or room.taken.get(kind, 0) + cost > floor or not room.take(choice, cost):
            full.add(kind)
        else:
            taken[choice.candidate.node_id] = replace(choice, why=f"{choice.why}, within the floor of its kind")
    for choice in offered:
        if choice.candidate.node_id not in taken and room.take(choice, room.cost(choice)):
            taken[choice.candidate.node_id] = choice
    return [taken[choice.candidate.node_id] for choice in offered if choice.candidate.node_id in taken]


def _one_of_each(ranked: Sequence[Candidate], budget: int) -> list[Chosen]:
    """The candidates with the text to be shown, a memory and its turns once, at the better place of the two."""
    turns = {candidate.node_id: candidate for candidate in ranked if candidate.kind == "session"}
    told: dict[UUID, Candidate] = {}
    for candidate in ranked:
        if candidate.superseded_at is None:
            for turn_id in candidate.turn_ids:
                told.setdefault(turn_id, candidate)
    shown: set[UUID] = set()
    said: dict[tuple[bool, Told], int] = {}
    result: list[Chosen] = []
    for place, candidate in enumerate(ranked, 1):
        best = told.get(candidate.node_id, candidate) if candidate.kind == "session" else candidate
        if best.node_id in shown or candidate.node_id in shown or (candidate.superseded_at is not None and candidate.kind != "session"):
            continue
        sources = [turns[turn_id] for turn_id in best.turn_ids if turn_id in turns]
        text, others = _told(best, sources, candidate)
        best = replace(best, ended=tuple(dict.fromkeys(part for one in (best, *sources) for part in one.ended)))
        renewed = next((other.renewed_at for other in (best, candidate, *sources) if other.renewed_at is not None), None)
        best = replace(best, renewed_at=renewed)
        shown.update((best.node_id, candidate.node_id, *others))
        choice = _limited(best, text, f"place {place}", others, budget)
        first = said.setdefault((candidate.superseded_at is None, Told.of(text, best)), len(result))
        if first == len(result):
            result.append(choice)
        else:  # told several times in the same words or nearly
            result[first] = _folded(result[first], choice)
    return result


def _folded(first: Chosen, other: Chosen) -> Chosen:
    """The latest of the most trusted, at the place of the first."""
    shown = max(first, other, key=lambda choice: (choice.candidate.trust, choice.candidate.created_at))
    ids = (*first.folded, *first.ids, *other.ids)
    why = first.why if shown is first else f"{first.why}, in the words of {shown.why}"
    return replace(shown, why=why, seen=first.seen + 1, folded=tuple(node_id for node_id in ids if node_id not in shown.ids))


def _told(memory: Candidate, sources: Iterable[Candidate], ranked: Candidate) -> tuple[str, tuple[UUID, ...]]:
    """What is shown of a memory: its turn's words where they say all of it, else its own; and whose they are, too.

    A turn that was found before the memory, and is longer, may have been found for the rest of it: it is shown at any length, and the
    question that the memory answers is no part of what it has to say.
    """
    others = tuple(turn.node_id for turn in sources)
    if memory.kind == "session" or ranked.superseded_at is not None:
        return memory.text, ()
    size = estimate_tokens(memory.text)
    for turn in sources:
        turn_size = estimate_tokens(turn.text)
        found_first = turn is ranked and turn_size > size
        words = set(tokens(WORKED_OUT.sub("", _ASKED.sub("", memory.text) if found_first else memory.text)))
        says_all = bool(words) and len(words & set(tokens(turn.text))) >= SAID_IN_TURN * len(words)
        short = found_first or turn_size <= max(SHORT_TOKENS, LONGER * size)
        if turn.superseded_at is None and short and says_all:
            return turn.text, others
    return memory.text, others


def _limited(memory: Candidate, text: str, why: str, others: tuple[UUID, ...], budget: int) -> Chosen:
    share = ANSWER_SHARE if memory.role in ("assistant", "tool") else TURN_SHARE
    most = max(LEAST_TOKENS, int(share * budget))
    size = estimate_tokens(text)
    if size > most:
        text, why = cut_to_tokens(text, most), f"{why}, shortened"
        size = estimate_tokens(text)
    marked = memory.superseded_at is not None or memory.renewed_at is not None
    ended = sum(estimate_tokens(part) + MARK_TOKENS for part, _ in memory.ended)
    return Chosen(memory, text, why, others, (size + (MARK_TOKENS if marked else 0) if text else 0) + ended)


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
    chosen: list[Chosen] = []
    text = write(chosen, style)
    size = estimate_tokens(text)
    offered = _one_of_each(ranked, budget - size)
    room = budget - size - _headings(style)
    for _ in range(TRIES):  # not every heading is there, and a line may cost less than its price, or a little more
        more = _chosen(offered, room, price) if room >= WORTH_SHOWING else []
        written = write(more, style)
        left = budget - (written_size := estimate_tokens(written))
        whole = len(more) == len(offered) and left >= 0
        while more and written_size > budget:  # without the worst
            more = more[:-1]
            written = write(more, style)
            written_size = estimate_tokens(written)
        if more and (not chosen or written_size > size):
            chosen, text, size = more, written, written_size
        if whole or 0 <= left <= price.line:  # nothing more fits
            break
        room += left
    if (not chosen and not style.profile) or size > budget:
        return Rendered("", 0, [])
    return Rendered(text, size, [choice for kind in KINDS for choice in _of(kind, chosen)])


def _with_fitting_profile(style: Style, write: Callable[[Sequence[Chosen], Style], str], budget: int) -> Style:
    """The profile may have a tenth of the budget."""
    lines = list(style.profile)
    while lines and estimate_tokens("\n".join(map(quoted, lines))) * 10 > budget:
        lines.pop()
    fitting = Style(style.format, style.language, style.template, tuple(lines))
    return fitting if estimate_tokens(write([], fitting)) <= budget else Style(style.format, style.language, style.template)


def _of(kind: Kind, chosen: Sequence[Chosen]) -> list[Chosen]:
    of_kind = [choice for choice in chosen if choice.candidate.kind == kind]
    return sorted(of_kind, key=lambda choice: choice.candidate.created_at)


def _lines(chosen: Sequence[Chosen], language: Language) -> list[str]:
    """A line for each, below the day on which it was said; of days of one year the first says it, because its digits cost most of a day."""
    lines = []
    year = None
    for day, these in groupby(chosen, key=lambda choice: choice.candidate.created_at.date()):
        lines.append(_day(day, language, with_year=day.year != year))
        for choice in these:
            lines += [_line(choice, language)] if choice.text else []
            lines += [f"{quoted(part)} ({EARLIER[language].format(day=_day(over, language))})" for part, over in choice.candidate.ended]
        year = day.year
    return lines


def _line(choice: Chosen, language: Language) -> str:
    memory = choice.candidate
    ends = ""
    if memory.superseded_at is not None:
        ends = f" ({EARLIER[language].format(day=_day(memory.superseded_at, language))})"
    elif memory.renewed_at is not None:
        ends = f" ({RENEWED[language].format(day=_day(memory.renewed_at, language))})"
    speaker = f"{role}: " if (role := _speaker(choice)) else ""
    return f"{speaker}{quoted(choice.text)}{ends}"


def _speaker(choice: Chosen) -> str | None:
    """Who said a turn that is shown in its own words and names nobody."""
    memory = choice.candidate
    return memory.role if choice.text == memory.text and not memory.named else None


#: A day without and with its year; in English in words: a tokenizer counts each digit (8 May 2023 is two thirds of 2023-05-08).
_DAYS: dict[Language, tuple[str, str]] = {"en": ("{0.day} {0:%B}", "{0.day} {0:%B %Y}"), "zh": ("{0:%m-%d}", "{0:%Y-%m-%d}")}


def _day(at: date, language: Language, *, with_year: bool = True) -> str:
    return _DAYS[language][with_year].format(at)


#: Tokens of a line's quotes and of the speaker of a turn without a name; and of a day above its lines, by format.
PRICES = {"markdown": Price(3, 8), "compact": Price(3, 8), "template": Price(3, 8), "json": Price(34)}


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
    by_day = sorted(chosen, key=lambda choice: choice.candidate.created_at)
    return "\n".join([PREFACE[style.language], *map(quoted, style.profile), *_lines(by_day, style.language)])


def _json(chosen: Sequence[Chosen], style: Style) -> str:
    content: dict[str, object] = {"note": PREFACE[style.language]}
    if style.profile:
        content["profile"] = list(style.profile)
    for kind in KINDS:
        if these := _of(kind, chosen):
            content[kind] = [_entry(choice) for choice in these]
    return visible(json.dumps(content, ensure_ascii=False))


def _entry(choice: Chosen) -> dict[str, str]:
    ended = {}
    if choice.candidate.superseded_at is not None:
        ended = {"until": _day(choice.candidate.superseded_at, "zh")}
    elif choice.candidate.renewed_at is not None:
        ended = {"said_anew": _day(choice.candidate.renewed_at, "zh")}
    speaker = {"speaker": role} if (role := _speaker(choice)) else {}
    over = (
        {"no_longer": "; ".join(f"{part} (until {_day(day, 'zh')})" for part, day in choice.candidate.ended)}
        if choice.candidate.ended
        else {}
    )
    return {"day": _day(choice.candidate.created_at, "zh"), **speaker, "text": choice.text, **ended, **over}


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


#: Characters of a query that are looked at: longer ones are documents, whose end may hold the question.
READ_CHARS = 4_000
#: Words that a query is expanded by at most.
MAX_EXPANSIONS = 24

#: The kinds that the answer is likely to be of, the most likely first.
TARGETS: dict[Intent, list[Kind]] = {
    "preference": ["preference"],
    "knowledge": ["knowledge", "session"],
    "experience": ["experience"],
    "code": ["knowledge", "experience"],
    "identity_recall": ["preference", "knowledge"],
    "general": list(KINDS),
}
_WEAK = re.compile(r"我|咱|俺|\b(?:i|i'm|i've|i'd|me|my|mine|myself|we|our|us)\b")
#: Code keeps its identifiers whole: ``load_config``, ``fetchData``, ``app.py`` (§4.16).
#: What only code is called: ``fetchData``, ``main()``; not iPhone.
_CALLED = re.compile(r"\b[a-z]{3,40}[A-Z][a-z]\w{0,40}\b|\b\w{1,60}\(\)")
_IDENTIFIER = re.compile(r"\b[A-Za-z]\w{0,60}(?:[._]\w{1,60}){1,8}\b|\b[a-z]{1,40}[A-Z]\w{0,40}\b|\b\w{1,60}\(\)")


def analyse(query: str, industry: Mapping[str, Sequence[str]] | None = None) -> QueryAnalysis:
    """What the query asks for.

    Args:
        query: the user's words.
        industry: the group's own keywords, each with words of the same meaning.
    """
    read = query[:READ_CHARS]
    text = normalise(read)
    intent = intent_of(read)
    identifiers = _IDENTIFIER.findall(read) if intent == "code" else []
    keywords = list(dict.fromkeys([*identifiers, *keywords_ranked(read), *single_characters(read)]))
    return QueryAnalysis(
        original=query,
        keywords=keywords,
        intent=intent,
        target_types=TARGETS[intent],
        expansions=_expansions(text, keywords, industry or {}),
        weak_identity=_WEAK.search(text) is not None,
    )


def intent_of(query: str) -> Intent:
    """The first intent whose words are in a query; "general" for what asks for nothing, as small talk and orders."""
    text = normalise(query)
    if union("engine.conversations", "identity.txt", "").search(text):
        return "identity_recall"
    if _CALLED.search(query):
        return "code"
    return cast("Intent", first(unions("engine.conversations", "intents.txt"), text) or "general")


def _expansions(text: str, keywords: Sequence[str], industry: Mapping[str, Sequence[str]]) -> list[str]:
    own = set(keywords)
    expansions: dict[str, None] = {}
    for group in _synonyms():
        if any(_says(word, text, own) for word in group):
            expansions |= dict.fromkeys(word for word in group if not _says(word, text, own))
    for keyword, others in industry.items():
        group = [normalise(keyword), *map(normalise, others)]
        if any(_says(word, text, own) for word in group):
            expansions |= dict.fromkeys(word for word in group if not _says(word, text, own))
    return list(expansions)[:MAX_EXPANSIONS]


def _says(word: str, text: str, keywords: set[str]) -> bool:
    """Whether a text has a word: Latin ones whole, a Chinese character by itself only where it is a word."""
    if word.isascii():
        return re.search(rf"(?<![a-z0-9]){re.escape(word)}(?![a-z0-9])", text) is not None
    return word in keywords if len(word) == 1 else word in text


@cache
def _synonyms() -> list[list[str]]:
    return [[word.strip() for word in line.split(",")] for line in sections("engine.conversations", "synonyms.txt")[""]]
