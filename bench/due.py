"""Ten thousand agents due at once: what a scan costs beside one bare UPDATE of as many rows.

    python -m bench.due [--agents 10000] [--json]

Half of the rows are schedules, half heartbeats. ``scan_ms`` is the whole job ``due_scan``, which owes each as
work in transactions of 500; ``update_ms`` is one UPDATE that only changes as many rows. ``second_scan_ms``
finds nothing.
"""

from __future__ import annotations

import argparse
import json
import time
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import text

from bench.support.ranking import DECIMALS
from bench.support.service import machine, running
from models.appointments.schedules import FIRE, HEARTBEAT
from models.db.connection import unit_of_work
from tasks.appointments import due_scan
from tasks.framework.jobs import Run

AGENTS = 10_000
MILLISECONDS = 1_000


def run(agents: int) -> dict[str, Any]:
    """Times in milliseconds, and what was owed."""
    with running(names=()):
        half = agents // 2
        with unit_of_work() as connection:
            for statement in _FILL:
                connection.execute(statement, {"many": half, "all": agents, "group": "bench"})
        with unit_of_work() as connection:
            began = time.perf_counter()
            connection.execute(_BARE)
        bare = time.perf_counter() - began
        seconds, found = _scan()
        again, nothing = _scan()
    return {
        "agents": agents,
        "owed": {kind: int(found[kind]) for kind in (FIRE, HEARTBEAT)},
        "owed_again": int(nothing[FIRE] + nothing[HEARTBEAT]),
        "scan_ms": round(seconds * MILLISECONDS, DECIMALS),
        "second_scan_ms": round(again * MILLISECONDS, DECIMALS),
        "update_ms": round(bare * MILLISECONDS, DECIMALS),
        "machine": machine(),
    }


def _scan() -> tuple[float, dict[str, Any]]:
    scan = Run("due_scan", datetime.now(UTC))
    began = time.perf_counter()
    with scan.scope():
        due_scan(scan)
    return time.perf_counter() - began, scan.summary


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--agents", type=int, default=AGENTS)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = run(arguments.agents)
    print(json.dumps(result) if arguments.json else json.dumps(result, indent=2))


_FILL = (
    text("INSERT INTO groups (group_id) VALUES (:group) ON CONFLICT DO NOTHING"),
    text("""
        INSERT INTO agents (group_id, agent_id, agent_key, importance_trigger_curr)
        SELECT :group, 'agent-' || n, gen_random_uuid(), 0 FROM generate_series(1, :all) AS n
    """),
    text("""
        INSERT INTO schedules (schedule_id, group_id, agent_id, kind, cron, tz, task_description, next_run_at)
        SELECT gen_random_uuid(), :group, 'agent-' || n, 'cron', '0 9 * * *', 'UTC', 'x', now() - interval
        '1 second'
        FROM generate_series(1, :many) AS n
    """),
    text("""
        INSERT INTO heartbeats (group_id, agent_id, agent_key, next_tick_at)
        SELECT group_id, agent_id, agent_key, now() - interval '1 second' FROM agents WHERE group_id = :group
        ORDER BY agent_key LIMIT :many
    """),
)
_BARE = text("UPDATE agents SET importance_ele_n = importance_ele_n + 1")


if __name__ == "__main__":
    main()
