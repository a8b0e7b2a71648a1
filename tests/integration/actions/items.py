"""Cases of the actions on items."""

from __future__ import annotations

from jiyi.protocol.items import PutItems
from models.items import actions
from tests.integration.actions.cases import Case

ITEM = {
    "namespace": ["users", "mia"],
    "key": "tea",
    "value": {"text": "乌龙"},
    "texts": ["Mia drinks oolong, 乌龙茶。"],
    "ttl_minutes": 60,
}


CASES = (
    Case(
        action=actions.put_items,
        prepare=lambda _group: None,
        request=lambda _made: PutItems.model_validate({"items": [ITEM]}),
    ),
)
