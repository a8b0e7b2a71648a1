"""Traces: what was asked of agents, and what was put before their answers; past retrievals and injections
are one list.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel
from sqlalchemy import Connection, text

from jiyi.text.prompt import joined
from models.conversations import session_prompts
from models.conversations.injections import NO_USER
from models.db.rows import fetch, fetch_one
from models.memory.agents import AgentName, bind_name

#: Characters by which a question and a turn are known as the same.
COMPARED_CHARS = 200


class Trace(BaseModel):
    """A retrieval, or an injection: what was put before one answer, and why."""

    trace_id: UUID
    kind: Literal["retrieval", "injection"]
    agent_id: str
    user_id: str | None
    session_id: str | None
    query: str
    at: datetime
    #: How many memories it returned.
    memories: int
    #: Of an injection.
    tokens: int | None
    #: Milliseconds; of an injection from before they were noted None.
    ms: float | None


class Injection(Trace):
    intent: str
    node_ids: list[UUID]
    #: Of each memory, in the order of ``node_ids``: kind, score, tokens, why.
    reasons: list[dict[str, Any]]


def traces(
    connection: Connection,
    group_id: str,
    agent_id: str | None,
    user_id: str | None,
    session_id: str | None,
    before: UUID | None,
    limit: int,
) -> list[Trace]:
    """The newest first: of the group, or of an agent, a user, a session."""
    whose = {"agent": agent_id, "user": user_id, "session": session_id}
    return fetch(connection, Trace, _TRACES, group=group_id, **whose, before=before, limit=limit)


def injection(connection: Connection, group_id: str, injection_id: UUID) -> Injection | None:
    return fetch_one(connection, Injection, _INJECTION, group=group_id, id=injection_id)


def injections_for(
    connection: Connection, name: AgentName, session_id: str, texts: Mapping[UUID, str]
) -> dict[UUID, Injection]:
    """For each turn of a session, by id and text, the last that was put before the answer to it."""
    beginnings = {node_id: text[:COMPARED_CHARS] for node_id, text in texts.items()}
    parameters = {"session": session_id, "chars": COMPARED_CHARS, "said": list(set(beginnings.values()))}
    rows = fetch(connection, Injection, _INJECTIONS_FOR, **bind_name(name), **parameters)
    by_text = {row.query[:COMPARED_CHARS]: row for row in rows}
    return {node_id: by_text[beginning] for node_id, beginning in beginnings.items() if beginning in by_text}


def prompt_of(connection: Connection, group_id: str, trace: Injection) -> str | None:
    """What stood before the answer, as the model got it; None once the session's prompt is not kept."""
    parameters = {
        **bind_name((group_id, trace.agent_id)),
        "user": trace.user_id or NO_USER,
        "session": trace.session_id,
    }
    row = connection.execute(_PROMPT, parameters).one_or_none()
    if row is None or row.made_at is None or row.made_at > trace.at:
        return None
    digest = session_prompts.digest_of(trace.query)
    recalled = [entry["text"] for entry in row.recalled if entry["digest"] == digest]
    return joined(row.opening, row.body, *recalled[-1:]) or None


_FIELDS = """
    injection_id AS trace_id, 'injection' AS kind, agent_id, user_id, session_id, query, created_at AS at,
    cardinality(node_ids) AS memories, tokens, ms
"""
_WHOLE = f"SELECT {_FIELDS}, intent, node_ids, reasons FROM injections"  # noqa: S608 – no value
_INJECTION = text(f"{_WHOLE} WHERE group_id = :group AND injection_id = :id")
_INJECTIONS_FOR = text(f"""
    SELECT DISTINCT ON (left(query, :chars)) {_WHOLE.removeprefix("SELECT ")}
    WHERE group_id = :group AND agent_id = :agent AND session_id = :session
      AND left(query, :chars) = ANY(:said)
    ORDER BY left(query, :chars), injection_id DESC
""")
_TRACES = text(f"""
    (SELECT retrieval_id AS trace_id, 'retrieval' AS kind, agent_id, options ->> 'user_id' AS user_id,
        options -> 'filters' ->> 'session_id' AS session_id, focal_texts[1] AS query, asked_at AS at,
        (SELECT sum(n) FROM unnest(found) AS n)::int AS memories, NULL::int AS tokens, ms
     FROM retrievals
     WHERE group_id = :group AND (CAST(:agent AS text) IS NULL OR agent_id = :agent)
       AND (CAST(:user AS text) IS NULL OR options ->> 'user_id' = :user)
       AND (CAST(:session AS text) IS NULL OR options -> 'filters' ->> 'session_id' = :session)
       AND (CAST(:before AS uuid) IS NULL OR retrieval_id < :before)
     ORDER BY retrieval_id DESC LIMIT :limit)
    UNION ALL
    (SELECT {_FIELDS} FROM injections
     WHERE group_id = :group AND (CAST(:agent AS text) IS NULL OR agent_id = :agent)
       AND (CAST(:user AS text) IS NULL OR user_id = :user)
       AND (CAST(:session AS text) IS NULL OR session_id = :session)
       AND (CAST(:before AS uuid) IS NULL OR injection_id < :before)
     ORDER BY injection_id DESC LIMIT :limit)
    ORDER BY trace_id DESC LIMIT :limit
""")  # noqa: S608 – no value
_PROMPT = text("""
    SELECT opening, body, recalled, made_at FROM session_prompts
    WHERE group_id = :group AND agent_id = :agent AND user_id = :user AND session_id = :session
""")
