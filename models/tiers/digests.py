"""Digests of a group's quarantine, for those who promote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, any_, exists, func, insert, not_, or_, select, type_coerce
from sqlalchemy.types import NullType
from uuid6 import uuid7

from engine.tiers.quarantine import MAX_ENTRIES, Cluster, QuarantineDigest, QuarantineEntry
from jiyi.protocol.knowledge import REFUTED, RUNAWAY, DigestItem, DigestState
from models.accounts import audit
from models.accounts.tables import Group
from models.db.rows import behind, columns, equal_if_given, fetch, names
from models.tiers.tables import DigestItemRow, DigestRow, QuarantineLog

#: The action that makes one; also what the weekly job leaves in the audit log.
MAKE = "digests.make"
#: What the filters refused for these reasons is not worth promoting, however many say it.
EXCLUDED_REASONS = ("too_short", "claim_refuted", "inconsistent", "runaway")
#: Groups that are looked up at a time.
GROUPS_A_PAGE = 100


@dataclass(frozen=True, slots=True)
class ClusterSummary:
    cluster: Cluster
    topic: str
    summary: str
    #: Ids of the entries that the summary rests on.
    evidence: Sequence[UUID] = ()
    llm: str | None = None


def groups(
    connection: Connection, since: datetime, not_after: datetime, after: str, only: str | None
) -> list[str]:
    """Groups with entries to digest since a time, and whose last digest is not younger than another."""
    group_id = Group.group_id
    new = exists().where(_Q.group_id == group_id, _Q.received_at >= since, *_WORTH_PROMOTING)
    digested = exists().where(DigestRow.group_id == group_id, DigestRow.created_at > not_after)
    statement = select(group_id).where(group_id > after, new, not_(digested))
    if only is not None:
        statement = statement.where(group_id == only)
    return list(connection.execute(statement.order_by(group_id).limit(GROUPS_A_PAGE)).scalars())


def entries(
    connection: Connection, group_id: str, since: datetime, until: datetime
) -> tuple[list[QuarantineEntry], int]:
    """The newest entries neither promoted nor deleted that a digest looks at; and how many there are."""
    these = (_Q.group_id == group_id, _Q.received_at >= since, _Q.received_at < until, *_WORTH_PROMOTING)
    # the driver's own type: an array without a copy
    vector = type_coerce(_Q.embedding, NullType()).label("embedding")
    read = (_Q.entry_id, _Q.content, _Q.created_at, _Q.session_id, _Q.confidence, _Q.embedding_model, vector)
    newest = select(*read).where(*these).order_by(_Q.created_at.desc(), _Q.entry_id.desc()).limit(MAX_ENTRIES)
    rows = connection.execute(newest).all()
    models = {row.embedding_model for row in rows}
    comparable = len(models) == 1 and None not in models
    result = []
    for row in rows:
        array = row.embedding.to_numpy() if comparable else None
        fields = (row.content, row.created_at, row.session_id, row.confidence)
        result.append(QuarantineEntry(str(row.entry_id), *fields, array))
    return result, connection.execute(select(func.count()).where(*these)).scalar_one()


def store(
    connection: Connection,
    group_id: str,
    since: datetime,
    until: datetime,
    count: int,
    digest: QuarantineDigest,
    summed: Sequence[ClusterSummary],
    actor: str,
) -> UUID:
    """Keep a digest, with its row in the audit log; returns its id."""
    digest_id = uuid7()
    looked_at = sum(len(cluster.entries) for cluster in digest.clusters) + digest.left_out
    counted = {"entries": count, "older": count - looked_at, "left_out": digest.left_out}
    whose = {"digest_id": digest_id, "group_id": group_id}
    connection.execute(
        insert(DigestRow).values(**whose, **counted, since=since, until=until, created_by=actor)
    )
    rows = [
        {
            **whose,
            "number": number,
            "topic": one.topic,
            "summary": one.summary,
            "keywords": list(one.cluster.keywords),
            "entry_ids": [UUID(entry.entry_id) for entry in one.cluster.entries],
            "evidence": list(one.evidence),
            "sessions": one.cluster.sessions,
            "first_at": one.cluster.first,
            "last_at": one.cluster.last,
            "llm": one.llm,
        }
        for number, one in enumerate(summed, 1)
    ]
    if rows:
        connection.execute(insert(DigestItemRow), rows)
    details = {"digest": digest_id, "items": len(rows)}
    audit.record(connection, group_id=group_id, actor=actor, action=MAKE, target="digests", **details)
    return digest_id


def listed(
    connection: Connection,
    group_id: str,
    digest_id: UUID | None = None,
    before: UUID | None = None,
    limit: int = 1,
) -> list[DigestState]:
    """The group's digests, newest first, each with its items; or the one of that id."""
    fields = [getattr(DigestRow, name) for name in names(DigestState, DigestRow)]
    which = equal_if_given((DigestRow.digest_id, digest_id))
    statement = select(*fields).where(DigestRow.group_id == group_id, *which)
    latest = behind(statement, before, DigestRow.digest_id).limit(limit)
    rows = connection.execute(latest).mappings().all()
    return [DigestState(**row, items=_items(connection, group_id, row["digest_id"])) for row in rows]


def _items(connection: Connection, group_id: str, digest_id: UUID) -> list[DigestItem]:
    item = DigestItemRow
    promoted = (
        select(func.count())
        .where(_Q.entry_id == any_(item.entry_ids), _Q.promoted_at.is_not(None))
        .correlate(item)
    )
    statement = select(*columns(DigestItem, item, promoted=promoted.scalar_subquery()))
    return fetch(
        connection,
        DigestItem,
        statement.where(item.group_id == group_id, item.digest_id == digest_id).order_by(item.number),
    )


_Q = QuarantineLog
_WORTH_PROMOTING: tuple[ColumnElement[bool], ...] = (
    _Q.promoted_at.is_(None),
    _Q.deleted_at.is_(None),
    or_(_Q.rejected_reason.is_(None), _Q.rejected_reason.not_in(EXCLUDED_REASONS)),
    not_(_Q.flags.overlap([REFUTED, RUNAWAY])),  # whatever else it was refused for
)
