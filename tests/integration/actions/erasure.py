"""Cases of erasure's actions."""

from __future__ import annotations

from models.erasure.actions import request_erasure
from tests.integration.actions.cases import MADE, case
from tests.integration.actions.memory import AGENT, remembered

PERSON = {"person": "Maria Lopez", "aliases": ["玛丽亚"], "delete_backups": True}
CASES = (
    case(request_erasure, remembered, {"agent_id": AGENT}, "agent"),
    case(request_erasure, remembered, PERSON, "person"),
    case(request_erasure, remembered, {"node_ids": [MADE]}, "nodes"),
)
