"""Cases of the mutations that only workers can do."""

from __future__ import annotations

from typing import Any

from jiyi.protocol.appointments.schedules import AskSchedules
from jiyi.protocol.tiers.knowledge import DigestBody
from models.appointments import schedule_actions
from models.db.connection import unit_of_work
from models.db.scope import for_groups
from models.tiers import actions, digests
from tests.integration.actions.cases import Case
from tests.integration.actions.growth.times import AGENT, scheduled, schedules
from tests.integration.actions.tiers import entry


def digested(group: str, _made: Any) -> list[list[int]]:
    with for_groups(group), unit_of_work() as connection:
        return [[len(item.entry_ids) for item in one.items] for one in digests.listed(connection, group, limit=10)]


CANCELS = "查房的提醒取消吧"

CASES = (
    Case(
        action=schedule_actions.ask, prepare=scheduled, request=lambda _made: AskSchedules(agent_id=AGENT, text=CANCELS), effect=schedules
    ),
    Case(action=actions.make_digest, prepare=entry, request=lambda _made: DigestBody(days=7), effect=digested),
)
