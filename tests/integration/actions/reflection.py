"""Cases of the actions on reflections."""

from __future__ import annotations

from models.reflection import actions
from tests.integration.actions.cases import case
from tests.integration.actions.memory import AGENT, remembered

CASES = (case(actions.request_reflection, remembered, {"agent_id": AGENT}),)
