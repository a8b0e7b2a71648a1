"""A prompt with what the group knows."""

from __future__ import annotations

from jiyi.protocol import limits
from jiyi.protocol.tiers.context import ContextAnswer, ContextBody
from jiyi.protocol.tiers.query import MemoryQuery
from jiyi.text.words import language_of
from jiyi.tiers.context import GROUP_MEMORIES, build_context, council_sections
from models.db.actions import Actor
from models.tiers import query as memory
from models.tiers import questions
from tasks.framework.rpc import implements
from tasks.tiers.screening import embed_query

#: Of a context's fields those that go with the question to the tiers.
ASKED = {"agent_id", "session_id", "order", "relevance_threshold", "time_range_days", "include_verdicts", "now"}


@implements(questions.build_context)
def build(actor: Actor, request: ContextBody) -> ContextAnswer:
    """Safe to repeat because it changes nothing."""
    about = request.query or request.proposal.strip()[: limits.MAX_FOCAL_CHARS]
    query = MemoryQuery(group_id=actor.group_id, query=about, max_results=GROUP_MEMORIES, **request.model_dump(include=ASKED))
    memory.throttle(actor.group_id)
    found = memory.query_memory(query, embed_query)
    sections = council_sections(
        system=request.system,
        persona=request.persona,
        memories=[item.content for item in found.results],
        proposal=request.proposal,
        language=language_of(about),
    )
    made = build_context(sections, request.budget)
    kept = next(part.kept for part in made.parts if part.name == "memories")
    return ContextAnswer(
        text=made.text, tokens=made.tokens, budget=made.budget, parts=list(made.parts), memories=found.results[:kept], tiers=found.tiers
    )
