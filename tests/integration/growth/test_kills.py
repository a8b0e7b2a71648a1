"""A worker that is killed in each kind of work, and two people at once: each effect once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from models.conversations.extraction_schedule import EXTRACT
from models.growth import pain_actions, self_review
from models.growth.evolution import WEIGH
from models.growth.trajectories import COMPRESS
from models.growth.work import AGGREGATE, COMPOSE, FOLLOW_PROFILE, MERGE_PAINS, SOLVE_PAIN
from models.reflection.reflections import REFLECT
from tasks.framework.work import run_until_idle
from tests.integration.conversations import talk
from tests.integration.growth.growing import artifacts, chain, end, experienced, feedback, run, save
from tests.integration.growth.living import SMALL_TALK, TROUBLE, act, hurry, pain, rows, say

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")

CHECKOUT = Path(__file__).resolve().parents[3]
#: A process for each kind of work, killed with the effect written, and not committed.
KILLED = """
import os, signal, sys
from importlib import import_module

import workers.app
from models.queue import pending_work
from tasks.framework.work import run_until_idle

def settle(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)

pending_work.complete = settle
for kind, module, handler in zip(sys.argv[1::3], sys.argv[2::3], sys.argv[3::3]):
    work = getattr(import_module(module), handler)
    child = os.fork()
    if not child:
        run_until_idle(kind, work)
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL, kind
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


def troubled(group: str) -> None:
    talk.say(group, *SMALL_TALK, TROUBLE[0])
    talk.run()


def asked(group: str) -> None:
    say(group, *SMALL_TALK, TROUBLE[0])
    act(group, pain_actions.propose_solution, id=pain(group).pain_id)


def profiled(group: str) -> None:
    talk.say(group, *SMALL_TALK, "I work as a nurse at the hospital.")
    talk.run()


def looked(group: str) -> None:
    say(group, *SMALL_TALK, "以后回答请简洁一点。")
    act(group, self_review.run)


def lived(group: str) -> None:
    talk.say(group, *SMALL_TALK, "I live in Porto.")


Case = tuple[str, str, str, Callable[[str], Any], list[str]]
#: Kind, module and name of its work, what makes it owed, and where its effect is; each is made owed when
#: those before it are.
CASES: list[Case] = [
    (REFLECT, "tasks.reflection", "reflect", looked, ["proposals", "memory_nodes WHERE type = 'thought'"]),
    (SOLVE_PAIN, "tasks.growth.pains", "solve_pain", asked, ["proposals"]),
    (WEIGH, "tasks.growth.evolution", "weigh", voted, ["feedback"]),
    (COMPOSE, "tasks.growth.evolution", "compose", compressed, ["proposals"]),
    (COMPRESS, "tasks.growth.evolution", "compress", told, ["trajectories"]),
    (AGGREGATE, "tasks.growth.evolution", "aggregate", experienced, ["proposals"]),
    (MERGE_PAINS, "tasks.growth.pains", "merge_pains", troubled, ["pain_points", "pain_evidence"]),
    (FOLLOW_PROFILE, "tasks.growth.self_review", "follow_profile", profiled, ["identity_versions"]),
    (EXTRACT, "tasks.conversations.extraction", "extract", lived, ["memory_nodes WHERE kind = 'knowledge'"]),
]


@pytest.mark.long
def test_a_worker_that_is_killed_in_any_kind_of_work_loses_and_doubles_nothing(group: str) -> None:
    def left(kind: str, tables: list[str]) -> tuple[str, list[int], list[int]]:
        return kind, counted(f"{group}-{kind}", tables), attempts(f"{group}-{kind}", kind)

    for kind, *_, prepare, _tables in CASES:
        prepare(f"{group}-{kind}")
    # Whatever else came of it.
    rows("DELETE FROM pending_work WHERE group_id <> :g || '-' || kind RETURNING 1", g=group)
    hurry()
    killed = [sys.executable, "-c", KILLED, *(text for case in CASES for text in case[:3])]
    done = subprocess.run(killed, cwd=CHECKOUT, check=False, timeout=240, capture_output=True)
    assert done.returncode == 0, done.stderr
    for kind, *_, tables in CASES:
        assert left(kind, tables) == (kind, [0] * len(tables), [1])
    hurry()
    for kind, module, handler, _, tables in CASES:
        run_until_idle(kind, getattr(import_module(module), handler))
        assert left(kind, tables) == (kind, [1] * len(tables), [])


def counted(group: str, tables: list[str]) -> list[int]:
    found = []
    for table in tables:
        where = "AND" if "WHERE" in table else "WHERE"
        found.append(len(rows(f"SELECT 1 FROM {table} {where} group_id = :g", g=group)))
    return found


def attempts(group: str, kind: str) -> list[int]:
    asked = "SELECT attempts FROM pending_work WHERE group_id = :g AND kind = :k"
    return [row["attempts"] for row in rows(asked, g=group, k=kind)]
