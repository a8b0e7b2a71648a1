"""A worker that is killed in each kind of work loses nothing and does nothing twice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from jiyi.protocol.growth.identity import OfAgent
from jiyi.protocol.growth.pains import ProposeSolution
from models.growth import pain_actions, self_review
from models.growth.work import FOLLOW_PROFILE, MERGE_PAINS, SOLVE_PAIN
from models.reflection.reflections import REFLECT
from tasks.framework.work import run_until_idle
from tasks.reflection.reflect import reflect
from tests.integration.conversations import talk
from tests.integration.growth.living import AGENT, SMALL_TALK, TROUBLE, actor, grow, hurry, pain, rows, say

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")

CHECKOUT = Path(__file__).resolve().parents[3]
#: Killed with the effect written, and not committed.
KILLED = """
import os, signal
import workers.app
from models.queue import pending_work
from tasks.framework.work import run_until_idle
from {module} import {handler}

def settle(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)

pending_work.complete = settle
run_until_idle({kind!r}, {handler})
"""


def kill(kind: str, module: str, handler: str) -> None:
    code = KILLED.format(kind=kind, module=module, handler=handler)
    done = subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, check=False, timeout=240, capture_output=True)
    assert done.returncode == -9, done.stderr


def attempts(group: str, kind: str) -> list[int]:
    return [row["attempts"] for row in rows("SELECT attempts FROM pending_work WHERE group_id = :g AND kind = :k", g=group, k=kind)]


def counted(group: str, table: str) -> int:
    return len(rows(f"SELECT 1 FROM {table} WHERE group_id = :g", g=group))


def test_in_merging_pains(group: str) -> None:
    talk.say(group, *SMALL_TALK, TROUBLE[0])
    talk.run()
    kill(MERGE_PAINS, "tasks.growth.pains", "merge_pains")
    assert counted(group, "pain_points") == 0
    assert attempts(group, MERGE_PAINS) == [1]
    hurry()
    grow()
    assert (counted(group, "pain_points"), counted(group, "pain_evidence"), attempts(group, MERGE_PAINS)) == (1, 1, [])


def test_in_proposing(group: str) -> None:
    say(group, *SMALL_TALK, TROUBLE[0])
    pain_actions.propose_solution.perform(actor(group), ProposeSolution(pain_id=pain(group).pain_id))
    kill(SOLVE_PAIN, "tasks.growth.pains", "solve_pain")
    assert counted(group, "proposals") == 0
    hurry()
    grow()
    assert (counted(group, "proposals"), attempts(group, SOLVE_PAIN)) == (1, [])


def test_in_following_the_profile(group: str) -> None:
    talk.say(group, *SMALL_TALK, "I work as a nurse at the hospital.")
    talk.run()
    kill(FOLLOW_PROFILE, "tasks.growth.self_review", "follow_profile")
    assert counted(group, "identity_versions") == 0
    hurry()
    grow()
    assert (counted(group, "identity_versions"), attempts(group, FOLLOW_PROFILE)) == (1, [])


def test_in_looking_at_itself(group: str) -> None:
    say(group, *SMALL_TALK, "以后回答请简洁一点。")
    self_review.run.perform(actor(group), OfAgent(agent_id=AGENT))
    kill(REFLECT, "tasks.reflection.reflect", "reflect")
    assert counted(group, "identity_proposals") == 0
    assert rows("SELECT 1 FROM memory_nodes WHERE group_id = :g AND type = 'thought'", g=group) == []
    hurry()
    run_until_idle(REFLECT, reflect)
    assert counted(group, "identity_proposals") == 1
    assert len(rows("SELECT 1 FROM memory_nodes WHERE group_id = :g AND type = 'thought'", g=group)) == 1
    assert attempts(group, REFLECT) == []
