"""Erasures: asked for, carried on step by step, finished with a report. What each step does is in the modules beside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from pydantic_core import to_jsonable_python
from sqlalchemy import Connection, bindparam, text
from sqlalchemy.dialects.postgresql import JSONB
from uuid6 import uuid7

from jiyi.erasure.names import EXAMPLES, Erasure, Kind, hash_of
from jiyi.errors import NotFound
from models.accounts import audit
from models.erasure import matching
from models.queue import pending_work

#: The kind of work that an erasure owes (subject: its id).
ERASE = "erase"


@dataclass(slots=True)
class Progress:
    """An erasure under way: its next step, and all that has to be known after a crash."""

    erasure_id: UUID
    group_id: str
    kind: Kind
    what: dict[str, Any]
    state: str
    step: str
    place: dict[str, Any] = field(default_factory=dict)

    @property
    def asked(self) -> Erasure | None:
        """None when the end is near: nothing is left of it but hashes."""
        return Erasure.model_validate(self.what["asked"]) if "asked" in self.what else None

    @property
    def names(self) -> list[str]:
        """The person's."""
        return self.asked.names if self.asked is not None and self.kind == "person" else []

    @property
    def agents(self) -> list[str]:
        """Agents that go as a whole."""
        found: list[str] = self.place.get("agents", [])
        return found

    def count(self, part: str, **numbers: int) -> None:
        """Add to the report's numbers."""
        counts = self.place.setdefault("counts", {}).setdefault(part, {})
        for name, number in numbers.items():
            counts[name] = counts.get(name, 0) + number


def request(connection: Connection, group_id: str, request: Erasure, actor: str) -> UUID:
    """Ask for an erasure, in the caller's transaction; wake ``ERASE`` after it. Returns the erasure's id.

    Raises:
        NotFound: there is no such agent, or none of the memories.
    """
    if request.agent_id is not None and not matching.is_agent(connection, group_id, request.agent_id):
        raise NotFound(f"agent_id: no agent {request.agent_id!r} in the group {group_id!r}; see `jiyi agents`")
    if request.node_ids and not matching.known_nodes(connection, group_id, request.node_ids):
        raise NotFound(f"node_ids: none of these is a memory of the group {group_id!r}")
    what = {"asked": request.model_dump(mode="json", exclude_defaults=True), **summary_of(request)}
    return owe(connection, group_id, request.kind, what, actor)


def owe(connection: Connection, group_id: str, kind: Kind, what: dict[str, Any], actor: str) -> UUID:
    erasure_id = uuid7()
    connection.execute(_INSERT, {"id": erasure_id, "group": group_id, "kind": kind, "what": what, "actor": actor})
    pending_work.owe(connection, ERASE, [(erasure_id, group_id)])
    audit.record(connection, group_id=group_id, actor=actor, action="erase", target=kind, erasure=erasure_id, **_without_names(what))
    return erasure_id


def summary_of(request: Erasure) -> dict[str, Any]:
    """What may be kept for good."""
    found: dict[str, Any] = {"names": [hash_of(name) for name in request.names]} if request.names else {}
    return found | ({"nodes": len(request.node_ids)} if request.node_ids else {})


def _without_names(what: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in what.items() if name != "asked"}


def dry_run(connection: Connection, group_id: str, request: Erasure) -> dict[str, Any]:
    """What a request would find (:class:`jiyi.erasure.names.DryRun`). Looks through everything; changes nothing."""
    found = matching.rehearse(connection, group_id, request)
    return {**found, "examples": matching.examples(connection, group_id, found.pop("nodes"), EXAMPLES)}


def begin(connection: Connection, erasure_id: UUID) -> Progress | None:
    """The erasure as it stands, its row locked; None if it is not to be carried on."""
    row = connection.execute(_BEGIN, {"id": erasure_id}).mappings().one_or_none()
    return None if row is None else Progress(**row)


def save(connection: Connection, progress: Progress) -> None:
    connection.execute(_SAVE, {"id": progress.erasure_id, "state": progress.state, "step": progress.step, "place": progress.place})


def finish(connection: Connection, progress: Progress, report: dict[str, Any]) -> None:
    """Done: what is left are hashes, numbers, and the report."""
    what = _without_names(progress.what)
    connection.execute(_DELETE_IDS, {"id": progress.erasure_id})
    connection.execute(_FINISH, {"id": progress.erasure_id, "what": what, "report": to_jsonable_python(report)})
    audit.record(
        connection,
        group_id=progress.group_id,
        actor="job:erase",
        action="erased",
        target=progress.kind,
        erasure=progress.erasure_id,
        report=report.get("sha256"),
        **what,
    )


def note_report(connection: Connection, progress: Progress, report: dict[str, Any]) -> None:
    """Something was left: for those who look, until the next attempt."""
    connection.execute(_NOTE, {"id": progress.erasure_id, "report": to_jsonable_python(report)})


def state(connection: Connection, group_id: str, erasure_id: UUID) -> dict[str, Any] | None:
    """An erasure as :class:`jiyi.erasure.names.ErasureState` has it."""
    row = connection.execute(_STATE, {"group": group_id, "id": erasure_id}).mappings().one_or_none()
    return None if row is None else dict(row)


def listed(connection: Connection, group_id: str, before: UUID | None, limit: int) -> list[dict[str, Any]]:
    """Newest first."""
    rows = connection.execute(_LISTED, {"group": group_id, "before": before, "limit": limit}).mappings()
    return [dict(row) for row in rows]


_INSERT = text("""
    INSERT INTO erasures (erasure_id, group_id, kind, what, requested_by) VALUES (:id, :group, :kind, :what, :actor)
""").bindparams(bindparam("what", type_=JSONB))
_BEGIN = text("""
    SELECT erasure_id, group_id, kind, what, state, step, place FROM erasures WHERE erasure_id = :id FOR UPDATE
""")
_SAVE = text("""
    UPDATE erasures SET state = :state, step = :step, place = :place WHERE erasure_id = :id
""").bindparams(bindparam("place", type_=JSONB))
_NOTE = text("UPDATE erasures SET report = :report WHERE erasure_id = :id").bindparams(bindparam("report", type_=JSONB))
_FINISH = text("""
    UPDATE erasures SET state = 'done', step = 'tidy', place = '{}', what = :what, report = :report, finished_at = now()
    WHERE erasure_id = :id
""").bindparams(bindparam("what", type_=JSONB), bindparam("report", type_=JSONB))
_DELETE_IDS = text("DELETE FROM erasing_ids WHERE erasure_id = :id")
_COLUMNS = """erasure_id, group_id, kind, state, step, what - 'asked' AS what, requested_by, created_at, finished_at, report"""
_STATE = text(f"SELECT {_COLUMNS} FROM erasures WHERE group_id = :group AND erasure_id = :id")
_LISTED = text(f"""
    SELECT {_COLUMNS} FROM erasures WHERE group_id = :group AND (CAST(:before AS uuid) IS NULL OR erasure_id < :before)
    ORDER BY erasure_id DESC LIMIT :limit
""")
