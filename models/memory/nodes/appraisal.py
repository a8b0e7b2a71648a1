"""Memories whose events lacked something that the LLM is asked for: read, and written as if the events had brought it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection, bindparam, text
from sqlalchemy.dialects.postgresql import JSONB

from engine.memory.appraisal import Appraisal, Unappraised
from jiyi.protocol.agents import AgentSettings
from jiyi.protocol.events.content import APPRAISED
from models.memory.ingestion.inbox import owed_when_complete
from models.memory.nodes import nodes
from models.queue import pending_work

#: Where a memory's provenance says who answered what.
PROVENANCE_KEY = APPRAISED


@dataclass(frozen=True, slots=True)
class PendingAppraisal:
    """A memory that owes its appraisal, and the settings of its agent."""

    group_id: str
    memory: Unappraised
    settings: AgentSettings


def load(connection: Connection, node_ids: Sequence[UUID]) -> dict[UUID, PendingAppraisal]:
    return {
        row.node_id: PendingAppraisal(
            row.group_id,
            Unappraised(
                agent_id=row.agent_id,
                node_type=row.type,
                description=row.description,
                embedding_key=row.embedding_key,
                subject=row.subject,
                predicate=row.predicate,
                object=row.object,
                keywords=row.keywords if row.brought_keywords else None,
                poignancy=row.poignancy,
                is_idle=row.is_idle,
            ),
            AgentSettings(**row.settings),
        )
        for row in connection.execute(_LOAD, {"ids": list(node_ids)})
    }


def write(connection: Connection, waiting: Mapping[UUID, PendingAppraisal], appraisals: Mapping[UUID, Appraisal]) -> set[str]:
    """Write the values, and owe what had to wait for them; returns the kinds of work that are owed."""
    if not appraisals:
        return set()
    rows = [
        {
            "id": node_id,
            "subject": made.subject,
            "predicate": made.predicate,
            "object": made.object,
            "keywords": made.keywords,
            "lower": [keyword.lower() for keyword in made.keywords],
            "poignancy": made.poignancy,
            "is_idle": made.is_idle,
            "note": {PROVENANCE_KEY: made.asked} if made.asked else {},
        }
        for node_id, made in appraisals.items()
    ]
    nodes.lock(connection, list(appraisals))
    connection.execute(_WRITE, rows)
    due: dict[str, list[tuple[UUID, str]]] = defaultdict(list)
    for node_id, made in appraisals.items():
        node = waiting[node_id]
        for kind in owed_when_complete(node.memory.node_type, made.keywords, made.predicate, made.object):
            due[kind].append((node_id, node.group_id))
    for kind, subjects in due.items():
        pending_work.enqueue(connection, kind, subjects)
    return set(due)


# Only an event says whether the keywords are its own or were taken from its text.
_LOAD = text("""
    SELECT n.node_id, n.group_id, n.agent_id, n.type, n.description, n.embedding_key, n.subject, n.predicate, n.object,
        n.keywords, coalesce(e.payload ? 'keywords', true) AS brought_keywords, n.poignancy, n.is_idle, a.settings
    FROM memory_nodes n JOIN agents a USING (group_id, agent_id) LEFT JOIN events e ON e.event_id = n.node_id AND e.group_id = n.group_id
    WHERE n.node_id = ANY(:ids) ORDER BY n.group_id, n.agent_id, n.node_count
""")
_WRITE = text("""
    UPDATE memory_nodes SET subject = :subject, predicate = :predicate, object = :object, keywords = :keywords,
        keywords_lower = :lower, poignancy = :poignancy, is_idle = :is_idle, provenance = provenance || :note,
        changed_xid = pg_current_xact_id()
    WHERE node_id = :id
""").bindparams(bindparam("note", type_=JSONB))
