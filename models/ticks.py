"""Runs of scheduled jobs: a row a slot, so that of several beats one wins."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, text
from sqlalchemy.dialects.postgresql import JSONB

#: Ticks that are kept of each job, for the health page: about a day of a job that runs every 30 s.
KEPT_TICKS = 3_000


def begin(connection: Connection, job: str, slot: datetime) -> bool:
    """True for the first who asks for this slot."""
    return connection.execute(_BEGIN, {"job": job, "slot": slot}).rowcount == 1


def end(connection: Connection, job: str, slot: datetime, summary: Mapping[str, Any]) -> None:
    connection.execute(_END, {"job": job, "slot": slot, "summary": dict(summary)})
    connection.execute(_PRUNE, {"job": job, "kept": KEPT_TICKS})


_BEGIN = text("INSERT INTO job_ticks (job, slot) VALUES (:job, :slot) ON CONFLICT DO NOTHING")
_END = text("UPDATE job_ticks SET finished_at = now(), summary = :summary WHERE job = :job AND slot = :slot").bindparams(
    bindparam("summary", type_=JSONB)
)
_PRUNE = text("""
    DELETE FROM job_ticks WHERE job = :job AND slot < (
        SELECT slot FROM job_ticks WHERE job = :job ORDER BY slot DESC OFFSET :kept LIMIT 1
    )
""")
