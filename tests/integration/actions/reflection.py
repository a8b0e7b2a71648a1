"""Cases of the actions on reflections."""

from __future__ import annotations

from typing import Any

from jiyi.protocol.reflection import ReflectRequest
from models.reflection import actions
from tests.integration.actions.cases import Case
from tests.integration.actions.memory import AGENT, remembered
from tests.integration.memory.test_inbox import owed, rows


def asked(group: str, _made: Any) -> list[Any]:
    kinds = sorted(kind for kind, _ in owed(group))
    return [kinds, *rows("SELECT agent_id, trigger, state FROM reflections WHERE group_id = :g", g=group)]


CASES = (Case(action=actions.request_reflection, prepare=remembered, request=lambda _made: ReflectRequest(agent_id=AGENT), effect=asked),)
