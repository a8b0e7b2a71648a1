"""What belongs before an answer: the query analysed, memories retrieved, the best that fit put into words."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import accumulate
from typing import Any
from uuid import UUID

from redis.client import Pipeline
from sqlalchemy import Connection

from engine.conversations import injection
from engine.conversations.injection import (
    Chosen,
    MemoryCandidate,
    QueryAnalysis,
    memory_sections,
    profile_section,
    style_of,
    why_shown,
)
from engine.conversations.marks import visible_text
from engine.conversations.memories import lines
from engine.conversations.stable import OPENING_TOKENS, STABLE_SHARE, Stable, recall_room
from engine.text.statements import topics_of
from jiyi.errors import InvalidRequest
from jiyi.once import once
from jiyi.protocol import limits
from jiyi.protocol.conversations import KINDS, PROSE, ContextRequest, InjectedSkill, Kind, RecalledEarlier
from jiyi.protocol.recall import InjectedContext, PromptLine
from jiyi.settings import get_settings
from jiyi.text.budget import estimate_tokens
from jiyi.text.prompt import Prompt, Section, WrittenLine, compose, joined
from jiyi.text.words import Language, language_of
from jiyi.zones import by_clock
from models.conversations import injections, session_prompts
from models.conversations.actions import build_context
from models.conversations.session_prompts import Grown, Prepared, Recalled, digest_of
from models.db.actions import Actor
from models.db.connection import reading, unit_of_work
from models.memory.agents import AgentName
from tasks.framework.answering import Then
from tasks.framework.rpc import implements
from tasks.memory import note_accesses_with
from tasks.retrieval.days import interleave, memories_of_named_time
from tasks.retrieval.question import PROMPT_KINDS, embed_ahead, for_prompt
from tasks.retrieval.retrieve import answer

#: Shorter queries say nothing that could be looked for.
LEAST_QUERY_CHARS = 2
#: The kind that what was observed, imported or concluded stands under: it has none.
OBSERVED: Kind = "knowledge"
#: Memories that are looked at: more than fit into the usual budget, so that most come with their turns.
LOOKED_AT = 135
#: Tokens that a memory has on average: of a larger budget more are looked at.
USUAL_TOKENS = 30
#: Share of the budget that what the whole group knows may have.
GROUP_SHARE = 0.25
#: Tokens that the texts of skills may have.
SKILL_TOKENS = 400
#: Newer memories that are shown beside what they end, of one prompt.
MOST_NEWER = 10
#: Least probability of what is recalled for a message of a session that asks nothing.
LEAST_PROBABILITY_OF_STATEMENTS = 0.4
#: Tokens of the shortest memories, and of a day and quotes around one.
LEAST_TOKENS = 12
#: What only questions have, and what other messages end with.
_ASKS, _ENDS = re.compile(r"[?？]|[吗呢]\s*$"), re.compile(r"[.!。！]")
#: With fewer results so many of what matters most are added for users who hint at themselves.
FEW_RESULTS, FILLED_UP = 3, 10


def note_memories(
    pipe: Pipeline, actor: Actor, request: ContextRequest, injected: InjectedContext, _seconds: float
) -> Then:
    """Note with the reply what the injection touches."""
    if not _notes(request) or not injected.memories:
        return None
    at = (request.now or datetime.now(UTC)).timestamp()
    touched = [memory.node_id for memory in injected.memories]
    return note_accesses_with(pipe, actor.group_id, request.agent_id, touched, at)


@implements(build_context, on_reply=note_memories)
def build(actor: Actor, request: ContextRequest) -> InjectedContext:
    """Safe to repeat because it only notes what was found, and keeps a session's prompt as first made."""
    injected, stable = _injected(actor.group_id, request)
    if request.base_prompt is None:
        return injected
    with_base = joined(stable.opening, request.base_prompt, stable.body)
    return injected.model_copy(update={"stable": with_base, "prompt": joined(with_base, injected.recalled)})


def _injected(group_id: str, request: ContextRequest) -> tuple[InjectedContext, Stable]:
    began = time.perf_counter()
    name = (group_id, request.agent_id)
    query = request.query.strip()
    asks = len(query) >= LEAST_QUERY_CHARS
    # The model takes longest of all: it begins before anything else is known.
    embedding = _beside().submit(copy_context().run, _embed, name, request, query) if asks else None
    language = language_of(query)
    with reading() as connection:
        keywords, zone = injections.keywords_and_zone(connection, name)
        there = keywords is not None
        analysis = injection.analyse(query[: limits.MAX_FOCAL_CHARS], keywords)
        tz = request.tz or zone
        now = by_clock(request.now or request.as_of, tz)
        as_of = request.as_of and by_clock(request.as_of, tz)
        request = request.model_copy(update={"now": now, "as_of": as_of})
        retrieving = None
        if there and embedding is not None:  # while the question is searched for, the stable part is read
            search = partial(_retrieve, name, request, analysis, now, embedding)
            retrieving = _beside().submit(copy_context().run, search)
        grows = there and request.grown and (request.split or _in_prose(request))
        grown = session_prompts.grown_of(connection, name, request.user_id, language) if grows else Grown()
        prepared = _prepared(connection, name, request, language, grown) if there else Prepared(Stable())
        room = request.max_tokens - prepared.stable.tokens
        searched = retrieving is not None and prepared.same is None
        may_add_sections = searched and _in_prose(request)
        sections = grown.fitting(query) if may_add_sections else []
    if request.split and request.turn is not None:
        asks_nothing = _asks_nothing(analysis, prepared)
        room = recall_room(
            request.max_tokens, prepared.stable.tokens, prepared.earlier_tokens, is_statement=asks_nothing
        )
    most = min(SKILL_TOKENS, room // 2)
    sections = [replace(section, max_tokens=most) for section in sections]
    if searched and request.tiers:
        sections += _shared(name, request, room)
    prompt = Prompt("", "", room)
    if retrieving is not None and searched and room > 0:
        prompt = _composed(name, request, analysis, prepared, sections, room, retrieving.result())
    recalled = prompt.text if prepared.same is None else prepared.same.text
    memories = [_memory(one, one.line.item) for one in prompt.lines if isinstance(one.line.item, Chosen)]
    noting = None
    if _notes(request) and memories:  # while the session's prompt is kept
        noting = _beside().submit(copy_context().run, _note, name, request, analysis, prompt, memories, began)
    if searched and request.split and request.session_id is not None and request.turn is not None:
        with reading() as connection:  # one statement, which commits on its own
            recalled = _kept(connection, name, request, prepared, prompt)
    injection_id = None if noting is None else noting.result()
    skills = [one.line.item for one in prompt.lines if isinstance(one.line.item, InjectedSkill)]
    injected = InjectedContext(
        context=joined(prepared.stable.text, recalled),
        tokens=prepared.stable.tokens + estimate_tokens(recalled),
        intent=analysis.intent,
        memories=memories,
        injection_id=injection_id,
        stable=prepared.stable.text,
        recalled=recalled,
        earlier=[RecalledEarlier(turn=one.turn, text=one.text) for one in prepared.earlier if one.text],
        skills=list({skill.id: skill for skill in skills}.values()),
    )
    return injected, prepared.stable


def _note(
    name: AgentName,
    request: ContextRequest,
    analysis: QueryAnalysis,
    prompt: Prompt,
    memories: Sequence[PromptLine],
    began: float,
) -> UUID:
    seconds = time.perf_counter() - began
    with unit_of_work() as connection:
        return injections.note(connection, name, request, analysis.intent, prompt.tokens, memories, seconds)


def _choices(prompt: Prompt) -> list[Chosen]:
    return [one.line.item for one in prompt.lines if isinstance(one.line.item, Chosen)]


def _prepared(
    connection: Connection, name: AgentName, request: ContextRequest, language: Language, grown: Grown
) -> Prepared:
    if request.split:
        return session_prompts.prepare(connection, name, request, language, grown)
    most = int(request.max_tokens * STABLE_SHARE)
    return Prepared(session_prompts.composed(grown.stable, most, language))


def _in_prose(request: ContextRequest) -> bool:
    """Whether files and skills may stand beside memories: not in JSON, a template, or of the past."""
    return request.grown and request.as_of is None and (request.split or request.format in PROSE)


def _notes(request: ContextRequest) -> bool:
    return request.note and request.as_of is None


#: Gives sections of what a group knows of a question, for at most so many tokens.
GroupSource = Callable[[AgentName, ContextRequest, int], list[Section]]
_GROUP: list[GroupSource] = []


def group_source(function: GroupSource) -> GroupSource:
    """Register a source of a group's sections, added to an agent's memories for requests that ask for it."""
    _GROUP.append(function)
    return function


def _shared(name: AgentName, request: ContextRequest, room: int) -> list[Section]:
    if not _GROUP:
        raise InvalidRequest(["tiers: this deployment has none (JIYI_SUBJECTS)"])
    most = min(room, int(request.max_tokens * GROUP_SHARE)) // len(_GROUP)
    return [replace(section, max_tokens=most) for source in _GROUP for section in source(name, request, most)]


def _asks_nothing(analysis: QueryAnalysis, prepared: Prepared) -> bool:
    """Whether a message of a session that goes on asks for nothing: little is recalled for it then."""
    text = analysis.original
    asks = _ASKS.search(text) is not None or (analysis.intent != "general" and _ENDS.search(text) is None)
    return bool(prepared.earlier) and not asks


#: The fields of a ScoredMemory, as a retrieval answers it: to validate all would take as long as to rank.
Node = dict[str, Any]


@once
def _beside() -> ThreadPoolExecutor:
    """Threads beside the callers': for each call that computes at a time one that embeds its question, and
    one that waits for that to search.
    """
    return ThreadPoolExecutor(2 * limits.RETRIEVAL_THREADS, "beside")


def _composed(
    name: AgentName,
    request: ContextRequest,
    analysis: QueryAnalysis,
    prepared: Prepared,
    sections: Sequence[Section],
    room: int,
    nodes: list[Node],
) -> Prompt:
    least = get_settings().min_probability
    if _asks_nothing(analysis, prepared):
        least = max(least, LEAST_PROBABILITY_OF_STATEMENTS)
    ranked = _ranked(name, request, analysis, _retrieved(request, nodes, least))
    ranked = _unseen(ranked if request.as_of is not None else _with_newer(name, request, ranked), prepared)
    hints = analysis.weak_identity or analysis.intent in ("identity_recall", "preference")
    about_user = hints and request.as_of is None and not request.split
    profile = _profile(name, request, analysis.original) if about_user else ()
    language, titled = language_of(analysis.original), request.format == "markdown"
    before = [*sections, profile_section(profile, language, titled=titled)]
    style = style_of(request.format, language, request.template or "")
    prompt = compose([*before, *memory_sections(ranked, language, titled=titled)], room, style)
    remaining = min(room, OPENING_TOKENS - prepared.stable.tokens) - prompt.tokens
    if request.split and request.turn is not None and not prepared.earlier and remaining > 0:
        with reading() as connection:
            most = remaining // LEAST_TOKENS
            important = injections.most_important(connection, name, request, list(KINDS), most)
        prompt_ids = {choice.candidate.node_id for choice in _choices(prompt)}
        more = [
            candidate for candidate in _unseen(important, prepared) if candidate.node_id not in prompt_ids
        ]
        spent = accumulate(LEAST_TOKENS + estimate_tokens(candidate.text) for candidate in more)
        fitting = [candidate for candidate, tokens in zip(more, spent, strict=True) if tokens <= remaining]
        every = memory_sections(_once([*ranked, *fitting]), language, titled=titled)
        prompt = compose([*before, *every], room, style)  # in the same room, by which long texts are cut
    return prompt


def _with_newer(
    name: AgentName, request: ContextRequest, ranked: list[MemoryCandidate]
) -> list[MemoryCandidate]:
    """The candidates, behind each the newer memory by which a part of it has ended, or may have."""
    present_ids = {node_id for candidate in ranked for node_id in (candidate.node_id, *candidate.turn_ids)}
    newer_ids = [newer for candidate in ranked for newer in candidate.newer if newer not in present_ids]
    if not newer_ids:
        return ranked
    with reading() as connection:
        newest = injections.of_ids(connection, name, request, list(dict.fromkeys(newer_ids))[:MOST_NEWER])
    newest_by_id = {newer.node_id: newer for newer in newest}
    behind = {
        one.node_id: [newest_by_id[newer] for newer in one.newer if newer in newest_by_id] for one in ranked
    }
    return _once(one for candidate in ranked for one in (candidate, *behind[candidate.node_id]))


def _unseen(ranked: Iterable[MemoryCandidate], prepared: Prepared) -> list[MemoryCandidate]:
    """What does not stand in the session's prompt yet."""
    prompt_ids = prepared.shown
    return [
        candidate for candidate in ranked if prompt_ids.isdisjoint((candidate.node_id, *candidate.turn_ids))
    ]


def _kept(
    connection: Connection, name: AgentName, request: ContextRequest, prepared: Prepared, prompt: Prompt
) -> str:
    assert request.turn is not None
    node_ids = {str(node_id) for choice in _choices(prompt) for node_id in (*choice.ids, *choice.folded)}
    block = Recalled(request.turn, digest_of(request.query), prompt.text, prompt.tokens, sorted(node_ids))
    return session_prompts.keep(connection, name, request, prepared, block).text


def _ranked(
    name: AgentName, request: ContextRequest, analysis: QueryAnalysis, retrieved: list[MemoryCandidate]
) -> list[MemoryCandidate]:
    if request.as_of is not None:  # what mattered most then is not known
        return _once(retrieved)
    if analysis.intent == "identity_recall":
        kinds: list[Kind] = ["preference", "knowledge"]
        with reading() as connection:
            broad = injections.most_important(connection, name, request, kinds, FILLED_UP)
        # "Where do I live" asks for one fact, "who am I" for all that matter.
        if topics_of(analysis.original):
            return _once([*retrieved, *broad])
        in_turn = [candidate for pair in zip(retrieved, broad, strict=False) for candidate in pair]
        return _once([*in_turn, *retrieved[len(broad) :], *broad[len(retrieved) :]])
    # A session began with what matters most.
    if analysis.weak_identity and len(retrieved) < FEW_RESULTS and not request.split:
        with reading() as connection:
            most = injections.most_important(connection, name, request, list(KINDS), FILLED_UP)
        retrieved = retrieved + most
    return _once(retrieved)


def _embed(name: AgentName, request: ContextRequest, query: str) -> None:
    now = request.now or datetime.now(UTC)
    embed_ahead(for_prompt(name[0], request, [query[: limits.MAX_FOCAL_CHARS]], top_k=1, now=now))


def _retrieve(
    name: AgentName, request: ContextRequest, analysis: QueryAnalysis, now: datetime, embedding: Future[None]
) -> list[Node]:
    embedding.result()
    texts = [text for text in (analysis.original, " ".join(analysis.expansions)) if text]
    top_k, kinds = max(LOOKED_AT, request.max_tokens // USUAL_TOKENS), list(PROMPT_KINDS)
    search_request = for_prompt(name[0], request, texts, top_k=top_k, now=now, kinds=kinds, superseded=True)
    fields = answer(search_request)
    nodes: list[Node] = [node for group in fields["groups"] for node in group["retrieved_nodes"]]
    return interleave(nodes, memories_of_named_time(search_request))


def _retrieved(request: ContextRequest, all_nodes: list[Node], least: float) -> list[MemoryCandidate]:
    """What was found and is likely enough to answer, but for what was said in this session."""
    nodes = [node for node in all_nodes if node["probability"] is None or node["probability"] >= least]
    created: dict[UUID | None, datetime] = {node["node_id"]: node["created_at"] for node in nodes}
    here = request.session_id
    # What was observed, or stored by another program, is no part of the conversation that goes on.
    earlier = [node for node in nodes if here is None or node["kind"] is None or node["session_id"] != here]
    on = request.as_of or request.now or datetime.now(UTC)
    candidates = [_candidate(node, created.get(node["replaced_by"]), on) for node in earlier]
    return [candidate for candidate in candidates if candidate.text or candidate.ended]


def _candidate(node: Node, renewed_at: datetime | None, on: datetime) -> MemoryCandidate:
    role = node["provenance"].get("role") if node["kind"] is not None else None
    wording = visible_text(node["description"], node["created_at"], node["provenance"], on)
    turns = node["filling"] if node["kind"] not in (None, "session") else ()
    return MemoryCandidate(
        node["node_id"],
        node["kind"] or OBSERVED,
        wording.text,
        wording.at,
        node["score"],
        role=role,
        has_speaker=node["subject"] != role,
        concluded=node["type"] == "thought",
        turn_ids=tuple(map(UUID, turns)),
        superseded_by=node["superseded_by"],
        superseded_at=node["superseded_at"] and node["superseded_at"].astimezone(on.tzinfo),
        renewed_at=renewed_at and renewed_at.astimezone(on.tzinfo),
        session_id=node["session_id"],
        subject=node["subject"],
        user_id=node["user_id"],
        visibility=node["visibility"],
        trust=node["trust"],
        ended=wording.ended,
        newer=wording.newer,
    )


def _once(ranked: Iterable[MemoryCandidate]) -> list[MemoryCandidate]:
    """Each at its first, and best, place."""
    by_id: dict[UUID, MemoryCandidate] = {}
    for candidate in ranked:
        by_id.setdefault(candidate.node_id, candidate)
    return list(by_id.values())


def _profile(name: AgentName, request: ContextRequest, query: str) -> tuple[str, ...]:
    with reading() as connection:
        profile = injections.find_profile(connection, name, request.user_id)
    return () if profile is None else tuple(lines(profile, language_of(query)))


def _memory(written: WrittenLine, choice: Chosen) -> PromptLine:
    return PromptLine(
        node_id=choice.candidate.node_id,
        type="thought" if choice.candidate.concluded else "event",
        kind=choice.candidate.kind,
        description=written.text,
        created_at=choice.candidate.created_at,
        tokens=written.tokens,
        score=choice.candidate.score,
        turn_ids=list(choice.node_ids),
        superseded_at=choice.candidate.superseded_at,
        why=why_shown(written),
        seen=choice.memory_count,
    )
