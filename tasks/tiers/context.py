"""A prompt with what the group knows."""

from __future__ import annotations

from datetime import UTC, datetime

from engine.tiers.answer import EXPERIENCES, GROUP_MEMORIES, council_sections
from jiyi.protocol import limits
from jiyi.protocol.conversations import ContextRequest
from jiyi.protocol.retrieval import Answer, Filters, RetrievalRequest
from jiyi.protocol.tier_questions import ContextAnswer, ContextBody, MemoryQuery
from jiyi.settings import get_settings
from jiyi.text.prompt import build_context
from jiyi.text.words import language_of
from jiyi.tiers.retrieval_node import UNVERIFIED, fitting_history
from models.db.actions import Actor
from models.memory.agents import AgentName
from models.tiers import query as memory
from models.tiers import questions
from tasks.conversations.injection import group_source
from tasks.framework.rpc import implements
from tasks.retrieval.retrieve import retrieve
from tasks.tiers.screening import embed_query

#: Tokens below which a prompt has nothing of a group.
LEAST_TOKENS = 40
#: Of a context's fields those that go with the question to the tiers.
ASKED = {"agent_id", "session_id", "order", "relevance_threshold", "time_range_days", "include_verdicts", "now"}


@group_source
def known_to_group(name: AgentName, request: ContextRequest, most: int) -> str:
    """What the group's tiers know of a question, each with its mark, within so many tokens."""
    if most < LEAST_TOKENS:
        return ""
    memory.throttle(name[0])
    query = request.query.strip()[: limits.MAX_FOCAL_CHARS]
    known = memory.query_memory(MemoryQuery(group_id=name[0], agent_id=name[1], query=query, now=request.now), embed_query)
    return fitting_history(known.results, most, language_of(query))[0].strip()


@implements(questions.build_context)
def build(actor: Actor, request: ContextBody) -> ContextAnswer:
    """Safe to repeat because it changes nothing."""
    about = request.query or request.proposal.strip()[: limits.MAX_FOCAL_CHARS]
    query = MemoryQuery(group_id=actor.group_id, query=about, max_results=GROUP_MEMORIES, **request.model_dump(include=ASKED))
    memory.throttle(actor.group_id)
    known = memory.query_memory(query, embed_query)
    experiences = [] if request.agent_id is None else _experiences(actor.group_id, request.agent_id, about, query.now)
    language = language_of(about)
    sections = council_sections(
        system=request.system,
        persona=request.persona,
        memories=[item.content for item in known.results],
        labels=[UNVERIFIED[language].strip() if item.temporary and not item.verified else "" for item in known.results],
        experiences=experiences,
        proposal=request.proposal,
        language=language,
    )
    built = build_context(sections, request.budget)
    kept = next(part.kept for part in built.parts if part.name == "memories")
    return ContextAnswer(
        text=built.text, tokens=built.tokens, budget=built.budget, parts=list(built.parts), memories=known.results[:kept], tiers=known.tiers
    )


def _experiences(group_id: str, agent_id: str, about: str, now: datetime | None) -> list[str]:
    """What the agent went through that is most relevant, the best first."""
    asked = RetrievalRequest(
        group_id=group_id,
        agent_id=agent_id,
        focal_texts=[about],
        top_k=EXPERIENCES,
        now=now or datetime.now(UTC),
        touch=False,
        min_probability=get_settings().min_probability,
        filters=Filters(kinds=["experience"]),
    )
    answer = retrieve(asked)
    assert isinstance(answer, Answer), "one focal text has one answer"
    return [node.description for node in answer.retrieved_nodes]
