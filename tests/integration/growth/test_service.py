"""The running service: thirty days of the example, through the loop and the client."""

from __future__ import annotations

import pytest

from examples import growth
from jiyi import Client


@pytest.mark.long
@pytest.mark.timeout(600)
def test_thirty_days_of_the_example(client: Client) -> None:
    found = growth.run(client)
    assert found["days"] == 30
    assert found["skill_accepted"] == {"name": "Handle: The nightly build keeps failing on CI.", "enabled": True, "trust": 0.86}
    assert "orders to the model" in found["skill_refused"]["issues"][0]
    assert found["workflow_run"]["completed"]
    assert found["workflow_run"]["mailed"] == ["invoice 31"]
    assert (found["pain"]["status"], bool(found["experience"])) == ("solved", True)
    assert found["identity"] == {"version": 3, "content": "I am helpful and brief.", "rolled_back": True}
    assert (found["runs"], found["fired_twice"]) == (30, 0)
    assert (found["alerts"] >= 30, found["alerts_in_quiet_hours"]) == (True, 0)
