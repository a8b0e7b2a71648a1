"""What stays the same of a session's prompts, for every process the same bytes, and what was recalled.

Subjects add to prompts with :func:`prompt_source`; ``models.wiring`` lists their modules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, bindparam, func, select, text, update
from sqlalchemy.dialects.postgresql import JSONB

from engine.conversations.injection import HEADINGS, PROFILE
from engine.conversations.stable import (
    STABLE_SHARE,
    Basis,
    Stable,
    is_crowded,
    profile_lines,
    stable_of,
    vital_fact,
    vital_section,
)
from jiyi.protocol.conversations import ContextRequest, Kind
from jiyi.text.prompt import Line, PromptStyle, Section, compose
from jiyi.text.words import Language, text_digest
from models.conversations import injections
from models.conversations.tables import SessionPrompt
from models.db.connection import unit_of_work
from models.memory.agents import AgentName, bind_name
from models.memory.event_types import Hooks
from models.operations import numbers

#: The kind of memories that a session's prompt begins with; what a fact begins with that is one.
STANDING: Kind = "preference"
MEMORY = "memory:"
#: Preferences that are looked at, the most important: more than fit.
PREFERENCES = 200
#: Most of the stable part that they, and the profile, may have.
PREFERENCES_SHARE, PROFILE_SHARE = 0.3, 0.2
#: Days after which a session's prompt is made again.
KEPT_DAYS = 7


@dataclass(frozen=True, slots=True)
class Grown:
    """What subjects add to a prompt: sections of its stable part, and those that fit a user's message."""

    stable: Sequence[Section] = ()
    fitting: Callable[[str], list[Section]] = lambda _query: []


#: Read what a subject adds, for a user (None: the agent's one user), in a language.
prompt_source: Hooks[Callable[[Connection, AgentName, str | None, Language], Grown]] = Hooks()


def grown_of(connection: Connection, name: AgentName, user_id: str | None, language: Language) -> Grown:
    sources = [source(connection, name, user_id, language) for source in prompt_source]
    return Grown(
        [section for source in sources for section in source.stable],
        lambda query: [section for source in sources for section in source.fitting(query)],
    )


def composed(sections: Sequence[Section], most: int, language: Language) -> Stable:
    return stable_of(compose(sections, most, PromptStyle(language)))


@dataclass(frozen=True, slots=True)
class Recalled:
    """What was recalled for one message of a session."""

    turn: int
    #: Of the message: an edited one in its place has its own memories.
    digest: str
    text: str
    tokens: int
    node_ids: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A session's stable part, what was recalled for earlier messages, and for the ``same`` one."""

    stable: Stable
    earlier: list[Recalled] = field(default_factory=list)
    same: Recalled | None = None

    @property
    def earlier_tokens(self) -> int:
        return sum(recalled.tokens for recalled in self.earlier)

    @property
    def shown(self) -> set[UUID]:
        """Memories, and turns, that need not be recalled again."""
        earlier = (UUID(node_id) for recalled in self.earlier for node_id in recalled.node_ids)
        return {*self.stable.node_ids, *earlier}


def prepare(
    connection: Connection, name: AgentName, request: ContextRequest, language: Language, grown: Grown
) -> Prepared:
    """The session's prompt as it was; made again where asked for, out of date, or over the budget.

    The first of several processes makes it, in a transaction: the others wait for that, and find it.
    """
    maker = _Maker(connection, name, request, language, grown)
    if request.session_id is None:
        return Prepared(maker.made())
    whose = _whose(name, request)
    prepared = maker.kept(connection.execute(_READ, whose).one_or_none())
    if prepared is not None:
        return prepared
    with unit_of_work() as writing:
        row = writing.execute(_LOCK, whose).one_or_none()
        if row is None:
            writing.execute(_BEGIN, whose)
            row = writing.execute(_LOCK, whose).one()
        maker = replace(maker, connection=writing)
        prepared = maker.kept(row)
        if prepared is None:
            stable = maker.made()
            writing.execute(_CHANGE.values(**asdict(stable), recalled=[], made_at=func.now()), whose)
            prepared = Prepared(stable)
    return prepared


@dataclass(frozen=True, slots=True)
class _Maker:
    """Makes the stable part of a prompt, and sees whether one still holds."""

    connection: Connection
    name: AgentName
    request: ContextRequest
    language: Language
    grown: Grown

    @property
    def most(self) -> float:
        return self.request.max_tokens * STABLE_SHARE

    def kept(self, row: Any) -> Prepared | None:
        """What a row says, if it still holds."""
        if row is None or row.made_at is None or self.request.renew:
            return None
        stable = Stable(row.opening, row.body, row.facts, row.node_ids)
        if stable.tokens > self.most:
            return None
        vital = vital_fact(self._vital())
        current_facts = self._current_facts(stable.facts)
        if vital not in stable.facts or not {vital, *current_facts}.issuperset(stable.facts):
            return None
        return _prepared(stable, [Recalled(**entry) for entry in row.recalled], self.request)

    def made(self) -> Stable:
        vital = self._vital()
        vital_ids = {node_id for line in vital.lines for node_id in line.item.node_ids}
        preferences = injections.most_important(
            self.connection, self.name, self.request, [STANDING], PREFERENCES, beside_session=False
        )
        lines = [
            Line(
                preference.text,
                item=Basis((f"{MEMORY}{preference.node_id}",), (preference.node_id, *preference.turn_ids)),
            )
            for preference in preferences
            if preference.node_id not in vital_ids
        ]
        of_memory = Section(f"## {HEADINGS[self.language][STANDING]}", lines, share=PREFERENCES_SHARE)
        sections = [*self._beside_memories(), vital, of_memory]
        stable = composed(sections, int(self.most), self.language)
        return replace(stable, facts=[*stable.facts, vital_fact(vital)])

    def _vital(self) -> Section:
        return vital_section(injections.of_health(self.connection, self.name, self.request), self.language)

    def _current_facts(self, facts: Sequence[str]) -> set[str]:
        """Of these facts those that still hold: to look up each memory is less than to choose all again."""
        memories = [UUID(fact.removeprefix(MEMORY)) for fact in facts if fact.startswith(MEMORY)]
        whose = (self.connection, self.name, self.request, [STANDING])
        still = injections.current_ids(*whose, memories) if memories else ()
        section_facts = {
            fact for section in self._beside_memories() for line in section.lines for fact in line.item.facts
        }
        return section_facts | {f"{MEMORY}{node_id}" for node_id in still}

    def _beside_memories(self) -> list[Section]:
        sections = list(self.grown.stable)
        profile = injections.find_profile(self.connection, self.name, self.request.user_id)
        if profile is not None:
            lines = profile_lines(profile, self.language)
            sections.append(Section(f"## {PROFILE[self.language]}", lines, share=PROFILE_SHARE))
        return sections


def keep(
    connection: Connection, name: AgentName, request: ContextRequest, prepared: Prepared, recalled: Recalled
) -> Recalled:
    """Keep what was recalled for a message; gives what another process has kept for it meanwhile."""
    whose = _whose(name, request)
    entries = [asdict(entry) for entry in (*prepared.earlier, recalled)]
    this = {"turn": recalled.turn, "digest": recalled.digest}
    changed_row = connection.execute(_KEEP.values(recalled=entries), {**whose, "this": [this]}).one_or_none()
    if changed_row is not None:
        return recalled
    row = connection.execute(_READ, whose).one_or_none()
    if row is None:  # erased meanwhile
        return recalled
    return next((Recalled(**entry) for entry in row.recalled if this.items() <= entry.items()), recalled)


def digest_of(query: str) -> str:
    return text_digest(query).hex()[:32]


def _prepared(stable: Stable, recalled: Sequence[Recalled], request: ContextRequest) -> Prepared:
    if request.turn is None:
        return Prepared(stable)
    digest = digest_of(request.query)
    same = next((entry for entry in recalled if (entry.turn, entry.digest) == (request.turn, digest)), None)
    earlier = Prepared(stable, [entry for entry in recalled if entry.turn < request.turn], same)
    crowded = same is None and is_crowded(request.max_tokens, stable.tokens, earlier.earlier_tokens)
    return Prepared(stable) if crowded else earlier


def _whose(name: AgentName, request: ContextRequest) -> dict[str, Any]:
    return {**bind_name(name), "user": request.user_id or injections.NO_USER, "session": request.session_id}


_P = SessionPrompt
_OF = (
    *(_P.group_id == bindparam("group"), _P.agent_id == bindparam("agent")),
    *(_P.user_id == bindparam("user"), _P.session_id == bindparam("session")),
)
_BEGIN = text("""
    INSERT INTO session_prompts (group_id, agent_id, user_id, session_id)
    VALUES (:group, :agent, :user, :session) ON CONFLICT DO NOTHING
""")
_READ = select(_P.opening, _P.body, _P.facts, _P.node_ids, _P.recalled, _P.made_at).where(*_OF)
_LOCK = _READ.with_for_update()
_CHANGE = update(_P).where(*_OF)
#: Unless there is something for this message.
_KEEP = _CHANGE.where(~_P.recalled.contains(bindparam("this", type_=JSONB))).returning(_P.made_at)
numbers.prunes("session_prompts", "made_at < :before", KEPT_DAYS)
