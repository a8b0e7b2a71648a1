"""Actions on conversations: what is remembered by id and address, injection, extraction, compaction."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import urlsplit

from sqlalchemy import Connection, text
from uuid6 import uuid7

from jiyi.chat import compaction
from jiyi.chat.recording import Recorder
from jiyi.errors import NotFound
from jiyi.protocol import events as wire
from jiyi.protocol.base import BY_ID, AgentForUser, ByIdForUser, Count, Made, OfAgent, OfAgents, Request, Rows
from jiyi.protocol.conversation_commands import (
    ExtractMessages,
    GrepOptions,
    ImportMemories,
    IndustryWords,
    JudgeTurn,
    LabelledTurn,
    ListResources,
    MemoryEntryInput,
    MemoryStats,
    PersistentMemory,
    ReadOptions,
    Resource,
    ResourceText,
    ResourceUri,
    StorageStatus,
    StoredSession,
)
from jiyi.protocol.conversations import KINDS, CheckThreshold, EstimateTokens, Threshold, uri_of
from jiyi.protocol.erasure import MAX_NODES, Erasure
from jiyi.protocol.memory import AgentState, Memory
from jiyi.protocol.origins import claimable
from jiyi.settings import get_settings
from jiyi.text.budget import estimate_tokens
from jiyi.text.words import language_of
from models.conversations import entries, injections
from models.conversations.entries import at_address
from models.conversations.tables import IndustryKeywords
from models.db.actions import Context, action, by_worker
from models.db.rows import page, upsert
from models.erasure import actions as erasure
from models.erasure import matching
from models.memory import reads
from models.memory.agents import agent_row, make_groups, no_agent
from models.memory.inbox import store

#: Importance of memories that come without one.
DEFAULT_IMPORTANCE = 5.0

search = by_worker("conversations.search")
forget = by_worker("memory.forget")


@action("conversations.store")
def store_memory(context: Context, request: MemoryEntryInput) -> Made:
    """Store a memory of a conversation.

    At the address agent://{agent}/{type}/{category}, where the same content is current once. Workers embed
    and summarise it.
    """
    return add(context, request)


@action("conversations.get")
def get(context: Context, request: ByIdForUser) -> Memory | None:
    """Get one memory.

    As memory.get does; null if the group has none of that id.
    """
    return reads.node(context.connection, context.group_id, request.id)


@action("conversations.judge")
def judge_turn(context: Context, request: JudgeTurn) -> Count:
    """Say whether a turn is worth remembering.

    The judgement is a row to train on (`conversations.judged`); memories from the turn stay unchanged. A new
    judgement replaces the one before.
    """
    parameters = {"group": context.group_id, "node": request.id, "lasting": request.lasting}
    if context.connection.execute(_IS_TURN, parameters).first() is None:
        why = f"the group {context.group_id!r} has no turn {request.id}"
        raise NotFound(f"id: {why}; memories that are no turns are not judged")
    context.connection.execute(_FORGET_JUDGEMENT if request.lasting is None else _JUDGE, parameters)
    context.audit(str(request.id), lasting=request.lasting)
    return Count(count=1)


@action("conversations.judged")
def judged_turns(context: Context, request: OfAgents) -> Rows[LabelledTurn]:
    """List the turns that people have judged, as rows to train on.

    Each with what was said right before it, and with attribute, kind and subject of what was remembered of
    it.
    """
    whose = {"group": context.group_id, "agent": request.agent_id}
    place = {"after": request.place(BY_ID), "limit": request.limit + 1}
    turns = context.connection.execute(_JUDGED, {**whose, **place}).mappings()
    rows = [LabelledTurn(**row, language=language_of(row["text"])) for row in turns]
    return page(rows, request.limit, lambda last: last.id)


@action("conversations.delete")
def delete(context: Context, request: ByIdForUser) -> Count:
    """Erase one memory.

    As erasure.request does, for good, with what was concluded from it and its words in what was said. Request
    happens if there is none of that id.
    """
    node_ids = matching.known_nodes(context.connection, context.group_id, [request.id])
    return erase(
        context, Erasure(node_ids=[request.id]) if node_ids else None, len(node_ids), str(request.id)
    )


@action("conversations.delete_all")
def delete_all(context: Context, request: OfAgent) -> Count:
    """Erase an agent with all its memories.

    For good, everywhere; a job does it. Request happens if there is no such agent.
    """
    is_known = matching.is_agent(context.connection, context.group_id, request.agent_id)
    count = entries.count_of_agent(context.connection, context.group_id, request.agent_id)
    return erase(context, Erasure(agent_id=request.agent_id) if is_known else None, count, request.agent_id)


@action("conversations.stats")
def stats(context: Context, request: Request) -> MemoryStats:
    """Count the memories of conversations.

    By type and by agent, with the oldest and the newest and the bytes of their texts.
    """
    return entries.stats(context.connection, context.group_id)


@action("conversations.export")
def export(context: Context, request: OfAgents) -> Rows[Memory]:
    """Export memories of conversations: an agent's, or all agents'.

    Page by page in the order in which they came, with what was superseded; conversations.import takes them in
    again.
    """
    memory_filter = reads.MemoryFilter(agent_id=request.agent_id, kinds=KINDS, archived="with")
    whole = {"most_chars": None, "oldest_first": True}
    return reads.page(context.connection, context.group_id, memory_filter, request, **whole)


@action("conversations.import")
def import_memories(context: Context, request: ImportMemories) -> Count:
    """Import memories of conversations.

    A memory that is current at its address already, or has a known id, is skipped: importing again changes
    nothing.
    """
    new = sum(_imported(context.connection, context.group_id, memory) for memory in request.memories)
    context.audit("memories", stored=new, known=len(request.memories) - new)
    return Count(count=new)


def add(context: Context, request: MemoryEntryInput) -> Made:
    """Store a text at an address, with its audit row and the work that follows."""
    fields = request.model_dump(include={"keywords", "user_id", "visibility", "origin"})
    fields |= {"poignancy": request.importance, "provenance": request.metadata or None}
    result = entries.add(context.connection, context.group_id, request.address, request.content, **fields)
    context.audit(request.address, id=result.id, new=result.new)
    return result


def erase(context: Context, what: Erasure | None, count: int, target: str) -> Count:
    """Ask for an erasure, which a worker does; None: nothing is there, and only the request is recorded."""
    if what is None:
        context.audit(target, count=0, erasure_id=None)
        return Count(count=0)
    state = erasure.ask(context, what)
    context.audit("memories", count=count, erasure_id=state.erasure_id)
    return Count(count=count, erasure_id=state.erasure_id)


def _imported(connection: Connection, group_id: str, memory: PersistentMemory) -> bool:
    uri = memory.uri or uri_of(memory.agent_id, memory.kind, "imported")
    same = memory.model_dump(exclude={"node_id", "agent_id", "kind", "uri", "description"})
    fields = {**same, "event_id": memory.node_id, "origin": claimable(memory.origin)}
    fields["poignancy"] = memory.poignancy or DEFAULT_IMPORTANCE
    return entries.add(connection, group_id, uri, memory.description, **fields).new is True


find = by_worker("resources.find")
configure_summaries = by_worker("llms.check")


@action("resources.add")
def add_resource(context: Context, request: MemoryEntryInput) -> Made:
    """Add a text at an address, with its keywords, importance and metadata.

    The same text is current at an address once; adding it again returns its existing id. A worker makes its
    overview (L1) and its keywords (L0), in the text's own language; until then resources.read makes them of
    the text.
    """
    return add(context, request)


@action("resources.grep")
def grep(context: Context, request: GrepOptions) -> Rows[Memory]:
    """Search texts below an address by a regular expression.

    PostgreSQL's expressions, of at most 200 characters; a search may take two seconds.
    """
    where = context.connection, context.group_id, request.uri
    return Rows(rows=entries.grep(*where, request.pattern, request.limit))


@action("resources.list")
def ls(context: Context, request: ListResources) -> Rows[Resource]:
    """List what is below an address, as a tree of so many levels.

    Names with the number of current memories below each.
    """
    return Rows(rows=entries.tree(context.connection, context.group_id, request.uri, request.depth))


@action("resources.read")
def read(context: Context, request: ReadOptions) -> Rows[ResourceText]:
    """Read what is at an address or below it.

    As keywords (L0), an overview (L1) or whole (L2); a level that is not there yet is made of the text.
    """
    memories = reads.search(
        context.connection, context.group_id, at_address(request.uri), None, request.limit, most_chars=None
    )
    return Rows(rows=[entries.text_at(memory, request.level) for memory in memories])


@action("resources.remove")
def remove(context: Context, request: ResourceUri) -> Count:
    """Erase what is at an address or below it.

    For good, with what was concluded from it, up to a thousand memories at once; a job does it.
    """
    everything = at_address(request.uri, superseded=True, archived="with")
    memories = reads.search(context.connection, context.group_id, everything, None, MAX_NODES)
    ids = [memory.node_id for memory in memories]
    return erase(context, Erasure(node_ids=ids) if ids else None, len(ids), request.uri)


@action("resources.status")
def status(context: Context, request: Request) -> StorageStatus:
    """Get the state of the store.

    Its database (host and name, no user or password), the number of memories of conversations, how many have
    vectors, the models that embed and summarise them, and pending work.
    """
    row = context.connection.execute(_STATUS, {"group": context.group_id}).one()
    address = urlsplit(get_settings().need("database_url"))
    return StorageStatus(
        path=f"{address.hostname or 'local'}{address.path}",
        memories=row.memories,
        embedded=row.embedded,
        embedder=row.embedder,
        llm=get_settings().llm,
        waiting=row.waiting or {},
    )


@action("industry_words.set")
def load_industry_keywords(context: Context, request: IndustryWords) -> Count:
    """Set the words of an industry.

    Words of the same meaning are looked for together. They replace those that the group has for the same
    industry.
    """
    make_groups(context.connection, [context.group_id])
    own = {"group_id": context.group_id, "industry": request.industry}
    words = upsert(IndustryKeywords, "keywords").values(**own, keywords=request.keywords)
    context.connection.execute(words)
    context.audit(request.industry, words=len(request.keywords))
    return Count(count=len(request.keywords))


_STATUS = text("""
    SELECT count(*) AS memories, count(embedding) AS embedded,
        (SELECT model FROM embedding_models WHERE state = 'active' LIMIT 1) AS embedder,
        (SELECT jsonb_object_agg(kind, n) FROM (
            SELECT kind, count(*) AS n FROM pending_work
            WHERE group_id = :group AND kind IN ('extract', 'summarize', 'embed') GROUP BY kind
        ) w) AS waiting
    FROM memory_nodes WHERE group_id = :group AND kind IS NOT NULL
""")


build_context = by_worker("conversations.context")
extract_session_memories = by_worker("conversations.extract")
create_embedding = by_worker("embedders.embed")
compact = by_worker("conversations.compact")
show_prompts = by_worker("prompts.show")


@action("conversations.record")
def extract_and_store(context: Context, request: ExtractMessages) -> StoredSession:
    """Store a conversation and have it processed.

    Its messages become turns, each once, and the session's end is noted, so that a worker extracts memories
    from them at once.
    """
    session_id = request.session_id or f"session-{uuid7()}"
    whose = context.group_id, request.agent_id, session_id
    turns = Recorder().events(*whose, request.messages, request.user_id)
    events = [wire.build(event) for event in turns]
    ended = wire.SessionEnded(
        group_id=context.group_id,
        agent_id=request.agent_id,
        session_id=session_id,
        occurred_at=datetime.now(UTC),
        payload=wire.Ending(user_id=request.user_id),
    )
    result = store(context.connection, [*events, ended])
    turn_ids = [event.event_id for event in events]
    context.audit(request.agent_id, session_id=session_id, turns=len(turn_ids))
    return StoredSession(turn_ids=turn_ids, new=len(result.nodes))


@action("tokens.estimate")
def estimate_content_tokens(_context: Context, request: EstimateTokens) -> Count:
    """Estimate how many tokens a text or a conversation is.

    Rather too many than too few: 1.5 for a Chinese character, 1.3 for a word. Messages count with their tool
    calls, and a few tokens for each message itself.
    """
    if request.messages is not None:
        return Count(count=compaction.conversation_tokens(request.messages))
    return Count(count=estimate_tokens(request.content or ""))


@action("agents.get")
def agent_get(context: Context, request: AgentForUser) -> AgentState:
    """Get one agent.

    Its settings, how many memories of which type it has, how near its next reflection is, and
    its user's profile from conversations.
    """
    state = agent_row(context.connection, context.group_id, request.agent_id)
    if state is None:
        raise no_agent(context.group_id, request.agent_id)
    profile = injections.find_profile(
        context.connection, (context.group_id, request.agent_id), request.user_id
    )
    return state.model_copy(update={"profile": profile})


@action("conversations.check_length")
def compactor_check(context: Context, request: CheckThreshold) -> Threshold:
    """Check whether a conversation is to be compacted.

    None, soft (past 15,000 tokens) or hard (past 20,000), unless other limits are given.
    """
    return compaction.check(request.messages, request.limits)


#: A turn without the name of its speaker.
_SAID = """
    CASE WHEN starts_with({0}.description, {0}.subject || ': ')
    THEN substr({0}.description, length({0}.subject) + 3) ELSE {0}.description END
"""
_IS_TURN = text("SELECT FROM memory_nodes WHERE group_id = :group AND node_id = :node AND kind = 'session'")
_FORGET_JUDGEMENT = text("DELETE FROM judged_turns WHERE group_id = :group AND node_id = :node")
_JUDGE = text("""
    INSERT INTO judged_turns (group_id, node_id, lasting) VALUES (:group, :node, :lasting)
    ON CONFLICT (group_id, node_id) DO UPDATE SET lasting = excluded.lasting, judged_at = now()
""")
_JUDGED = text(f"""
    SELECT n.node_id AS id, {_SAID.format("n")} AS text, coalesce(before.said, '') AS before, j.lasting,
        fact.attribute, fact.kind, fact.subject
    FROM judged_turns j JOIN memory_nodes n USING (group_id, node_id)
    LEFT JOIN LATERAL (
        SELECT CASE WHEN p.subject IS DISTINCT FROM n.subject THEN {_SAID.format("p")} END AS said
        FROM memory_nodes p
        WHERE p.group_id = n.group_id AND p.agent_id = n.agent_id AND p.kind = 'session'
          AND p.node_count < n.node_count
          AND p.session_id = n.session_id AND p.user_id IS NOT DISTINCT FROM n.user_id
        ORDER BY p.node_count DESC LIMIT 1
    ) before ON true
    LEFT JOIN LATERAL (
        SELECT m.predicate AS attribute, m.kind,
            CASE m.subject WHEN n.subject THEN 'user' ELSE m.subject END AS subject
        FROM memory_nodes m
        WHERE j.lasting AND m.group_id = n.group_id AND m.agent_id = n.agent_id AND m.kind <> 'session'
          AND m.node_count BETWEEN n.node_count AND n.node_count + {entries.SOON_AFTER}
          AND m.filling ? n.node_id::text
        ORDER BY m.node_count LIMIT 1
    ) fact ON true
    WHERE j.group_id = :group AND (CAST(:agent AS text) IS NULL OR n.agent_id = :agent)
      AND (CAST(:after AS uuid) IS NULL OR n.node_id > :after)
    ORDER BY n.node_id LIMIT :limit
""")  # noqa: S608 – of constants
