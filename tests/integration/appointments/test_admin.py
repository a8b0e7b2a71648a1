"""The admin's pages of appointments and heartbeats: runs, the box to try, alerts; none of another group."""

from __future__ import annotations

from typing import Any

import pytest

from jiyi.protocol.appointments import CreateSchedule
from jiyi.protocol.base import OfAgent
from jiyi.protocol.growth import ReportPain
from models.appointments import heartbeat_actions, schedule_actions
from models.db.actions import Actor
from models.growth.pain_actions import report_pain
from tests.integration.conftest import SignIn

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")

AGENT = "小伴"


@pytest.fixture
def scheduled(group: str) -> str:
    """The id of a schedule of the group."""
    made = schedule_actions.create_schedule.perform(
        Actor(group, "test"), CreateSchedule(agent_id=AGENT, text="每天早上9点提醒我查房")
    )
    assert made.schedule is not None
    return str(made.schedule.id)


@pytest.fixture
def beating(group: str) -> str:
    """The group of an agent that has something to say."""
    who = Actor(group, "test")
    heartbeat_actions.configure_heartbeat.perform(
        who, heartbeat_actions.configure_heartbeat.request(agent_id=AGENT, enabled=True, quiet_hours=None)
    )
    report_pain.perform(who, ReportPain(agent_id=AGENT, summary="窑总是烧不热"))
    heartbeat_actions.tick_heartbeat.perform(who, OfAgent(agent_id=AGENT))
    return group


def test_a_viewer_sees_appointments_tries_a_sentence_and_changes_nothing(
    group: str, scheduled: str, sign_in: SignIn
) -> None:
    browser = sign_in("viewer", groups=[group])
    page = browser.get("/growth/schedules", query_string={"group": group})
    assert page.status_code == 200
    for text in ("查房", "每天早上9点", scheduled):
        assert text in page.text, text
    one = browser.get(f"/growth/schedules/{scheduled}", query_string={"group": group})
    assert one.status_code == 200
    assert "0 9 * * *" in one.text
    page = browser.get(
        "/growth/schedules", query_string={"group": group, "text": "每天3点提醒我喝水", "tz": "Asia/Shanghai"}
    )
    assert page.status_code == 200
    for text in ("0 15 * * *", "0 3 * * *", "喝水", "ambiguous"):
        assert text in page.text, text
    wrong = browser.get(
        "/growth/schedules", query_string={"group": group, "text": "每天3点提醒我", "tz": "Mars/Olympus"}
    )
    assert wrong.status_code == 400
    refused = browser.post(f"/growth/schedules/{scheduled}/delete", query_string={"group": group})
    assert refused.status_code == 403
    found: Any = browser.get("/growth/schedules.json", query_string={"group": group}).json
    assert [len(row["next_runs"]) for row in found["schedules"]] == [3], (
        "a sentence that is tried stores nothing"
    )
    stranger = sign_in("viewer", groups=[f"{group}-other"])
    assert stranger.get(f"/growth/schedules/{scheduled}").status_code in (403, 404)
    assert "查房" not in stranger.get("/growth/schedules").text


def test_heartbeats_and_what_they_have_to_say(beating: str, sign_in: SignIn) -> None:
    browser = sign_in("viewer", groups=[beating])
    page = browser.get("/growth/heartbeats", query_string={"group": beating})
    assert page.status_code == 200
    assert AGENT in page.text
    assert "窑总是烧不热" in page.text
    one = browser.get(f"/growth/heartbeats/{AGENT}", query_string={"group": beating})
    assert one.status_code == 200
    assert "pain points" in one.text


def test_an_appointment_is_added_on_its_page_as_one_of_its_readings(group: str, sign_in: SignIn) -> None:
    browser = sign_in("admin", [group])
    page = browser.get(
        "/growth/schedules",
        query_string={"group": group, "agent": AGENT, "text": "remind me every day at 9 to water the plants"},
    )
    assert page.text.count('action="/growth/schedules?') == 2  # at 9 and at 21 o'clock
    form = {"agent": AGENT, "kind": "cron", "cron": "0 9 * * *", "tz": "UTC", "task": "water the plants"}
    made = browser.post("/growth/schedules", query_string={"group": group}, data=form)
    assert made.status_code == 303
    assert "water the plants" in browser.get(made.location).text
    viewer = sign_in("viewer", [group])
    assert viewer.post("/growth/schedules", query_string={"group": group}, data=form).status_code == 403


def test_a_heartbeat_is_given_and_changed_on_its_page(group: str, sign_in: SignIn) -> None:
    browser = sign_in("admin", [group])
    form = {"agent": AGENT, "enabled": "true", "interval_minutes": "45", "tz": "UTC"}
    form |= {"quiet_start": "23:00", "quiet_end": "07:00"}
    made = browser.post("/growth/heartbeats", query_string={"group": group}, data=form)
    assert made.status_code == 303
    assert "23:00–07:00" in browser.get(made.location).text
    wrong = browser.post(
        "/growth/heartbeats", query_string={"group": group}, data={**form, "interval_minutes": "0"}
    )
    assert wrong.status_code == 400
    silent = browser.post("/growth/heartbeats", query_string={"group": group}, data={"agent": AGENT})
    assert silent.status_code == 303
    assert "23:00" not in browser.get(made.location).text  # no quiet hours


def test_an_appointment_is_changed_on_its_page(beating: str, scheduled: str, sign_in: SignIn) -> None:
    browser, where = sign_in("admin", [beating]), {"group": beating}
    form = {"text": "每天早上10点半", "tz": "Asia/Shanghai", "task": "查房、换药"}
    changed = browser.post(f"/growth/schedules/{scheduled}", query_string=where, data=form)
    assert changed.status_code == 303
    page = browser.get(changed.location).text
    assert all(text in page for text in ("30 10 * * *", "查房、换药", "Asia/Shanghai"))
    unread = browser.post(
        f"/growth/schedules/{scheduled}",
        query_string=where,
        data={**form, "text": "some day", "from_page": changed.location},
    )
    assert unread.status_code == 400
    assert "some day" in unread.text, "what was typed is kept"
    viewer = sign_in("viewer", [beating])
    assert viewer.post(f"/growth/schedules/{scheduled}", query_string=where, data=form).status_code == 403
