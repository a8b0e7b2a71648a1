"""Cases of the mutations that only workers can do."""

from __future__ import annotations

from jiyi.protocol.appointments import AskSchedules
from jiyi.protocol.knowledge import DigestBody
from models.appointments import schedule_actions
from models.tiers import actions
from tests.integration.actions.cases import Case
from tests.integration.actions.growth.times import AGENT, scheduled
from tests.integration.actions.tiers import entry

CANCELS = "查房的提醒取消吧"

CASES = (
    Case(
        action=schedule_actions.ask,
        prepare=scheduled,
        request=lambda _made: AskSchedules(agent_id=AGENT, text=CANCELS),
    ),
    Case(action=actions.make_digest, prepare=entry, request=lambda _made: DigestBody(days=7)),
)
