"""What an observation becomes: the derived fields of a memory node, without any I/O.

Fields that an event lacks, asked of the LLM: its poignancy, its triple, its keywords.

After ``perceive`` and ``generate_poig_score`` of joonspk-research/generative_agents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from engine.heads.judgements import concerns_health
from engine.providers.llm_prompts import signature
from engine.providers.llms import LLM, RULES
from engine.providers.questions import Keywords, Poignancy, Question, Triple
from engine.text.keywords import keywords_of
from jiyi.client.perceive import IDLE_POIGNANCY
from jiyi.protocol.agents import AgentSettings
from jiyi.protocol.base import NodeType
from jiyi.protocol.events import MemoryObserved, Observation
from jiyi.protocol.origins import DEFAULT_ORIGIN, STANDING_TRUST, TRUST, Origin
from jiyi.settings import Settings
from jiyi.text.words import content_digest, is_idle, language_of, text_digest, tokens

#: Reflections fade: the original gives thoughts thirty days.
THOUGHT_LIFETIME = timedelta(days=30)


class Derived(NamedTuple):
    embedding_key: str
    #: SHA-256 of the unchanged embedding key: equal text, equal vector.
    key_hash: bytes
    #: SHA-256 of the normalised description, and of whose it is (:func:`content_key`): equal memory.
    content_hash: bytes
    keywords: list[str]
    #: Of the description and of what was said, for lexical search.
    tokens: list[str]
    #: The description has words of health (:func:`engine.heads.judgements.concerns_health`).
    health: bool
    is_idle: bool
    expires_at: datetime | None
    origin: Origin


class MemorySource(NamedTuple):
    """Where a memory comes from that did not come by a program's event, and how far it is trusted at most."""

    origin: Origin
    trust: float = 1.0


def source_of_llm(llm: str) -> MemorySource:
    return MemorySource("rules" if llm.startswith(RULES) else "model")


class Rest(NamedTuple):
    #: Events and chats 0; a thought one more than the deepest of its evidence, 1 without any known.
    depth: int
    #: At most that of the least trusted of its evidence.
    trust: float


def resting_on(node_type: str, trust: float, evidence: Sequence[Rest]) -> Rest:
    """Depth and trust of a memory, by its own ``trust`` and those of its known evidence."""
    depth = 1 + max((rest.depth for rest in evidence), default=0) if node_type == "thought" else 0
    return Rest(depth, min([trust, *(rest.trust for rest in evidence)]))


def trust_of(observation: Observation, source: MemorySource | None = None) -> float:
    """A memory's own trust, without its evidence: that of its origin, unless it claims less."""
    own = (
        TRUST[observation.origin or DEFAULT_ORIGIN]
        if source is None
        else min(source.trust, TRUST[source.origin])
    )
    return own if observation.trust is None else min(own, observation.trust)


def content_key(description: str, user_id: str | None, origin: Origin) -> bytes:
    """Equal for equal memories. What an assistant, a document or a tool says is never one with what the user
    says.
    """
    if TRUST[origin] > STANDING_TRUST:
        return content_digest(description, user_id)
    return content_digest(description, f"{user_id or ''}\x00{origin}")  # which no name of a user holds


def derive(event: MemoryObserved, source: MemorySource | None = None) -> Derived:
    observation = event.payload
    origin = source.origin if source is not None else observation.origin or DEFAULT_ORIGIN
    key = observation.embedding_key or observation.description
    expires_at = observation.expires_at
    if expires_at is None and observation.node_type == "thought":
        expires_at = event.occurred_at + THOUGHT_LIFETIME
    keywords = observation.keywords
    if keywords is None:
        keywords = keywords_of(observation.description, observation.subject, observation.object)
    return Derived(
        embedding_key=key,
        key_hash=text_digest(key),
        content_hash=content_key(observation.description, observation.user_id, origin),
        keywords=list(dict.fromkeys(keywords)),
        tokens=tokens(searchable(observation.description, observation.utterances)),
        health=concerns_health(observation.description) is not False,
        is_idle=is_idle(key, observation.predicate, observation.object),
        expires_at=expires_at,
        origin=origin,
    )


def searchable(description: str, utterances: Iterable[Sequence[str]]) -> str:
    """What lexical search knows a memory by: its description and, of a conversation, what was said."""
    return "\n".join([description, *map(": ".join, utterances)])


def counts_for_keywords(node_type: str, predicate: str | None, object: str | None) -> bool:  # noqa: A002
    """Chats never strengthen keywords, nor do memories that say that something is idle."""
    return node_type != "chat" and f"{predicate} {object}" != "is idle"


@dataclass(frozen=True, slots=True)
class Missing:
    poignancy: bool
    triple: bool
    keywords: bool

    def __bool__(self) -> bool:
        return self.poignancy or self.triple or self.keywords


NOTHING = Missing(poignancy=False, triple=False, keywords=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Unappraised:
    """A stored memory; ``keywords`` are those of its event, None if the event had none."""

    agent_id: str
    node_type: NodeType
    description: str
    embedding_key: str
    subject: str | None
    predicate: str | None
    object: str | None
    keywords: list[str] | None
    poignancy: float | None
    is_idle: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Appraisal:
    """A memory's values as if its event had provided them; ``sources`` names the source of each answer."""

    subject: str | None
    predicate: str | None
    object: str | None
    keywords: list[str]
    poignancy: float | None
    is_idle: bool
    sources: Mapping[str, Mapping[str, str]]


def is_complete(memory: Observation | Unappraised) -> bool:
    """Whether nothing is missing, whatever its agent wants."""
    has_triple = memory.subject and memory.predicate and memory.object
    return bool(has_triple) and memory.poignancy is not None and memory.keywords is not None


def missing(memory: Observation | Unappraised, own: AgentSettings, deployment: Settings) -> Missing:
    """The fields that an event lacks and its agent, or else the deployment, wants from the LLM."""
    if is_complete(memory):
        return NOTHING
    has_triple = bool(memory.subject and memory.predicate and memory.object)
    return Missing(
        poignancy=memory.poignancy is None
        and (own.derive_poignancy or deployment.agent_defaults.derive_poignancy) == "llm",
        triple=not has_triple and (own.derive_triple or deployment.agent_defaults.derive_triple) == "llm",
        keywords=memory.keywords is None
        and (own.derive_keywords or deployment.agent_defaults.derive_keywords) == "llm",
    )


def appraise(llm: LLM, memory: Unappraised, lacks: Missing) -> Appraisal:
    """Ask for what the memory lacks; the triple first, which may say that something is idle: then its
    poignancy is known.

    Raises:
        LLMUnavailable, BadReply: as :meth:`engine.providers.llms.LLM.ask` does.
    """
    language = language_of(memory.description)
    subject, predicate, object_, idle = memory.subject, memory.predicate, memory.object, memory.is_idle
    keywords, poignancy = memory.keywords, memory.poignancy
    sources: dict[str, Mapping[str, str]] = {}
    if lacks.triple:
        facts = llm.ask(Triple(agent_id=memory.agent_id, language=language, text=memory.embedding_key))
        subject, predicate = subject or facts.subject, predicate or facts.predicate
        object_ = object_ or facts.object
        idle = is_idle(memory.embedding_key, predicate, object_)
        sources["triple"] = _signature(llm, Triple)
    if lacks.keywords:
        answer = llm.ask(Keywords(agent_id=memory.agent_id, language=language, text=memory.description))
        keywords = list(dict.fromkeys(answer.keywords))
        sources["keywords"] = _signature(llm, Keywords)
    if lacks.poignancy and idle:
        poignancy = IDLE_POIGNANCY
    elif lacks.poignancy:
        # The text that is embedded, as in the original.
        question = Poignancy(
            agent_id=memory.agent_id, language=language, kind=memory.node_type, text=memory.embedding_key
        )
        poignancy = float(llm.ask(question).poignancy)
        sources["poignancy"] = _signature(llm, Poignancy)
    return Appraisal(
        subject=subject,
        predicate=predicate,
        object=object_,
        is_idle=idle,
        poignancy=poignancy,
        sources=sources,
        keywords=keywords_of(memory.description, subject, object_) if keywords is None else keywords,
    )


def _signature(llm: LLM, question: type[Question[Any]]) -> Mapping[str, str]:
    return {"llm": llm.model, "prompt": signature(question)}
