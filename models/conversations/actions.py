"""What can be done with conversations as a whole: inject, extract, compact, count."""

from __future__ import annotations

from datetime import UTC, datetime

from uuid6 import uuid7

from jiyi.chat import compaction
from jiyi.chat.recording import Recorder
from jiyi.protocol import events as wire
from jiyi.protocol.conversations.commands import (
    AgentId,
    AgentWithProfile,
    EmbeddedText,
    EmbedText,
    EstimateTokens,
    ExtractMessages,
    Nothing,
    SessionMemories,
    StoredSession,
    Tokens,
)
from jiyi.protocol.conversations.compaction import CheckThreshold, Compacted, CompactMessages, CountMessages, Threshold
from jiyi.protocol.conversations.injection import ContextRequest, InjectedContext, InjectRequest
from jiyi.protocol.providers import EmbedderReport
from jiyi.protocol.queries import QUEUE
from jiyi.text.budget import estimate_tokens
from models.conversations import profiles
from models.conversations.commands import finish
from models.db.actions import Context, action, by_worker
from models.memory.agent_reads import agent
from models.memory.agents import no_agent
from models.memory.inbox import store

build_context = by_worker(
    "memory_build_context",
    ContextRequest,
    InjectedContext,
    scope="read",
    queue=QUEUE,
    mutates=False,
    doc="""Build what belongs before an answer.

    The agent's preferences, knowledge, experiences and turns of earlier conversations that matter for the query, within a
    budget of tokens. Empty if nothing was found. Needs a worker that answers.
    """,
)
inject_prompt = by_worker(
    "viking_inject_prompt",
    InjectRequest,
    InjectedContext,
    scope="read",
    queue=QUEUE,
    mutates=False,
    doc="""Put what is remembered into a prompt.

    The prompt with the context that memory_build_context builds; unchanged if nothing was found. Needs a worker that answers.
    """,
)
extract_session_memories = by_worker(
    "extract_session_memories",
    ExtractMessages,
    SessionMemories,
    scope="read",
    queue=QUEUE,
    mutates=False,
    doc="""Extract what a conversation tells.

    Memories, experiences and signals for the profile, without storing anything. Needs a worker that answers.
    """,
)
create_embedding = by_worker(
    "embedding_create",
    EmbedText,
    EmbeddedText,
    scope="read",
    queue=QUEUE,
    mutates=False,
    doc="""Make the vector of a text.

    By the deployment's embedder, or by the one named; with the pieces that the text would be stored in and their keywords.
    """,
)
embedding_providers = by_worker(
    "embedding_providers",
    Nothing,
    EmbedderReport,
    scope="operator",
    queue=QUEUE,
    mutates=False,
    doc="""List the embedders.

    Those there are with their models and sizes, the one in use, and how many memories each has embedded.
    """,
)
compact = by_worker(
    "compactor_compact",
    CompactMessages,
    Compacted,
    scope="read",
    queue=QUEUE,
    mutates=False,
    doc="""Compact a conversation.

    Older messages become a summary, the latest stay; a tool's call and its result are never parted. Stores nothing.
    """,
)


@action("extract_and_store_memories", scope="publish")
def extract_and_store(context: Context, request: ExtractMessages) -> StoredSession:
    """Store a conversation and have it looked through.

    Its messages become turns, each once, and the session's end is noted, so that a worker extracts what they tell at once.
    """
    session_id = request.session_id or f"session-{uuid7()}"
    made = Recorder().events(context.group_id, request.agent_id, session_id, request.messages)
    events = [wire.build(event) for event in made]
    ended = wire.SessionEnded(group_id=context.group_id, agent_id=request.agent_id, session_id=session_id, occurred_at=datetime.now(UTC))
    stored = store(context.connection, [*events, ended])
    turn_ids = [event.event_id for event in events]
    context.audit(request.agent_id, session_id=session_id, turns=len(turn_ids))
    context.wake(*stored.due)
    finish(context, stored)
    return StoredSession(turn_ids=turn_ids, new=len(stored.nodes))


@action("estimate_content_tokens", scope="read", mutates=False)
def estimate_content_tokens(context: Context, request: EstimateTokens) -> Tokens:
    """Estimate how many tokens a text is.

    Rather too many than too few: 1.5 for a Chinese character, 1.3 for a word.
    """
    return Tokens(tokens=estimate_tokens(request.content))


@action("agent_get", scope="read", mutates=False)
def agent_get(context: Context, request: AgentId) -> AgentWithProfile:
    """Get an agent with the profile of its user.

    Its settings and counters, and what conversations told about its user in general.
    """
    found = agent(context.connection, context.group_id, request.agent_id)
    if found is None:
        raise no_agent(context.group_id, request.agent_id)
    known = profiles.find(context.connection, (context.group_id, request.agent_id))
    return AgentWithProfile(**found.model_dump(), profile=known)


@action("compactor_estimate_text_tokens", scope="read", mutates=False)
def compactor_text_tokens(context: Context, request: EstimateTokens) -> Tokens:
    """Estimate how many tokens a text is for compaction.

    The same estimate as estimate_content_tokens, under the compactor's name.
    """
    return Tokens(tokens=estimate_tokens(request.content))


@action("compactor_estimate_messages_tokens", scope="read", mutates=False)
def compactor_messages_tokens(context: Context, request: CountMessages) -> Tokens:
    """Estimate how many tokens a conversation is.

    Its messages with their tool calls, and a few tokens for each message itself.
    """
    return Tokens(tokens=compaction.conversation_tokens(request.messages))


@action("compactor_check_threshold", scope="read", mutates=False)
def compactor_check(context: Context, request: CheckThreshold) -> Threshold:
    """Tell whether a conversation is to be compacted.

    None, soft (past 15,000 tokens) or hard (past 20,000), unless other limits are given.
    """
    return compaction.check(request.messages, request.limits)
