"""What belongs before an answer: the query analysed, memories retrieved, the best that fit put into words."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from engine.conversations import injection, memories
from engine.conversations.injection import Candidate, Rendered, Style, render
from engine.text.statements import topics_of
from jiyi.protocol import limits
from jiyi.protocol.conversations import KINDS, ContextRequest, InjectedContext, InjectedMemory, InjectRequest, QueryAnalysis
from jiyi.protocol.retrieval import Answer, Filters, RetrievalRequest, RetrievedNode
from jiyi.settings import get_settings
from jiyi.text.words import language_of
from models.conversations import injections
from models.conversations.actions import build_context, inject_prompt
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.memory.agents import AgentName
from tasks.framework.rpc import implements
from tasks.memory import access
from tasks.retrieval.retrieve import retrieve

#: Shorter queries say nothing that could be looked for.
LEAST_QUERY_CHARS = 2
#: Memories that are looked at: more than fit into the usual budget.
LOOKED_AT = 80
#: Tokens that a memory has on average: of a larger budget more are looked at.
USUAL_TOKENS = 30
#: With fewer results, what matters most fills up for who hints at themselves; and so many are filled up.
FEW_RESULTS, FILLED_UP = 3, 10


@implements(build_context)
def build(actor: Actor, request: ContextRequest) -> InjectedContext:
    """Safe to repeat because it only notes what was found."""
    return _injected(actor.group_id, request)


@implements(inject_prompt)
def inject(actor: Actor, request: InjectRequest) -> InjectedContext:
    """Safe to repeat because it only notes what was found."""
    injected = _injected(actor.group_id, request)
    prompt = "\n\n".join(part for part in (request.base_prompt, injected.context) if part)
    return injected.model_copy(update={"prompt": prompt})


def _injected(group_id: str, request: ContextRequest) -> InjectedContext:
    name = (group_id, request.agent_id)
    query = request.query.strip()
    with unit_of_work() as connection:
        there = injections.agent_is_there(connection, name)
        keywords = injections.industry_keywords(connection, group_id) if there else {}
    analysis = injection.analyse(query[: limits.MAX_FOCAL_CHARS], keywords)
    if not there or len(query) < LEAST_QUERY_CHARS:
        return InjectedContext(context="", tokens=0, intent=analysis.intent, memories=[])
    now = request.now or datetime.now(UTC)
    ranked = _ranked(name, request, analysis, now)
    about_user = analysis.weak_identity or analysis.intent in ("identity_recall", "preference")
    style = Style(request.format, language_of(query), request.template, _profile(name, request, query) if about_user else ())
    rendered = render(ranked, request.max_tokens, style)
    ids = [choice.candidate.node_id for choice in rendered.shown]
    injection_id = _note(name, request, analysis, rendered, ids) if request.note and ids else None
    if request.note:
        access.note(*name, ids, now.timestamp())
    return InjectedContext(
        context=rendered.text, tokens=rendered.tokens, intent=analysis.intent, memories=_memories(rendered), injection_id=injection_id
    )


def _ranked(name: AgentName, request: ContextRequest, analysis: QueryAnalysis, now: datetime) -> list[Candidate]:
    if analysis.intent == "identity_recall":
        with unit_of_work() as connection:
            broad = injections.most_important(connection, name, ["preference", "knowledge"], FILLED_UP, request.session_id)
        retrieved = _retrieved(name, request, analysis, now)
        if topics_of(analysis.original):  # "where do I live" asks for one fact, "who am I" for all that matter
            return _once([*retrieved, *broad])
        in_turn = [candidate for pair in zip(retrieved, broad, strict=False) for candidate in pair]
        return _once([*in_turn, *retrieved[len(broad) :], *broad[len(retrieved) :]])
    retrieved = _retrieved(name, request, analysis, now)
    if analysis.weak_identity and len(retrieved) < FEW_RESULTS:
        with unit_of_work() as connection:
            retrieved += injections.most_important(connection, name, list(KINDS), FILLED_UP, request.session_id)
    return _once(retrieved)


def _retrieved(name: AgentName, request: ContextRequest, analysis: QueryAnalysis, now: datetime) -> list[Candidate]:
    texts = [analysis.original, *([" ".join(analysis.expansions)] if analysis.expansions else [])]
    asked = RetrievalRequest.model_construct(  # unchecked: the limits are those of clients
        group_id=name[0],
        agent_id=name[1],
        focal_texts=texts,
        top_k=max(LOOKED_AT, request.max_tokens // USUAL_TOKENS),
        now=now,
        touch=False,
        min_probability=get_settings().min_probability,
        filters=Filters(kinds=list(KINDS), include_superseded=True),
    )
    answer = retrieve(asked)
    assert isinstance(answer, Answer)  # nothing is touched yet
    best, *expanded = answer.groups
    nodes = [*best.retrieved_nodes, *(node for group in expanded for node in group.retrieved_nodes)]
    created = {node.node_id: node.created_at for node in nodes}
    earlier = [node for node in nodes if request.session_id is None or node.session_id != request.session_id]
    return [_candidate(node, created.get(node.replaced_by) if node.replaced_by else None) for node in earlier]


def _candidate(node: RetrievedNode, renewed_at: datetime | None) -> Candidate:
    assert node.kind is not None
    return Candidate(
        node.node_id,
        node.kind,
        node.description,
        node.created_at,
        node.score,
        role=(role := node.provenance.get("role")),
        named=node.subject != role,
        turn_ids=tuple(UUID(turn) for turn in node.filling) if node.kind != "session" else (),
        superseded_by=node.superseded_by,
        superseded_at=node.superseded_at,
        renewed_at=renewed_at,
        session_id=node.session_id,
    )


def _once(ranked: Iterable[Candidate]) -> list[Candidate]:
    """Each at its first, and best, place."""
    first: dict[UUID, Candidate] = {}
    for candidate in ranked:
        first.setdefault(candidate.node_id, candidate)
    return list(first.values())


def _profile(name: AgentName, request: ContextRequest, query: str) -> tuple[str, ...]:
    with unit_of_work() as connection:
        profile = injections.find_profile(connection, name, request.user_id)
    return () if profile is None else tuple(memories.lines(profile, language_of(query)))


def _memories(rendered: Rendered) -> list[InjectedMemory]:
    return [
        InjectedMemory(
            node_id=choice.candidate.node_id,
            kind=choice.candidate.kind,
            content=choice.text,
            created_at=choice.candidate.created_at,
            tokens=choice.tokens,
            score=choice.candidate.score,
            turn_ids=list(choice.node_ids),
            superseded_at=choice.candidate.superseded_at,
            why=choice.why,
        )
        for choice in rendered.shown
    ]


def _note(name: AgentName, request: ContextRequest, analysis: QueryAnalysis, rendered: Rendered, ids: list[UUID]) -> UUID:
    reasons: list[dict[str, Any]] = [
        {"kind": choice.candidate.kind, "score": round(choice.candidate.score, 3), "tokens": choice.tokens, "why": choice.why}
        for choice in rendered.shown
    ]
    with unit_of_work() as connection:
        return injections.note(
            connection,
            name,
            session_id=request.session_id,
            query=request.query,
            intent=analysis.intent,
            tokens=rendered.tokens,
            node_ids=ids,
            reasons=reasons,
        )
