"""A list of erasures beside the backups: a restored backup holds what was erased after it was made, and no trace of that."""

from __future__ import annotations

import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from models.erasure import progress as erasures
from models.erasure.progress import Progress
from models.operations import backups

FILE = "erasures.jsonl"
ACTOR = "job:restore"


def path() -> Path:
    return backups.folder() / FILE


def note(progress: Progress, at: datetime) -> None:
    """Write an erasure down: of names only the hashes. Safe to repeat because a second line of the same id is skipped."""
    line = {
        "erasure_id": str(progress.erasure_id),
        "group_id": progress.group_id,
        "kind": progress.kind,
        "at": at.isoformat(),
        "names": progress.what.get("names", []),
    }
    path().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with os.fdopen(os.open(path(), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def since(moment: datetime) -> list[dict[str, Any]]:
    """Erasures that came after a backup of that moment, oldest first."""
    if not path().is_file():
        return []
    lines = [json.loads(line) for line in path().read_text("utf-8").splitlines() if line.strip()]
    found = {line["erasure_id"]: line for line in lines if datetime.fromisoformat(line["at"]) >= moment}
    return list(found.values())


def apply_again(connection: Connection, moment: datetime) -> dict[str, int]:
    """Owe the erasures of agents once more after a backup of that moment was restored; counts of what was found.

    Names of persons are not known any more, and neither are single memories: those have to be asked for again.
    """
    counts = {"agents": 0, "others": 0}
    for line in since(moment):
        if line["kind"] == "agent":
            erasures.owe(connection, line["group_id"], "agent", {"names": line["names"]}, ACTOR)
            counts["agents"] += 1
        else:
            counts["others"] += 1
    return counts
