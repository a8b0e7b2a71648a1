"""What goes before an answer: what a query asks for, and the memories found as sections of a prompt.

The intent is returned with the context and shown to people. It changes what is searched only where it is
``identity_recall``: weights and kinds by intent were measured, and find no more or less (docs/decisions.md).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import cache, partial
from typing import cast
from uuid import UUID

from pydantic import BaseModel

from engine.conversations.attributes import subject_words
from engine.conversations.endings import only_ends
from engine.conversations.marks import spans_in
from engine.heads.judgements import WORKED_OUT
from engine.text.keywords import keywords_ranked, single_characters
from engine.text.wordings import StatementKey
from engine.times.past import with_dates
from jiyi.protocol.conversations import KINDS, Intent, Kind
from jiyi.text.budget import estimate_tokens
from jiyi.text.clauses import clauses
from jiyi.text.prompt import PLACE, Line, Over, PromptStyle, Section, WrittenLine
from jiyi.text.sections import first, sections, union, unions
from jiyi.text.words import Language, normalise, tokens

#: Shares of the budget that each kind gets first; what it leaves goes to the best of any kind.
FLOORS: Mapping[Kind, float] = {"preference": 0.25, "knowledge": 0.40, "experience": 0.35}
#: From this share of a memory's words in its turn on the turn is shown in its place.
SAID_IN_TURN = 0.7
#: … unless the turn has more than so many times its tokens, and more than people usually say at a time.
LONGER, SHORT_TOKENS = 2.0, 150
#: Share of the budget that one answer of the assistant may have, any other memory, and all of the profile.
ANSWER_SHARE, TURN_SHARE, PROFILE_SHARE = 0.125, 0.4, 0.1
#: What a memory says it was the answer to.
_ASKED = re.compile(r"\(asked \".{1,400}?\"\) |（被问“.{1,400}?”）")


@dataclass(frozen=True, slots=True)
class MemoryCandidate:
    """A memory that was retrieved."""

    node_id: UUID
    kind: Kind
    text: str
    created_at: datetime
    score: float
    #: Of a turn: who says it; an assistant's long answers must not crowd out what people said.
    role: str | None = None
    #: Of a turn: whether its text says who speaks.
    has_speaker: bool = False
    #: Nobody said it: it was concluded from other memories.
    concluded: bool = False
    #: Of an extracted memory: the turns that it rests on.
    turn_ids: tuple[UUID, ...] = ()
    superseded_by: UUID | None = None
    superseded_at: datetime | None = None
    #: When a newer memory of the same answer says the same in other words, as far as rules can see.
    renewed_at: datetime | None = None
    session_id: str | None = None
    #: Of whom, from whom and for whom it is.
    subject: str | None = None
    user_id: str | None = None
    visibility: str | None = None
    trust: float = 0.0
    #: Parts of it that have ended, each with the day on which it did; and the newer memories that say so.
    ended: tuple[Over, ...] = ()
    newer: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True)
class Chosen:
    """A memory that may be shown, with the text that is shown of it."""

    candidate: MemoryCandidate
    text: str
    why: str
    #: Beside its own: what it stands for, or what stands for it.
    node_ids: tuple[UUID, ...] = ()
    #: How many memories it stands for that say the same; ids of the others, and of what ended parts of it.
    memory_count: int = 1
    folded: tuple[UUID, ...] = ()

    @property
    def ids(self) -> tuple[UUID, ...]:
        return self.candidate.node_id, *self.node_ids


def one_of_each(ranked: Sequence[MemoryCandidate]) -> list[Chosen]:
    """The candidates, best first: a memory and its turns once, at the better place, with the text shown."""
    turns = {candidate.node_id: candidate for candidate in ranked if candidate.kind == "session"}
    by_turn: dict[UUID, MemoryCandidate] = {}
    statements: dict[UUID, list[str]] = {}
    for candidate in ranked:
        if candidate.superseded_at is None:
            for turn_id in candidate.turn_ids:
                by_turn.setdefault(turn_id, candidate)
                statements.setdefault(turn_id, []).append(candidate.text)
    says_more = {
        turn_id
        for turn_id, texts in statements.items()
        if turn_id in turns and _says_more(turns[turn_id].text, texts)
    }
    shown_ids: set[UUID] = set()
    positions: dict[tuple[bool, StatementKey], int] = {}
    result: list[Chosen] = []
    for place, candidate in enumerate(ranked, 1):
        is_turn = candidate.kind == "session"
        best = by_turn.get(candidate.node_id, candidate) if is_turn else candidate
        over = candidate.superseded_at is not None and not is_turn
        if over or best.node_id in shown_ids or candidate.node_id in shown_ids:
            continue
        sources = [turns[turn_id] for turn_id in best.turn_ids if turn_id in turns]
        text, others = _text_of(best, sources, candidate, says_more)
        ended = tuple(dict.fromkeys(part for one in (best, *sources) for part in one.ended))
        renewed = next((one.renewed_at for one in (best, candidate, *sources) if one.renewed_at), None)
        best = replace(best, ended=ended, renewed_at=renewed)
        shown_ids.update((best.node_id, candidate.node_id, *others))
        choice = Chosen(best, text, f"place {place}", others)
        first = positions.setdefault(
            (candidate.superseded_at is None, StatementKey.of(text, best)), len(result)
        )
        if first == len(result):
            result.append(choice)
        else:  # said several times in the same words or nearly
            result[first] = _folded(result[first], choice)
    return list(_ended_once(result))


def _ended_once(choices: Sequence[Chosen]) -> Iterator[Chosen]:
    """Each part that has ended with the first of those who say it, and with what only ends it."""
    previous: set[tuple[str, date, bool]] = set()
    first: list[Chosen] = []
    for choice in choices:
        ended = tuple(part for part in choice.candidate.ended if part[:3] not in previous)
        previous.update(part[:3] for part in ended)
        if choice.text or ended:
            first.append(replace(choice, candidate=replace(choice.candidate, ended=ended)))
    reasons = {
        node_id: choice
        for choice in first
        if not choice.candidate.ended and only_ends(choice.text)
        for node_id in choice.ids
    }
    with_parts = {part.by for choice in first for part in choice.candidate.ended}
    for choice in first:
        if choice.candidate.ended:
            yield _with_reasons(choice, reasons)
        elif choice.candidate.node_id not in reasons or with_parts.isdisjoint(choice.ids):
            yield choice


def _with_reasons(choice: Chosen, reasons: Mapping[UUID, Chosen]) -> Chosen:
    """A memory with the words by which parts of it have ended."""
    by = [reasons.get(part.by) if part.by else None for part in choice.candidate.ended]
    ended = tuple(
        part if one is None else part._replace(reason=one.text)
        for part, one in zip(choice.candidate.ended, by, strict=True)
    )
    ids = tuple(node_id for one in by if one is not None for node_id in one.ids)
    return replace(
        choice,
        candidate=replace(choice.candidate, ended=ended),
        folded=tuple(dict.fromkeys([*choice.folded, *ids])),
    )


def _folded(first: Chosen, other: Chosen) -> Chosen:
    """The latest of the most trusted, at the place of the first; what was said before what was concluded."""

    def rank(choice: Chosen) -> tuple[bool, float, datetime]:
        return not choice.candidate.concluded, choice.candidate.trust, choice.candidate.created_at

    best = max(first, other, key=rank)
    why = first.why if best is first else f"{first.why}, in the words of {best.why}"
    ids = (*first.folded, *first.ids, *other.ids)
    folded = tuple(node_id for node_id in ids if node_id not in best.ids)
    return replace(best, why=why, memory_count=first.memory_count + 1, folded=folded)


def _says_more(turn: str, statements: Iterable[str]) -> bool:
    """Whether a turn has a part that none of these statements, which were taken from it, says."""
    spans = {span for statement in statements for span in spans_in(statement, turn)}
    return any((part.start, part.end) not in spans and subject_words(part.text) for part in clauses(turn))


def _says_all(turn: MemoryCandidate, memory: MemoryCandidate, text: str) -> bool:
    """Whether a turn has nearly all words of a memory's text."""
    words = set(tokens(WORKED_OUT.sub("", text))) - set(tokens(memory.subject or ""))
    return bool(words) and len(words & set(tokens(turn.text))) >= SAID_IN_TURN * len(words)


def _text_of(
    memory: MemoryCandidate,
    sources: Iterable[MemoryCandidate],
    ranked: MemoryCandidate,
    says_more: Collection[UUID],
) -> tuple[str, tuple[UUID, ...]]:
    """What is shown of a memory: its turn's words where they say all of it, else its own; ids of its turns.

    A turn that was found before the memory, and is longer, is shown at any length, and the question that the
    memory answers does not count. A turn that ``says_more`` than all that was found of it is shown, too: one
    fact of a message must not hide the others.
    """
    others = tuple(turn.node_id for turn in sources)
    if memory.kind == "session" or ranked.superseded_at is not None:
        return memory.text, ()
    size = estimate_tokens(memory.text)
    for turn in sources:
        turn_size = estimate_tokens(turn.text)
        found_first = turn is ranked and turn_size > size
        short = found_first or turn_size <= max(SHORT_TOKENS, LONGER * size)
        own = _ASKED.sub("", memory.text)
        says_all = _says_all(turn, memory, own if found_first else memory.text)
        hides = turn.node_id in says_more and len(memory.turn_ids) == 1 and not _says_all(turn, memory, own)
        if turn.superseded_at is None and short and (says_all or hides):
            return turn.text, others
    return memory.text, others


HEADINGS: dict[Language, dict[Kind, str]] = {
    "en": {
        "preference": "Preferences",
        "knowledge": "Knowledge",
        "experience": "Experience",
        "session": "Said earlier",
    },
    "zh": {"preference": "偏好", "knowledge": "知识", "experience": "经验", "session": "以前说过"},
}
PROFILE: dict[Language, str] = {"en": "Profile", "zh": "用户画像"}


#: A place of a template that is not called as its section is.
PLACES = {"preferences": "preference"}


def style_of(form: str, language: Language, template: str = "") -> PromptStyle:
    """How a context of a format is written; only ``markdown`` has titles."""
    if form == "json":
        return PromptStyle(language, "json")
    if form == "template":
        template = PLACE.sub(lambda match: f"{{{{{PLACES.get(match[1], match[1])}}}}}", template)
        return PromptStyle(language, "template", template, days="above")
    return PromptStyle(language, days="above")


def profile_section(lines: Iterable[str], language: Language, *, titled: bool) -> Section:
    """What is known of the user in general, a line each, where there is room."""
    title = f"## {PROFILE[language]}" if titled else ""
    return Section(title, [Line(line) for line in lines], name="profile", share=PROFILE_SHARE)


def memory_sections(ranked: Sequence[MemoryCandidate], language: Language, *, titled: bool) -> list[Section]:
    """The memories that were found, best first, each kind in a section of its own, in order of time."""
    lines: dict[Kind, list[Line]] = {kind: [] for kind in KINDS}
    for rank, choice in enumerate(one_of_each(ranked), 1):  # what has no rank is written first
        lines[choice.candidate.kind].append(_line(choice, rank))
    return [
        Section(
            f"## {HEADINGS[language][kind]}" if titled else "",
            sorted(of_kind, key=lambda line: line.item.candidate.created_at),
            name=kind,
            least=FLOORS.get(kind, 0.0),
        )
        for kind, of_kind in lines.items()
    ]


def _line(choice: Chosen, rank: int) -> Line:
    memory = choice.candidate
    own_words = choice.text == memory.text
    speaker = (
        memory.role or "" if own_words and not memory.has_speaker else ""
    )  # else the text names the speaker
    dated = memory.kind == "session" or not own_words
    return Line(
        choice.text,
        rank,
        memory.created_at,
        memory.superseded_at,
        memory.renewed_at,
        memory.ended,
        speaker=speaker,
        concluded=memory.concluded,
        share=ANSWER_SHARE if memory.role in ("assistant", "tool") else TURN_SHARE,
        finish=partial(with_dates, said_at=memory.created_at) if dated else None,
        item=choice,
    )


def why_shown(written: WrittenLine) -> str:
    """Why a memory's line is in a prompt, for people."""
    floor = ", within the floor of its kind" if written.floor else ""
    return f"{written.line.item.why}{floor}{', shortened' if written.shortened else ''}"


#: Characters of a query that are looked at: longer ones are documents, whose end may hold the question.
READ_CHARS = 4_000
#: Words that a query is expanded by at most.
MAX_EXPANSIONS = 24

_WEAK = re.compile(r"我|咱|俺|\b(?:i|i'm|i've|i'd|me|my|mine|myself|we|our|us)\b")
#: What only code is called: ``fetchData``, ``main()``; not iPhone.
_CALLED = re.compile(r"\b[a-z]{3,40}[A-Z][a-z]\w{0,40}\b|\b\w{1,60}\(\)")
_IDENTIFIER = re.compile(
    r"\b[A-Za-z]\w{0,60}(?:[._]\w{1,60}){1,8}\b|\b[a-z]{1,40}[A-Z]\w{0,40}\b|\b\w{1,60}\(\)"
)


class QueryAnalysis(BaseModel, frozen=True):
    """What a query asks for."""

    original: str
    keywords: list[str]
    intent: Intent
    #: Words of the same meaning, in either language.
    expansions: list[str]
    #: It only hints at the user (my, 我的): with few results, what is known of them fills up.
    weak_identity: bool


def analyse(query: str, industry: Mapping[str, Sequence[str]] | None = None) -> QueryAnalysis:
    """What a query asks for; ``industry``: the group's own keywords, each with words of the same meaning."""
    read = query[:READ_CHARS]
    text = normalise(read)
    intent = intent_of(read)
    identifiers = _IDENTIFIER.findall(read) if intent == "code" else []
    keywords = list(dict.fromkeys([*identifiers, *keywords_ranked(read), *single_characters(read)]))
    return QueryAnalysis(
        original=query,
        keywords=keywords,
        intent=intent,
        expansions=_expansions(text, keywords, industry or {}),
        weak_identity=_WEAK.search(text) is not None,
    )


def intent_of(query: str) -> Intent:
    """The first intent whose words are in a query; "general" for small talk, orders and the like."""
    text = normalise(query)
    if union(__package__, "identity.txt", "").search(text):
        return "identity_recall"
    if _CALLED.search(query):
        return "code"
    return cast("Intent", first(unions(__package__, "intents.txt"), text) or "general")


def _expansions(text: str, keywords: Sequence[str], industry: Mapping[str, Sequence[str]]) -> list[str]:
    own = set(keywords)
    of_group = [[*map(normalise, (keyword, *others))] for keyword, others in industry.items()]
    expansions: dict[str, None] = {}
    for group in (*_synonyms(), *of_group):
        if any(_says(word, text, own) for word in group):
            expansions |= dict.fromkeys(word for word in group if not _says(word, text, own))
    return list(expansions)[:MAX_EXPANSIONS]


def _says(word: str, text: str, keywords: set[str]) -> bool:
    """Whether a text has a word: Latin ones whole, a single Chinese character only where it is a word."""
    if word.isascii():
        return word in text and re.search(rf"(?<![a-z0-9]){re.escape(word)}(?![a-z0-9])", text) is not None
    return word in keywords if len(word) == 1 else word in text


@cache
def _synonyms() -> list[list[str]]:
    return [[word.strip() for word in line.split(",")] for line in sections(__package__, "synonyms.txt")[""]]
