"""What injection reads beside retrieval (the user's profile, words of a trade), and what is noted of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, bindparam, select, text
from sqlalchemy.dialects.postgresql import JSONB
from uuid6 import uuid7

from engine.conversations.injection import MemoryCandidate
from engine.conversations.marks import live, marks_of, visible_text
from engine.conversations.memories import merge_profile, supported
from jiyi.protocol.conversations import KINDS, ContextRequest, Kind, Profile, ProfileSignals
from jiyi.protocol.origins import STANDING_TRUST
from jiyi.protocol.recall import PromptLine
from jiyi.settings import get_settings
from models.conversations import follow_ups
from models.conversations.tables import UserProfile
from models.db.rows import columns, upsert
from models.memory.agents import AgentName, bind_name

#: Turns of a user, the newest, that their profile rests on.
TURNS_READ = 500
#: Kinds of memories that may be about health, and how many of them, the newest, are read.
HEALTH_KINDS: list[Kind] = ["preference", "knowledge"]
HEALTH_READ = 200
#: Injections of an agent that are kept, the newest.
KEPT = 200
#: Characters of a query that are kept with them.
MAX_QUERY_CHARS = 2_000
#: Stands for a user where a key needs one and none is named: no user has this name.
NO_USER = ""
_FIND = select(*columns(Profile, UserProfile)).where(
    UserProfile.group_id == bindparam("group"),
    UserProfile.agent_id == bindparam("agent"),
    UserProfile.user_id == bindparam("user"),
)
_SAVE = upsert(UserProfile, *Profile.model_fields)


def most_important(
    connection: Connection,
    name: AgentName,
    request: ContextRequest,
    kinds: Sequence[Kind],
    limit: int,
    *,
    beside_session: bool = True,
) -> list[MemoryCandidate]:
    """Current memories, visible to the user and trusted enough, by importance, then by recency.

    Without what assistants said, and those of this session, unless ``beside_session`` is off.
    """
    session_id = request.session_id if beside_session else None
    parameters = {
        **_request_parameters(name, request),
        "session": session_id,
        "kinds": list(kinds),
        "limit": limit,
    }
    return _candidates(connection.execute(_IMPORTANT, parameters).all(), request)


def of_ids(
    connection: Connection, name: AgentName, request: ContextRequest, node_ids: Sequence[UUID]
) -> list[MemoryCandidate]:
    """Those of these memories that :func:`most_important` may give, too, in the order of the ids."""
    parameters = {"kinds": list(KINDS), "ids": list(node_ids), "session": request.session_id}
    rows = connection.execute(_OF_IDS, _request_parameters(name, request) | parameters).all()
    by_id = {candidate.node_id: candidate for candidate in _candidates(rows, request)}
    return [by_id[node_id] for node_id in node_ids if node_id in by_id]


def of_health(connection: Connection, name: AgentName, request: ContextRequest) -> list[MemoryCandidate]:
    """Current memories, visible and trusted enough, that have words of health, newest first."""
    parameters = {**_request_parameters(name, request), "kinds": HEALTH_KINDS, "limit": HEALTH_READ}
    return _candidates(connection.execute(_OF_HEALTH, parameters).all(), request)


def _request_parameters(name: AgentName, request: ContextRequest) -> dict[str, Any]:
    least = max(STANDING_TRUST, request.min_trust or 0)
    conditions = {"user": request.user_id, "least": least, "origins": request.origins or None}
    return {**bind_name(name), **conditions}


def _candidates(rows: Sequence[Any], request: ContextRequest) -> list[MemoryCandidate]:
    now = request.as_of or request.now or datetime.now(UTC)
    pairs = [(row, visible_text(row.description, row.created_at, row.provenance, now)) for row in rows]
    return [
        MemoryCandidate(
            row.node_id,
            row.kind,
            one.text,
            one.at,
            0.0,
            turn_ids=tuple(UUID(turn) for turn in row.filling),
            subject=row.subject,
            user_id=row.user_id,
            visibility=row.visibility,
            trust=row.trust,
            ended=one.ended,
            newer=one.newer,
            role=row.provenance.get("role") if row.kind == "session" else None,
            has_speaker=row.kind == "session" and row.subject != row.provenance.get("role"),
        )
        for row, one in pairs
        if one.text or one.ended
    ]


def current_ids(
    connection: Connection,
    name: AgentName,
    request: ContextRequest,
    kinds: Sequence[Kind],
    node_ids: Sequence[UUID],
) -> Sequence[UUID]:
    """Which of these memories :func:`most_important` may give, however many are more important."""
    parameters = _request_parameters(name, request) | {"kinds": list(kinds), "ids": list(node_ids)}
    return connection.execute(_CURRENT_IDS, parameters).scalars().all()


def keywords_and_zone(connection: Connection, name: AgentName) -> tuple[dict[str, list[str]] | None, str]:
    """The words of all industries of the agent's group (None without an agent); its time zone."""
    rows = connection.execute(_KEYWORDS, bind_name(name)).all()
    keywords: dict[str, list[str]] = {}
    for row in rows:
        for word, others in (row.keywords or {}).items():
            keywords.setdefault(word, []).extend(others)
    return (keywords if rows else None), (rows and rows[0].tz) or get_settings().tz


def note(
    connection: Connection,
    name: AgentName,
    request: ContextRequest,
    intent: str,
    tokens: int,
    memories: Sequence[PromptLine],
    seconds: float | None = None,
) -> UUID:
    """Note what was injected, after how many ``seconds``, and that its experiences were used again; drops the
    oldest. Gives the id.
    """
    injection_id, ids = uuid7(), [memory.node_id for memory in memories]
    reasons = [
        {"kind": one.kind, "score": round(one.score, 3), "tokens": one.tokens, "why": one.why}
        for one in memories
    ]
    whose = {"session": request.session_id, "user": request.user_id, "id": injection_id, "kept": KEPT - 1}
    request_fields = {"query": request.query[:MAX_QUERY_CHARS], "intent": intent, "tokens": tokens}
    request_fields["ms"] = None if seconds is None else round(seconds * 1_000, 1)
    results = {"ids": ids, "reasons": reasons}
    reused = connection.execute(_NOTE, {**bind_name(name), **whose, **request_fields, **results}).scalar_one()
    follow_ups.injected(connection, name, len(ids), reused)  # last: counts of other subjects
    return injection_id


def find_profile(connection: Connection, name: AgentName, user_id: str | None = None) -> Profile | None:
    """The profile of the user; without a ``user_id``, of the unnamed user."""
    row = connection.execute(_FIND, bind_name(name) | {"user": user_id or NO_USER}).one_or_none()
    return None if row is None else Profile.model_validate(row, from_attributes=True)


def update_profile(
    connection: Connection,
    name: AgentName,
    signals: ProfileSignals,
    now: datetime,
    user_id: str | None = None,
) -> None:
    """Add extracted signals to the profile. Call it under the agent's lock."""
    if signals == ProfileSignals():
        return
    profile = find_profile(connection, name, user_id) or Profile()
    _save(connection, name, user_id, merge_profile(profile, signals), now)


def renew_profile(connection: Connection, name: AgentName, user_id: str | None, now: datetime) -> None:
    """Leave in the profile what the user's turns, with their marks, still say. Under the agent's lock."""
    profile = find_profile(connection, name, user_id)
    if profile is None:
        return
    rows = connection.execute(_TURNS, {**bind_name(name), "user": user_id, "limit": TURNS_READ})
    texts = [live(row.description, marks_of(row.provenance, now.date())) for row in rows]
    remaining = supported(profile, texts)
    if remaining != profile:
        _save(connection, name, user_id, remaining, now)


def _save(
    connection: Connection, name: AgentName, user_id: str | None, profile: Profile, now: datetime
) -> None:
    whose = {"group_id": name[0], "agent_id": name[1], "user_id": user_id or NO_USER}
    connection.execute(_SAVE, {**whose, **profile.model_dump(), "updated_at": now})


#: Current, trusted enough and visible to the user.
_STANDS = """
    superseded_at IS NULL AND archived_at IS NULL
    AND trust >= :least AND (CAST(:origins AS text[]) IS NULL OR origin = ANY(:origins))
    AND (user_id IS NULL OR visibility = 'agent' OR user_id = :user)
"""
_COLUMNS = "node_id, kind, description, created_at, filling, subject, user_id, visibility, trust, provenance"
_THESE = f"FROM memory_nodes WHERE group_id = :group AND agent_id = :agent AND {_STANDS}"
_BESIDE_SESSION = "(CAST(:session AS text) IS NULL OR session_id IS DISTINCT FROM :session)"
_BEST = "ORDER BY poignancy DESC NULLS LAST, created_at DESC, node_count DESC LIMIT :limit"
_CURRENT_IDS = text(f"SELECT node_id {_THESE} AND node_id = ANY(:ids) AND kind = ANY(:kinds)")
# Of each kind separately, in the order of the index; of turns the users' own.
_IMPORTANT = text(f"""
    SELECT of_kind.* FROM unnest(CAST(:kinds AS text[])) AS wanted(kind) CROSS JOIN LATERAL (
        SELECT {_COLUMNS}, poignancy, node_count {_THESE} AND kind = wanted.kind AND {_BESIDE_SESSION}
          AND (kind <> 'session' OR provenance ->> 'role' = 'user') {_BEST}
    ) AS of_kind {_BEST}
""")  # noqa: S608 – no value
_OF_IDS = text(
    f"SELECT {_COLUMNS} {_THESE} AND node_id = ANY(:ids) AND kind = ANY(:kinds) AND {_BESIDE_SESSION}"
)
_OF_HEALTH = text(f"""
    SELECT {_COLUMNS} {_THESE} AND health AND (kind = ANY(:kinds) OR kind IS NULL AND type = 'event')
    ORDER BY created_at DESC, node_id DESC LIMIT :limit
""")
_TURNS = text("""
    SELECT description, provenance FROM memory_nodes
    WHERE group_id = :group AND agent_id = :agent AND user_id IS NOT DISTINCT FROM :user
      AND kind = 'session' AND provenance ->> 'role' = 'user'
    ORDER BY node_count DESC LIMIT :limit
""")
_KEYWORDS = text("""
    SELECT i.keywords, a.settings ->> 'tz' AS tz FROM agents a LEFT JOIN industry_keywords i USING (group_id)
    WHERE a.group_id = :group AND a.agent_id = :agent ORDER BY i.industry
""")
# One trip: a statement's parts see the table as it was before, without the row that is put in.
_NOTE = text("""
    WITH dropped AS (
        DELETE FROM injections WHERE group_id = :group AND agent_id = :agent AND injection_id <= (
            SELECT injection_id FROM injections WHERE group_id = :group AND agent_id = :agent
            ORDER BY injection_id DESC OFFSET :kept LIMIT 1
        )
    ), noted AS (
        INSERT INTO injections (
            injection_id, group_id, agent_id, session_id, user_id, query, intent, tokens, ms, node_ids,
            reasons
        ) VALUES (:id, :group, :agent, :session, :user, :query, :intent, :tokens, :ms, :ids, :reasons)
    ), reused AS (
        UPDATE experiences SET reuse_count = reuse_count + 1
        WHERE group_id = :group AND agent_id = :agent AND node_id = ANY(:ids) RETURNING 1
    )
    SELECT count(*) FROM reused
""").bindparams(bindparam("reasons", type_=JSONB))
