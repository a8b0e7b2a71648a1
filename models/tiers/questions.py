"""Questions about a group's tiers, and lists of what is in all of them: quarantine, working and long-term
memory.

Lists of all tiers are read from the database alone, which knows what is in working memory, too. An entry is
in one layer: working memory while it is there, else quarantine, until it is promoted or deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Connection,
    Double,
    RowMapping,
    Text,
    Uuid,
    case,
    column,
    func,
    literal,
    select,
    text,
    tuple_,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from jiyi.errors import NotAllowed, NotFound
from jiyi.protocol.base import BY_ID, BY_TIME, ById, Request, Rows
from jiyi.protocol.knowledge import (
    VERIFIED,
    Change,
    DigestsQuery,
    DigestState,
    IngestState,
    Knowledge,
    KnowledgeDetail,
    KnowledgePage,
    Layer,
    LayerFilter,
    ListKnowledge,
    WorkingMemory,
)
from models.db.actions import Context, action, by_worker, read
from models.db.base import Timestamp
from models.db.rows import ilike_pattern, page
from models.tiers import digests, knowledge, quarantine, quarantine_reads, working

Place = tuple[datetime, UUID]
LAYERS: tuple[Layer, ...] = ("quarantine", "working", "longterm")


@action("knowledge.list")
def list_knowledge(context: Context, request: ListKnowledge) -> KnowledgePage:
    """List what the group knows.

    Working and long-term memory, newest first, page by page; all filters given must hold. Use it to look
    around; to find what matters for a question, use query_memory. Keys with the right `admin` see quarantine,
    too: what agents said and nobody has promoted, with the filter that kept it out of working memory. It is
    unverified, and never to be given to an agent.
    """
    return entries(context.connection, context.group_id, request, layers=_visible(context, request.layer))


@read(scope="read")
def get_knowledge(context: Context, request: ById) -> KnowledgeDetail:
    """Get one piece of knowledge.

    Its words, where they come from, and its history: who promoted, edited or took it back, when and why.
    """
    return knowledge.detail(context.connection, context.group_id, request.id)


@action("knowledge.history")
def knowledge_history(context: Context, request: ById) -> Rows[Change]:
    """List who promoted, demoted or edited a piece of knowledge and the versions before it, oldest first."""
    changes = knowledge.history(context.connection, context.group_id, request.id)
    if not changes:
        raise NotFound(f"id: the group {context.group_id!r} never had knowledge {request.id}")
    return Rows(rows=changes)


@action("quarantine.outcome")
def outcome(context: Context, request: ById) -> IngestState | None:
    """Get the filters' decision on an entry; nothing until they have decided."""
    return quarantine.outcomes(context.connection, context.group_id, [request.id]).get(request.id)


@action("working_memory.show")
# An action has a request.
def working_memory(context: Context, request: Request) -> WorkingMemory:  # noqa: ARG001
    """Show working memory as agents find it, and what the filters have counted. Rebuilds what Valkey has
    lost.
    """
    connection, group_id = context.connection, context.group_id
    refused = quarantine_reads.outcomes(connection, group_id)
    refused.pop("accepted", None)
    quarantine.lock_group(connection, group_id)
    rows = [entry.item() for entry in quarantine.working_memory(connection, group_id)]
    return WorkingMemory(rows=rows, counts=working.stats(group_id), rejections=refused)


@action("digests.list")
def list_digests(context: Context, request: DigestsQuery) -> Rows[DigestState]:
    """List digests.

    Newest first, page by page, each with its clusters: what they are about, in a few sentences, and the
    entries that promote_memory takes.
    """
    rows = digests.listed(
        context.connection, context.group_id, request.digest_id, request.place(BY_ID), request.limit + 1
    )
    if request.digest_id is not None and not rows:
        raise NotFound(f"digest_id: the group {context.group_id!r} has no digest {request.digest_id}")
    return page(rows, request.limit, lambda last: last.digest_id)


build_context = by_worker("knowledge.context")


def _visible(context: Context, layer_filter: LayerFilter = "all") -> list[Layer]:
    """The tiers that the caller may see: agents must not receive quarantine.

    Raises:
        NotAllowed: quarantine alone is asked for.
    """
    if context.actor.admin:
        return list(LAYERS)
    if layer_filter == "quarantine":
        raise NotAllowed("layer: quarantine needs the scope `admin`: agents must not receive its content.")
    return [layer for layer in LAYERS if layer != "quarantine"]


def entries(
    connection: Connection, group_id: str, request: ListKnowledge, *, layers: Collection[Layer] = LAYERS
) -> KnowledgePage:
    """A page, newest first, with how many there are in each layer; of no others than ``layers``."""
    parameters = {"group": group_id, "now": datetime.now(UTC)}
    conditions = [*_conditions(request), _E.layer.in_(list(layers))]
    counted = select(_E.layer, func.count().label("entries")).where(*conditions).group_by(_E.layer)
    counts = {row.layer: row.entries for row in connection.execute(counted, parameters)}
    statement = select(_ENTRIES).where(*conditions)
    if request.layer != "all":
        statement = statement.where(_E.layer == request.layer)
    if (before := request.place(BY_TIME)) is not None:
        statement = statement.where(tuple_(_MOMENT, _E.entry_id) < tuple_(*map(literal, before)))
    newest = statement.order_by(_MOMENT.desc(), _E.entry_id.desc()).limit(request.limit + 1)
    results = [_entry(row) for row in connection.execute(newest, parameters).mappings()]
    rows = page(results, request.limit, place)
    in_layers = {layer: counts.get(layer, 0) for layer in LAYERS if layer in layers}
    return KnowledgePage(rows=rows.rows, next=rows.next, counts=in_layers)


def place(row: Knowledge) -> Place:
    """Where a page ends that ends with this row: rows that come meanwhile do not move what follows."""
    at = row.promoted_at if row.layer == "longterm" else row.created_at
    return at or row.created_at, UUID(row.entry_id)


def _conditions(request: ListKnowledge) -> Iterator[ColumnElement[bool]]:
    for word in request.words.split():
        yield _E.content.ilike(ilike_pattern(word))
    if request.session_id is not None:
        yield _E.session_id == request.session_id
    if request.rejected is not None:
        yield _E.rejected == request.rejected


def _entry(row: RowMapping) -> Knowledge:
    verified = row["layer"] == "longterm" or VERIFIED in row["flags"]
    return Knowledge(**{**row, "entry_id": str(row["entry_id"]), "verified": verified})


_TEXTS = (
    *("layer", "content", "group_id", "session_id", "agent_id", "node_id", "node_type", "kind", "rejected"),
)
_ENTRIES = (
    text("""
    SELECT q.entry_id, q.content, q.group_id, q.session_id, q.agent_id, q.node_id, q.node_type, q.kind,
        CASE WHEN q.working_until > :now AND q.expired_at IS NULL THEN 'working' ELSE 'quarantine' END
            AS layer, q.confidence, q.flags, q.created_at,
        CASE WHEN q.working_until > :now AND q.expired_at IS NULL THEN q.working_until END AS expires_at,
        q.promoted_at, q.rejected_reason AS rejected, q.metadata
    FROM quarantine_logs q
    WHERE q.group_id = :group AND q.deleted_at IS NULL
        AND (q.promoted_at IS NULL OR q.working_until > :now AND q.expired_at IS NULL)
    UNION ALL
    SELECT k.knowledge_id, k.content, k.group_id, k.session_id, k.agent_id, k.metadata ->> 'node_id',
        k.metadata ->> 'node_type', k.kind, 'longterm', NULL, '{}'::text[], k.created_at, NULL,
        k.promoted_at, NULL, k.metadata
    FROM knowledge k WHERE k.group_id = :group AND k.demoted_at IS NULL
    """)
    .columns(
        *(column(name, Text) for name in _TEXTS),
        *(column("entry_id", Uuid), column("confidence", Double), column("flags", ARRAY(Text))),
        *(column(name, Timestamp) for name in ("created_at", "expires_at", "promoted_at")),
        column("metadata", JSONB),
    )
    .subquery("entries")
)
_E = _ENTRIES.c
_MOMENT = func.coalesce(case((_E.layer == "longterm", _E.promoted_at)), _E.created_at)
