"""Digests of a group's quarantine, for those who promote (CN-38)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text
from uuid6 import uuid7

from jiyi.protocol.tiers.digests import DigestItem, DigestState
from jiyi.tiers.digest import MAX_ENTRIES, Cluster, Digest, Entry
from models.accounts import audit

#: The action that makes one; also what the weekly job leaves in the audit log.
MAKE = "digests.make"
#: What the filters refused for these reasons is not worth promoting, however many say it.
EXCLUDED_REASONS = ("too_short", "claim_refuted", "inconsistent", "runaway")


@dataclass(frozen=True, slots=True)
class ClusterSummary:
    """A cluster, and what it comes to."""

    cluster: Cluster
    topic: str
    summary: str
    #: Ids of the entries that the summary rests on.
    evidence: Sequence[UUID] = ()
    llm: str | None = None


def groups(connection: Connection, since: datetime, not_after: datetime, after: str, only: str | None) -> list[str]:
    """Groups with entries to digest that arrived since a time, and whose last digest is not younger than another."""
    parameters = {"since": since, "not_after": not_after, "after": after, "only": only, "worthless": list(EXCLUDED_REASONS)}
    return list(connection.execute(_GROUPS, parameters).scalars())


def entries(connection: Connection, group_id: str, since: datetime, until: datetime) -> tuple[list[Entry], int]:
    """The newest entries that were neither promoted nor deleted, as many as a digest looks at; and how many there are."""
    parameters = {"group": group_id, "since": since, "until": until, "worthless": list(EXCLUDED_REASONS), "limit": MAX_ENTRIES}
    rows = connection.execute(_ENTRIES, parameters).all()
    models = {row.embedding_model for row in rows}
    comparable = len(models) == 1 and None not in models
    found = [
        Entry(
            str(row.entry_id), row.content, row.created_at, row.session_id, row.confidence, row.embedding.to_numpy() if comparable else None
        )
        for row in rows
    ]
    return found, int(connection.execute(_COUNT, parameters).scalar_one())


def store(
    connection: Connection,
    group_id: str,
    since: datetime,
    until: datetime,
    found: int,
    digest: Digest,
    summed: Sequence[ClusterSummary],
    actor: str,
) -> UUID:
    """Keep a digest; returns its id."""
    digest_id = uuid7()
    looked_at = sum(len(cluster.entries) for cluster in digest.clusters) + digest.left_out
    connection.execute(
        _STORE,
        {
            "id": digest_id,
            "group": group_id,
            "since": since,
            "until": until,
            "entries": found,
            "older": found - looked_at,
            "left_out": digest.left_out,
            "actor": actor,
        },
    )
    rows = [
        {
            "id": digest_id,
            "number": number,
            "group": group_id,
            "topic": one.topic,
            "summary": one.summary,
            "keywords": list(one.cluster.keywords),
            "entries": [UUID(entry.entry_id) for entry in one.cluster.entries],
            "evidence": list(one.evidence),
            "sessions": one.cluster.sessions,
            "first": one.cluster.first,
            "last": one.cluster.last,
            "llm": one.llm,
        }
        for number, one in enumerate(summed, 1)
    ]
    if rows:
        connection.execute(_STORE_ITEM, rows)
    audit.record(connection, group_id=group_id, actor=actor, action=MAKE, target="digests", digest=digest_id, items=len(rows))
    return digest_id


def listed(
    connection: Connection, group_id: str, digest_id: UUID | None = None, before: UUID | None = None, limit: int = 1
) -> list[DigestState]:
    """The group's digests, newest first, each with its items; or the one of that id."""
    parameters = {"group": group_id, "id": digest_id, "before": before, "limit": limit}
    rows = [dict(row) for row in connection.execute(_LISTED, parameters).mappings()]
    items: dict[UUID, list[Any]] = {row["digest_id"]: [] for row in rows}
    for row in connection.execute(_ITEMS, {"group": group_id, "ids": list(items)}).mappings():
        items[row["digest_id"]].append(DigestItem(**{name: value for name, value in row.items() if name != "digest_id"}))
    return [DigestState(**row, items=items[row["digest_id"]]) for row in rows]


_UNDIGESTED = """
    promoted_at IS NULL AND deleted_at IS NULL
    AND (rejected_reason IS NULL OR rejected_reason <> ALL (CAST(:worthless AS text[])))
    AND NOT flags && ARRAY['refuted', 'runaway'] -- whatever else it was refused for
"""
_GROUPS = text(f"""
    SELECT g.group_id FROM groups g
    WHERE g.group_id > :after AND (CAST(:only AS text) IS NULL OR g.group_id = :only)
      AND EXISTS (SELECT FROM quarantine_logs q WHERE q.group_id = g.group_id AND q.received_at >= :since AND {_UNDIGESTED})
      AND NOT EXISTS (SELECT FROM digests d WHERE d.group_id = g.group_id AND d.created_at > :not_after)
    ORDER BY g.group_id LIMIT 100
""")
_THESE = f"group_id = :group AND received_at >= :since AND received_at < :until AND {_UNDIGESTED}"
_ENTRIES = text(f"""
    SELECT entry_id, content, created_at, session_id, confidence, embedding, embedding_model FROM quarantine_logs
    WHERE {_THESE} ORDER BY created_at DESC, entry_id DESC LIMIT :limit
""")
_COUNT = text(f"SELECT count(*) FROM quarantine_logs WHERE {_THESE}")
_STORE = text("""
    INSERT INTO digests (digest_id, group_id, since, until, entries, older, left_out, created_by)
    VALUES (:id, :group, :since, :until, :entries, :older, :left_out, :actor)
""")
_STORE_ITEM = text("""
    INSERT INTO digest_items (digest_id, number, group_id, topic, summary, keywords, entry_ids, evidence, sessions, first_at,
        last_at, llm)
    VALUES (:id, :number, :group, :topic, :summary, :keywords, CAST(:entries AS uuid[]), CAST(:evidence AS uuid[]), :sessions,
        :first, :last, :llm)
""")
_LISTED = text("""
    SELECT digest_id, group_id, since, until, entries, older, left_out, created_at, created_by FROM digests
    WHERE group_id = :group AND (CAST(:id AS uuid) IS NULL OR digest_id = :id)
      AND (CAST(:before AS uuid) IS NULL OR digest_id < :before)
    ORDER BY digest_id DESC LIMIT :limit
""")
_ITEMS = text("""
    SELECT i.digest_id, i.number, i.topic, i.summary, i.keywords, i.entry_ids, i.evidence, i.sessions, i.first_at, i.last_at,
        i.llm, (
            SELECT count(*) FROM quarantine_logs q WHERE q.entry_id = ANY(i.entry_ids) AND q.promoted_at IS NOT NULL
        ) AS promoted
    FROM digest_items i WHERE i.group_id = :group AND i.digest_id = ANY(:ids) ORDER BY i.digest_id, i.number
""")
