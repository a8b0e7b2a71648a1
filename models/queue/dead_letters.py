"""Dead letters: what could not be done, kept with the reason until somebody decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text
from uuid6 import uuid7

from models.accounts import audit

INTAKE = "intake"
#: Bound of one replay or discard of "all of a kind".
MAX_RESOLVED = 1_000


@dataclass(frozen=True, slots=True)
class Resolved:
    """Letters that were closed; ``bodies`` are those of events, to be published again by the caller."""

    count: int
    kinds: list[str]
    bodies: list[str]


def bury_message(
    connection: Connection, body: str, reason: str, subject_id: UUID | None, group_id: str | None, traceback: str | None = None
) -> None:
    """Keep a refused event as it came. ``body`` must hold no NUL."""
    connection.execute(
        _BURY,
        {"letter_id": uuid7(), "subject_id": subject_id, "group_id": group_id, "reason": reason, "body": body, "traceback": traceback},
    )


def letters(
    connection: Connection, group_id: str, state: str, kind: str | None, before: UUID | None, limit: int, words: str | None = None
) -> list[dict[str, Any]]:
    """Newest first. Letters of no known group (a message that is no event) are among every group's.

    ``words`` stand in the reason, as they are written but for upper and lower case.
    """
    like = None if words is None else "%" + words.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_") + "%"
    parameters = {"group": group_id, "state": state, "kind": kind, "before": before, "limit": limit, "like": like}
    return [dict(row) for row in connection.execute(_LETTERS, parameters).mappings()]


def find(connection: Connection, group_id: str, letter_id: UUID) -> dict[str, Any] | None:
    """One letter of the group, or of no known group, with its whole body."""
    row = connection.execute(_FIND, {"group": group_id, "id": letter_id}).mappings().one_or_none()
    return None if row is None else dict(row)


def kinds(connection: Connection, group_id: str) -> dict[str, int]:
    """Open letters by kind."""
    return {row.kind: row.open for row in connection.execute(_KINDS, {"group": group_id})}


def open_ids(connection: Connection, group_id: str, letter_ids: Sequence[UUID], kind: str | None) -> list[UUID]:
    """What :func:`resolve` would close, of that what may be seen here."""
    parameters = {"group": group_id, "ids": list(letter_ids), "kind": kind, "limit": MAX_RESOLVED}
    return list(connection.execute(_OPEN_IDS, parameters).scalars())


def resolve(connection: Connection, group_id: str, letter_ids: Sequence[UUID], kind: str | None, *, replay: bool, actor: str) -> Resolved:
    """Close open letters: those named, or up to ``MAX_RESOLVED`` of a kind. Replayed work is owed anew, at once.

    The audit log gets a row unless there was nothing to close.

    Safe to repeat because only an open letter is closed, once.
    """
    parameters = {
        "group": group_id,
        "ids": list(letter_ids),
        "kind": kind,
        "limit": MAX_RESOLVED,
        "state": "replayed" if replay else "discarded",
    }
    rows = connection.execute(_RESOLVE, parameters).all()
    if rows:
        audit.record(
            connection,
            group_id=group_id,
            actor=actor,
            action=f"dead letters {parameters['state']}",
            target="dead_letters",
            kind=kind,
            count=len(rows),
            letters=sorted(row.letter_id for row in rows),
        )
    if replay:
        owed = [{"kind": row.kind, "subject_id": row.subject_id, "group_id": row.group_id} for row in rows if row.kind != INTAKE]
        if owed:
            connection.execute(_OWE_AGAIN, owed)
    bodies = [row.body for row in rows if row.kind == INTAKE] if replay else []
    return Resolved(len(rows), sorted({row.kind for row in rows if row.kind != INTAKE}), bodies)


_BURY = text("""
    INSERT INTO dead_letters (letter_id, kind, subject_id, group_id, reason, body, traceback)
    VALUES (:letter_id, 'intake', :subject_id, :group_id, :reason, :body, :traceback)
""")
_LETTERS = text("""
    SELECT letter_id, kind, subject_id, group_id, reason, traceback, left(body, 2000) AS body, attempts, state, created_at
    FROM dead_letters
    WHERE state = :state AND (group_id = :group OR group_id IS NULL) AND (CAST(:kind AS text) IS NULL OR kind = :kind)
      AND (CAST(:before AS uuid) IS NULL OR letter_id < :before)
      AND (CAST(:like AS text) IS NULL OR reason ILIKE :like)
    ORDER BY letter_id DESC LIMIT :limit
""")
_FIND = text("""
    SELECT letter_id, kind, subject_id, group_id, reason, traceback, body, attempts, state, created_at, resolved_at
    FROM dead_letters WHERE letter_id = :id AND (group_id = :group OR group_id IS NULL)
""")
_KINDS = text("""
    SELECT kind, count(*) AS open FROM dead_letters
    WHERE state = 'open' AND (group_id = :group OR group_id IS NULL) GROUP BY kind ORDER BY kind
""")
_OPEN_IDS = text("""
    SELECT letter_id FROM dead_letters
    WHERE state = 'open' AND (group_id = :group OR group_id IS NULL)
      AND (letter_id = ANY(:ids) OR (cardinality(CAST(:ids AS uuid[])) = 0 AND kind = :kind))
    ORDER BY letter_id LIMIT :limit
""")
_RESOLVE = text("""
    UPDATE dead_letters SET state = :state, resolved_at = now() WHERE letter_id IN (
        SELECT letter_id FROM dead_letters
        WHERE state = 'open' AND (group_id = :group OR group_id IS NULL)
          AND (letter_id = ANY(:ids) OR (cardinality(CAST(:ids AS uuid[])) = 0 AND kind = :kind))
        ORDER BY letter_id LIMIT :limit FOR UPDATE
    )
    RETURNING letter_id, kind, subject_id, group_id, body
""")
_OWE_AGAIN = text("""
    INSERT INTO pending_work (kind, subject_id, group_id) VALUES (:kind, :subject_id, :group_id)
    ON CONFLICT (kind, subject_id) DO UPDATE SET attempts = 0, due_at = now()
""")
