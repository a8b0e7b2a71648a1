"""Quarantine: the outputs of workflows' nodes, what became of them, and the guard against runaway loops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict
from sqlalchemy import Connection, bindparam, select, text
from sqlalchemy.dialects.postgresql import JSONB

from engine.tiers.quarantine import SENTENCES, IngressRules, Verdict
from jiyi.chat.guards import SIGNS, GuardLimits, SessionOutput, Sign, guarded
from jiyi.protocol.base import JsonMapping
from jiyi.protocol.events import NodeExecuted
from jiyi.protocol.knowledge import (
    CHECKED,
    CONSISTENT,
    REFUTED,
    RUNAWAY,
    UNVERIFIED,
    VERIFIED,
    VERIFY_PENDING,
    IngestState,
)
from jiyi.protocol.tier_questions import Kind, kind_of
from jiyi.protocol.wire.vectors import Float32
from jiyi.settings import get_settings
from jiyi.text.words import content_digest
from models.db.rows import columns, fetch, packed_texts, packed_time
from models.memory.event_rows import EMPTY_OBJECT, packed_or
from models.memory.event_types import EventType, register_event
from models.tiers import working
from models.tiers.tables import QuarantineLog
from models.tiers.working import WM_ENTRIES, WM_HOURS, WorkingEntry

#: Kind of pending work of an entry of quarantine: may it become working memory?
INGRESS = "ingress"
#: Outputs of a session that are looked back upon, and for how long: a loop is faster than that.
LATEST, LOOKBACK = 100, timedelta(hours=1)
#: Of a session that has run away nobody needs to know a day after its last output.
SHOWN = timedelta(days=1)
MAX_SHOWN = 20
#: Whose outputs follow each other: a session's; without one, an agent's.
Run = tuple[str, str | None, str]


def _row(event: NodeExecuted) -> dict[str, Any]:
    """The output of a workflow's node, with all that came with it."""
    output = event.payload
    return {
        "entry_id": event.event_id.bytes,
        "group_id": event.group_id,
        "agent_id": event.agent_id,
        "session_id": event.session_id,
        "node_id": output.node_id,
        "node_type": output.node_type,
        "node_name": output.node_name,
        "kind": kind_of(output.node_type, output.metadata),
        "content": output.output,
        "content_hash": content_digest(output.output),
        "confidence": output.confidence,
        "flags": packed_texts(
            [flag for flag in output.flags if flag != VERIFIED]
        ),  # which is not for senders to say
        "depth": output.depth,
        "metadata": packed_or(output.metadata, EMPTY_OBJECT),
        "provenance": packed_or(output.provenance, EMPTY_OBJECT),
        "created_at": packed_time(event.occurred_at),
    }


class QuarantinedOutput(BaseModel):
    """An output as the filters see it."""

    model_config = ConfigDict(frozen=True)

    entry_id: UUID
    group_id: str
    agent_id: str
    session_id: str | None
    node_id: str
    node_type: str | None
    kind: Kind
    content: str
    content_hash: bytes
    confidence: float | None
    flags: list[str]
    depth: int
    created_at: datetime
    #: By somebody, before the filters saw it.
    deleted: bool

    def entry(
        self, expires_at: datetime, flags: Sequence[str], vector: Float32 | None, model: str | None
    ) -> WorkingEntry:
        """As working memory keeps it."""
        names = {field.name for field in fields(WorkingEntry)}
        same = {name: value for name, value in self if name in names and name != "flags"}
        used = None if vector is None else model
        return WorkingEntry(**same, expires_at=expires_at, flags=tuple(flags), vector=vector, model=used)


def rules() -> IngressRules:
    return IngressRules(check_consistency=get_settings().agent_defaults.check_outputs == "llm")


def load(connection: Connection, entry_ids: Sequence[UUID]) -> list[QuarantinedOutput]:
    """Outputs in the order in which they were said."""
    row = QuarantineLog
    statement = select(*columns(QuarantinedOutput, row, deleted=row.deleted_at.is_not(None))).where(
        row.entry_id.in_(entry_ids)
    )
    return fetch(connection, QuarantinedOutput, statement.order_by(row.created_at, row.entry_id))


def current(connection: Connection, outputs: Sequence[QuarantinedOutput]) -> list[QuarantinedOutput]:
    """The outputs as they are now, without deleted ones. Under :func:`lock_group`."""
    now = {row.entry_id: row for row in load(connection, [output.entry_id for output in outputs])}
    remaining = []
    for output in outputs:
        row = now.get(output.entry_id)
        if row is not None and not row.deleted:
            added = [VERIFIED] if VERIFIED in row.flags and VERIFIED not in output.flags else []
            remaining.append(output.model_copy(update={"kind": row.kind, "flags": [*output.flags, *added]}))
    return remaining


def lock_group(connection: Connection, group_id: str) -> None:
    """Until the transaction ends nobody else changes the group's working memory."""
    connection.execute(_LOCK_GROUP, {"group": group_id})


def working_memory(connection: Connection, group_id: str) -> list[WorkingEntry]:
    """Newest first; rebuilt if Valkey has lost it. Only under :func:`lock_group`."""
    entries = working.read(group_id)
    if entries is None:
        entries = stored_working_memory(connection, group_id)
        working.forget(group_id)
        working.push(group_id, entries, whole=True)  # also an empty list: it is known to be empty
    return entries


def stored_working_memory(connection: Connection, group_id: str) -> list[WorkingEntry]:
    """The group's working memory as the database knows it, newest first."""
    parameters = {"group": group_id, "now": datetime.now(UTC), "limit": WM_ENTRIES}
    entries = []
    for row in connection.execute(_WORKING, parameters).mappings():
        vector = None if row["vector"] is None else row["vector"].to_numpy()
        entries.append(WorkingEntry(**{**row, "flags": tuple(row["flags"]), "vector": vector}))
    return entries


def accept(connection: Connection, group_id: str, entries: Iterable[WorkingEntry], now: datetime) -> None:
    """They are in working memory."""
    rows = [
        {
            "group": group_id,
            "id": entry.entry_id,
            "now": now,
            "until": entry.expires_at,
            "flags": list(entry.flags),
            "vector": entry.vector,
            "model": entry.model,
        }
        for entry in entries
    ]
    if rows:
        connection.execute(_ACCEPT, rows)


def reject(
    connection: Connection, group_id: str, refused: Iterable[tuple[UUID, Verdict]], now: datetime
) -> None:
    """They stay in quarantine only, with the reason."""
    rows = [
        {
            "group": group_id,
            "id": entry_id,
            "now": now,
            "reason": verdict.reason,
            "details": verdict.details,
            "flags": list(verdict.flags),
        }
        for entry_id, verdict in refused
    ]
    if rows:
        connection.execute(_REJECT, rows)


def mark_left(connection: Connection, group_id: str, entry_ids: Sequence[UUID], now: datetime) -> int:
    """Archived: noted before, or in the same transaction as, they are gone from the list."""
    return connection.execute(_LEFT, {"group": group_id, "ids": list(entry_ids), "now": now}).rowcount


def mark_consistent(connection: Connection, group_id: str, entry_id: UUID) -> None:
    """The LLM has found no contradiction, which is no verification. Under :func:`lock_group`."""
    _mark(connection, group_id, {"ids": [entry_id], "flag": CONSISTENT, "not": None, "verdicts": []})


def mark_verified(connection: Connection, group_id: str, kinds: Mapping[UUID, Kind]) -> None:
    """Somebody has promoted what these entries say, as a statement or a verdict. Under :func:`lock_group`."""
    verdicts = [entry_id for entry_id, kind in kinds.items() if kind == "verdict"]
    _mark(
        connection, group_id, {"ids": list(kinds), "flag": VERIFIED, "not": UNVERIFIED, "verdicts": verdicts}
    )


def withdraw(connection: Connection, group_id: str, entry_ids: Sequence[UUID], now: datetime) -> None:
    """What these entries say was corrected or taken back. Under :func:`lock_group`."""
    connection.execute(
        _DOUBTED, {"group": group_id, "ids": list(entry_ids), "flag": VERIFIED, "not": UNVERIFIED}
    )
    if mark_left(connection, group_id, entry_ids, now):
        working.remove(group_id, entry_ids)


def saying(connection: Connection, group_id: str, texts: Iterable[str], now: datetime) -> list[UUID]:
    """Entries of working memory that say one of these texts. Under :func:`lock_group`."""
    hashes = [content_digest(text) for text in texts]
    return list(connection.execute(_SAYING, {"group": group_id, "hashes": hashes, "now": now}).scalars())


def _mark(connection: Connection, group_id: str, values: dict[str, Any]) -> None:
    """Flag entries, and their copies in working memory."""
    for row in connection.execute(_MARK_ENTRIES, {"group": group_id, **values}):
        if row.hot:
            working.change(group_id, row.entry_id, kind=row.kind, flags=tuple(row.flags))


def expired(connection: Connection, now: datetime, limit: int) -> dict[str, list[UUID]]:
    """Entries of working memory whose time is over and was not noted yet, by group."""
    expired_ids: dict[str, list[UUID]] = {}
    for row in connection.execute(_EXPIRED, {"now": now, "limit": limit}):
        expired_ids.setdefault(row.group_id, []).append(row.entry_id)
    return expired_ids


def outcomes(connection: Connection, group_id: str, entry_ids: Sequence[UUID]) -> dict[UUID, IngestState]:
    """What the filters said of entries, without those of which they have not said anything."""
    rows = connection.execute(_OUTCOMES, {"group": group_id, "ids": list(entry_ids)})
    return {
        row.entry_id: IngestState(
            entry_id=row.entry_id,
            accepted=row.rejected_reason is None,
            reason=row.rejected_reason,
            message=sentence(row.rejected_reason, row.rejected_details),
            flags=row.flags,
        )
        for row in rows
    }


def sentence(reason: str | None, details: JsonMapping) -> str:
    """Why an entry was refused, translatable; empty if it was not, or for a reason that is unknown here."""
    sentences = {str(name): sentence for name, sentence in SENTENCES.items()}
    try:
        return sentences[reason or ""].filled(details)
    except KeyError:
        return ""


def mark_deleted(
    connection: Connection, group_id: str, entry_ids: Sequence[UUID], now: datetime
) -> list[UUID]:
    """Take entries out of sight; returns those that were there. Under :func:`lock_group`."""
    these = {"group": group_id, "ids": list(entry_ids), "now": now}
    return list(connection.execute(_DELETE, these).scalars())


def mark_promoted(connection: Connection, group_id: str, entry_ids: Sequence[UUID], now: datetime) -> None:
    connection.execute(_PROMOTED, {"group": group_id, "ids": list(entry_ids), "now": now})


def mark_checked(
    connection: Connection, group_id: str, entry_ids: Sequence[UUID], *, true: bool
) -> list[UUID]:
    """Note what a check came to; the ids for which that is new. Under :func:`lock_group`."""
    added = [CHECKED, VERIFIED] if true else [REFUTED]
    marks = [VERIFY_PENDING, RUNAWAY, *SIGNS, CHECKED, VERIFIED, REFUTED]
    parameters = {"group": group_id, "ids": list(entry_ids), "mark": added[0], "added": added, "marks": marks}
    return list(connection.execute(_CHECK, parameters).scalars())


def lifetime() -> timedelta:
    """Of an entry of working memory."""
    return timedelta(hours=WM_HOURS)


class RunningAway(BaseModel):
    """Whose latest output shows a sign; ``outputs`` have shown one within a day."""

    session_id: str | None
    agent_id: str
    sign: Sign | None
    entry_id: UUID
    created_at: datetime
    outputs: int


def flagged(connection: Connection, outputs: Sequence[QuarantinedOutput]) -> list[QuarantinedOutput]:
    """The outputs with the guard's flags set or cleared, by what their sessions said up to each of them."""
    runs: dict[Run, list[QuarantinedOutput]] = {}
    for output in outputs:
        runs.setdefault(_run_of(output), []).append(output)
    steps_by_run = {run: _said(connection, run, own) for run, own in runs.items()}
    bounds = GuardLimits()
    result = []
    for output in outputs:
        last = (output.created_at, output.entry_id)
        steps = [step for *at, step in steps_by_run[_run_of(output)] if tuple(at) <= last]
        result.append(output.model_copy(update={"flags": guarded(output.flags, steps, bounds)}))
    return result


def running_away(connection: Connection, group_id: str, now: datetime) -> list[RunningAway]:
    """Sessions that run away now: those whose latest output has the flag, the latest first."""
    rows = connection.execute(
        _RUNNING_AWAY, {"group": group_id, "since": now - SHOWN, "flag": RUNAWAY, "limit": MAX_SHOWN}
    )
    return [
        RunningAway(**row, sign=next((sign for sign in SIGNS if sign in row["flags"]), None))
        for row in rows.mappings()
    ]


def _run_of(output: QuarantinedOutput) -> Run:
    return output.group_id, output.session_id, "" if output.session_id is not None else output.agent_id


def _said(
    connection: Connection, run: Run, own: Sequence[QuarantinedOutput]
) -> list[tuple[datetime, UUID, SessionOutput]]:
    times = [output.created_at for output in own]
    parameters = dict(zip(("group", "session", "agent"), run, strict=True))
    span = {"since": min(times) - LOOKBACK, "until": max(times), "limit": LATEST + len(own)}
    return [
        (row.created_at, row.entry_id, SessionOutput(row.content, row.created_at, row.depth))
        for row in connection.execute(_SAID, parameters | span).all()[::-1]
    ]


_LOCK_GROUP = text("SELECT pg_advisory_xact_lock(hashtextextended('jiyi.wm.' || :group, 0))")
_WORKING = text("""
    SELECT entry_id, content, created_at, working_until AS expires_at, agent_id, node_id, node_type,
        session_id, kind, confidence, flags, embedding AS vector, embedding_model AS model
    FROM quarantine_logs
    WHERE group_id = :group AND working_until > :now AND expired_at IS NULL AND deleted_at IS NULL
    ORDER BY created_at DESC, entry_id DESC LIMIT :limit
""")
_ACCEPT = text("""
    UPDATE quarantine_logs SET screened_at = :now, working_until = :until, flags = :flags,
        embedding = :vector, embedding_model = :model, rejected_reason = NULL, rejected_details = '{}',
        expired_at = NULL
    WHERE group_id = :group AND entry_id = :id
""")
_REJECT = text("""
    UPDATE quarantine_logs SET screened_at = :now, rejected_reason = :reason, rejected_details = :details,
        flags = :flags
    WHERE group_id = :group AND entry_id = :id
""").bindparams(bindparam("details", type_=JSONB))
_LEFT = text("""
    UPDATE quarantine_logs SET expired_at = :now
    WHERE group_id = :group AND entry_id = ANY(:ids) AND expired_at IS NULL AND working_until IS NOT NULL
""")
_MARK_ENTRIES = text("""
    UPDATE quarantine_logs SET flags = array_remove(flags, CAST(:not AS text)) || CAST(:flag AS text),
        kind = CASE WHEN entry_id = ANY(:verdicts) THEN 'verdict' ELSE kind END
    WHERE group_id = :group AND entry_id = ANY(:ids) AND CAST(:flag AS text) <> ALL(flags)
    RETURNING entry_id, kind, flags, working_until IS NOT NULL AND expired_at IS NULL AS hot
""")
_DOUBTED = text("""
    UPDATE quarantine_logs SET flags = array_replace(flags, :flag, :not)
    WHERE group_id = :group AND entry_id = ANY(:ids) AND CAST(:flag AS text) = ANY(flags)
""")
_SAYING = text("""
    SELECT entry_id FROM quarantine_logs
    WHERE group_id = :group AND working_until > :now AND expired_at IS NULL AND content_hash = ANY(:hashes)
""")
_EXPIRED = text("""
    SELECT group_id, entry_id FROM quarantine_logs
    WHERE working_until <= :now AND expired_at IS NULL ORDER BY working_until LIMIT :limit
""")
_OUTCOMES = text("""
    SELECT entry_id, rejected_reason, rejected_details, flags FROM quarantine_logs
    WHERE group_id = :group AND entry_id = ANY(:ids) AND screened_at IS NOT NULL
""")
_CHECK = text("""
    UPDATE quarantine_logs SET screened_at = NULL,
        flags = ARRAY(SELECT flag FROM unnest(flags) flag WHERE flag <> ALL(CAST(:marks AS text[])))
            || CAST(:added AS text[])
    WHERE group_id = :group AND entry_id = ANY(:ids) AND deleted_at IS NULL
    AND CAST(:mark AS text) <> ALL(flags)
    RETURNING entry_id
""")
_DELETE = text("""
    UPDATE quarantine_logs SET deleted_at = :now
    WHERE group_id = :group AND entry_id = ANY(:ids) AND deleted_at IS NULL RETURNING entry_id
""")
_PROMOTED = text("""
    UPDATE quarantine_logs SET promoted_at = :now
    WHERE group_id = :group AND entry_id = ANY(:ids) AND promoted_at IS NULL
""")
_SAID = text("""
    SELECT entry_id, created_at, content, depth FROM quarantine_logs
    WHERE group_id = :group AND created_at BETWEEN :since AND :until
        AND (session_id = :session OR (CAST(:session AS text) IS NULL AND session_id IS NULL
        AND agent_id = :agent))
    ORDER BY created_at DESC, entry_id DESC LIMIT :limit
""")
_RUNNING_AWAY = text("""
    SELECT * FROM (
        SELECT DISTINCT ON (session_id, run) session_id, agent_id, flags, entry_id, created_at,
            count(*) FILTER (WHERE CAST(:flag AS text) = ANY(flags)) OVER (PARTITION BY session_id, run) AS
            outputs
        FROM (
            SELECT *, CASE WHEN session_id IS NULL THEN agent_id END AS run FROM quarantine_logs
            WHERE group_id = :group AND received_at >= :since AND screened_at IS NOT NULL
            AND deleted_at IS NULL
        ) lately
        ORDER BY session_id, run, created_at DESC, entry_id DESC
    ) latest
    WHERE CAST(:flag AS text) = ANY(flags) ORDER BY created_at DESC, entry_id DESC LIMIT :limit
""")


register_event(NodeExecuted, EventType(table=QuarantineLog, row=_row, work_kind=INGRESS, of_agent=False))
