"""The running service: thirty days of the example, through the loop and the client."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from examples import growth
from jiyi import Client
from tests.integration.growth.fast_clock import keep_time


@pytest.mark.long
@pytest.mark.timeout(600)
def test_thirty_days_of_the_example(client: Client) -> None:
    found = growth.run(client)
    assert found["days"] == 30
    assert found["skill_accepted"] == {
        "name": "Handle: The nightly build keeps failing on CI.",
        "enabled": True,
        "trust": 0.86,
    }
    assert "orders to the model" in found["skill_refused"]["issues"][0]
    assert found["workflow_run"]["completed"]
    assert found["workflow_run"]["mailed"] == ["invoice 31"]
    assert (found["pain"]["status"], bool(found["experience"])) == ("solved", True)
    assert found["identity"] == {"version": 3, "content": "I am helpful and brief.", "rolled_back": True}


@pytest.mark.long
def test_days_of_a_fast_clock_have_each_reminder_once_and_no_alert_in_quiet_hours() -> None:
    counted = keep_time(datetime(2026, 3, 1, tzinfo=UTC), days=3)
    assert (counted["runs"], counted["fired_twice"], counted["alerts_in_quiet_hours"]) == (3, 0, 0)
    assert counted["alerts"] > 0
