"""The chain takes down appointments, and changes nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from jiyi.chat.appointments import ScheduleStage
from jiyi.chat.chain import Chain, Exchange
from jiyi.protocol.appointments.schedules import AskedSchedules


class Scheduling:
    def __init__(self, confirmation: str | None = "好的，已记下") -> None:
        self.asked: list[tuple[str, str, Any]] = []
        self.confirmation = confirmation

    def schedule(
        self, agent_id: str, text: str, *, tz: str | None = None, session_id: str | None = None, timeout: float | None = None
    ) -> AskedSchedules:
        self.asked.append((agent_id, text, session_id))
        return AskedSchedules(certainty="exact", confirmation=self.confirmation)


def test_zc_95_what_asks_for_an_appointment_is_taken_down_and_confirmed() -> None:
    scheduling = Scheduling()
    found = Chain([ScheduleStage(scheduling)]).before(Exchange("小伴", "You are kind.", "每天早上9点提醒我查房", "s"))
    assert scheduling.asked == [("小伴", "每天早上9点提醒我查房", "s")]
    assert found.reply == "好的，已记下"
    assert found.system_prompt == 'You are kind.\n\n[schedule] "好的，已记下"'


@pytest.mark.parametrize("said", ["今天天气怎么样", "I get up at 6 every day"])
def test_what_asks_for_nothing_changes_nothing(said: str) -> None:
    exchange = Exchange("小伴", "You are kind.", said)
    found = Chain([ScheduleStage(Scheduling(None))]).before(exchange)
    assert (found.system_prompt, found.reply) == ("You are kind.", None)


@pytest.mark.parametrize("said", ["", " ", "\n"])
def test_what_can_be_no_request_costs_no_call(said: str) -> None:
    scheduling = Scheduling()
    Chain([ScheduleStage(scheduling)]).before(Exchange("小伴", "You are kind.", said))
    assert scheduling.asked == []


def test_a_request_at_the_end_of_a_long_message_is_asked() -> None:
    scheduling = Scheduling()
    Chain([ScheduleStage(scheduling)]).before(Exchange("小伴", "", "What a story. " * 30 + "Remind me tomorrow at 9 to call Tom."))
    assert len(scheduling.asked) == 1


def test_a_service_that_is_away_leaves_the_exchange_as_it_was() -> None:
    class Away:
        def schedule(self, *_: Any, **__: Any) -> AskedSchedules:
            raise OSError("away")

    found = Chain([ScheduleStage(Away())]).before(Exchange("小伴", "You are kind.", "每天早上9点提醒我查房"))
    assert (found.system_prompt, found.reply) == ("You are kind.", None)
    assert ScheduleStage(None).missing() == "schedules"
