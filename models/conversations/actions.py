"""Actions on conversations: what is remembered of them by id (``memory_…``) and address (``viking_…``), injection, extraction, compaction.

Several names that programs of the seeds call are the same action.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import Connection, bindparam, text
from sqlalchemy.dialects.postgresql import JSONB
from uuid6 import uuid7

from jiyi.chat import compaction
from jiyi.chat.recording import Recorder
from jiyi.protocol import events as wire
from jiyi.protocol.conversations.commands import (
    AddResource,
    AddWithMetadata,
    AgentId,
    AgentWithProfile,
    ConfigureEmbedding,
    ConfigureSummaries,
    DatabasePath,
    Deletion,
    Done,
    DriverState,
    EmbeddedText,
    EmbedText,
    Entries,
    EstimateTokens,
    ExportMemories,
    ExtractMessages,
    FindOptions,
    FoundMemory,
    GrepOptions,
    Imported,
    ImportMemories,
    IndustryWords,
    MemoryEntryInput,
    MemoryId,
    MemoryStats,
    Nothing,
    PersistentMemory,
    ReadOptions,
    Resources,
    ResourceTexts,
    ResourceUri,
    SearchOptions,
    SessionMemories,
    StorageStatus,
    StoredMemory,
    StoredSession,
    Tokens,
    TreeOptions,
)
from jiyi.protocol.conversations.compaction import CheckThreshold, Compacted, CompactMessages, CountMessages, Threshold
from jiyi.protocol.conversations.injection import ContextRequest, InjectedContext, InjectRequest
from jiyi.protocol.conversations.types import uri_of
from jiyi.protocol.erasure import MAX_NODES, Erasure
from jiyi.protocol.providers import EmbedderReport
from jiyi.protocol.queries import QUEUE
from jiyi.protocol.reembedding import MoveState
from jiyi.settings import get_settings
from jiyi.text.budget import estimate_tokens
from models.conversations import entries, profiles
from models.db.actions import Context, action, by_worker
from models.erasure import matching, progress
from models.erasure.progress import ERASE
from models.memory.agent_reads import agent
from models.memory.agents import make_groups, no_agent
from models.memory.inbox import Stored, announce, store

#: Importance of memories that come without one.
DEFAULT_IMPORTANCE = 5.0

search = by_worker(
    "memory_search",
    SearchOptions,
    Entries,
    scope="read",
    queue=QUEUE,
    mutates=False,
    doc="""Search an agent's memories of conversations.

    By meaning and by words, the best first; of one type, or of a least importance, if asked. Needs a worker that answers.
    """,
)


@action("memory_store", scope="publish")
def store_memory(context: Context, request: MemoryEntryInput) -> StoredMemory:
    """Store a memory of a conversation.

    At the address agent://{agent}/{type}/{category}, where the same content is in force once. It is embedded and summarised
    by workers.
    """
    uri = uri_of(request.agent_id, request.memory_type, request.category)
    return add(context, uri, request.content, keywords=request.keywords, poignancy=request.importance, provenance=request.metadata)


@action("memory_get", scope="read", mutates=False)
def get(context: Context, request: MemoryId) -> FoundMemory:
    """Get one memory of a conversation.

    By its id; null if the group has none of that id.
    """
    return FoundMemory(memory=entries.memory(context.connection, context.group_id, request.id))


@action("memory_delete", scope="admin")
def delete(context: Context, request: MemoryId) -> Deletion:
    """Erase one memory of a conversation.

    For good, with what was concluded from it; a job does it. Nothing happens if there is none of that id.
    """
    known = matching.known_nodes(context.connection, context.group_id, [request.id])
    return erase(context, Erasure(node_ids=[request.id]) if known else None, len(known), str(request.id))


@action("memory_delete_all", scope="admin")
def delete_all(context: Context, request: AgentId) -> Deletion:
    """Erase an agent with all its memories.

    For good, everywhere; a job does it. Nothing happens if there is no such agent.
    """
    is_known = matching.is_agent(context.connection, context.group_id, request.agent_id)
    count = entries.count_of_agent(context.connection, context.group_id, request.agent_id)
    return erase(context, Erasure(agent_id=request.agent_id) if is_known else None, count, request.agent_id)


@action("memory_stats", scope="read", mutates=False)
def stats(context: Context, request: Nothing) -> MemoryStats:
    """Count the memories of conversations.

    By type and by agent, with the oldest and the newest and the bytes of their texts.
    """
    return entries.stats(context.connection, context.group_id)


@action("memory_export", scope="read", mutates=False)
def export(context: Context, request: ExportMemories) -> Entries:
    """Export an agent's memories of conversations.

    Page by page in the order in which they came, with what was superseded; memory_import takes them in again.
    """
    memories, following = entries.page(context.connection, context.group_id, request.agent_id, request.after, request.limit)
    return Entries(memories=memories, next=following)


@action("memory_import", scope="publish")
def import_memories(context: Context, request: ImportMemories) -> Imported:
    """Import memories of conversations.

    What is in force at its address already, or has an id that is known, is passed over: importing again changes nothing.
    """
    stored = Stored()
    new = sum(_imported(context.connection, context.group_id, memory, stored) for memory in request.memories)
    context.audit("memories", stored=new, known=len(request.memories) - new)
    finish(context, stored)
    return Imported(stored=new, known=len(request.memories) - new)


@action("memory_db_path", scope="read", mutates=False)
def database_path(context: Context, request: Nothing) -> DatabasePath:
    """Tell where memories are kept.

    Host and name of the database, without user or password.
    """
    address = urlsplit(get_settings().need("database_url"))
    return DatabasePath(path=f"{address.hostname or 'local'}{address.path}")


@action("memory_init", scope="read", mutates=False)
def init(context: Context, request: Nothing) -> Done:
    """Do nothing.

    The store is ready when the service runs; the command is there for programs that call it.
    """
    return Done()


def add(context: Context, uri: str, content: str, **fields: Any) -> StoredMemory:
    """Store a text at an address, with its audit row and the work that follows."""
    stored = Stored()
    done = entries.add(context.connection, context.group_id, uri, content, stored, **fields)
    context.audit(uri, id=done.id, new=done.new)
    finish(context, stored)
    return done


def finish(context: Context, stored: Stored) -> None:
    """What follows the commit of what was stored."""
    context.wake(*stored.owed)
    context.after_commit(lambda: announce(stored))


def erase(context: Context, what: Erasure | None, count: int, target: str) -> Deletion:
    """Ask for an erasure, which a worker does. None: there is nothing to erase at ``target``; that it was asked for is recorded."""
    if what is None:
        context.audit(target, count=0, erasure_id=None)
        return Deletion(count=0, erasure_id=None)
    erasure_id = progress.owe(context.connection, context.group_id, what.kind, progress.described(what), context.actor.name)
    context.audit("memories", count=count, erasure_id=erasure_id)
    context.wake(ERASE)
    return Deletion(count=count, erasure_id=erasure_id)


def _imported(connection: Connection, group_id: str, memory: PersistentMemory, stored: Stored) -> bool:
    uri = memory.uri or uri_of(memory.agent_id, memory.memory_type, "imported")
    fields = {
        "event_id": memory.id,
        "created_at": memory.created_at,
        "keywords": memory.keywords,
        "poignancy": memory.importance or DEFAULT_IMPORTANCE,
        "abstract": memory.abstract,
        "overview": memory.overview,
        "provenance": memory.metadata,
    }
    return entries.add(connection, group_id, uri, memory.content, stored, **fields).new


find = by_worker(
    "viking_find",
    FindOptions,
    Entries,
    scope="read",
    queue=QUEUE,
    mutates=False,
    doc="""Find memories below an address.

    By meaning and by words, among those of the address's agent only. Needs a worker that answers.
    """,
)
configure_embedding = by_worker(
    "viking_configure_embedding",
    ConfigureEmbedding,
    MoveState,
    scope="operator",
    queue="embedding",
    doc="""Move the deployment to another embedder.

    Begins the move, or does its next step; call it until its phase is done. Keys are taken from the environment.
    """,
)
configure_summaries = by_worker(
    "viking_configure_summary_driver",
    ConfigureSummaries,
    DriverState,
    scope="operator",
    queue=QUEUE,
    mutates=False,
    doc="""Check which LLM summaries are made by.

    Whether it is the one named, and what has to be set in the environment if not: endpoints and keys are not kept in the database.
    """,
)


def _add_resource(context: Context, request: AddResource) -> StoredMemory:
    """Add a text at an address.

    The same text is in force at an address once; adding it again gives the id that it has. A worker makes its overview (L1) and its
    keywords (L0), in the text's own language; until then viking_read makes them of the text.
    """
    return add(context, request.uri, request.content, poignancy=DEFAULT_IMPORTANCE)


add_resource = action("viking_add", scope="publish")(_add_resource)
store_with_summaries = action("viking_store_with_summaries", scope="publish")(_add_resource)


@action("viking_add_with_metadata", scope="publish")
def add_with_metadata(context: Context, request: AddWithMetadata) -> StoredMemory:
    """Add a text with its keywords, importance and metadata.

    The same text is in force at an address once; adding it again gives the id that it has.
    """
    return add(context, request.uri, request.content, keywords=request.keywords, poignancy=request.importance, provenance=request.metadata)


@action("viking_grep", scope="read", mutates=False)
def grep(context: Context, request: GrepOptions) -> Entries:
    """Search texts below an address by a regular expression.

    PostgreSQL's expressions, of at most 200 characters; a search may take two seconds.
    """
    matches = entries.grep(context.connection, context.group_id, request.uri, request.pattern, request.limit)
    return Entries(memories=matches)


@action("viking_ls", scope="read", mutates=False)
def ls(context: Context, request: ResourceUri) -> Resources:
    """List what is right below an address.

    Names with the number of memories in force below each.
    """
    return Resources(resources=entries.tree(context.connection, context.group_id, request.uri, 1))


@action("viking_tree", scope="read", mutates=False)
def tree(context: Context, request: TreeOptions) -> Resources:
    """Show what is below an address as a tree.

    Names with the number of memories in force below each, so many levels deep.
    """
    return Resources(resources=entries.tree(context.connection, context.group_id, request.uri, request.depth))


@action("viking_read", scope="read", mutates=False)
def read(context: Context, request: ReadOptions) -> ResourceTexts:
    """Read what is at an address or below it.

    As keywords (L0), an overview (L1) or whole (L2); a level that is not there yet is made of the text.
    """
    memories = entries.below(context.connection, context.group_id, request.uri, request.limit)
    return ResourceTexts(texts=[entries.text_at(entry, request.level) for entry in memories])


@action("viking_remove", scope="admin")
def remove(context: Context, request: ResourceUri) -> Deletion:
    """Erase what is at an address or below it.

    For good, with what was concluded from it, up to a thousand memories at once; a job does it.
    """
    ids = entries.ids_below(context.connection, context.group_id, request.uri)[:MAX_NODES]
    return erase(context, Erasure(node_ids=ids) if ids else None, len(ids), request.uri)


@action("viking_status", scope="read", mutates=False)
def status(context: Context, request: Nothing) -> StorageStatus:
    """Tell how the store is.

    How many memories of conversations there are, how many have vectors, what embeds and summarises them, and what is owed.
    """
    row = context.connection.execute(_STATUS, {"group": context.group_id}).one()
    return StorageStatus(
        memories=row.memories, embedded=row.embedded, embedder=row.embedder, llm=get_settings().llm, waiting=row.waiting or {}
    )


@action("viking_load_industry_keywords", scope="admin")
def load_industry_keywords(context: Context, request: IndustryWords) -> Done:
    """Set the words of an industry.

    Words of the same meaning are looked for together. They replace those that the group has for the same industry.
    """
    make_groups(context.connection, [context.group_id])
    parameters = {"group": context.group_id, "industry": request.industry, "keywords": request.keywords}
    context.connection.execute(_LOAD, parameters)
    context.audit(request.industry, words=len(request.keywords))
    return Done()


_STATUS = text("""
    SELECT count(*) AS memories, count(embedding) AS embedded,
        (SELECT model FROM embedding_models WHERE state = 'active' LIMIT 1) AS embedder,
        (SELECT jsonb_object_agg(kind, n) FROM (
            SELECT kind, count(*) AS n FROM pending_work WHERE group_id = :group AND kind IN ('extract', 'summarize', 'embed') GROUP BY kind
        ) w) AS waiting
    FROM memory_nodes WHERE group_id = :group AND kind IS NOT NULL
""")
_LOAD = text("""
    INSERT INTO industry_keywords (group_id, industry, keywords) VALUES (:group, :industry, :keywords)
    ON CONFLICT (group_id, industry) DO UPDATE SET keywords = excluded.keywords
""").bindparams(bindparam("keywords", type_=JSONB))


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
    turns = Recorder().events(context.group_id, request.agent_id, session_id, request.messages)
    events = [wire.build(event) for event in turns]
    ended = wire.SessionEnded(group_id=context.group_id, agent_id=request.agent_id, session_id=session_id, occurred_at=datetime.now(UTC))
    stored = store(context.connection, [*events, ended])
    turn_ids = [event.event_id for event in events]
    context.audit(request.agent_id, session_id=session_id, turns=len(turn_ids))
    context.wake(*stored.due)
    finish(context, stored)
    return StoredSession(turn_ids=turn_ids, new=len(stored.nodes))


def _estimate_tokens(_context: Context, request: EstimateTokens) -> Tokens:
    """Estimate how many tokens a text is.

    Rather too many than too few: 1.5 for a Chinese character, 1.3 for a word.
    """
    return Tokens(tokens=estimate_tokens(request.content))


estimate_content_tokens = action("estimate_content_tokens", scope="read", mutates=False)(_estimate_tokens)
compactor_text_tokens = action("compactor_estimate_text_tokens", scope="read", mutates=False)(_estimate_tokens)


@action("agent_get", scope="read", mutates=False)
def agent_get(context: Context, request: AgentId) -> AgentWithProfile:
    """Get an agent with the profile of its user.

    Its settings and counters, and what conversations told about its user in general.
    """
    state = agent(context.connection, context.group_id, request.agent_id)
    if state is None:
        raise no_agent(context.group_id, request.agent_id)
    known = profiles.find(context.connection, (context.group_id, request.agent_id))
    return AgentWithProfile(**state.model_dump(), profile=known)


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
