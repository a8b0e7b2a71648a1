"""One memory with everything around it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from models import overview
from web.sources import attempt, from_database, reading, source

#: Evidence, and memories resting on one, that a page shows.
MAX_LINKED = 100


def one(group_id: str, node_id: UUID) -> dict[str, Any] | None:
    """The memory, its evidence or its conversation, and what rests on it; None if there is none."""

    def question(connection: Connection) -> dict[str, Any] | None:
        node = overview.node(connection, group_id, node_id)
        if node is None:
            return None
        filling = node.pop("filling")
        ids = _ids(filling)
        return {
            "group": group_id,
            "groups": overview.groups(connection),
            "node": node,
            "utterances": [{"speaker": str(entry[0]), "text": str(entry[1])} for entry in filling if _is_utterance(entry)],
            "evidence": overview.brief_nodes(connection, group_id, ids[:MAX_LINKED]),
            "evidence_count": len(ids),
        }

    found = from_database(question)
    if found is None:
        return None
    agent_id = found["node"]["agent_id"]

    def rests(connection: Connection) -> list[dict[str, Any]]:
        return overview.resting_on(connection, group_id, agent_id, node_id, MAX_LINKED)

    # By itself, because it looks through all later memories: too many of them must not cost the page.
    resting = attempt(source("database").begin(reading(rests)))
    return {**found, "resting": resting.value, "resting_unknown": resting.reason or None}


def _is_utterance(entry: Any) -> bool:
    return isinstance(entry, list) and len(entry) == 2


def _ids(filling: list[Any]) -> list[UUID]:
    ids = []
    for entry in filling:
        if isinstance(entry, str):
            try:
                ids.append(UUID(entry))
            except ValueError:
                continue
    return list(dict.fromkeys(ids))
