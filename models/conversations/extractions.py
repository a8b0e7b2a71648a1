"""Extraction: what it starts from, and what it leaves, stored in one transaction."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, TextClause, text

from engine.conversations.marks import Mark, live, local, marks_of
from engine.conversations.memories import ExtractionSource, event_of, waves
from engine.conversations.standing import SessionTurn, Standing
from engine.providers.questions import KnownFact
from jiyi.errors import BadReply, InvalidEvent
from jiyi.protocol.base import Role
from jiyi.protocol.conversations import CombinedExtraction, ExtractedMemory, Message
from jiyi.protocol.events import Event
from jiyi.protocol.origins import STANDING_TRUST
from jiyi.zones import by_clock
from models.conversations import experiences, follow_ups, injections, standing
from models.conversations.extraction_schedule import EXTRACT
from models.conversations.follow_ups import ExtractionCounts
from models.memory.agents import AgentName, bind_name, lock_agents, time_zone
from models.memory.inbox import store
from models.queue import pending_work

log = logging.getLogger(__name__)
#: Earlier turns of a session that the new ones are understood by.
CONTEXT_TURNS = 6
#: Newest current facts that new turns may supersede, and as many more: so many nearest to each turn.
KNOWN_FACTS, NEAREST_OF_TURN = 40, 5
#: Turns of the user's that new ones may end parts of.
EARLIER_TURNS = 40
#: Newest facts compared with the turns' vectors: some hundredths of a second.
FACTS_COMPARED = 5_000
#: The role of tools' results and documents: no facts of a user are taken from it.
HANDED_OVER: Role = "tool"
#: Recently injected memories, which are not to be extracted again.
INJECTED = 100


#: (session_id, user_id): a session is one user's, whatever other users call theirs.
Session = tuple[str, str | None]


@dataclass(frozen=True, slots=True)
class StoredTurn:
    node_id: UUID
    node_count: int
    session_id: str
    #: In whose conversation with the agent it was said, if it has several users.
    user_id: str | None
    message: Message
    #: What of its text does not stand for itself, and the length of the speaker's name before it.
    marks: Sequence[Mark] = ()
    prefix: int = 0

    def said(self) -> SessionTurn:
        return SessionTurn(self.node_id, self.message, self.session_id, self.marks)


@dataclass(frozen=True, slots=True)
class StoredFact:
    node_id: UUID
    fact: KnownFact


def cursor(connection: Connection, name: AgentName) -> int:
    """``node_count`` of the last processed turn."""
    return connection.execute(_CURSOR, bind_name(name)).scalar_one_or_none() or 0


def move_cursor(connection: Connection, name: AgentName, previous: int, extracted_to: int) -> bool:
    """Move it from ``previous``, and note that there was a run; False if another run has moved it."""
    moved = connection.execute(_MOVE, bind_name(name) | {"seen": previous, "to": extracted_to})
    return moved.rowcount == 1


def new_turns(connection: Connection, name: AgentName, after: int, limit: int) -> list[StoredTurn]:
    """The agent's next turns in the order in which they came."""
    rows = connection.execute(_NEW, bind_name(name) | {"after": after, "limit": limit})
    return as_turns(connection, name, rows)


def turn_again(
    connection: Connection, group_id: str, node_id: UUID
) -> tuple[AgentName, list[StoredTurn]] | None:
    """A turn that is looked at once more, and whose it is; None if it is no longer there."""
    parameters = {"group": group_id, "node": node_id}
    agent_id = connection.execute(_WHOSE, parameters).scalar_one_or_none()
    if agent_id is None:
        return None
    rows = connection.execute(_ONE, parameters | {"agent": agent_id})
    return (group_id, agent_id), as_turns(connection, (group_id, agent_id), rows)


def context_of(
    connection: Connection, name: AgentName, session: Session, before: int, limit: int = CONTEXT_TURNS
) -> list[StoredTurn]:
    """The session's turns right before, oldest first."""
    parameters = {"session": session[0], "user": session[1], "before": before, "limit": limit}
    return as_turns(connection, name, connection.execute(_CONTEXT, bind_name(name) | parameters))[::-1]


def known_facts(
    connection: Connection, name: AgentName, turns: Iterable[UUID] = (), user_id: str | None = None
) -> list[StoredFact]:
    """The user's current preferences and knowledge: the newest, and the nearest to turns.

    Newest first; without what may have ended altogether.
    """
    rows = connection.execute(_KNOWN, _search_parameters(name, user_id, turns, KNOWN_FACTS))
    return [
        StoredFact(
            row.node_id,
            KnownFact(
                content=row.description,
                subject=row.subject,
                attribute=row.predicate,
                single_valued=row.single,
            ),
        )
        for row in rows
        if live(row.description, marks_of(row.provenance))
    ]


def _search_parameters(
    name: AgentName, user_id: str | None, turns: Iterable[UUID], limit: int
) -> Mapping[str, Any]:
    nearest = {"turns": list(turns), "each": NEAREST_OF_TURN, "compared": FACTS_COMPARED}
    return {**bind_name(name), "user": user_id, "limit": limit, **nearest}


def earlier_turns(
    connection: Connection, name: AgentName, turns: Sequence[StoredTurn], user_id: str | None
) -> list[StoredTurn]:
    """The user's own turns before these: the newest, and the nearest to what these say, oldest first."""
    if not turns:
        return []
    parameters = _search_parameters(name, user_id, [turn.node_id for turn in turns], EARLIER_TURNS)
    rows = connection.execute(_EARLIER, {**parameters, "before": turns[0].node_count})
    return as_turns(connection, name, rows)


def said_by(connection: Connection, name: AgentName, user_id: str | None) -> list[StoredTurn]:
    """The user's own latest turns, oldest first."""
    parameters = {**bind_name(name), "user": user_id, "limit": standing.TURNS_SEARCHED}
    return as_turns(connection, name, connection.execute(_SAID_BY, parameters))[::-1]


def injected_lately(connection: Connection, name: AgentName, user_id: str | None) -> list[str]:
    """Contents of memories that were put before the agent's latest answers to the user."""
    parameters = bind_name(name) | {"user": user_id, "limit": INJECTED}
    return list(connection.execute(_INJECTED, parameters).scalars())


def supersede_same_attribute(connection: Connection, name: AgentName, node_id: UUID, now: datetime) -> None:
    """Supersede current memories with the memory's attribute that are older than its last single value.

    Where an attribute has several values (where somebody works, what as), nothing is superseded. A memory
    dated ahead of ``now`` counts as older than every one that is not.
    """
    connection.execute(_SAME_ATTRIBUTE, bind_name(name) | {"node": node_id, "now": now})
    standing.mark_turns(connection, name, [node_id])


def supersede(connection: Connection, name: AgentName, old: Iterable[UUID], node_id: UUID) -> None:
    """The memories, and what was said of them, are no longer so, but for what was said later than the newer
    one.
    """
    ids = [older for older in old if older != node_id]
    if ids:
        connection.execute(_SUPERSEDE, bind_name(name) | {"ids": ids, "by": node_id})
        standing.mark_turns(connection, name, [node_id])


def as_turns(connection: Connection, name: AgentName, rows: Iterable[Row[Any]]) -> list[StoredTurn]:
    """Rows of :data:`_TURN`; times by the speakers' clocks."""
    zone = by_clock(None, time_zone(connection, *name)).tzinfo
    return [_turn(row, zone) for row in rows]


def _turn(row: Row[Any], zone: tzinfo | None) -> StoredTurn:
    node_id, node_count, session_id, user_id, role, name, description, at, trust, provenance = tuple(row)
    spoken = description.removeprefix(f"{name}: ") if name != role else description
    speaks = role if trust >= STANDING_TRUST else HANDED_OVER
    prefix = len(description) - len(spoken)
    message = Message(
        role=speaks, text=spoken, name=None if name == role else name, at=local(at, provenance, zone)
    )
    marks = [replace(mark, start=mark.start - prefix, end=mark.end - prefix) for mark in marks_of(provenance)]
    return StoredTurn(node_id, node_count, session_id, user_id, message, marks, prefix)


def said(turns: Iterable[StoredTurn]) -> list[StoredTurn]:
    """Without what tools and documents say: an LLM that is asked of somebody's words sees nobody else's."""
    return [turn for turn in turns if turn.message.role != HANDED_OVER]


def sessions_of(turns: Sequence[StoredTurn]) -> dict[Session, list[StoredTurn]]:
    """Turns by session, each session's in order."""
    sessions: dict[Session, list[StoredTurn]] = defaultdict(list)
    for turn in turns:
        sessions[turn.session_id, turn.user_id].append(turn)
    return sessions


@dataclass(frozen=True, slots=True)
class Extracted:
    """What was extracted from one session's turns, and ids of the facts that were known at the request."""

    source: ExtractionSource
    extraction: CombinedExtraction
    known_ids: Sequence[UUID]
    #: What the turns do to earlier ones.
    standing: Standing = field(default_factory=Standing)
    #: Why the LLM had no answer to the last of the turns, which the rules looked at.
    refusal: BadReply | None = None


def store_extracted(
    connection: Connection,
    name: AgentName,
    cursor: int | None,
    turns: Sequence[StoredTurn],
    extracted: Sequence[Extracted],
    now: datetime,
) -> None:
    """Store it all and move the cursor; nothing if another run has processed the turns meanwhile.

    A turn that the LLM had no answer to becomes a dead letter: replayed, it is asked about again. ``cursor``:
    the cursor as it was; None for such a turn, which moves nothing.
    """
    # Who stores a turn waits until it is decided what is due next.
    agents = lock_agents(connection, [name])
    if turns and cursor is not None and not move_cursor(connection, name, cursor, turns[-1].node_count):
        return
    memories = 0
    for session in extracted:
        if session.refusal is not None:
            pending_work.give_up(
                connection, EXTRACT, session.source.turn_ids[-1], name[0], str(session.refusal)
            )
        memories += _keep_memories(connection, name, session, now)
        for experience in session.extraction.experiences:
            result = experiences.keep_extracted(connection, name, experience, session.source, now)
            memories += len(result.nodes)
        signals, user_id = session.extraction.profile_signals, session.source.user_id
        injections.update_profile(connection, name, signals, now, user_id)
        standing.keep(connection, name, session.standing, now)
    for user_id in {session.source.user_id for session in extracted}:
        injections.renew_profile(connection, name, user_id, now)
    lived = sum(len(session.extraction.experiences) for session in extracted)
    counts = ExtractionCounts(name, agents[name].agent_key, len(turns), memories, lived)
    follow_ups.extracted(connection, counts)  # last: counts of other subjects


def _event(memory: ExtractedMemory, source: ExtractionSource) -> Event | None:
    """None for what cannot be stored, which must not hold up the others."""
    try:
        return event_of(memory, source)
    except InvalidEvent as error:
        log.warning("a memory that was extracted for %s cannot be stored: %s", source.agent_id, error)
        return None


def _keep_memories(connection: Connection, name: AgentName, session: Extracted, now: datetime) -> int:
    """How many are new."""
    count = 0
    for wave in waves(session.extraction.memories):
        events = [(memory, event) for memory in wave if (event := _event(memory, session.source)) is not None]
        count += len(store(connection, [event for _, event in events]).nodes)
        for memory, event in events:
            ended, earlier = (
                [session.known_ids[number] for number in numbers]
                for numbers in (memory.supersedes, memory.may_end)
            )
            supersede(connection, name, ended, event.event_id)
            standing.mark_earlier(connection, name, earlier, event.event_id)
            if memory.attribute is not None and memory.single_valued:
                supersede_same_attribute(connection, name, event.event_id, now)
    return count


_CURSOR = text("SELECT extracted_to FROM extraction_cursors WHERE group_id = :group AND agent_id = :agent")
_MOVE = text("""
    INSERT INTO extraction_cursors AS c (group_id, agent_id, extracted_to, last_run_at)
    VALUES (:group, :agent, :to, clock_timestamp())
    ON CONFLICT (group_id, agent_id) DO UPDATE SET extracted_to = :to, last_run_at = clock_timestamp()
    WHERE c.extracted_to = :seen
""")
_TURN = """
    n.node_id, n.node_count, n.session_id, n.user_id, n.provenance ->> 'role', n.subject, n.description,
    n.created_at, n.trust, n.provenance
"""
_OF_AGENT = f"""
    SELECT {_TURN} FROM memory_nodes n
    WHERE n.group_id = :group AND n.agent_id = :agent AND n.kind = 'session'
"""  # noqa: S608 – no value
_OF_USER = "n.user_id IS NOT DISTINCT FROM :user"
_HAS_ROLE, _IS_USERS = "n.provenance ->> 'role' IS NOT NULL", "n.provenance ->> 'role' = 'user'"
_NEW = text(f"""
    {_OF_AGENT} AND {_HAS_ROLE} AND n.node_count > :after AND NOT n.provenance ? 'looked_through'
    ORDER BY n.node_count LIMIT :limit
""")
_WHOSE = text(
    "SELECT agent_id FROM memory_nodes WHERE group_id = :group AND node_id = :node AND kind = 'session'"
)
_ONE = text(f"{_OF_AGENT} AND n.node_id = :node")
_CONTEXT = text(f"""
    {_OF_AGENT} AND {_HAS_ROLE} AND n.session_id = :session AND {_OF_USER} AND n.node_count < :before
    ORDER BY n.node_count DESC LIMIT :limit
""")
_SAID_BY = text(f"{_OF_AGENT} AND {_OF_USER} AND {_IS_USERS} ORDER BY n.node_count DESC LIMIT :limit")


def _newest_and_nearest(where: str, columns: str, order: str) -> TextClause:
    """The newest of a user's current memories, and as many more that are nearest to ``:turns``."""
    return text(f"""
        WITH these AS MATERIALIZED (
            SELECT n.node_id, n.node_count, n.embedding, n.embedding_model,
                row_number() OVER (ORDER BY n.node_count DESC) AS place
            FROM memory_nodes n WHERE n.group_id = :group AND n.agent_id = :agent AND {_OF_USER} AND {where}
              AND n.superseded_at IS NULL AND n.archived_at IS NULL
            ORDER BY n.node_count DESC LIMIT :compared
        ), near AS (
            SELECT found.node_id FROM memory_nodes t CROSS JOIN LATERAL (
                SELECT m.node_id, m.embedding <=> t.embedding AS distance FROM these m
                WHERE m.place > :limit AND m.embedding_model = t.embedding_model
                  AND vector_dims(m.embedding) = vector_dims(t.embedding)
                ORDER BY distance LIMIT :each
            ) found
            WHERE t.group_id = :group AND t.agent_id = :agent AND t.node_id = ANY(:turns)
              AND t.embedding IS NOT NULL
            GROUP BY found.node_id ORDER BY min(found.distance) LIMIT :limit
        )
        SELECT {columns} FROM these m JOIN memory_nodes n ON n.group_id = :group AND n.node_id = m.node_id
        WHERE m.place <= :limit OR m.node_id IN (SELECT node_id FROM near)
        ORDER BY {order}
    """)  # noqa: S608 – no value


_KNOWN = _newest_and_nearest(
    "n.kind IN ('preference', 'knowledge')",
    """n.node_id, n.description, n.subject, n.predicate, n.provenance,
    coalesce((n.provenance ->> 'single_valued')::boolean, false) AS single""",
    "n.node_count DESC",
)
_EARLIER = _newest_and_nearest(
    f"n.kind = 'session' AND {_IS_USERS} AND n.node_count < :before", _TURN, "n.node_count"
)
_INJECTED = text("""
    SELECT DISTINCT n.description FROM (
        SELECT unnest(node_ids) AS node_id FROM injections
        WHERE group_id = :group AND agent_id = :agent AND user_id IS NOT DISTINCT FROM :user
        ORDER BY injection_id DESC LIMIT :limit
    ) AS i JOIN memory_nodes n USING (node_id) WHERE n.group_id = :group AND n.kind IS DISTINCT FROM 'session'
""")
# Under the agent's lock. Of equally old ones the one that came last stays.
_SAME_ATTRIBUTE = text("""
    WITH these AS (
        SELECT n.node_id, n.created_at, n.node_count,
            coalesce((n.provenance ->> 'single_valued')::boolean, false) AS single,
            row_number() OVER (ORDER BY n.created_at > :now, n.created_at DESC, n.node_count DESC) AS place
        FROM memory_nodes n JOIN memory_nodes m ON m.group_id = n.group_id AND m.node_id = :node
            AND m.subject = n.subject AND m.predicate = n.predicate
            AND m.user_id IS NOT DISTINCT FROM n.user_id
        WHERE n.group_id = :group AND n.agent_id = :agent
          AND n.kind IN ('preference', 'knowledge') AND n.superseded_at IS NULL AND n.archived_at IS NULL
    ), last AS (SELECT node_id, created_at, place FROM these WHERE single ORDER BY place LIMIT 1)
    UPDATE memory_nodes o
    SET superseded_by = last.node_id, superseded_at = last.created_at, changed_xid = pg_current_xact_id()
    FROM these, last WHERE o.group_id = :group AND o.node_id = these.node_id AND these.place > last.place
""")
_SUPERSEDE = text("""
    UPDATE memory_nodes n
    SET superseded_by = m.node_id, superseded_at = m.created_at, changed_xid = pg_current_xact_id()
    FROM memory_nodes m WHERE n.group_id = :group AND n.agent_id = :agent
      AND n.node_id = ANY(:ids) AND m.group_id = n.group_id AND m.node_id = :by
      AND n.kind <> 'session' AND n.superseded_at IS NULL
      AND (n.created_at <= m.created_at OR n.created_at > clock_timestamp())
""")
