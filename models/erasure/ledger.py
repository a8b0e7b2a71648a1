"""A list of erasures beside the backups: a restored backup holds what was erased after it was made, and no trace of that."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from uuid import UUID

from pydantic import BaseModel
from sqlalchemy import Connection

from jiyi.protocol.erasure import Kind
from models.erasure.progress import Progress, owe
from models.folders import make_private
from models.operations import backups

FILE = "erasures.jsonl"
ACTOR = "job:restore"


class Entry(BaseModel):
    """One line of the list: of names only the hashes."""

    erasure_id: UUID
    group_id: str
    kind: Kind
    at: datetime
    names: list[str]


def path() -> Path:
    return backups.folder() / FILE


def note(progress: Progress, at: datetime) -> None:
    """Write an erasure down: of names only the hashes. Safe to repeat because a second line of the same id is skipped."""
    names = progress.what.get("names", [])
    entry = Entry(erasure_id=progress.erasure_id, group_id=progress.group_id, kind=progress.kind, at=at, names=names)
    make_private(path().parent)
    with os.fdopen(os.open(path(), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", encoding="utf-8") as file:
        file.write(entry.model_dump_json() + "\n")


def since(moment: datetime) -> list[Entry]:
    """Erasures that came after a backup of that moment, oldest first."""
    if not path().is_file():
        return []
    entries = [Entry.model_validate_json(line) for line in path().read_text("utf-8").splitlines() if line.strip()]
    return list({entry.erasure_id: entry for entry in entries if entry.at >= moment}.values())


def apply_again(connection: Connection, moment: datetime) -> dict[str, int]:
    """Owe the erasures of agents once more after a backup of that moment was restored; counts of what was found.

    Names of persons are not known any more, and neither are single memories: those have to be asked for again.
    """
    counts = {"agents": 0, "others": 0}
    for entry in since(moment):
        if entry.kind == "agent":
            owe(connection, entry.group_id, "agent", {"names": entry.names}, ACTOR)
            counts["agents"] += 1
        else:
            counts["others"] += 1
    return counts
