"""Erasure and growth: what rests on something erased goes with it, and nothing of a person is left."""

from __future__ import annotations

from uuid import uuid4

import pytest

from tests.integration.erasure.test_erasure import alone as alone  # noqa: PLC0414 - a fixture
from tests.integration.erasure.test_erasure import erase, places
from tests.integration.growth.growing import (
    AGENT,
    artifacts,
    chain,
    end,
    experienced,
    feedback,
    run,
    save,
    step,
)
from tests.integration.memory.test_inbox import rows

pytestmark = pytest.mark.usefixtures("alone", "nothing_owed")

TABLES = ("trajectory_events", "trajectories", "patterns", "proposals", "feedback", "trust")


def count(group: str, table: str) -> int:
    return len(rows(f"SELECT 1 FROM {table} WHERE group_id = :g", g=group))


def grown(group: str) -> None:
    experienced(group)
    for session in ("s1", "s2", "s3"):
        save([*chain(group, session, "search", "mail"), end(group, session)])
    run()
    save([feedback(group, artifacts(group)[0].id)])
    run()


def test_a_skill_goes_with_the_memory_that_it_rests_on_and_an_agent_with_all_that_it_grew(group: str) -> None:
    grown(group)
    assert all(count(group, table) for table in TABLES)
    [skill] = artifacts(group)
    erase(group, node_ids=[skill.evidence[0]])
    assert artifacts(group) == []
    assert len(artifacts(group, "pipeline")) == 1
    erase(group, agent_id=AGENT)
    assert {table: count(group, table) for table in TABLES} == dict.fromkeys(TABLES, 0)


def test_a_person_goes_from_steps_patterns_and_skills(group: str) -> None:
    name = f"Maria Quill{uuid4().hex[:8]}"
    experienced(group, pain=f"{name} cannot print on the second tray")
    for session in ("s1", "s2", "s3"):
        save(
            [
                *chain(group, session, "search", "mail", request=f"find the invoice of {name}"),
                end(group, session),
            ]
        )
    save([step(group, 50, "generation", "s9", output=f"said to {name}")])
    run()
    save([feedback(group, artifacts(group)[0].id, comment=f"{name} liked it")])
    run()
    report = erase(group, person=name)
    assert set(TABLES) <= set(report["looked_through"]["tables"])
    assert places(name, group=group) == []
