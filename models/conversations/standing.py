"""What new messages do to stored turns and statements, written in the transaction of an extraction."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid5

from sqlalchemy import Connection, bindparam, text
from sqlalchemy.dialects.postgresql import JSONB

from engine.conversations.attributes import attribute_of, subject_words
from engine.conversations.marks import (
    ENDS,
    MARKS,
    Mark,
    is_same,
    live,
    local,
    marks_of,
    merge_marks,
    span_of_part,
    spans_in,
)
from engine.conversations.standing import Standing, TurnPart
from engine.heads.judgements import said_of, stated
from engine.memory import MemorySource
from jiyi.protocol import events as wire
from jiyi.protocol.erasure import Erasure
from jiyi.protocol.events import Event
from jiyi.protocol.origins import ORIGIN_OF_ROLE
from jiyi.text.clauses import clauses, without
from jiyi.text.words import language_of
from models.conversations import injections
from models.erasure import matching, progress
from models.memory.agents import AgentName, bind_name, lock_agents
from models.memory.inbox import store

log = logging.getLogger(__name__)

#: Stands in a turn for what was forgotten of it.
FORGOTTEN = {"en": "[forgotten, as asked]", "zh": "［按要求已忘记］"}
#: The actor of an erasure that was requested in a conversation.
ACTOR = "conversation"
#: What a turn's successor has its id from.
_REST_OF = "rest of "
#: In a turn's provenance: its content was extracted from the turn that it is the rest of.
LOOKED_THROUGH = "looked_through"
#: Latest turns of a user that are searched for what says the same as what is erased.
TURNS_SEARCHED = 500
#: Characters of a turn, from the first to the one behind the last.
Span = tuple[int, int]
#: Of each turn those that go.
Spans = Mapping[UUID, Sequence[Span]]
#: Whether a statement goes: asked with it, with what is erased of its turn, and with what is left.
Goes = Callable[[str, str, str], bool]


def keep(connection: Connection, name: AgentName, standing: Standing, now: datetime) -> None:
    """Write the marks, in turns and in what was taken from them, and have what is to be forgotten erased.

    Call it under the agent's lock.
    """
    rows = _rows(connection, name, standing.marks)
    for node_id, marks in standing.marks.items():
        if marks and node_id in rows:
            _mark(connection, name, rows[node_id], marks)
            of_time = [mark for mark in marks if mark.why in (*ENDS, "until")]
            _mark_statements(connection, name, rows[node_id], of_time, now)
    changed = [node_id for node_id, marks in standing.marks.items() if marks]
    if changed:
        connection.execute(_RESET_PROMPTS, bind_name(name) | {"ids": changed})
    forget(connection, name, standing.forgotten)


def mark_turns(connection: Connection, name: AgentName, by: Iterable[UUID]) -> None:
    """Mark, in their turns, what statements said that ``by`` superseded; what ``by`` says of a turn stays."""
    pairs = connection.execute(_SUPERSEDED_BY, bind_name(name) | {"by": list(by)}).all()
    rows = _rows(connection, name, [UUID(turn) for pair in pairs for turn in pair.turns])
    for row in rows.values():
        marks = []
        for pair in (pair for pair in pairs if str(row.node_id) in pair.turns):
            stays = spans_in(pair.newer, row.description) if str(row.node_id) in pair.newer_turns else []
            day = local(pair.superseded_at, pair.newer_provenance, None).date()
            spans = (span for span in spans_in(pair.description, row.description) if span not in stays)
            marks += [Mark(*span, "ended", day, str(pair.superseded_by)) for span in spans]
        _mark(connection, name, row, marks, prefixed=True)  # all at once: each writes over what was there


def mark_earlier(connection: Connection, name: AgentName, old: Collection[UUID], by: UUID) -> None:
    """Mark statements, and what their turns say of them, as earlier than one by which they may have ended."""
    newer = connection.execute(_STATEMENT, {"group": name[0], "id": by}).one_or_none()
    statements = connection.execute(_STATEMENTS, bind_name(name) | {"ids": list(old)}).all()
    if newer is None or not statements:
        return
    day = local(newer.created_at, newer.provenance, None).date()
    turns = (turn for statement in statements for turn in statement.filling if turn not in newer.filling)
    rows = _rows(connection, name, map(UUID, turns))
    for statement in statements:
        whole = Mark(0, len(statement.description), "earlier", day, str(by))
        _write(connection, name, statement.node_id, merge_marks(statement.provenance, [whole]))
    for row in rows.values():
        texts = [statement.description for statement in statements if str(row.node_id) in statement.filling]
        spans = dict.fromkeys(span for text_ in texts for span in spans_in(text_, row.description))
        _mark(connection, name, row, [Mark(*span, "earlier", day, str(by)) for span in spans], prefixed=True)
    changed = [*rows, *(statement.node_id for statement in statements)]
    connection.execute(_RESET_PROMPTS, bind_name(name) | {"ids": changed})


def reinstate(connection: Connection, name: AgentName, node_id: UUID) -> None:
    """Take away, in the turns that a statement was taken from, the marks of what it says."""
    statement = connection.execute(_STATEMENT, {"group": name[0], "id": node_id}).one()
    rows = _rows(connection, name, [UUID(turn) for turn in statement.filling]).values()
    for row in rows:
        spans = spans_in(statement.description, row.description)
        remaining = [
            mark
            for mark in marks_of(row.provenance)
            if mark.why not in ENDS or (mark.start, mark.end) not in spans
        ]
        _write(connection, name, row.node_id, [mark.json() for mark in remaining])
    for user_id in {row.user_id for row in rows}:
        injections.renew_profile(connection, name, user_id, datetime.now(UTC))


def _rows(connection: Connection, name: AgentName, node_ids: Iterable[UUID]) -> dict[UUID, Any]:
    rows = connection.execute(_TURNS, bind_name(name) | {"ids": list(node_ids)})
    return {row.node_id: row for row in rows}


def _mark(
    connection: Connection, name: AgentName, row: Any, marks: Sequence[Mark], *, prefixed: bool = False
) -> None:
    """``prefixed``: the marks count from the beginning of the stored text, with the speaker's name."""
    if not marks:
        return
    before = 0 if prefixed else _prefix(row)
    moved = [replace(mark, start=mark.start + before, end=mark.end + before) for mark in marks]
    _write(connection, name, row.node_id, merge_marks(row.provenance, moved))


def _write(
    connection: Connection, name: AgentName, node_id: UUID, marks: Sequence[Mapping[str, Any]]
) -> None:
    connection.execute(_SET_MARKS, bind_name(name) | {"id": node_id, "marks": list(marks)})


def _start(row: Any) -> int:
    """Where a turn's own words begin: behind the speaker's name, and the mark of what was forgotten."""
    start = _prefix(row)
    mark = next((mark for mark in FORGOTTEN.values() if row.description.startswith(mark, start)), "")
    return start + len(mark)


def _prefix(row: Any) -> int:
    speaker = f"{row.subject}: "
    return len(speaker) if row.role != row.subject and row.description.startswith(speaker) else 0


def _mark_statements(
    connection: Connection, name: AgentName, turn: Any, marks: Sequence[Mark], now: datetime
) -> None:
    """Mark what statements of a turn say of its marked parts; what has ended altogether is superseded."""
    if not marks:
        return
    content = turn.description[_prefix(turn) :]
    of_turn = bind_name(name) | {"turn": [str(turn.node_id)]}
    for statement in connection.execute(_STATEMENTS_OF, of_turn).all():
        parts = []
        for mark in marks:
            part = content[mark.start : mark.end]
            span = span_of_part(part, statement.description)
            if span is None and is_same(statement.description, part):
                span = (0, len(statement.description))
            if span is not None:
                parts.append(Mark(*span, mark.why, mark.day, mark.by))
        if not parts:
            continue
        entries = merge_marks(statement.provenance, parts)
        may_hold = any(mark.why in ("earlier", "until") for mark in parts)
        if may_hold or live(statement.description, marks_of({"marks": entries})):
            _write(connection, name, statement.node_id, entries)
        else:
            last = {"id": statement.node_id, "by": parts[-1].by, "now": now}
            connection.execute(_SUPERSEDE, bind_name(name) | last)


def forget(
    connection: Connection, name: AgentName, parts: Iterable[TurnPart], actor: str = ACTOR
) -> UUID | None:
    """Have parts of turns erased, with the statements that say them: gives the erasure's id if there is any.

    Call it under the agent's lock.
    """
    parts = list(parts)
    rows = _rows(connection, name, {part.node_id for part in parts})
    if not rows:
        return None
    spans: dict[UUID, list[Span]] = defaultdict(list)
    for part in parts:
        if part.node_id in rows:
            mark = _start(rows[part.node_id]) - _prefix(rows[part.node_id])
            spans[part.node_id].append((max(part.start - mark, 0), part.end - mark))

    def goes(statement: str, erased: str, rest: str) -> bool:
        words = subject_words(stated(statement))
        return len(words & subject_words(erased)) >= len(words & subject_words(rest))

    _keep_rest(connection, name, rows.values(), spans, goes)
    request = Erasure(node_ids=list(rows))
    state = progress.enqueue(connection, name[0], request.kind, progress.described(request), actor)
    # Now, so that no other erasure takes them for turns that stay.
    matching.note_nodes(connection, state.erasure_id, name[0], request.node_ids)
    return state.erasure_id


def withhold(connection: Connection, group_id: str, node_ids: Sequence[UUID]) -> list[UUID]:
    """What turns say of statements that are to be erased: gives the turns that are to be erased with them.

    Those that a statement was taken from, and others of the user's that say the same. Where a statement has
    no words of its turn, all of it goes that nothing else was taken from. Safe to repeat.
    """
    erased = connection.execute(_ERASED_STATEMENTS, {"group": group_id, "ids": list(node_ids)}).all()
    turns: list[UUID] = []
    whose = {(row.agent_id, row.user_id) for row in erased}
    lock_agents(connection, {(group_id, agent_id) for agent_id, _ in whose})
    for agent_id, user_id in sorted(whose, key=str):
        name = (group_id, agent_id)
        statements = [row for row in erased if (row.agent_id, row.user_id) == (agent_id, user_id)]
        rested = {UUID(turn) for row in statements for turn in row.filling}
        looked_at = {"user": user_id, "rested": list(rested), "ids": list(node_ids), "limit": TURNS_SEARCHED}
        turn_rows = connection.execute(_TURNS_OF_USER, bind_name(name) | looked_at)
        rows = {row.node_id: row for row in turn_rows}
        spans = {
            node_id: turn_spans
            for node_id, row in rows.items()
            if (turn_spans := _spans_of(connection, name, row, statements))
        }
        own = [subject_words(stated(words)) for row in statements for words in row.texts]

        def goes(statement: str, _erased: str, _rest: str, own: Sequence[Collection[str]] = own) -> bool:
            words = subject_words(stated(statement))
            return bool(words) and any(words <= set(others) for others in own)

        _keep_rest(connection, name, [rows[node_id] for node_id in spans], spans, goes, node_ids)
        turns += spans
    return turns


def _spans_of(connection: Connection, name: AgentName, row: Any, statements: Sequence[Any]) -> list[Span]:
    """What a turn says of statements; in other words all of it that no other statement was taken from."""
    content = row.description[_start(row) :]
    results = []
    for statement in statements:
        spans = [span for words in statement.texts for span in spans_in(words, content)]
        if str(row.node_id) not in statement.filling:
            texts = statement.texts
            spans = [span for span in spans if any(is_same(words, content[slice(*span)]) for words in texts)]
        elif not spans and statement.kind != "experience":
            others = _statements_of(connection, name, row.node_id, [one.node_id for one in statements])
            other_spans = {span for other in others for span in spans_in(other.description, content)}
            spans = [span for part in clauses(content) if (span := (part.start, part.end)) not in other_spans]
        results += spans
    return results


def _statements_of(
    connection: Connection, name: AgentName, turn: UUID, besides: Collection[UUID]
) -> Sequence[Any]:
    """Statements taken from a turn, current or not, ``besides`` those that are erased themselves."""
    parameters = bind_name(name) | {"turn": [str(turn)], "besides": list(besides)}
    return connection.execute(_STATEMENTS_OF_TURN, parameters).all()


def _keep_rest(
    connection: Connection,
    name: AgentName,
    rows: Iterable[Any],
    spans: Spans,
    goes: Goes,
    besides: Collection[UUID] = (),
) -> None:
    """Record what turns say without some of their parts, and let the statements that stay rest on that.

    The turns themselves are to be erased, and statements ``besides``. The rest of a processed
    turn is not processed again; a statement that was taken from both parts is stored without those that go.
    """
    processed_to = connection.execute(_PROCESSED_TO, bind_name(name)).scalar_one()
    events: list[Event] = []
    marks: dict[UUID, list[tuple[Mark, str]]] = {}
    cut: list[tuple[Event, MemorySource]] = []
    for row in rows:
        content = row.description[_start(row) :]
        gone = sorted(set(spans[row.node_id]))
        parts = [content[first:last] for first, last in gone]
        rest = without(content, gone)
        if rest == content or not subject_words(rest):
            rest = ""
        is_known = row.node_count <= processed_to
        event = _rest_of_turn(name, row, rest, gone, is_known=is_known) if rest else None
        instead = {str(row.node_id): [str(event.event_id)] if event else []}
        for statement in _statements_of(connection, name, row.node_id, besides):
            filling = [turn for one in statement.filling for turn in instead.get(one, [one])]
            stays = _without_parts(statement.description, parts)
            if stays == statement.description and not goes(stays, " ".join(parts), rest):
                connection.execute(_REST_ON, {**bind_name(name), "id": statement.node_id, "filling": filling})
            elif stays and stays != statement.description and statement.superseded_at is None:
                source = MemorySource(statement.origin, statement.trust)
                cut.append((_rest_of_statement(name, statement, stays, filling), source))
        if event is not None:
            events.append(event)
            if is_known:
                marks[event.event_id] = [
                    (mark, row.description[mark.start : mark.end]) for mark in marks_of(row.provenance)
                ]
    store(connection, events)
    for node_id, row in _rows(connection, name, marks).items():
        places = [(mark, part, row.description.find(part)) for mark, part in marks[node_id]]
        entries = [
            replace(mark, start=place, end=place + len(part)).json()
            for mark, part, place in places
            if place >= 0
        ]
        _write(connection, name, node_id, entries)
    for event, source in cut:
        store(connection, [event], source=source)


def _rest_of_turn(name: AgentName, row: Any, rest: str, gone: Sequence[Span], *, is_known: bool) -> Event:
    """A turn without its erased parts, which is recorded in its place."""
    provenance = {key: value for key, value in row.provenance.items() if key not in ("role", MARKS)}
    payload = {
        "role": row.role,
        "text": f"{FORGOTTEN[language_of(rest)]} {rest}",
        "name": None if row.subject == row.role else row.subject,
        "user_id": row.user_id,
        "origin": None if row.origin == ORIGIN_OF_ROLE[row.role] else row.origin,
        "provenance": provenance | ({LOOKED_THROUGH: True} if is_known else {}),
    }
    where = {"event_id": uuid5(row.node_id, _REST_OF + str(gone)), "session_id": row.session_id}
    return wire.made("turn.recorded", name, row.created_at, payload, **where)


def _without_parts(statement: str, parts: Iterable[str]) -> str:
    """What a statement says without parts of the turn that it was taken from; empty if nothing."""
    words = said_of(statement)
    spans = [span for part in parts if (span := span_of_part(part, words)) is not None]
    rest = without(words, spans)
    if rest == words:
        return "" if spans else statement
    return statement.removesuffix(words) + rest if subject_words(rest) else ""


def _rest_of_statement(name: AgentName, statement: Any, text: str, filling: Sequence[str]) -> Event:
    """A statement without what was erased of it, as a memory in its place."""
    attribute = attribute_of(said_of(text))
    provenance = {key: value for key, value in statement.provenance.items() if key != MARKS}
    payload = {
        "node_type": statement.type,
        "description": text,
        "subject": statement.subject,
        "predicate": attribute and attribute.name,
        "poignancy": statement.poignancy,
        "evidence": filling,
        "provenance": provenance | {"single_valued": attribute is not None and attribute.single_valued},
        "kind": statement.kind,
        "uri": statement.uri,
        "user_id": statement.user_id,
        "visibility": statement.visibility,
        "expires_at": statement.expires_at,
    }
    present = {key: value for key, value in payload.items() if value is not None}
    event_id = uuid5(statement.node_id, _REST_OF + text)
    return wire.made("memory.observed", name, statement.created_at, present, event_id=event_id)


_TURN = """
    SELECT n.node_id, n.node_count, n.description, n.subject, n.provenance, n.provenance ->> 'role' AS role,
        n.created_at, n.session_id, n.user_id, n.origin
    FROM memory_nodes n
    WHERE n.group_id = :group AND n.agent_id = :agent AND n.kind = 'session'
      AND NOT EXISTS (SELECT FROM erasing_ids e WHERE e.group_id = :group AND e.subject_id = n.node_id)
"""
_TURNS = text(f"{_TURN} AND n.node_id = ANY(:ids) ORDER BY n.node_id FOR NO KEY UPDATE")
# Each with the words of the versions that it replaced, which its turns may have.
_ERASED_STATEMENTS = text("""
    WITH RECURSIVE versions AS (
        SELECT node_id AS latest, node_id, description, provenance FROM memory_nodes
        WHERE group_id = :group AND node_id = ANY(:ids) AND kind IN ('preference', 'knowledge', 'experience')
          AND type <> 'chat'
        UNION SELECT v.latest, n.node_id, n.description, n.provenance FROM versions v
        JOIN memory_nodes n ON n.group_id = :group AND n.node_id::text = v.provenance ->> 'replaces'
    )
    SELECT n.node_id, n.agent_id, n.user_id, n.kind,
        ARRAY(SELECT jsonb_array_elements_text(n.filling)) AS filling,
        ARRAY(SELECT description FROM versions v WHERE v.latest = n.node_id) AS texts
    FROM memory_nodes n WHERE n.group_id = :group AND n.node_id IN (SELECT latest FROM versions)
    ORDER BY n.node_id
""")
# Those that were taken from, and the user's latest; none that is erased itself.
_TURNS_OF_USER = text(f"""
    {_TURN} AND n.provenance ->> 'role' IS NOT NULL
      AND n.node_id <> ALL(:ids) AND (n.node_id = ANY(:rested) OR n.node_id IN (
          SELECT node_id FROM memory_nodes WHERE group_id = :group AND agent_id = :agent AND kind = 'session'
            AND user_id IS NOT DISTINCT FROM :user ORDER BY node_count DESC LIMIT :limit
      ))
      AND NOT EXISTS (
          SELECT FROM erasures e WHERE e.group_id = :group AND e.state <> 'done'
            AND e.what #> '{{asked,node_ids}}' @> to_jsonb(CAST(n.node_id AS text))
      )
    ORDER BY n.node_id FOR NO KEY UPDATE
""")  # noqa: S608 – no value
_STATEMENTS_OF_TURN = text("""
    SELECT node_id, type, kind, description, subject, uri, user_id, visibility, poignancy, expires_at,
        provenance, created_at, origin, trust, superseded_at,
        ARRAY(SELECT jsonb_array_elements_text(filling)) AS filling
    FROM memory_nodes
    WHERE group_id = :group AND agent_id = :agent AND kind IN ('preference', 'knowledge', 'experience')
      AND type <> 'chat' AND filling @> to_jsonb(CAST(:turn AS text[]))
      AND node_id <> ALL(CAST(:besides AS uuid[]))
    ORDER BY node_id
""")
_REST_ON = text("""
    UPDATE memory_nodes SET filling = to_jsonb(CAST(:filling AS text[])), changed_xid = pg_current_xact_id()
    WHERE group_id = :group AND agent_id = :agent AND node_id = :id
""")
_PROCESSED_TO = text("""
    SELECT coalesce(max(extracted_to), 0) FROM extraction_cursors
    WHERE group_id = :group AND agent_id = :agent
""")
_SET_MARKS = text("""
    UPDATE memory_nodes
    SET provenance = jsonb_set(provenance, '{marks}', :marks), changed_xid = pg_current_xact_id()
    WHERE group_id = :group AND agent_id = :agent AND node_id = :id
""").bindparams(bindparam("marks", type_=JSONB))
_CURRENT_STATEMENTS = """
    SELECT node_id, description, provenance, ARRAY(SELECT jsonb_array_elements_text(filling)) AS filling
    FROM memory_nodes
    WHERE group_id = :group AND agent_id = :agent AND superseded_at IS NULL AND archived_at IS NULL
      AND kind IN ('preference', 'knowledge') AND type <> 'chat'
"""
_STATEMENTS_OF = text(f"{_CURRENT_STATEMENTS} AND filling @> to_jsonb(CAST(:turn AS text[]))")
_STATEMENTS = text(f"{_CURRENT_STATEMENTS} AND node_id = ANY(:ids)")
_STATEMENT = text("""
    SELECT description, filling, created_at, provenance FROM memory_nodes
    WHERE group_id = :group AND node_id = :id
""")
_SUPERSEDE = text("""
    UPDATE memory_nodes n
    SET changed_xid = pg_current_xact_id(), superseded_by = CAST(:by AS uuid), superseded_at = coalesce((
        SELECT m.created_at FROM memory_nodes m WHERE m.group_id = :group AND m.node_id = CAST(:by AS uuid)
    ), :now)
    WHERE n.group_id = :group AND n.agent_id = :agent AND n.node_id = :id AND n.superseded_at IS NULL
""")
_SUPERSEDED_BY = text("""
    SELECT o.description, o.superseded_by, o.superseded_at, b.description AS newer,
        b.provenance AS newer_provenance, ARRAY(SELECT jsonb_array_elements_text(o.filling)) AS turns,
        ARRAY(SELECT jsonb_array_elements_text(b.filling)) AS newer_turns
    FROM memory_nodes o JOIN memory_nodes b ON b.group_id = o.group_id AND b.node_id = o.superseded_by
    WHERE o.group_id = :group AND o.agent_id = :agent AND o.kind IN ('preference', 'knowledge')
      AND o.type <> 'chat' AND b.type <> 'chat' AND (o.superseded_by = ANY(:by) OR o.node_id = ANY(:by))
""")
# What a session begins with is composed again where something in it has ended.
_RESET_PROMPTS = text("""
    UPDATE session_prompts SET made_at = NULL
    WHERE group_id = :group AND agent_id = :agent AND node_ids && CAST(:ids AS uuid[])
""")
