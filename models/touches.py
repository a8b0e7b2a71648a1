"""Recent accesses of one agent's memories, told to all retrieval workers at once (the database follows a second later)."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import cast
from uuid import UUID

from models import keys
from models.valkey import valkey

#: Entries kept for an agent: a worker that was away for longer catches up from the database.
KEPT = 1_000
#: Seconds after which an agent that nobody asks is forgotten here.
FORGOTTEN_AFTER = 3_600
#: A new reader looks this far back, beyond what the database may not know yet. Seconds.
LOOK_BACK = 60


def tell(group_id: str, agent_id: str, node_ids: Sequence[UUID], at: float) -> None:
    """The memories were accessed at ``at`` (epoch seconds, maybe simulated)."""
    key = keys.touched(group_id, agent_id)
    entry = json.dumps({"at": at, "ids": [str(node_id) for node_id in node_ids]})
    with valkey().pipeline(transaction=False) as pipe:
        pipe.xadd(key, {"touch": entry}, maxlen=KEPT, approximate=True)
        pipe.expire(key, FORGOTTEN_AFTER)
        pipe.execute()


class Cursor:
    """One reader's place in an agent's accesses."""

    def __init__(self, group_id: str, agent_id: str) -> None:
        self._key = keys.touched(group_id, agent_id)
        self._place = f"{int((time.time() - LOOK_BACK) * 1000)}-0"

    def read(self) -> list[tuple[UUID, float]]:
        """What is new since the last call."""
        found: list[tuple[UUID, float]] = []
        news = cast("list[tuple[bytes, dict[bytes, bytes]]]", valkey().xrange(self._key, min=f"({self._place}"))
        for place, fields in news:
            self._place = place.decode()
            entry = json.loads(fields[b"touch"])
            found.extend((UUID(node_id), entry["at"]) for node_id in entry["ids"])
        return found
