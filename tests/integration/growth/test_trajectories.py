"""Steps as they come, and the trajectories and workflows that come of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from models.db.connection import unit_of_work
from models.growth.trajectories import COMPRESS, SILENCE_MINUTES, latest_trajectories
from models.operations import numbers
from tests.integration.conversations.talk import turn
from tests.integration.growth.growing import AGENT, START, artifacts, chain, end, owed, run, save, step
from tests.integration.growth.living import rows

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")


def trajectories(group: str) -> list[dict[str, Any]]:
    """Oldest first."""
    with unit_of_work() as connection:
        return latest_trajectories(connection, group, AGENT, 50)[::-1]


def raw_steps(group: str, session_id: str = "s1") -> list[dict[str, Any]]:
    steps = "SELECT * FROM trajectory_events WHERE group_id = :g AND session_id = :s"
    return rows(f"{steps} ORDER BY step_index, event_id", g=group, s=session_id)


def stored_steps(group: str, session_id: str = "s1") -> list[int]:
    return [row["step_index"] for row in raw_steps(group, session_id)]


def test_the_end_of_a_session_compresses_it_at_once(group: str) -> None:
    save([end(group, "without-steps")])
    assert owed(COMPRESS) == []
    save([*chain(group, "s1", "search", "mail"), end(group)])
    run()
    [one] = trajectories(group)
    assert (one["steps"], one["tools_used"], one["outcome"], one["satisfaction"]) == (
        6,
        ["search", "mail"],
        "success",
        "neutral",
    )
    assert [link.get("tool") for link in one["execution_chain"]] == [None, "search", "mail", None]
    assert owed(COMPRESS) == []


def test_silence_compresses_and_nothing_before_it(group: str) -> None:
    save(chain(group, "s1", "search"))
    [work] = owed(COMPRESS)
    assert work["due_at"] > datetime.now(UTC) + timedelta(minutes=SILENCE_MINUTES - 1)
    assert run() == 0
    age(group, minutes=31)
    run()
    assert len(trajectories(group)) == 1


def test_compaction_compresses_what_came_before(group: str) -> None:
    save(chain(group, "s1", "search"))
    save([step(group, 10, "user_request", input="and now?", compacted=True)])
    run()
    [one] = trajectories(group)
    assert one["steps"] == 4
    assert len(owed(COMPRESS)) == 1  # the rest waits
    save([step(group, 11, "generation", output="done"), end(group)])
    run()
    assert [one["steps"] for one in trajectories(group)] == [4, 2]


def test_steps_out_of_order_and_told_twice_are_put_in_order_each_once(group: str) -> None:
    events = chain(group, "s1", "search", "mail")
    for one in reversed(events):
        save([one])
    save(events)
    save([events[0].model_copy(update={"event_id": chain(group, "s1", "search")[0].event_id}), end(group)])
    run()
    [one] = trajectories(group)
    assert [link.get("tool") for link in one["execution_chain"]] == [None, "search", "mail", None]
    assert one["steps"] == 6
    assert sorted(set(stored_steps(group))) == list(range(6))


def test_secrets_are_masked_before_they_are_stored(group: str) -> None:
    save([step(group, 0, "user_request", input="my password is Hunter2!x " + "long " * 1_000)])
    [found] = raw_steps(group)
    assert "Hunter2" not in found["input_summary"]
    assert len(found["input_summary"]) == 200
    assert "Hunter2" not in str(rows("SELECT payload FROM events WHERE group_id = :g", g=group))


def test_old_steps_are_pruned_and_their_trajectory_stays(group: str) -> None:
    save([*chain(group, "s1", "search"), end(group)])
    run()
    age(group, minutes=8 * 24 * 60)
    week = datetime.now(UTC) - timedelta(days=7)
    with unit_of_work() as connection:
        assert numbers.delete_old(connection, "trajectory_events", week, 1_000) >= 4
    assert stored_steps(group) == []
    assert len(trajectories(group)) == 1


def test_three_runs_in_two_sessions_become_a_workflow_and_runs_that_failed_none(group: str) -> None:
    for session in ("s3", "s4", "s5"):
        save([*chain(group, session, "look", "send", ok=False), end(group, session)])
    save([*chain(group, "s1", "search", "mail"), end(group, "s1")])
    run()
    save([*chain(group, "s1", "search", "mail", start=10), end(group, "s1")])
    run()
    assert artifacts(group, "pipeline") == []
    save([*chain(group, "s2", "search", "mail"), end(group, "s2")])
    run()
    [workflow] = artifacts(group, "pipeline")
    assert (workflow.status, workflow.enabled, workflow.tools) == ("pending", False, ["search", "mail"])
    assert set(workflow.evidence) == {one["id"] for one in trajectories(group) if one["outcome"] == "success"}


def test_a_workflow_has_no_words_and_no_inputs_of_what_was_said_in_private(group: str) -> None:
    for session, asked in (("s1", "mail my doctor"), ("s2", "mail the office"), ("s3", "mail the office")):
        user = {"user_id": "zoe"} if session == "s1" else {}
        save([turn(group, asked, session_id=session, occurred_at=START, **user)])
        save([*chain(group, session, "search", "mail", request=asked), end(group, session)])
    run()
    [workflow] = artifacts(group, "pipeline")
    assert workflow.triggers == ["mail the office"]
    assert "doctor" not in workflow.body + workflow.description
    assert "with search" not in workflow.body


def age(group: str, minutes: float) -> None:
    """As if everything had come so much earlier."""
    earlier = "received_at = received_at - make_interval(mins => :m)"
    for change in (f"trajectory_events SET {earlier}", "pending_work SET due_at = now()"):
        rows(f"UPDATE {change} WHERE group_id = :g RETURNING :m", g=group, m=minutes)
