"""What new messages do to stored turns and statements, written in the transaction of an extraction."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID, uuid5

from sqlalchemy import Connection, bindparam, text
from sqlalchemy.dialects.postgresql import JSONB

from engine.conversations.attributes import subject_words
from engine.conversations.marks import Mark, added, is_same, live, marks_of, span_of_part, spans_in
from engine.conversations.standing import Part, Standing
from jiyi.protocol import events as wire
from jiyi.protocol.erasure import Erasure
from jiyi.protocol.origins import ORIGIN_OF_ROLE
from jiyi.text.clauses import without
from jiyi.text.words import language_of
from models.erasure import progress
from models.erasure.progress import ERASE
from models.memory.agents import AgentName
from models.memory.inbox import Stored, store

log = logging.getLogger(__name__)

#: Stands in a turn for what was forgotten of it.
FORGOTTEN = {"en": "[forgotten, as asked]", "zh": "［按要求已忘记］"}
#: Who asks for an erasure in a conversation.
ACTOR = "conversation"
#: What a turn's successor has its id from.
_REST_OF = "rest of "


def keep(connection: Connection, name: AgentName, standing: Standing, now: datetime) -> Stored:
    """Write the marks, end the statements that say what ended, and have what is to be forgotten erased. Call it under the agent's lock."""
    rows = _rows(connection, name, standing.marks)
    for node_id, marks in standing.marks.items():
        if marks and node_id in rows:
            _mark(connection, name, rows[node_id], marks)
            _end_statements(connection, name, rows[node_id], [mark for mark in marks if mark.why in ("ended", "corrected")], now)
    changed = [node_id for node_id, marks in standing.marks.items() if marks]
    if changed:
        connection.execute(_PROMPTS_ANEW, {"group": name[0], "agent": name[1], "ids": changed})
    stored, _ = forget(connection, name, standing.forgotten)
    return stored


def mark_turns(connection: Connection, name: AgentName, by: Iterable[UUID]) -> None:
    """Mark, in the turns that superseded statements were taken from, the parts that say what they said.

    ``by`` are the newer statements. What one of these says of the same turn, too, stays.
    """
    pairs = connection.execute(_SUPERSEDED_BY, {"group": name[0], "agent": name[1], "by": list(by)}).all()
    rows = _rows(connection, name, [UUID(turn) for pair in pairs for turn in pair.turns])
    for pair in pairs:
        for turn in pair.turns:
            row = rows.get(UUID(turn))
            if row is None:
                continue
            spans = spans_in(pair.description, row.description)
            if turn in pair.newer_turns:
                stays = spans_in(pair.newer, row.description)
                spans = [span for span in spans if span not in stays]
            day = pair.superseded_at.date()
            _mark(connection, name, row, [Mark(start, end, "ended", day, str(pair.superseded_by)) for start, end in spans], prefixed=True)


def reinstate(connection: Connection, name: AgentName, node_id: UUID) -> None:
    """Take away, in the turns that a statement was taken from, the marks of what it says."""
    statement = connection.execute(_STATEMENT, {"group": name[0], "id": node_id}).one()
    for row in _rows(connection, name, [UUID(turn) for turn in statement.filling]).values():
        spans = spans_in(statement.description, row.description)
        kept = [mark for mark in marks_of(row.provenance) if mark.why not in ("ended", "corrected") or (mark.start, mark.end) not in spans]
        _write(connection, name, row.node_id, [mark.json() for mark in kept])


def _rows(connection: Connection, name: AgentName, node_ids: Iterable[UUID]) -> dict[UUID, Any]:
    rows = connection.execute(_TURNS, {"group": name[0], "agent": name[1], "ids": list(node_ids)})
    return {row.node_id: row for row in rows}


def _mark(connection: Connection, name: AgentName, row: Any, marks: Sequence[Mark], *, prefixed: bool = False) -> None:
    """``prefixed``: the marks count from the beginning of the stored text, not from behind the speaker's name."""
    if not marks:
        return
    before = 0 if prefixed else _prefix(row)
    moved = [Mark(mark.start + before, mark.end + before, mark.why, mark.day, mark.by) for mark in marks]
    _write(connection, name, row.node_id, added(row.provenance, moved))


def _write(connection: Connection, name: AgentName, node_id: UUID, marks: Sequence[Mapping[str, Any]]) -> None:
    connection.execute(_SET_MARKS, {"group": name[0], "agent": name[1], "id": node_id, "marks": list(marks)})


def _prefix(row: Any) -> int:
    speaker = f"{row.subject}: "
    return len(speaker) if row.role != row.subject and row.description.startswith(speaker) else 0


def _end_statements(connection: Connection, name: AgentName, turn: Any, ended: Sequence[Mark], now: datetime) -> None:
    """Of the statements that were taken from a turn those, or the parts of those, that say what ended in it."""
    if not ended:
        return
    said = turn.description[_prefix(turn) :]
    for statement in connection.execute(_STATEMENTS_OF, {"group": name[0], "agent": name[1], "turn": [str(turn.node_id)]}).all():
        parts = []
        for mark in ended:
            part = said[mark.start : mark.end]
            span = span_of_part(part, statement.description)
            if span is None and is_same(statement.description, part):
                span = (0, len(statement.description))
            if span is not None:
                parts.append(Mark(*span, mark.why, mark.day, mark.by))
        if not parts:
            continue
        entries = added(statement.provenance, parts)
        if live(statement.description, marks_of({"marks": entries})):
            _write(connection, name, statement.node_id, entries)
        else:
            last = {"group": name[0], "agent": name[1], "id": statement.node_id, "by": parts[-1].by, "now": now}
            connection.execute(_SUPERSEDE, last)


def forget(connection: Connection, name: AgentName, parts: Iterable[Part], besides: Sequence[UUID] = ()) -> tuple[Stored, UUID | None]:
    """Have parts of turns erased, and memories ``besides``: gives what was stored, and the erasure's id if there is anything to erase.

    The turns go as wholes, with what rests on them, and the erasure's report proves it; what else they said is said again without the
    parts. Call it under the agent's lock.
    """
    spans: dict[UUID, list[tuple[int, int]]] = defaultdict(list)
    for part in parts:
        spans[part.node_id].append((part.start, part.end))
    rows = _rows(connection, name, spans)
    stored = Stored()
    if not rows and not besides:
        return stored, None
    events = []
    for node_id, row in rows.items():
        said = row.description[_prefix(row) :]
        rest = without(said, spans[node_id])
        if rest == said or not subject_words(rest):
            rest = ""
        event = wire.build(
            {
                "type": "turn.recorded",
                "event_id": uuid5(node_id, _REST_OF + str(sorted(spans[node_id]))),
                "occurred_at": row.created_at,
                "group_id": name[0],
                "agent_id": name[1],
                "session_id": row.session_id,
                "payload": {
                    "role": row.role,
                    "text": f"{FORGOTTEN[language_of(said)]} {rest}".strip(),
                    "name": None if row.subject == row.role else row.subject,
                    "user_id": row.user_id,
                    "origin": None if row.origin == ORIGIN_OF_ROLE[row.role] else row.origin,
                    "provenance": {key: value for key, value in row.provenance.items() if key not in ("role", "marks")},
                },
            }
        )
        events.append(event)
    stored.add(store(connection, events))
    request = Erasure(node_ids=[*rows, *besides])
    erasure_id = progress.owe(connection, name[0], request.kind, progress.described(request), ACTOR)
    stored.owed[ERASE] += 1
    return stored, erasure_id


_TURNS = text("""
    SELECT node_id, description, subject, provenance, provenance ->> 'role' AS role, created_at, session_id, user_id, origin
    FROM memory_nodes
    WHERE group_id = :group AND agent_id = :agent AND node_id = ANY(:ids) AND kind = 'session' ORDER BY node_id FOR NO KEY UPDATE
""")
_SET_MARKS = text("""
    UPDATE memory_nodes SET provenance = jsonb_set(provenance, '{marks}', :marks), changed_xid = pg_current_xact_id()
    WHERE group_id = :group AND agent_id = :agent AND node_id = :id
""").bindparams(bindparam("marks", type_=JSONB))
_STATEMENTS_OF = text("""
    SELECT node_id, description, provenance FROM memory_nodes
    WHERE group_id = :group AND agent_id = :agent AND kind IN ('preference', 'knowledge') AND superseded_at IS NULL
      AND archived_at IS NULL AND type <> 'chat' AND filling @> to_jsonb(CAST(:turn AS text[]))
""")
_SUPERSEDE = text("""
    UPDATE memory_nodes n SET changed_xid = pg_current_xact_id(),
        superseded_by = CAST(:by AS uuid),
        superseded_at = coalesce(
            (SELECT m.created_at FROM memory_nodes m WHERE m.group_id = :group AND m.node_id = CAST(:by AS uuid)), :now
        )
    WHERE n.group_id = :group AND n.agent_id = :agent AND n.node_id = :id AND n.superseded_at IS NULL
""")
_SUPERSEDED_BY = text("""
    SELECT o.description, o.superseded_by, o.superseded_at, b.description AS newer,
        ARRAY(SELECT jsonb_array_elements_text(o.filling)) AS turns, ARRAY(SELECT jsonb_array_elements_text(b.filling)) AS newer_turns
    FROM memory_nodes o JOIN memory_nodes b ON b.group_id = o.group_id AND b.node_id = o.superseded_by
    WHERE o.group_id = :group AND o.agent_id = :agent AND o.kind IN ('preference', 'knowledge') AND o.type <> 'chat'
      AND b.type <> 'chat' AND (o.superseded_by = ANY(:by) OR o.node_id = ANY(:by))
""")
# What a session begins with is composed again where something in it has ended.
_PROMPTS_ANEW = text("""
    UPDATE session_prompts SET made_at = NULL WHERE group_id = :group AND agent_id = :agent AND node_ids && CAST(:ids AS uuid[])
""")
_STATEMENT = text("SELECT description, filling FROM memory_nodes WHERE group_id = :group AND node_id = :id")
