"""What belongs into a prompt: retrieved, and put below the preface into dated lines within a budget of tokens."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from engine.text.wordings import Told
from jiyi.protocol import limits
from jiyi.protocol.memory import MemoryBrief
from jiyi.protocol.recall import RecalledContext, RecalledMemory, RecallRequest
from jiyi.protocol.retrieval import Answer, Filters, RetrievalRequest, RetrievedNode
from jiyi.settings import get_settings
from jiyi.text.budget import estimate_tokens
from jiyi.text.prompting import PREFACE, quoted
from jiyi.text.words import Language, language_of
from models.db.actions import Actor
from models.db.valkey import valkey
from models.memory.questions import build_context
from models.retrieval import records
from tasks.framework.rpc import implements
from tasks.memory import note_accesses
from tasks.retrieval.retrieve import retrieve

#: Tokens that a line has at least, as a rule: so many memories are looked at as may fit.
USUAL_TOKENS = 20
#: The least that are looked at: the best may be long, and shorter ones still fit.
LEAST_LOOKED_AT = 30


@implements(build_context)
def build(actor: Actor, request: RecallRequest) -> RecalledContext:
    """Safe to repeat because it changes nothing but access times, which only move forward."""
    began = time.monotonic()
    most = limits.MAX_TOP_K
    now = request.now or request.as_of or datetime.now(UTC)
    asked = RetrievalRequest.model_construct(  # unchecked: its own limits are those of clients
        group_id=actor.group_id,
        agent_id=request.agent_id,
        user_id=request.user_id,
        focal_texts=[request.query],
        top_k=min(most, max(LEAST_LOOKED_AT, request.max_tokens // USUAL_TOKENS)),
        now=now,
        as_of=request.as_of,
        touch=False,
        min_probability=get_settings().min_probability,
        filters=Filters(
            kinds=request.kinds,
            origins=request.origins,
            min_trust=request.min_trust,
            session_id=request.session_id,
            types=["event", "thought", "chat"],
        ),
    )
    answer = retrieve(asked)
    assert isinstance(answer, Answer)  # nothing is touched yet
    context = within(answer.retrieved_nodes, request.max_tokens, language_of(request.query))
    if request.touch and request.as_of is None and context.memories:
        note_accesses(actor.group_id, request.agent_id, [memory.node_id for memory in context.memories], now.timestamp())
    if answer.status != "unknown_agent":
        with valkey().pipeline(transaction=False) as pipe:
            returned = [[(memory.node_id, memory.score) for memory in context.memories]]
            options = records.options_of(asked.model_copy(update={"now": request.now})) | {"max_tokens": request.max_tokens}
            seconds = time.monotonic() - began
            records.note(pipe, actor, request.agent_id, [request.query], options, returned, seconds, datetime.now(UTC))
            pipe.execute()
    return context


def within(ranked: list[RetrievedNode], budget: int, language: Language) -> RecalledContext:
    """A line for each of those that fit, the best first: one that is too long leaves its room to shorter ones.

    What was told several times in the same words or nearly is one line, at the place of the best of them: in the words, and with the day,
    of the latest of the most trusted.
    """
    lines, memories = [PREFACE[language]], []
    left = budget - estimate_tokens(lines[0])
    repeated: dict[Told, list[RetrievedNode]] = {}
    for node in ranked:
        repeated.setdefault(Told.of(node.description, node), []).append(node)
    for nodes in repeated.values():
        node = max(nodes, key=lambda node: (node.trust, node.created_at))
        line = f"- {node.created_at:%Y-%m-%d}: {quoted(node.description)}"
        tokens = estimate_tokens(line)
        if tokens <= left:
            left -= tokens
            lines.append(line)
            fields = {name: getattr(node, name) for name in MemoryBrief.model_fields}
            memories.append(RecalledMemory(**fields, score=nodes[0].score, tokens=tokens, seen=len(nodes)))
    text = "\n".join(lines) if memories else ""
    return RecalledContext(text=text, tokens=estimate_tokens(text), memories=memories)
