"""Pending work: claim it, settle it, give it back, make it a dead letter (design §3)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, func, insert, select, text, tuple_
from uuid6 import uuid7

from jiyi import tracing
from jiyi.protocol.operations import PendingRow, WorkOwed
from models.db.connection import session_engine
from models.db.rows import columns, equal_if_given, fetch
from models.queue.tables import DeadLetterRow, PendingWork
from models.queue.wakeups import wake_after, wake_at_after

#: Texts kept of an error: enough to see the cause, bounded because providers put whole pages into theirs.
MAX_ERROR_CHARS = 4_000
#: Rows that one retry of a whole kind makes due.
MAX_RETRIED = 10_000
#: Groups that one claim serves at most: bounds what a claim reads, and the next one goes on with the groups
#: after these.
GROUPS_A_CLAIM = 64
#: By kind of work the group at which this process's last claim ended. Each process takes its own turns:
#: nothing has to be shared, and a restarted process begins with the first group.
_last_served: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class Claim:
    """Subjects of one group that this worker has until the lease ends; ``attempts`` counts this one."""

    subject_ids: list[UUID]
    attempts: int
    group_id: str
    #: When the lease runs out: what :func:`extend` knows the claim by.
    due_at: datetime
    #: The traces in which they were enqueued.
    traces: dict[UUID, str] = field(default_factory=dict)


def enqueue(connection: Connection, kind: str, subjects: Iterable[tuple[UUID, str]]) -> None:
    """Enqueue ``kind`` for each (subject_id, group_id), once; wakes workers after the commit."""
    # In one order: two that enqueue the same subjects wait for each other's rows.
    trace = tracing.current()
    rows = [
        {"kind": kind, "subject_id": subject_id, "group_id": group_id, "trace": trace}
        for subject_id, group_id in sorted(subjects)
    ]
    if rows:
        connection.execute(_ENQUEUE, rows)
        wake_after(connection, kind)


def enqueue_at(
    connection: Connection, kind: str, subject: tuple[UUID, str], due: datetime, *, sooner: bool = False
) -> None:
    """Enqueue ``kind`` for a (subject_id, group_id), due then; if it is pending, move it (only ``sooner``).

    Work in hand is left unchanged.
    """
    parameters = {"kind": kind, "subject": subject[0], "group": subject[1], "due": due}
    connection.execute(_ENQUEUE_AT, parameters)
    connection.execute(_MOVE, parameters | {"sooner": sooner})
    wake_at_after(connection, kind, due)


def claim(connection: Connection, kind: str, limit: int, lease_seconds: float) -> list[Claim]:
    """Up to ``limit`` due subjects, each counted as one more attempt; to be committed before the work begins.

    Groups take turns, in the order of their names: a claim begins after the group at which this process's
    last one ended, and divides its places among the groups with something due, at most ``GROUPS_A_CLAIM``. So
    a group with very many subjects delays another group's by one claim, not by all of its own. Within a group
    what has been due longest comes first.

    First attempts come as one claim of each group: subjects' ids are unique in their group only, so that
    their worker must see no other group's rows. A subject that failed before comes alone, so that one that
    kills its worker, or spoils its batch, is counted alone and takes no other subject along.
    """
    after = _last_served.get(kind, "")
    connection.execute(_BY_INDEX)
    rows = connection.execute(
        _CLAIM,
        {"kind": kind, "limit": limit, "lease": lease_seconds, "after": after, "groups": GROUPS_A_CLAIM},
    ).all()
    if rows:
        _last_served[kind] = rows[-1].group_id
    together: dict[str, list[Row[Any]]] = defaultdict(list)
    for row in rows:
        if row.attempts == 1:
            together[row.group_id].append(row)
    return [*map(_claim_of, together.values()), *(_claim_of([row]) for row in rows if row.attempts > 1)]


def leaves_more(claims: Sequence[Claim], limit: int) -> bool:
    """Whether a claim of up to ``limit`` subjects probably left some that are due."""
    return (
        sum(len(claim.subject_ids) for claim in claims) == limit
        or len({claim.group_id for claim in claims}) == GROUPS_A_CLAIM
    )


@contextmanager
def alone(kind: str) -> Iterator[bool]:
    """Whether nobody else, in any process, is within this block for the same kind of work."""
    with session_engine().connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        got = bool(connection.execute(_LOCK_KIND, {"kind": kind}).scalar_one())
        try:
            yield got
        finally:
            if got:
                connection.execute(_UNLOCK_KIND, {"kind": kind})


def lock_pending(connection: Connection, kind: str, subject_ids: Sequence[UUID]) -> list[UUID]:
    """The subjects that are still pending, locked, in the given order."""
    pending = set(connection.execute(_LOCK, {"kind": kind, "ids": list(subject_ids)}).scalars())
    return [subject_id for subject_id in subject_ids if subject_id in pending]


def extend(
    connection: Connection,
    kind: str,
    subject_ids: Sequence[UUID],
    dues: Sequence[datetime],
    lease_seconds: float,
) -> datetime | None:
    """This worker is still at it: its claim, known by its ends, runs out later. Returns the new end.

    Locked rows are being settled. Rows due at another time were given back or enqueued again meanwhile.
    """
    parameters = {"kind": kind, "ids": list(subject_ids), "dues": list(dues), "lease": lease_seconds}
    return connection.execute(_EXTEND, parameters).scalars().first()


def renew(connection: Connection, kind: str, subject_ids: Sequence[UUID]) -> None:
    """The effect is written, and the same is pending again at once, as if for the first time."""
    connection.execute(_RENEW, {"kind": kind, "ids": list(subject_ids)})


def renew_later(connection: Connection, kind: str, due: Mapping[UUID, datetime]) -> None:
    """The effect is written, and the same is pending again from a moment on, as if for the first time."""
    rows = [{"kind": kind, "id": subject_id, "due": at} for subject_id, at in due.items()]
    if rows:
        connection.execute(_RENEW_LATER, rows)
        wake_at_after(connection, kind, min(due.values()))


def complete(connection: Connection, kind: str, subject_ids: Sequence[UUID]) -> dict[str, int]:
    """The effect is written: the rows go, in the same transaction. Returns how many by group."""
    return _by_group(connection.execute(_SETTLE, {"kind": kind, "ids": list(subject_ids)}))


def retry_later(
    connection: Connection, kind: str, subject_ids: Sequence[UUID], wait_seconds: float, error: str
) -> dict[str, int]:
    """The attempt failed: due again after ``wait_seconds``. Returns how many by group."""
    parameters = {"kind": kind, "ids": list(subject_ids), "wait": wait_seconds}
    return _by_group(connection.execute(_GIVE_BACK, {**parameters, "error": error[:MAX_ERROR_CHARS]}))


def postpone(
    connection: Connection, kind: str, subject_ids: Sequence[UUID], wait_seconds: float, reason: str
) -> None:
    """Something is away: due again after ``wait_seconds``, and the attempt is not counted."""
    parameters = {"kind": kind, "ids": list(subject_ids), "wait": wait_seconds}
    connection.execute(_POSTPONE, {**parameters, "error": reason[:MAX_ERROR_CHARS]})


def dead_letter_exhausted(
    connection: Connection,
    kind: str,
    max_attempts: int,
    traceback: str | None = None,
    subject_ids: Sequence[UUID] | None = None,
) -> dict[str, int]:
    """Move due rows that used up their attempts to the dead letters; returns how many by group."""
    parameters = {
        "kind": kind,
        "max_attempts": max_attempts,
        "traceback": traceback and traceback[-MAX_ERROR_CHARS:],
        "ids": None if subject_ids is None else list(subject_ids),
    }
    rows = connection.execute(_EXHAUSTED, parameters).mappings().all()
    if rows:
        connection.execute(
            insert(DeadLetterRow), [{**row, "letter_id": uuid7(), "kind": kind} for row in rows]
        )
    return dict(Counter(row["group_id"] for row in rows))


def give_up(connection: Connection, kind: str, subject_id: UUID, group_id: str, reason: str) -> None:
    """Add a dead letter of work that is not pending; a replay does once more what was done instead."""
    letter = {"letter_id": uuid7(), "kind": kind, "subject_id": subject_id, "group_id": group_id}
    why = {"reason": reason[:MAX_ERROR_CHARS], "traceback": None, "attempts": 1}
    connection.execute(insert(DeadLetterRow).values(**letter, **why))


def retry(connection: Connection, kind: str, group_id: str | None, subject_ids: Sequence[UUID]) -> int:
    """Make it due now, with all attempts: these, or up to ``MAX_RETRIED`` of the kind; how many."""
    parameters = {"kind": kind, "group": group_id, "ids": list(subject_ids), "limit": MAX_RETRIED}
    return connection.execute(_RETRY, parameters).rowcount


def bring_forward(connection: Connection, longest_seconds: float, limit: int) -> int:
    """Make due what is due too late, by a clock that was wrong. Returns how many rows."""
    return connection.execute(_BRING_FORWARD, {"longest": longest_seconds, "limit": limit}).rowcount


def due_counts(connection: Connection) -> dict[str, int]:
    return {row.kind: row.due for row in connection.execute(_DUE)}


def _claim_of(rows: Sequence[Row[Any]]) -> Claim:
    first, traces = rows[0], {row.subject_id: row.trace for row in rows if row.trace is not None}
    return Claim([row.subject_id for row in rows], first.attempts, first.group_id, first.due_at, traces)


def _by_group(rows: Iterable[Row[Any]]) -> dict[str, int]:
    return dict(Counter(row.group_id for row in rows))


def by_kind(connection: Connection, group_id: str | None = None) -> list[WorkOwed]:
    """Pending work by kind, of one group or of all that may be seen."""
    return fetch(connection, WorkOwed, _BY_KIND, group=group_id)


def pending_rows(
    connection: Connection, kind: str, group_id: str | None, after: tuple[datetime, UUID] | None, limit: int
) -> list[PendingRow]:
    """Work of a kind, the oldest first, after that place; of all groups in sight, or of one."""
    overdue = PendingWork.due_at <= func.clock_timestamp()
    place = (PendingWork.created_at, PendingWork.subject_id)
    statement = select(*columns(PendingRow, PendingWork, overdue=overdue)).where(
        *equal_if_given((PendingWork.kind, kind), (PendingWork.group_id, group_id))
    )
    if after is not None:
        statement = statement.where(tuple_(*place) > after)
    return fetch(connection, PendingRow, statement.order_by(*place).limit(limit))


# Session-level, so that a lost connection lets go; the number is of this application's own making.
_LOCK_KIND = text("SELECT pg_try_advisory_lock(hashtextextended('jiyi.work.' || :kind, 0))")
_UNLOCK_KIND = text("SELECT pg_advisory_unlock(hashtextextended('jiyi.work.' || :kind, 0))")
_ENQUEUE = text("""
    INSERT INTO pending_work (kind, subject_id, group_id, trace)
    VALUES (:kind, :subject_id, :group_id, :trace) ON CONFLICT DO NOTHING
""")
_ENQUEUE_AT = text("""
    INSERT INTO pending_work (kind, subject_id, group_id, due_at)
    VALUES (:kind, :subject, :group, :due) ON CONFLICT DO NOTHING
""")
# What is in hand has attempts; a row that somebody has locked is about to be in hand, or to be settled.
_MOVE = text("""
    UPDATE pending_work SET due_at = :due WHERE (kind, subject_id, group_id) IN (
        SELECT kind, subject_id, group_id FROM pending_work
        WHERE kind = :kind AND subject_id = :subject AND group_id = :group AND attempts = 0
          AND (due_at > :due OR NOT :sooner)
        FOR UPDATE SKIP LOCKED
    )
""")
#: A claim goes by the index (kind, group_id, due_at), whatever the statistics say: they may be of before a
#: flood, and a plan that sorts would read all of it. Until the end of the transaction, which the claim has
#: for itself.
_BY_INDEX = text(
    "SELECT set_config('enable_sort', 'off', true), set_config('enable_seqscan', 'off', true),"
    " set_config('enable_bitmapscan', 'off', true)"
)
# Groups take turns. "walk" steps through the groups with work of the kind, beginning after the group :after
# and going round to it: one probe of the index (kind, group_id, due_at) a group, however many rows a group
# has. "turns" are those of them with something due, as many as one claim serves. "shares" deals out the
# places of the batch, one a group and round, so that a place which one group does not need goes to the
# others. SKIP LOCKED: two workers that wake at once take different rows instead of waiting for each other.
# Subqueries with LIMIT, and rows addressed by ctid, leave the planner no other way, whatever it believes the
# table's size to be.
_CLAIM = text("""
    WITH RECURSIVE walk AS (
        SELECT CAST(:after AS text) AS group_id, false AS round, 0 AS place
        UNION ALL
        SELECT next.group_id, next.round, walk.place + 1 FROM walk CROSS JOIN LATERAL (
            SELECT group_id, round FROM (
                (SELECT p.group_id, walk.round FROM pending_work p
                    WHERE p.kind = :kind AND p.group_id > walk.group_id ORDER BY p.group_id LIMIT 1)
                UNION ALL
                (SELECT p.group_id, true FROM pending_work p WHERE p.kind = :kind AND NOT walk.round
                ORDER BY p.group_id LIMIT 1)
            ) AS following WHERE NOT round OR group_id <= :after ORDER BY round LIMIT 1
        ) AS next
    ), turns AS (
        SELECT walk.group_id, walk.place FROM walk CROSS JOIN LATERAL (
            SELECT FROM pending_work p
            WHERE p.kind = :kind AND p.group_id = walk.group_id AND p.due_at <= statement_timestamp() LIMIT 1
        ) AS due WHERE walk.place > 0 LIMIT :groups
    ), shares AS (
        SELECT group_id, place, count(*) AS share FROM (
            SELECT turns.group_id, turns.place FROM turns CROSS JOIN LATERAL (
                SELECT row_number() OVER () AS round FROM (
                    SELECT FROM pending_work p
                    WHERE p.kind = :kind AND p.group_id = turns.group_id
                    AND p.due_at <= statement_timestamp() LIMIT :limit
                ) AS due
            ) AS dealt ORDER BY dealt.round, turns.place LIMIT :limit
        ) AS places GROUP BY group_id, place
    ), taken AS (
        SELECT due.ctid FROM shares CROSS JOIN LATERAL (
            SELECT p.ctid FROM pending_work p
            WHERE p.kind = :kind AND p.group_id = shares.group_id AND p.due_at <= statement_timestamp()
            ORDER BY p.due_at LIMIT shares.share FOR UPDATE SKIP LOCKED
        ) AS due
    ), claimed AS (
        UPDATE pending_work p SET attempts = attempts + 1, due_at = statement_timestamp() +
        make_interval(secs => :lease)
        WHERE p.ctid = ANY (ARRAY(SELECT ctid FROM taken))
        RETURNING p.subject_id, p.attempts, p.group_id, p.due_at, p.trace
    )
    SELECT claimed.* FROM claimed JOIN shares USING (group_id) ORDER BY shares.place
""")
_LOCK = text("""
    SELECT subject_id FROM pending_work WHERE kind = :kind AND subject_id = ANY(:ids)
    ORDER BY subject_id FOR UPDATE
""")
_EXTEND = text("""
    UPDATE pending_work SET due_at = statement_timestamp() + make_interval(secs => :lease)
    WHERE (kind, subject_id) IN (
        SELECT kind, subject_id FROM pending_work
        WHERE kind = :kind AND subject_id = ANY(:ids) AND due_at = ANY(:dues) FOR UPDATE SKIP LOCKED
    )
    RETURNING due_at
""")
_RENEW = text("""
    UPDATE pending_work SET attempts = 0, due_at = clock_timestamp(), last_error = NULL, created_at =
    clock_timestamp()
    WHERE kind = :kind AND subject_id = ANY(:ids)
""")
_RENEW_LATER = text("""
    UPDATE pending_work SET attempts = 0, due_at = :due, last_error = NULL, created_at = clock_timestamp()
    WHERE kind = :kind AND subject_id = :id
""")
_SETTLE = text("DELETE FROM pending_work WHERE kind = :kind AND subject_id = ANY(:ids) RETURNING group_id")
_GIVE_BACK = text("""
    UPDATE pending_work SET due_at = clock_timestamp() + make_interval(secs => :wait), last_error = :error
    WHERE kind = :kind AND subject_id = ANY(:ids) RETURNING group_id
""")
_POSTPONE = text("""
    UPDATE pending_work SET attempts = attempts - 1, last_error = :error,
        due_at = clock_timestamp() + make_interval(secs => :wait)
    WHERE kind = :kind AND subject_id = ANY(:ids)
""")
_EXHAUSTED = text("""
    DELETE FROM pending_work WHERE (kind, subject_id, group_id) IN (
        SELECT kind, subject_id, group_id FROM pending_work
        WHERE kind = :kind AND attempts >= :max_attempts
          AND (subject_id = ANY(:ids) OR (CAST(:ids AS uuid[]) IS NULL AND due_at <= statement_timestamp()))
        LIMIT 1000 FOR UPDATE SKIP LOCKED
    )
    RETURNING subject_id, group_id, attempts,
        coalesce(last_error, 'the worker died during each attempt') AS reason, CAST(:traceback AS text) AS
        traceback
""")
# Also of what a worker has in hand: then two work on it, and the effect of one counts.
_RETRY = text("""
    UPDATE pending_work SET due_at = clock_timestamp(), attempts = 0 WHERE (kind, subject_id, group_id) IN (
        SELECT kind, subject_id, group_id FROM pending_work
        WHERE kind = :kind AND (CAST(:group AS text) IS NULL OR group_id = :group)
          AND (cardinality(CAST(:ids AS uuid[])) = 0 OR subject_id = ANY(:ids))
        LIMIT :limit FOR UPDATE SKIP LOCKED
    )
""")
_BRING_FORWARD = text("""
    UPDATE pending_work SET due_at = clock_timestamp() WHERE (kind, subject_id, group_id) IN (
        SELECT kind, subject_id, group_id FROM pending_work
        WHERE due_at > clock_timestamp() + make_interval(secs => :longest) LIMIT :limit FOR UPDATE SKIP LOCKED
    )
""")
_DUE = text("SELECT kind, count(*) AS due FROM pending_work WHERE due_at <= clock_timestamp() GROUP BY kind")
_BY_KIND = text("""
    SELECT kind, count(*) AS owed, count(*) FILTER (WHERE due_at <= clock_timestamp()) AS overdue,
        count(*) FILTER (WHERE attempts > 1) AS retried, min(created_at) AS oldest,
        min(due_at) FILTER (WHERE last_error IS NOT NULL) AS next_retry
    FROM pending_work WHERE CAST(:group AS text) IS NULL OR group_id = :group GROUP BY kind ORDER BY kind
""")
