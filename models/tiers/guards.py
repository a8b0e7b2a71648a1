"""The guard against runaway loops where outputs come in: a session's latest outputs, and sessions that run away now."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from pydantic import BaseModel
from sqlalchemy import Connection, text

from jiyi.chat.guards import SIGNS, GuardLimits, Sign, Step, guarded
from jiyi.protocol.knowledge import RUNAWAY
from models.tiers.quarantine import Output

#: Calls between nodes, one within the other, above which a session counts as a runaway loop.
MAX_DEPTH = 10
#: Tokens that a session's outputs may have per second, over ten seconds.
MAX_TOKENS_PER_SECOND = 1_000
#: Three outputs in a row, each more like the one before than this, are a runaway loop.
MAX_SIMILARITY = 0.95
#: An output whose words vary less, from 0 to 1, comes from a runaway loop.
MIN_ENTROPY = 0.5

#: Outputs of a session that are looked back upon, and for how long: a loop is faster than that.
LATEST, LOOKBACK = 100, timedelta(hours=1)
#: Of a session that has run away nobody needs to know a day after its last output.
SHOWN = timedelta(days=1)
MAX_SHOWN = 20

#: Whose outputs follow each other: a session's; without one, an agent's.
Run = tuple[str, str | None, str]


class RunningAway(BaseModel):
    """A session, or an agent without one, whose latest output shows a sign; ``outputs`` have shown one within a day."""

    session_id: str | None
    agent_id: str
    sign: Sign | None
    entry_id: UUID
    created_at: datetime
    outputs: int


def limits() -> GuardLimits:
    """What is no runaway loop."""
    return GuardLimits(
        max_depth=MAX_DEPTH, max_tokens_per_second=MAX_TOKENS_PER_SECOND, max_similarity=MAX_SIMILARITY, min_entropy=MIN_ENTROPY
    )


def flagged(connection: Connection, outputs: Sequence[Output]) -> list[Output]:
    """The outputs with the guard's flags set or cleared, by what their sessions said up to each of them."""
    runs: dict[Run, list[Output]] = {}
    for output in outputs:
        runs.setdefault(_run_of(output), []).append(output)
    said = {run: _said(connection, run, own) for run, own in runs.items()}
    bounds = limits()
    return [_with_flags(output, said[_run_of(output)], bounds) for output in outputs]


def running_away(connection: Connection, group_id: str, now: datetime) -> list[RunningAway]:
    """Sessions that run away now: those whose latest output has the flag, the latest first."""
    rows = connection.execute(_RUNNING_AWAY, {"group": group_id, "since": now - SHOWN, "flag": RUNAWAY, "limit": MAX_SHOWN})
    return [RunningAway(**row, sign=next((sign for sign in SIGNS if sign in row["flags"]), None)) for row in rows.mappings()]


def _run_of(output: Output) -> Run:
    return output.group_id, output.session_id, "" if output.session_id is not None else output.agent_id


def _said(connection: Connection, run: Run, own: Sequence[Output]) -> list[tuple[datetime, UUID, Step]]:
    group_id, session_id, agent_id = run
    times = [output.created_at for output in own]
    asked = {"group": group_id, "session": session_id, "agent": agent_id, "since": min(times) - LOOKBACK, "until": max(times)}
    rows = connection.execute(_SAID, asked | {"limit": LATEST + len(own)}).all()
    return [(row.created_at, row.entry_id, Step(row.content, row.created_at, row.depth)) for row in reversed(rows)]


def _with_flags(output: Output, said: Sequence[tuple[datetime, UUID, Step]], bounds: GuardLimits) -> Output:
    steps = [step for at, entry_id, step in said if (at, entry_id) <= (output.created_at, output.entry_id)]
    return output.model_copy(update={"flags": guarded(output.flags, steps, bounds)})


_SAID = text("""
    SELECT entry_id, created_at, content, depth FROM quarantine_logs
    WHERE group_id = :group AND created_at BETWEEN :since AND :until
        AND (session_id = :session OR (CAST(:session AS text) IS NULL AND session_id IS NULL AND agent_id = :agent))
    ORDER BY created_at DESC, entry_id DESC LIMIT :limit
""")
_RUNNING_AWAY = text("""
    SELECT * FROM (
        SELECT DISTINCT ON (session_id, run) session_id, agent_id, flags, entry_id, created_at,
            count(*) FILTER (WHERE CAST(:flag AS text) = ANY(flags)) OVER (PARTITION BY session_id, run) AS outputs
        FROM (
            SELECT *, CASE WHEN session_id IS NULL THEN agent_id END AS run FROM quarantine_logs
            WHERE group_id = :group AND received_at >= :since AND screened_at IS NOT NULL AND deleted_at IS NULL
        ) lately
        ORDER BY session_id, run, created_at DESC, entry_id DESC
    ) latest
    WHERE CAST(:flag AS text) = ANY(flags) ORDER BY created_at DESC, entry_id DESC LIMIT :limit
""")
