"""Cases of the mutations that only workers can do."""

from __future__ import annotations

from models.appointments import schedule_actions
from models.tiers import actions
from tests.integration.actions.cases import case
from tests.integration.actions.growth.times import AGENT, scheduled
from tests.integration.actions.tiers import entry

CASES = (
    case(schedule_actions.ask, scheduled, {"agent_id": AGENT, "text": "查房的提醒取消吧"}),
    case(actions.make_digest, entry, {"days": 7}),
)
