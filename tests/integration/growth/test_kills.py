"""A worker that is killed in each kind of work, and two people at once: each effect once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from sqlalchemy import text

from jiyi.errors import Conflict
from jiyi.protocol.growth.artifacts import Deciding
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.growth.artifacts import SKILL_ACTIONS
from models.growth.feedback import WEIGH
from models.growth.trajectories import COMPRESS
from models.growth.work import AGGREGATE, COMPOSE
from tests.integration.growth.growing import artifacts, chain, end, experienced, feedback, owed, run, save
from tests.integration.threads import Threads

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")

CHECKOUT = Path(__file__).resolve().parents[3]

KILLED = """
import os, signal, sys
from importlib import import_module

kind, module, name = sys.argv[1:]
owner = import_module(module)
original = getattr(owner, name)

def then_die(*args, **options):
    original(*args, **options)
    os.kill(os.getpid(), signal.SIGKILL)

setattr(owner, name, then_die)
import workers.app
from tasks.framework.work import run_until_idle
from tasks.growth import evolution, trajectories

run_until_idle(kind, {**vars(evolution), **vars(trajectories)}[kind])
"""


def told(group: str) -> None:
    save([*chain(group, "s1", "search", "mail"), end(group, "s1")])


def compressed(group: str) -> None:
    for session in ("s1", "s2", "s3"):
        save([*chain(group, session, "search", "mail"), end(group, session)])
    run(COMPRESS)


def voted(group: str) -> None:
    experienced(group)
    run()
    save([feedback(group, artifacts(group)[0].id)])


@pytest.mark.parametrize(
    ("kind", "module", "name", "prepare", "table"),
    [
        (COMPRESS, "models.growth.trajectories", "store_trajectory", told, "trajectories"),
        (COMPOSE, "models.growth.candidates", "store_grown", compressed, "artifacts"),
        (AGGREGATE, "models.growth.candidates", "store_grown", experienced, "artifacts"),
        (WEIGH, "models.growth.feedback", "count_vote", voted, "feedback"),
    ],
    ids=["compress", "compose", "aggregate", "weigh"],
)
def test_a_worker_that_is_killed_loses_and_doubles_nothing(
    group: str, kind: str, module: str, name: str, prepare: Callable[[str], Any], table: str
) -> None:
    prepare(group)
    done = subprocess.run([sys.executable, "-c", KILLED, kind, module, name], cwd=CHECKOUT, check=False, timeout=240, capture_output=True)
    assert done.returncode == -9, done.stderr
    assert count(group, table) == 0
    [waiting] = owed(kind)
    assert waiting["attempts"] == 1
    hurry()
    assert run(kind) == 1
    assert count(group, table) == 1
    assert owed(kind) == []


def test_of_two_people_who_confirm_and_decline_at_once_one_decides(group: str) -> None:
    experienced(group)
    run()
    [skill] = artifacts(group)
    together = Barrier(2)

    def decide(action: Any, who: str) -> str:
        together.wait(60)
        try:
            return str(action.perform(Actor(group, who), Deciding(id=skill.id)).status)
        except Conflict as error:
            return str(error)

    with Threads(2) as pool:
        answers = [
            one.result()
            for one in [pool.submit(decide, SKILL_ACTIONS["accept"], "user:mia"), pool.submit(decide, SKILL_ACTIONS["decline"], "user:leo")]
        ]
    decided = artifacts(group)[0].status
    assert decided in answers
    assert sum("decided by" in answer for answer in answers) == 1


def count(group: str, table: str) -> int:
    with unit_of_work() as connection:
        return int(connection.execute(text(f"SELECT count(*) FROM {table} WHERE group_id = :g"), {"g": group}).scalar_one())


def hurry() -> None:
    """What a dead worker had in hand is due now."""
    with unit_of_work() as connection:
        connection.execute(text("UPDATE pending_work SET due_at = now()"))
