"""What belongs before an answer: the query analysed, memories retrieved, the best that fit put into words."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from engine.conversations.injection.choosing import Candidate
from engine.conversations.injection.rendering import Rendered, Style, render
from engine.conversations.query import intents
from engine.text.topics import topics_of
from jiyi.protocol import limits
from jiyi.protocol.conversations import profiles
from jiyi.protocol.conversations.injection import ContextRequest, InjectedContext, InjectedMemory, InjectRequest
from jiyi.protocol.conversations.types import KINDS, QueryAnalysis
from jiyi.protocol.retrieval import Answer, Filters, RetrievalRequest, RetrievedNode
from jiyi.settings import get_settings
from jiyi.text.words import language_of
from models.conversations import injections
from models.conversations import profiles as stored_profiles
from models.conversations.actions import build_context, inject_prompt
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.memory.agents.agents import AgentName
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
    found = _injected(actor.group_id, request)
    prompt = "\n\n".join(part for part in (request.base_prompt, found.context) if part)
    return found.model_copy(update={"prompt": prompt})


def _injected(group_id: str, request: ContextRequest) -> InjectedContext:
    name = (group_id, request.agent_id)
    query = request.query.strip()
    with unit_of_work() as connection:
        there = injections.agent_is_there(connection, name)
        keywords = injections.industry_keywords(connection, group_id) if there else {}
    analysis = intents.analyse(query[: limits.MAX_FOCAL_CHARS], keywords)
    if not there or len(query) < LEAST_QUERY_CHARS:
        return InjectedContext(context="", tokens=0, intent=analysis.intent, memories=[])
    now = request.now or datetime.now(UTC)
    ranked = _ranked(name, request, analysis, now)
    about_user = analysis.weak_identity or analysis.intent in ("identity_recall", "preference")
    style = Style(request.format, language_of(query), request.template, _profile(name, request, query) if about_user else ())
    made = render(ranked, request.max_tokens, style)
    ids = [one.candidate.node_id for one in made.shown]
    injection_id = _note(name, request, analysis, made, ids) if request.note and ids else None
    if request.note:
        access.note(*name, ids, now.timestamp())
    return InjectedContext(
        context=made.text, tokens=made.tokens, intent=analysis.intent, memories=_memories(made), injection_id=injection_id
    )


def _ranked(name: AgentName, request: ContextRequest, analysis: QueryAnalysis, now: datetime) -> list[Candidate]:
    if analysis.intent == "identity_recall":
        with unit_of_work() as connection:
            broad = injections.most_important(connection, name, ["preference", "knowledge"], FILLED_UP)
        found = _retrieved(name, request, analysis, now)
        if topics_of(analysis.original):  # "where do I live" asks for one fact, "who am I" for all that matter
            return _once([*found, *broad])
        in_turn = [one for pair in zip(found, broad, strict=False) for one in pair]
        return _once([*in_turn, *found[len(broad) :], *broad[len(found) :]])
    found = _retrieved(name, request, analysis, now)
    if analysis.weak_identity and len(found) < FEW_RESULTS:
        with unit_of_work() as connection:
            found += injections.most_important(connection, name, list(KINDS), FILLED_UP)
    return _once(found)


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
    said = {node.node_id: node.created_at for node in nodes}
    earlier = [node for node in nodes if request.session_id is None or node.session_id != request.session_id]
    return [_candidate(node, said.get(node.replaced_by) if node.replaced_by else None) for node in earlier]


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
    for one in ranked:
        first.setdefault(one.node_id, one)
    return list(first.values())


def _profile(name: AgentName, request: ContextRequest, query: str) -> tuple[str, ...]:
    with unit_of_work() as connection:
        found = stored_profiles.find(connection, name, request.user_id)
    return () if found is None else tuple(profiles.lines(found, language_of(query)))


def _memories(made: Rendered) -> list[InjectedMemory]:
    return [
        InjectedMemory(
            node_id=one.candidate.node_id,
            kind=one.candidate.kind,
            content=one.text,
            created_at=one.candidate.created_at,
            tokens=one.tokens,
            score=one.candidate.score,
            turn_ids=list(one.node_ids),
            superseded_at=one.candidate.superseded_at,
            why=one.why,
        )
        for one in made.shown
    ]


def _note(name: AgentName, request: ContextRequest, analysis: QueryAnalysis, made: Rendered, ids: list[UUID]) -> UUID:
    reasons: list[dict[str, Any]] = [
        {"kind": one.candidate.kind, "score": round(one.candidate.score, 3), "tokens": one.tokens, "why": one.why} for one in made.shown
    ]
    with unit_of_work() as connection:
        return injections.note(
            connection,
            name,
            session_id=request.session_id,
            query=request.query,
            intent=analysis.intent,
            tokens=made.tokens,
            node_ids=ids,
            reasons=reasons,
        )
