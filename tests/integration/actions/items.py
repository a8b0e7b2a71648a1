"""Cases of the actions on items."""

from __future__ import annotations

from models.items import actions
from tests.integration.actions.cases import case, nothing

PLACE = {"namespace": ["users", "mia"], "key": "tea"}
ITEM = {**PLACE, "value": {"text": "乌龙"}, "texts": ["Mia drinks oolong, 乌龙茶。"], "ttl_minutes": 60}
CASES = (case(actions.put_items, nothing, {"items": [ITEM]}),)
