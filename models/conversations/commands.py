"""Commands on memories of conversations by id and by agent: ``memory_…``."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import Connection

from jiyi.protocol.conversations.commands import (
    AgentId,
    DatabasePath,
    Deletion,
    Done,
    Entries,
    ExportMemories,
    FoundMemory,
    Imported,
    ImportMemories,
    MemoryEntryInput,
    MemoryId,
    MemoryStats,
    Nothing,
    PersistentMemory,
    StoredMemory,
)
from jiyi.protocol.conversations.uris import uri_of
from jiyi.protocol.erasure import Erasure
from jiyi.settings import get_settings
from models.conversations import entries
from models.db.actions import Context, action, by_worker
from models.erasure import matching, progress
from models.erasure.progress import ERASE
from models.memory.ingestion.inbox import Stored
from models.queue import news

#: Importance of memories that come without one.
DEFAULT_IMPORTANCE = 5.0

search = by_worker("conversations.search")


@action("conversations.store")
def store_memory(context: Context, request: MemoryEntryInput) -> StoredMemory:
    """Store a memory of a conversation.

    At the address agent://{agent}/{type}/{category}, where the same content is in force once. It is embedded and summarised
    by workers.
    """
    uri = uri_of(request.agent_id, request.memory_type, request.category)
    return add(context, uri, request.content, keywords=request.keywords, poignancy=request.importance, provenance=request.metadata)


@action("conversations.get")
def get(context: Context, request: MemoryId) -> FoundMemory:
    """Get one memory of a conversation.

    By its id; null if the group has none of that id.
    """
    return FoundMemory(memory=entries.one(context.connection, context.group_id, request.id))


@action("conversations.delete")
def delete(context: Context, request: MemoryId) -> Deletion:
    """Erase one memory of a conversation.

    For good, with what was concluded from it; a job does it. Nothing happens if there is none of that id.
    """
    known = matching.known_nodes(context.connection, context.group_id, [request.id])
    return erase(context, Erasure(node_ids=[request.id]), len(known)) if known else nothing(context, str(request.id))


@action("conversations.delete_all")
def delete_all(context: Context, request: AgentId) -> Deletion:
    """Erase an agent with all its memories.

    For good, everywhere; a job does it. Nothing happens if there is no such agent.
    """
    if not matching.is_agent(context.connection, context.group_id, request.agent_id):
        return nothing(context, request.agent_id)
    count = entries.ids_of_agent(context.connection, context.group_id, request.agent_id)
    return erase(context, Erasure(agent_id=request.agent_id), count)


@action("conversations.stats")
def stats(context: Context, request: Nothing) -> MemoryStats:  # noqa: ARG001, an action has a request
    """Count the memories of conversations.

    By type and by agent, with the oldest and the newest and the bytes of their texts.
    """
    return entries.stats(context.connection, context.group_id)


@action("conversations.export")
def export(context: Context, request: ExportMemories) -> Entries:
    """Export an agent's memories of conversations.

    Page by page in the order in which they came, with what was superseded; conversations.import takes them in again.
    """
    found, following = entries.page(context.connection, context.group_id, request.agent_id, request.after, request.limit)
    return Entries(memories=found, next=following)


@action("conversations.import")
def import_memories(context: Context, request: ImportMemories) -> Imported:
    """Import memories of conversations.

    What is in force at its address already, or has an id that is known, is passed over: importing again changes nothing.
    """
    stored = Stored()
    new = sum(_imported(context.connection, context.group_id, one, stored) for one in request.memories)
    context.audit("memories", stored=new, known=len(request.memories) - new)
    finish(context, stored)
    return Imported(stored=new, known=len(request.memories) - new)


@action("conversations.database")
def database_path(context: Context, request: Nothing) -> DatabasePath:  # noqa: ARG001, an action has a request
    """Tell where memories are kept.

    Host and name of the database, without user or password.
    """
    address = urlsplit(get_settings().need("database_url"))
    return DatabasePath(path=f"{address.hostname or 'local'}{address.path}")


@action("conversations.init")
def init(context: Context, request: Nothing) -> Done:  # noqa: ARG001, an action has a request
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
    context.after_commit(lambda: news.stored(stored))


def erase(context: Context, what: Erasure, count: int) -> Deletion:
    """Ask for an erasure, which a worker does."""
    erasure_id = progress.owe(context.connection, context.group_id, what.kind, progress.described(what), context.actor.name)
    context.audit("memories", count=count, erasure_id=erasure_id)
    context.wake(ERASE)
    return Deletion(count=count, erasure_id=erasure_id)


def nothing(context: Context, target: str) -> Deletion:
    """There is nothing to be erased; that it was asked for is recorded."""
    context.audit(target, count=0, erasure_id=None)
    return Deletion(count=0, erasure_id=None)


def _imported(connection: Connection, group_id: str, one: PersistentMemory, stored: Stored) -> bool:
    uri = one.uri or uri_of(one.agent_id, one.memory_type, "imported")
    fields = {
        "event_id": one.id,
        "created_at": one.created_at,
        "keywords": one.keywords,
        "poignancy": one.importance or DEFAULT_IMPORTANCE,
        "abstract": one.abstract,
        "overview": one.overview,
        "provenance": one.metadata,
    }
    return entries.add(connection, group_id, uri, one.content, stored, **fields).new
