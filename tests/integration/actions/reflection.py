"""Cases of the actions on reflections."""

from __future__ import annotations

from jiyi.protocol.base import OfAgent
from models.reflection import actions
from tests.integration.actions.cases import Case
from tests.integration.actions.memory import AGENT, remembered

CASES = (
    Case(
        action=actions.request_reflection, prepare=remembered, request=lambda _made: OfAgent(agent_id=AGENT)
    ),
)
