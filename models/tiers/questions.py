"""Questions about a group's tiers that workers answer over the broker (CN-27, CN-31, CN-38, CN-55)."""

from __future__ import annotations

from jiyi.errors import NotFound
from jiyi.protocol.queries import QUEUE
from jiyi.protocol.tiers.context import ContextAnswer, ContextBody
from jiyi.protocol.tiers.digests import DigestPage, DigestsQuery
from jiyi.protocol.tiers.knowledge import Change, HistoryQuery, KnowledgeFilter, KnowledgePage
from jiyi.protocol.tiers.quarantine import EntryQuery, IngestState, WorkingMemoryQuery, WorkingState
from models.db.actions import Context, action, by_worker
from models.tiers import digests, knowledge_reads, quarantine, quarantine_reads, reads, working


@action("knowledge.list", scope="admin", mutates=False, formerly="inspect.knowledge")
def list_knowledge(context: Context, request: KnowledgeFilter) -> KnowledgePage:
    """List what is in the tiers, quarantine among them, newest first."""
    return reads.entries(context.connection, context.group_id, request)


@action("knowledge.history", scope="read", mutates=False, formerly="inspect.knowledge_history")
def knowledge_history(context: Context, request: HistoryQuery) -> list[Change]:
    """Tell who promoted, demoted or edited a piece of knowledge, oldest first."""
    found = knowledge_reads.history(context.connection, context.group_id, request.knowledge_id)
    if not found:
        raise NotFound(f"knowledge_id: the group {context.group_id!r} never had knowledge {request.knowledge_id}")
    return found


@action("quarantine.outcome", scope="read", mutates=False, formerly="inspect.screened")
def outcome(context: Context, request: EntryQuery) -> IngestState | None:
    """Tell what the filters said of an entry; nothing until they have decided."""
    return quarantine.outcome(context.connection, context.group_id, request.entry_id)


@action("working_memory.show", scope="read", mutates=False, formerly="inspect.working_memory")
def working_memory(context: Context, request: WorkingMemoryQuery) -> WorkingState:  # noqa: ARG001, an action has a request
    """Show working memory as agents find it, and what the filters have counted. Rebuilds what Valkey has lost."""
    connection, group_id = context.connection, context.group_id
    refused = quarantine_reads.rejections(connection, group_id)
    quarantine.hold(connection, group_id)
    entries = quarantine.working_memory(connection, group_id)
    return WorkingState(rows=[entry.item() for entry in entries], counts=working.stats(group_id), rejections=refused)


@action("digests.list", scope="admin", mutates=False, formerly="inspect.digests")
def list_digests(context: Context, request: DigestsQuery) -> DigestPage:
    """List the group's digests, newest first; or one of them."""
    rows = digests.listed(context.connection, context.group_id, request.digest_id, request.before, request.limit)
    if request.digest_id is not None and not rows:
        raise NotFound(f"digest_id: the group {context.group_id!r} has no digest {request.digest_id}")
    return DigestPage(rows=rows, next=rows[-1].digest_id if len(rows) == request.limit else None)


build_context = by_worker(
    "context.build",
    ContextBody,
    ContextAnswer,
    scope="read",
    queue=QUEUE,
    mutates=False,
    doc="""Put a prompt together with what the group knows.

    The group's words, who the agent is, the five memories that matter most, and what is to be decided, in at most so many
    tokens: the memories give way first, and parts says what was cut, and why. What is in quarantine is never among it. Needs
    a worker that answers.
    """,
)
