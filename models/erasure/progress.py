"""An erasure under way: asked for, carried on step by step by a worker, finished with a report.

A list of erasures stands beside the backups, since a restored backup holds what was erased later.
"""

from __future__ import annotations

import hmac
import os
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, TypedDict, cast
from uuid import UUID

from pydantic import BaseModel
from pydantic_core import to_jsonable_python
from sqlalchemy import Connection, Select, Text, bindparam, insert, literal, select, text
from sqlalchemy.dialects.postgresql import JSONB
from uuid6 import uuid7

from engine.erasure import OF_KEY, Whom, hash_of, mark_of
from jiyi.protocol.base import JsonObject
from jiyi.protocol.erasure import Erasure, ErasureReport, ErasureState, Kind
from jiyi.protocol.wire.signatures import need_secret_key
from jiyi.settings import get_settings
from models.accounts import audit
from models.db.rows import behind, columns, fetch, fetch_one
from models.erasure.tables import ErasureRow
from models.folders import make_private
from models.operations import backups
from models.queue import pending_work

#: The kind of an erasure's pending work (subject: its id).
ERASE = "erase"
#: The steps, in their order.
STEPS = (
    *("wait", "note", "withhold", "note events", "note memories", "note what rests on them"),
    *("delete", "repetitions", "agents", "texts", "counts"),
    *("workers", "valkey", "vacuum", "proof", "append-only files", "finish", "tidy"),
)
#: What the key of the names' hashes is made of the service's secret for.
_KEY_LABEL = b"jiyi hashes of erased names 1"
_NOTE = text("UPDATE erasures SET report = :report WHERE erasure_id = :id").bindparams(
    bindparam("report", type_=JSONB)
)
FILE = "erasures.jsonl"
ACTOR = "job:restore"


class ErasureTarget(TypedDict, total=False):
    """What is stored of a request."""

    #: The request itself, until it is done.
    asked: dict[str, Any]
    #: Hashes of the names.
    names: list[str]
    #: How many memories it names.
    nodes: int


@dataclass(slots=True)
class ErasureProgress:
    """An erasure under way: its next step, and all that has to be known after a crash."""

    erasure_id: UUID
    group_id: str
    kind: Kind
    what: ErasureTarget
    state: str
    step: str
    place: dict[str, Any] = field(default_factory=dict)

    @property
    def request(self) -> Erasure | None:
        """None when the end is near: nothing is left of it but hashes."""
        return Erasure.model_validate(self.what["asked"]) if "asked" in self.what else None

    @property
    def names(self) -> list[str]:
        return self.request.names if self.request is not None and self.kind == "person" else []

    @property
    def agents(self) -> list[str]:
        """Agents that go as a whole."""
        return cast("list[str]", self.place.get("agents", []))

    @property
    def touched(self) -> list[str]:
        """Agents that lost memories."""
        return cast("list[str]", self.place.get("touched", []))

    @property
    def whom(self) -> Whom:
        return Whom(self.names, self.agents)

    def count(self, part: str, **numbers: int) -> None:
        counts = self.place.setdefault("counts", {}).setdefault(part, {})
        for name, number in numbers.items():
            counts[name] = counts.get(name, 0) + number

    def advance(self) -> None:
        self.step = STEPS[STEPS.index(self.step) + 1]

    def restart(self) -> None:
        """Begin again: something was found left."""
        self.state, self.step = "incomplete", STEPS[0]


def enqueue(
    connection: Connection, group_id: str, kind: Kind, what: ErasureTarget, actor: str
) -> ErasureState:
    """Have something erased by a worker, and audit who asked for it; wake ``ERASE`` after the commit."""
    erasure_id = uuid7()
    row = {"erasure_id": erasure_id, "group_id": group_id, "kind": kind, "what": what, "requested_by": actor}
    connection.execute(insert(ErasureRow).values(row))
    pending_work.enqueue(connection, ERASE, [(erasure_id, group_id)])
    who: dict[str, Any] = {"group_id": group_id, "actor": actor, "action": "erasure.request", "target": kind}
    details: dict[str, Any] = {"erasure": erasure_id, **_without_names(what)}
    audit.record(connection, **who, **details)
    state = one(connection, group_id, erasure_id)
    assert state is not None
    return state


def pending(connection: Connection, group_id: str, kind: Kind, what: ErasureTarget) -> ErasureState | None:
    """The same erasure, asked for before and not done; others who ask wait for this transaction.

    Of an agent or a person only one that has not begun: there may be more since.
    """
    connection.execute(_ONE_AT_A_TIME, {"group": group_id})
    same = {"group": group_id, "kind": kind, "asked": what["asked"]}
    erasure_id = connection.execute(_PENDING, same).scalar_one_or_none()
    return None if erasure_id is None else one(connection, group_id, erasure_id)


def described(request: Erasure) -> ErasureTarget:
    """What is stored of a request: itself until it is done, hashes and numbers for good."""
    what: ErasureTarget = {"asked": request.model_dump(mode="json", exclude_defaults=True)}
    if request.names:
        what["names"] = [hash_of(name, name_key()) for name in request.names]
    if request.node_ids:
        what["nodes"] = len(request.node_ids)
    return what


def name_key() -> bytes:
    """With which names are hashed: of the service's secret, which is in no backup."""
    return hmac.digest(need_secret_key(get_settings()).encode(), _KEY_LABEL, "sha256")


def begin(connection: Connection, erasure_id: UUID) -> ErasureProgress | None:
    """The erasure as it stands, its row locked; None if it is not to be carried on."""
    row = connection.execute(_BEGIN, {"id": erasure_id}).mappings().one_or_none()
    if row is None:
        return None
    progress = ErasureProgress(**row)
    if progress.step not in STEPS:  # it has not begun, or began under a version with other steps
        progress.step = STEPS[0]
    return progress


def save(connection: Connection, progress: ErasureProgress) -> None:
    place = {"state": progress.state, "step": progress.step, "place": progress.place}
    connection.execute(_SAVE, {"id": progress.erasure_id, **place})


def forget_names(connection: Connection, progress: ErasureProgress, report: ErasureReport) -> None:
    """Nothing was left: names and ids go, before a backup that would hold them is made."""
    delete_backups = progress.request is not None and progress.request.delete_backups
    progress.place = {"report": to_jsonable_python(report), "delete_backups": delete_backups}
    progress.advance()
    save(connection, progress)
    connection.execute(_FORGET_NAMES, {"id": progress.erasure_id, "what": _without_names(progress.what)})
    connection.execute(_DELETE_IDS, {"id": progress.erasure_id})


def finish(connection: Connection, progress: ErasureProgress, report: ErasureReport) -> None:
    """Done: what is left are hashes, numbers, and the report."""
    connection.execute(_FINISH, {"id": progress.erasure_id, "report": to_jsonable_python(report)})
    who: dict[str, Any] = {"group_id": progress.group_id, "actor": "job:erase", "action": "erasure.finish"}
    what: dict[str, Any] = {"erasure": progress.erasure_id, "report": report.get("sha256"), **progress.what}
    audit.record(connection, **who, target=progress.kind, **what)


def note_report(connection: Connection, progress: ErasureProgress, report: ErasureReport) -> None:
    """Something was left: for those who look, until the next attempt."""
    connection.execute(_NOTE, {"id": progress.erasure_id, "report": to_jsonable_python(report)})


def noted_ids(connection: Connection, erasure_id: UUID) -> set[str]:
    """Ids of what is to go, as they are written in texts."""
    return {str(subject_id) for subject_id in connection.execute(_IDS, {"id": erasure_id}).scalars()}


def started_at(connection: Connection, erasure_id: UUID) -> datetime:
    return cast("datetime", connection.execute(_STARTED, {"id": erasure_id}).scalar_one())


def _without_names(what: ErasureTarget) -> JsonObject:
    return {name: value for name, value in what.items() if name != "asked"}


def one(connection: Connection, group_id: str, erasure_id: UUID) -> ErasureState | None:
    return fetch_one(connection, ErasureState, _of(group_id).where(ErasureRow.erasure_id == erasure_id))


def page(connection: Connection, group_id: str, before: UUID | None, limit: int) -> list[ErasureState]:
    """Newest first, those before an id."""
    return fetch(connection, ErasureState, behind(_of(group_id), before, ErasureRow.erasure_id).limit(limit))


def _of(group_id: str) -> Select[tuple[Any, ...]]:
    without_names = ErasureRow.what.op("-")(literal("asked", Text))
    return select(*columns(ErasureState, ErasureRow, what=without_names)).where(
        ErasureRow.group_id == group_id
    )


class ErasureLogEntry(BaseModel):
    """One line of the list: of names only the hashes."""

    erasure_id: UUID
    group_id: str
    kind: Kind
    at: datetime
    names: list[str]


def path() -> Path:
    return backups.folder() / FILE


def note(progress: ErasureProgress, at: datetime) -> None:
    """Write an erasure down, names as hashes. Safe to repeat: a second line of an id is skipped."""
    names = progress.what.get("names", [])
    entry = ErasureLogEntry(
        erasure_id=progress.erasure_id, group_id=progress.group_id, kind=progress.kind, at=at, names=names
    )
    make_private(path().parent)
    opened = os.open(path(), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(opened, "a", encoding="utf-8") as file:
        file.write(entry.model_dump_json() + "\n")


def since(moment: datetime) -> list[ErasureLogEntry]:
    """Erasures that came after a backup of that moment, oldest first."""
    if not path().is_file():
        return []
    entries = [
        ErasureLogEntry.model_validate_json(line)
        for line in path().read_text("utf-8").splitlines()
        if line.strip()
    ]
    return list({entry.erasure_id: entry for entry in entries if entry.at >= moment}.values())


def apply_again(connection: Connection, moment: datetime) -> dict[str, int]:
    """Enqueue erasures of agents once more after a restore of a backup of that moment; counts.

    Others have to be requested again: their names are not known, or hashed with another secret.
    """
    counts = {"agents": 0, "others": 0}
    for entry in since(moment):
        if entry.kind == "agent" and _is_reportable(entry):
            enqueue(connection, entry.group_id, "agent", {"names": entry.names}, ACTOR)
            counts["agents"] += 1
        else:
            counts["others"] += 1
    return counts


def _is_reportable(entry: ErasureLogEntry) -> bool:
    """Whether a worker can know the names by their hashes: not if the service's secret changed."""
    marks = {mark for _, _, mark in (name.partition(OF_KEY) for name in entry.names) if mark}
    return not get_settings().secret_key or marks <= {mark_of(name_key())}


_ONE_AT_A_TIME = text("SELECT pg_advisory_xact_lock(hashtextextended('jiyi.erasure.' || :group, 0))")
_PENDING = text("""
    SELECT erasure_id FROM erasures
    WHERE group_id = :group AND kind = :kind AND what -> 'asked' = :asked AND (state = 'owed'
    OR (kind = 'nodes' AND state <> 'done'))
    ORDER BY erasure_id LIMIT 1
""").bindparams(bindparam("asked", type_=JSONB))
_BEGIN = text("""
    SELECT erasure_id, group_id, kind, what, state, step, place FROM erasures
    WHERE erasure_id = :id FOR UPDATE
""")
_SAVE = text("""
    UPDATE erasures SET state = :state, step = :step, place = :place WHERE erasure_id = :id
""").bindparams(bindparam("place", type_=JSONB))
_FINISH = text("""
    UPDATE erasures SET state = 'done', step = 'tidy', place = '{}', report = :report, finished_at = now()
    WHERE erasure_id = :id
""").bindparams(bindparam("report", type_=JSONB))
_FORGET_NAMES = text("UPDATE erasures SET what = :what WHERE erasure_id = :id").bindparams(
    bindparam("what", type_=JSONB)
)
_DELETE_IDS = text("DELETE FROM erasing_ids WHERE erasure_id = :id")
_IDS = text("SELECT subject_id FROM erasing_ids WHERE erasure_id = :id")
_STARTED = text("SELECT created_at FROM erasures WHERE erasure_id = :id")
