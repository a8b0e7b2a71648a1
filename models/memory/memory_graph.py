"""An agent's memories and what joins them: what rests on what, what took whose place, and whose they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from uuid import UUID

from pydantic import BaseModel
from sqlalchemy import ColumnElement, Connection, and_, case, func, select

from jiyi.protocol.base import NodeType
from jiyi.protocol.conversations import Kind
from jiyi.protocol.memory import evidence_of
from models.db.rows import columns, fetch
from models.memory.tables import MemoryNode

#: Of so many memories, the newest, those that are joined are looked for.
LOOKED_AT = 2_000
#: Memories and people of a graph at most, and people among them, those with most memories.
MOST, MOST_PEOPLE = 300, 30
#: Characters of a memory that are shown.
SHOWN_CHARS = 200
#: From whom a memory comes: a user, or who is named as speaking.
_PERSON: ColumnElement[str | None] = func.coalesce(
    MemoryNode.user_id,
    case((and_(MemoryNode.kind.is_not(None), MemoryNode.subject != "user"), MemoryNode.subject)),
)


class Joined(BaseModel):
    node_id: UUID
    kind: Kind | None
    #: What it rests on.
    filling: list[object]
    superseded_by: UUID | None
    person: str | None

    @property
    def evidence(self) -> list[UUID]:
        return evidence_of(self.filling)


class GraphMemory(BaseModel):
    """A memory of a graph; ``evidence`` and ``superseded_by`` name only what is in it."""

    node_id: UUID
    node_count: int
    type: NodeType
    kind: Kind | None
    description: str
    created_at: datetime
    person: str | None
    superseded_by: UUID | None
    evidence: list[UUID]


class MemoryGraph(BaseModel):
    """At most :data:`MOST` memories and people; ``people``: name → how many of the memories are theirs."""

    memories: list[GraphMemory]
    people: dict[str, int]
    #: Joined memories among the newest that did not fit.
    left_out: int = 0


def memory_graph(
    connection: Connection, group_id: str, agent_id: str, person: str | None = None, *, turns: bool = False
) -> MemoryGraph:
    """The newest memories that are joined, with what they are joined with, then others of people; but what is
    archived, and turns unless they are asked for.
    """
    node = MemoryNode
    filling = case((node.type == "chat", func.jsonb_build_array()), else_=node.filling)
    candidates = select(*columns(Joined, node, filling=filling, person=_PERSON)).where(
        node.group_id == group_id, node.agent_id == agent_id
    )
    if person is not None:
        candidates = candidates.where(_PERSON.is_not_distinct_from(person))
    newest = candidates.where(node.archived_at.is_(None)).order_by(node.node_count.desc()).limit(LOOKED_AT)
    rows = fetch(connection, Joined, newest)
    drawn = [row for row in rows if turns or row.kind != "session"]
    ids, left_out = choose(drawn, {row.node_id for row in rows} - {row.node_id for row in drawn})
    computed = {
        "description": func.left(node.description, SHOWN_CHARS),
        "person": _PERSON,
        "evidence": func.jsonb_build_array(),
    }
    selection = select(*columns(GraphMemory, node, **computed))
    selection = selection.where(node.group_id == group_id, node.agent_id == agent_id, node.node_id.in_(ids))
    selection = selection.order_by(node.node_count.desc())
    evidence = {row.node_id: row.evidence for row in rows}
    memories = [
        memory for memory in fetch(connection, GraphMemory, selection) if turns or memory.kind != "session"
    ]
    there = {memory.node_id for memory in memories}
    people = dict(Counter(memory.person for memory in memories if memory.person).most_common(MOST_PEOPLE))
    joined = [
        memory.model_copy(
            update={
                "evidence": [each for each in evidence.get(memory.node_id, ()) if each in there],
                "superseded_by": memory.superseded_by if memory.superseded_by in there else None,
                "person": memory.person if memory.person in people else None,
            }
        )
        for memory in memories
    ]
    return MemoryGraph(memories=joined, people=people, left_out=left_out)


def choose(rows: Sequence[Joined], hidden: Iterable[UUID] = ()) -> tuple[list[UUID], int]:
    """Which memories are drawn, and how many that are joined are left out: room for their people is kept."""
    room = MOST - min(MOST_PEOPLE, len({row.person for row in rows if row.person}))
    without, chosen, left_out = set(hidden), dict[UUID, None](), 0
    for row in rows:
        ends = [end for end in (*row.evidence, row.superseded_by) if end is not None and end not in without]
        if not ends:
            continue
        new = [end for end in dict.fromkeys((row.node_id, *ends)) if end not in chosen]
        if len(chosen) + len(new) <= room:
            chosen.update(dict.fromkeys(new))
        else:
            left_out += row.node_id not in chosen
    # Those of somebody first; stable, so the newest of each.
    for row in sorted(rows, key=lambda row: row.person is None):
        if len(chosen) >= room:
            break
        chosen.setdefault(row.node_id)
    return list(chosen), left_out
