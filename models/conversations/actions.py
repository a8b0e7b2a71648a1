"""What can be done with conversations as a whole: inject, extract, compact, count."""

from __future__ import annotations

from datetime import UTC, datetime

from uuid6 import uuid7

from jiyi.chat import compaction
from jiyi.chat.recording import Recorder
from jiyi.protocol import events as wire
from jiyi.protocol.conversations.commands import AgentId, AgentWithProfile, EstimateTokens, ExtractMessages, StoredSession, Tokens
from jiyi.protocol.conversations.compaction import CheckThreshold, CountMessages, Threshold
from jiyi.text.budget import estimate_tokens
from models.conversations import profiles
from models.conversations.commands import finish
from models.db.actions import Context, action, by_worker
from models.memory.agents.agents import no_agent
from models.memory.agents.reads import agent
from models.memory.ingestion.inbox import store

build_context = by_worker("conversations.context")
inject_prompt = by_worker("conversations.inject")
extract_session_memories = by_worker("conversations.extract")
create_embedding = by_worker("embedders.embed")
compact = by_worker("conversations.compact")


@action("conversations.record")
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


@action("tokens.estimate")
def estimate_content_tokens(context: Context, request: EstimateTokens) -> Tokens:
    """Estimate how many tokens a text is.

    Rather too many than too few: 1.5 for a Chinese character, 1.3 for a word.
    """
    return Tokens(tokens=estimate_tokens(request.content))


@action("agents.get")
def agent_get(context: Context, request: AgentId) -> AgentWithProfile:
    """Get an agent with the profile of its user.

    Its settings and counters, and what conversations told about its user in general.
    """
    found = agent(context.connection, context.group_id, request.agent_id)
    if found is None:
        raise no_agent(context.group_id, request.agent_id)
    known = profiles.find(context.connection, (context.group_id, request.agent_id))
    return AgentWithProfile(**found.model_dump(), profile=known)


@action("tokens.estimate_messages")
def compactor_messages_tokens(context: Context, request: CountMessages) -> Tokens:
    """Estimate how many tokens a conversation is.

    Its messages with their tool calls, and a few tokens for each message itself.
    """
    return Tokens(tokens=compaction.conversation_tokens(request.messages))


@action("conversations.check_length")
def compactor_check(context: Context, request: CheckThreshold) -> Threshold:
    """Tell whether a conversation is to be compacted.

    None, soft (past 15,000 tokens) or hard (past 20,000), unless other limits are given.
    """
    return compaction.check(request.messages, request.limits)
