"""Questions about a group's tiers that workers answer over the broker."""

from __future__ import annotations

from jiyi.errors import NotAllowed, NotFound
from jiyi.protocol.knowledge import (
    Change,
    DigestPage,
    DigestsQuery,
    EntryQuery,
    HistoryQuery,
    IngestState,
    KnowledgeFilter,
    KnowledgePage,
    Layer,
    LayerFilter,
    TiersPage,
    TiersWanted,
    WorkingMemoryQuery,
    WorkingState,
)
from jiyi.protocol.tier_requests import KnowledgeDetail
from models.db.actions import Context, action, by_worker, read
from models.tiers import digests, knowledge_reads, quarantine, quarantine_reads, reads, working


@action("knowledge.list")
def list_knowledge(context: Context, request: KnowledgeFilter) -> KnowledgePage:
    """List what is in the tiers, quarantine among them, newest first."""
    return reads.entries(context.connection, context.group_id, request)


@read(scope="read")
def list_visible(context: Context, request: TiersWanted) -> TiersPage:
    """List what the group knows.

    Working and long-term memory, newest first, page by page; all filters given must hold. Use it to look around; to find
    what matters for a question, use query_memory. Keys with the right `admin` see quarantine, too.
    """
    return _page(context, request, _visible(context, request.layer))


@read(scope="read")
def list_session(context: Context, request: TiersWanted) -> TiersPage:
    """List what a session left.

    What was said in one conversation or run, tier by tier, newest first, page by page. Keys with the right `admin` see
    quarantine, too.
    """
    found = _page(context, request, _visible(context, request.layer))
    if not found.rows and request.before is None:
        said = reads.counts(context.connection, context.group_id, KnowledgeFilter(session_id=request.session_id))
        if not any(said[layer] for layer in _visible(context)):
            raise NotFound(f"session_id: nothing is known of a session {request.session_id!r}")
    return found


@read(scope="admin")
def list_quarantine(context: Context, request: TiersWanted) -> TiersPage:
    """List quarantine.

    What agents said and nobody has promoted, apart from what is in working memory now; with the filter that kept it out,
    if one did. For audits and for those who promote: it is unverified, and never to be given to an agent.
    """
    return _page(context, request.model_copy(update={"layer": "quarantine"}), ["quarantine"])


@read(scope="read")
def get_knowledge(context: Context, request: HistoryQuery) -> KnowledgeDetail:
    """Get one piece of knowledge.

    Its words, where they come from, and its history: who promoted, edited or took it back, when and why.
    """
    found = knowledge_reads.detail(context.connection, context.group_id, request.knowledge_id)
    if found is None:
        raise NotFound(f"knowledge_id: the group {context.group_id!r} has no knowledge {request.knowledge_id}")
    return found


@action("knowledge.history")
def knowledge_history(context: Context, request: HistoryQuery) -> list[Change]:
    """Tell who promoted, demoted or edited a piece of knowledge, oldest first."""
    found = knowledge_reads.history(context.connection, context.group_id, request.knowledge_id)
    if not found:
        raise NotFound(f"knowledge_id: the group {context.group_id!r} never had knowledge {request.knowledge_id}")
    return found


@action("quarantine.outcome")
def outcome(context: Context, request: EntryQuery) -> IngestState | None:
    """Tell what the filters said of an entry; nothing until they have decided."""
    return quarantine.outcome(context.connection, context.group_id, request.entry_id)


@action("working_memory.show")
def working_memory(context: Context, request: WorkingMemoryQuery) -> WorkingState:  # noqa: ARG001, an action has a request
    """Show working memory as agents find it, and what the filters have counted. Rebuilds what Valkey has lost."""
    connection, group_id = context.connection, context.group_id
    refused = quarantine_reads.rejections(connection, group_id)
    quarantine.lock_group(connection, group_id)
    entries = quarantine.working_memory(connection, group_id)
    return WorkingState(rows=[entry.item() for entry in entries], counts=working.stats(group_id), rejections=refused)


@action("digests.list")
def list_digests(context: Context, request: DigestsQuery) -> DigestPage:
    """List digests.

    Newest first, page by page, each with its clusters: what they are about, in a few sentences, and the entries that
    promote_memory takes.
    """
    rows = digests.listed(context.connection, context.group_id, request.digest_id, request.before, request.limit)
    if request.digest_id is not None and not rows:
        raise NotFound(f"digest_id: the group {context.group_id!r} has no digest {request.digest_id}")
    return DigestPage(rows=rows, next=rows[-1].digest_id if len(rows) == request.limit else None)


build_context = by_worker("context.build")


def _visible(context: Context, wanted: LayerFilter = "all") -> list[Layer]:
    """The tiers that whoever asks may see: quarantine is not to be given to agents.

    Raises:
        NotAllowed: quarantine alone is asked for.
    """
    if context.actor.admin:
        return list(reads.LAYERS)
    if wanted == "quarantine":
        raise NotAllowed("layer: quarantine needs the right `admin`: what is in it is not to be given to agents.")
    return [layer for layer in reads.LAYERS if layer != "quarantine"]


def _page(context: Context, wanted: TiersWanted, layers: list[Layer]) -> TiersPage:
    found = reads.entries(context.connection, context.group_id, wanted, layers=layers, before=wanted.before)
    counts = {layer: count for layer, count in found.counts.items() if layer in layers}
    return TiersPage(rows=found.rows, counts=counts, next=None if found.next is None else reads.place(found.rows[-1]))
