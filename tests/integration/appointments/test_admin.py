"""The admin's pages of appointments and heartbeats: runs, the box to try, alerts; none of another group."""

from __future__ import annotations

from typing import Any

import pytest
from werkzeug.test import TestResponse

from jiyi.protocol.appointments import CreateSchedule
from jiyi.protocol.base import OfAgent
from jiyi.protocol.growth import ReportPain
from models.appointments import heartbeat_actions, schedule_actions
from models.db.actions import Actor
from models.growth.pain_actions import report_pain
from tests.integration.conftest import Browser, SignIn

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")

AGENT, SCHEDULES, HEARTBEATS = "小伴", "/growth/schedules", "/growth/heartbeats"


@pytest.fixture
def scheduled(group: str) -> str:
    """The id of a schedule of the group."""
    asked = CreateSchedule(agent_id=AGENT, text="每天早上9点提醒我查房")
    made = schedule_actions.create_schedule.perform(Actor(group, "test"), asked)
    assert made.schedule is not None
    return str(made.schedule.id)


def got(browser: Browser, group: str, path: str, *texts: str, status: int = 200, **query: str) -> str:
    page = browser.get(path, query_string={"group": group, **query})
    assert page.status_code == status
    assert [text for text in texts if text not in page.text] == []
    return page.text


def sent(browser: Browser, group: str, path: str, status: int = 303, **form: str) -> TestResponse:
    answer = browser.post(path, query_string={"group": group}, data=form)
    assert answer.status_code == status
    return answer


def test_a_viewer_sees_appointments_tries_a_sentence_and_changes_nothing(
    group: str, scheduled: str, sign_in: SignIn
) -> None:
    browser = sign_in("viewer", groups=[group])
    got(browser, group, SCHEDULES, "查房", "每天早上9点", scheduled)
    got(browser, group, f"{SCHEDULES}/{scheduled}", "0 9 * * *")
    tried = {"text": "每天3点提醒我喝水", "tz": "Asia/Shanghai"}
    got(browser, group, SCHEDULES, "0 15 * * *", "0 3 * * *", "喝水", "ambiguous", **tried)
    got(browser, group, SCHEDULES, status=400, **tried | {"tz": "Mars/Olympus"})
    for path in (f"{SCHEDULES}/{scheduled}/delete", f"{SCHEDULES}/{scheduled}", SCHEDULES):
        sent(browser, group, path, 403)
    found: Any = browser.get(f"{SCHEDULES}.json", query_string={"group": group}).json
    assert [len(row["next_runs"]) for row in found["schedules"]] == [3], "a sentence is only tried"
    stranger = sign_in("viewer", groups=[f"{group}-other"])
    assert stranger.get(f"{SCHEDULES}/{scheduled}").status_code in (403, 404)
    assert "查房" not in stranger.get(SCHEDULES).text


def test_appointments_are_added_as_one_of_their_readings_and_changed(
    group: str, scheduled: str, sign_in: SignIn
) -> None:
    browser, said = sign_in("admin", [group]), "remind me every day at 9 to water the plants"
    page = got(browser, group, SCHEDULES, agent=AGENT, text=said)
    assert page.count(f'action="{SCHEDULES}?') == 2  # at 9 and at 21 o'clock
    form = {"agent": AGENT, "kind": "cron", "cron": "0 9 * * *", "tz": "UTC", "task": "water the plants"}
    assert "water the plants" in browser.get(sent(browser, group, SCHEDULES, **form).location).text
    path, form = f"{SCHEDULES}/{scheduled}", {"tz": "Asia/Shanghai", "task": "查房、换药"}
    changed = sent(browser, group, path, text="每天早上10点半", **form).location
    page = browser.get(changed).text
    assert all(text in page for text in ("30 10 * * *", "查房、换药", "Asia/Shanghai"))
    unread = sent(browser, group, path, 400, text="some day", from_page=changed, **form)
    assert "some day" in unread.text, "what was typed is kept"


def test_a_heartbeat_is_given_and_changed_and_what_it_has_to_say_is_shown(
    group: str, sign_in: SignIn
) -> None:
    browser, who = sign_in("admin", [group]), Actor(group, "test")
    form = {"agent": AGENT, "enabled": "true", "interval_minutes": "45", "tz": "UTC"}
    made = sent(browser, group, HEARTBEATS, **form, quiet_start="23:00", quiet_end="07:00").location
    assert "23:00–07:00" in browser.get(made).text
    sent(browser, group, HEARTBEATS, 400, **form | {"interval_minutes": "0"})
    sent(browser, group, HEARTBEATS, agent=AGENT)
    assert "23:00" not in browser.get(made).text  # no quiet hours
    sent(browser, group, HEARTBEATS, **form)
    report_pain.perform(who, ReportPain(agent_id=AGENT, summary="窑总是烧不热"))
    heartbeat_actions.tick_heartbeat.perform(who, OfAgent(agent_id=AGENT))
    viewer = sign_in("viewer", groups=[group])
    got(viewer, group, HEARTBEATS, AGENT, "窑总是烧不热")
    got(viewer, group, f"{HEARTBEATS}/{AGENT}", "pain points")
