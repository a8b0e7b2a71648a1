"""What belongs into a prompt: retrieved, and put below the preface into dated lines within a budget of
tokens.

And a past retrieval asked again: of what was known when it was asked, and of what is known now.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from engine.conversations.marks import VisibleText, visible_text
from engine.text.wordings import StatementKey
from engine.times.past import with_dates
from jiyi.protocol import limits
from jiyi.protocol.base import ById
from jiyi.protocol.memory import MemoryBrief
from jiyi.protocol.recall import AskedAgain, PromptLine, RecalledContext, RecallRequest, RetrievalRecord
from jiyi.protocol.retrieval import Answer, RetrievalRequest, ScoredMemory
from jiyi.text.prompt import Line, PromptStyle, Section, WrittenLine, compose
from jiyi.text.words import Language, language_of
from jiyi.zones import by_clock
from models.db.actions import Actor
from models.db.connection import reading
from models.db.valkey import valkey
from models.memory import agents
from models.memory.questions import build_context
from models.retrieval import records
from tasks.framework.rpc import implements
from tasks.memory import note_accesses
from tasks.retrieval.days import interleave, memories_of_named_time
from tasks.retrieval.question import for_prompt
from tasks.retrieval.retrieve import retrieve

#: Tokens that a line has at least, as a rule: so many memories are looked at as may fit.
USUAL_TOKENS = 20
#: The least that are looked at: the best may be long, and shorter ones still fit.
LEAST_LOOKED_AT = 30


@implements(build_context)
def build(actor: Actor, request: RecallRequest) -> RecalledContext:
    """Safe to repeat because it changes nothing but access times, which only move forward."""
    began = time.monotonic()
    with reading() as connection:
        now = by_clock(
            request.now or request.as_of,
            request.tz or agents.time_zone(connection, actor.group_id, request.agent_id),
        )
    top_k = min(limits.MAX_TOP_K, max(LEAST_LOOKED_AT, request.max_tokens // USUAL_TOKENS))
    chosen = {"kinds": request.kinds, "session_id": request.session_id, "superseded": request.superseded}
    search = for_prompt(actor.group_id, request, [request.query], top_k=top_k, now=now, **chosen)
    answer = retrieve(search)
    then = [ScoredMemory.model_validate(node) for node in memories_of_named_time(search)]
    ranked = {node.node_id: node for node in interleave(answer.retrieved_nodes, then)}
    context = within(list(ranked.values()), request.max_tokens, language_of(request.query), now)
    if not context.memories:
        context = context.model_copy(update={"message": answer.message})
    if request.touch and request.as_of is None and context.memories:
        note_accesses(
            actor.group_id, request.agent_id, [memory.node_id for memory in context.memories], now.timestamp()
        )
    if answer.status != "unknown_agent":
        with valkey().pipeline(transaction=False) as pipe:
            returned = [[(memory.node_id, memory.score) for memory in context.memories]]
            client_search = search.model_copy(update={"now": request.now, "tz": request.tz})
            options = records.options_of(client_search) | {"max_tokens": request.max_tokens}
            seconds = time.monotonic() - began
            records.note(
                pipe, actor, request.agent_id, [request.query], options, returned, seconds, datetime.now(UTC)
            )
            pipe.execute()
    return context


def within(ranked: list[ScoredMemory], budget: int, language: Language, now: datetime) -> RecalledContext:
    """A line for each of those that fit, the best first: one that is too long leaves its room to shorter
    ones.

    Memories in nearly the same words are one line, at the rank of the best. It has the words and the day of
    one of them: what somebody said before what was concluded, then the most trusted, then the latest.
    """
    repeated: dict[StatementKey, list[tuple[ScoredMemory, VisibleText]]] = {}
    for node in ranked:
        # What an assistant said is no memory of what is so.
        if node.kind == "session" and node.provenance.get("role") != "user":
            continue
        wording = visible_text(node.description, node.created_at, node.provenance, now)
        if wording.text or wording.ended:
            repeated.setdefault(StatementKey.of(wording.text or node.description, node), []).append(
                (node, wording)
            )
    lines = [_line(nodes) for nodes in repeated.values()]
    prompt = compose([Section("", lines)], budget, PromptStyle(language, days="before", bullet="- "))
    memories = [_memory(one) for one in prompt.lines]
    return RecalledContext(text=prompt.text, tokens=prompt.tokens, memories=memories)


def _line(nodes: list[tuple[ScoredMemory, VisibleText]]) -> Line:
    node, wording = max(nodes, key=lambda one: (one[0].type != "thought", one[0].trust, one[0].created_at))
    finish = partial(with_dates, said_at=wording.at) if node.kind == "session" else None
    ended = node.superseded_at and node.superseded_at.astimezone(wording.at.tzinfo).date()
    item = (node, nodes[0][0].score, len(nodes))
    return Line(
        wording.text,
        at=wording.at,
        ended=ended,
        over=wording.ended,
        concluded=node.type == "thought",
        finish=finish,
        item=item,
    )


def _memory(written: WrittenLine) -> PromptLine:
    node, score, repetitions = written.line.item
    fields = {name: getattr(node, name) for name in MemoryBrief.model_fields}
    fields |= {"superseded_at": node.superseded_at, "score": score, "seen": repetitions}
    return PromptLine(**fields, tokens=written.tokens)


#: Options of a record that are no fields of a request as they stand there.
_NO_FIELDS = {"messages", "embedding_model", "max_tokens"}


@implements(records.ask_again)
def ask_again(actor: Actor, request: ById) -> AskedAgain:
    """Safe to repeat because it changes nothing."""
    with reading() as connection:
        record = records.recorded(connection, actor.group_id, request.id)
    then = _ask(actor.group_id, record, record.asked_at - timedelta(milliseconds=record.ms))
    returned = [
        [memory.node_id for memory in result if memory.description is not None] for result in record.results
    ]
    current = [[node.node_id for node in group.retrieved_nodes[: records.RESULTS]] for group in then.groups]
    now = _ask(actor.group_id, record, None)
    return AskedAgain(
        record=record,
        then=then,
        now=now,
        same=list(map(set, returned)) == list(map(set, current)),
        notes=list(_notes(record)),
    )


def _ask(group_id: str, record: RetrievalRecord, as_of: datetime | None) -> Answer:
    """The record's question. One that asked about a time itself keeps to that."""
    options: dict[str, Any] = {
        name: value for name, value in record.options.items() if name not in _NO_FIELDS
    }
    fields = {"group_id": group_id, "agent_id": record.agent_id, "queries": record.queries, "touch": False}
    answer = retrieve(RetrievalRequest(**({"as_of": as_of} | options | fields)))
    if (budget := record.options.get("max_tokens")) is not None:  # it was for a prompt
        [group], now = answer.groups, by_clock(as_of, record.options.get("tz"))
        fits = {
            memory.node_id
            for memory in within(group.retrieved_nodes, budget, language_of(group.query), now).memories
        }
        group.retrieved_nodes = [node for node in group.retrieved_nodes if node.node_id in fits]
        group.accessed_ids = [node.node_id for node in group.retrieved_nodes]
    return answer


def _notes(record: RetrievalRecord) -> Iterator[str]:
    if "messages" in record.options:
        yield "it was a dialogue, of which only the leading message is kept"
    if "embedding_model" in record.options:
        yield "it had its own vectors, which are not kept: searched by its text"
    if any(len(text) == records.CHARACTERS for text in record.queries):
        yield f"of its text only the first {records.CHARACTERS:,} characters are kept"
