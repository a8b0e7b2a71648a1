"""The chain takes down appointments, and changes nothing else."""

from __future__ import annotations

from unittest.mock import Mock, create_autospec

import pytest

from jiyi.chat.appointments import ScheduleStage, Scheduling
from jiyi.chat.chain import Chain, Exchange
from jiyi.protocol.appointments.schedules import AskedSchedules


def found(said: str, answer: str | Exception | None) -> tuple[Exchange, Mock]:
    """The exchange after the stage, whose service answers so."""
    scheduling: Mock = create_autospec(Scheduling, instance=True)
    scheduling.schedule.side_effect = [answer if isinstance(answer, Exception) else AskedSchedules(certainty="exact", confirmation=answer)]
    return Chain([ScheduleStage(scheduling)]).before(Exchange("小伴", "You are kind.", said, "s")), scheduling.schedule


@pytest.mark.parametrize("said", ["每天早上9点提醒我查房", "What a story. " * 30 + "Remind me tomorrow at 9 to call Tom."])
def test_zc_95_what_asks_for_an_appointment_is_taken_down_and_confirmed(said: str) -> None:
    exchange, asked = found(said, "好的，已记下")
    assert asked.call_args.args == ("小伴", said)
    assert asked.call_args.kwargs["session_id"] == "s"
    assert exchange.reply == "好的，已记下"
    assert exchange.system_prompt == 'You are kind.\n\n[schedule] "好的，已记下"'


@pytest.mark.parametrize(
    ("said", "answer", "calls"),
    [
        ("I get up at 6 every day", None, 1),
        ("每天早上9点提醒我查房", OSError("away"), 1),
        *((nothing, "asked", 0) for nothing in ("", " ", "\n")),
    ],
)
def test_what_asks_for_nothing_or_of_a_service_that_is_away_changes_nothing(said: str, answer: str | Exception | None, calls: int) -> None:
    exchange, asked = found(said, answer)
    assert (exchange.system_prompt, exchange.reply) == ("You are kind.", None)
    assert asked.call_count == calls
    assert ScheduleStage(None).missing() == "schedules"
