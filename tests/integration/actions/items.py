"""Cases of the actions on items."""

from __future__ import annotations

from typing import Any

from sqlalchemy import text

from jiyi.protocol.items import PutItems
from models.db.connection import unit_of_work
from models.items import actions
from tests.integration.actions.cases import Case

ITEM = {"namespace": ["users", "mia"], "key": "tea", "value": {"text": "乌龙"}, "texts": ["Mia drinks oolong, 乌龙茶。"], "ttl_minutes": 60}


def items(group: str, _made: Any) -> list[Any]:
    with unit_of_work() as connection:
        return [tuple(row) for row in connection.execute(_ITEMS, {"group": group})]


CASES = (
    Case(
        action=actions.put_items,
        prepare=lambda _group: None,
        request=lambda _made: PutItems.model_validate({"items": [ITEM]}),
        effect=items,
    ),
)
_ITEMS = text("""
    SELECT i.namespace, i.key, i.value, i.ttl_minutes, t.content, p.kind FROM items i JOIN item_texts t USING (item_id)
        LEFT JOIN pending_work p ON p.subject_id = i.item_id AND p.group_id = i.group_id
    WHERE i.group_id = :group
""")
