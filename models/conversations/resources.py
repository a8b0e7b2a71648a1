"""Commands on memories of conversations by their addresses: ``viking_…``."""

from __future__ import annotations

from sqlalchemy import bindparam, text
from sqlalchemy.dialects.postgresql import JSONB

from jiyi.protocol.conversations.commands import (
    AddResource,
    Deletion,
    Done,
    Entries,
    GrepOptions,
    IndustryWords,
    Nothing,
    ReadOptions,
    Resources,
    ResourceTexts,
    ResourceUri,
    StorageStatus,
    StoredMemory,
    TreeOptions,
)
from jiyi.protocol.erasure import MAX_NODES, Erasure
from jiyi.settings import get_settings
from models.conversations import entries
from models.conversations.commands import add, erase, nothing
from models.db.actions import Context, action, by_worker
from models.memory.agents.agents import make_groups

find = by_worker("resources.find")
configure_embedding = by_worker("embedders.configure")
configure_summaries = by_worker("llms.check")


@action("resources.add")
def add_resource(context: Context, request: AddResource) -> StoredMemory:
    """Add a text at an address, with its keywords, importance and metadata.

    The same text is in force at an address once; adding it again gives the id that it has. A worker makes its overview (L1) and
    its keywords (L0), in the text's own language; until then resources.read makes them of the text.
    """
    provenance = request.metadata or None
    return add(context, request.uri, request.content, keywords=request.keywords, poignancy=request.importance, provenance=provenance)


@action("resources.grep")
def grep(context: Context, request: GrepOptions) -> Entries:
    """Search texts below an address by a regular expression.

    PostgreSQL's expressions, of at most 200 characters; a search may take two seconds.
    """
    found = entries.grep(context.connection, context.group_id, request.uri, request.pattern, request.limit)
    return Entries(memories=found)


@action("resources.list")
def ls(context: Context, request: ResourceUri) -> Resources:
    """List what is right below an address.

    Names with the number of memories in force below each.
    """
    return Resources(resources=entries.tree(context.connection, context.group_id, request.uri, 1))


@action("resources.tree")
def tree(context: Context, request: TreeOptions) -> Resources:
    """Show what is below an address as a tree.

    Names with the number of memories in force below each, so many levels deep.
    """
    return Resources(resources=entries.tree(context.connection, context.group_id, request.uri, request.depth))


@action("resources.read")
def read(context: Context, request: ReadOptions) -> ResourceTexts:
    """Read what is at an address or below it.

    As keywords (L0), an overview (L1) or whole (L2); a level that is not there yet is made of the text.
    """
    found = entries.below(context.connection, context.group_id, request.uri, request.limit)
    return ResourceTexts(texts=[entries.text_at(entry, request.level) for entry in found])


@action("resources.remove")
def remove(context: Context, request: ResourceUri) -> Deletion:
    """Erase what is at an address or below it.

    For good, with what was concluded from it, up to a thousand memories at once; a job does it.
    """
    ids = entries.ids_below(context.connection, context.group_id, request.uri)[:MAX_NODES]
    return erase(context, Erasure(node_ids=ids), len(ids)) if ids else nothing(context, request.uri)


@action("resources.status")
def status(context: Context, request: Nothing) -> StorageStatus:  # noqa: ARG001, an action has a request
    """Tell how the store is.

    How many memories of conversations there are, how many have vectors, what embeds and summarises them, and what is owed.
    """
    row = context.connection.execute(_STATUS, {"group": context.group_id}).one()
    return StorageStatus(
        memories=row.memories, embedded=row.embedded, embedder=row.embedder, llm=get_settings().llm, waiting=row.waiting or {}
    )


@action("industry_words.set")
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
