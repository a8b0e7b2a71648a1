"""The filters of memories: one table, in which each stands with its form for PostgreSQL, its form for an
index in memory, and the sentence for what it leaves out. Whatever searches, lists or counts memories goes
through it.

The values of filters are a mapping of their names to values; it holds the parameters of the SQL, too,
in which a memory is ``n``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString, Protocol, get_args

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, TextClause, text

from jiyi.protocol.conversations import AnyKind
from jiyi.protocol.origins import ORIGINS
from jiyi.protocol.retrieval import Filters
from jiyi.text.translatable import Translatable

#: Filters by name, each with its value, and what else their SQL needs.
FilterValues = dict[str, Any]
Passing = NDArray[np.bool_]
TYPES = ("event", "thought", "chat")
KINDS: tuple[str, ...] = get_args(AnyKind)


class Indexed(Protocol):
    """An index in memory, as far as filters look at it: each row is a memory."""

    @property
    def columns(self) -> Any:
        """Name → values of all rows."""

    def in_session(self, session_id: str) -> Passing:
        """The rows of a session."""

    def with_keywords(self, keywords: Sequence[str]) -> Passing:
        """The rows with any of the keywords, in whatever case."""


@dataclass(frozen=True, slots=True)
class CandidateFilter:
    #: What it leaves out, for people; ``%(value)s`` is the value that a memory has instead, see ``values``.
    sentence: Translatable
    sql: LiteralString = ""
    #: The rows that pass, for a value; None where an index in memory has no others.
    rows: Callable[[Indexed, Any], Passing] | None = None
    #: Its SQL at a time of the past, ``as_of``, where that is another; an index of the past needs none.
    past: LiteralString = ""
    #: Of a filter that lets only some values pass: what has the value in SQL, and all values that there are.
    values: tuple[LiteralString, Sequence[LiteralString]] | None = None


def _one_of(
    name: str, column: str, sql: LiteralString, values: Sequence[LiteralString], sentence: Translatable
) -> CandidateFilter:
    def rows(index: Indexed, allowed: Collection[str]) -> Passing:
        passing = np.ones(index.columns[column].shape, dtype=bool)
        for code, value in enumerate(values):
            if value not in allowed:
                passing &= index.columns[column] != code
        return passing

    return CandidateFilter(sentence, f"{sql} = ANY(%({name})s)", rows, values=(sql, values))


#: What is visible to a user, without one to all. The same as the policy ``people`` (migration 0027).
VISIBLE: LiteralString = "(n.user_id IS NULL OR n.visibility = 'agent' OR n.user_id = %(user_id)s)"
NOT_ARCHIVED: LiteralString = "n.archived_at IS NULL"
#: A turn of questions alone, and one that is not its user's.
ASKS: LiteralString = (
    "coalesce(CASE WHEN n.kind = 'session' THEN n.description ~ '^[^.!。！]*([?？]|吗)\\s*$' END, false)"
)
REPLIES: LiteralString = "coalesce(n.kind = 'session' AND n.provenance->>'role' <> 'user', false)"
FILTERS: Mapping[str, CandidateFilter] = {
    # The first three say what there is at all; what others leave out is counted among what passes these.
    "user_id": CandidateFilter(Translatable("%(count)s that belong to users (give user_id)"), VISIBLE),
    "as_of": CandidateFilter(Translatable("%(count)s not known yet (as_of)"), "n.stored_at <= %(as_of)s"),
    "include_archived": CandidateFilter(
        Translatable("%(count)s archived (include_archived)"),
        NOT_ARCHIVED,
        lambda index, _: ~index.columns["archived"],
        "(n.archived_at IS NULL OR n.archived_at > %(as_of)s)",
    ),
    "superseded": CandidateFilter(
        Translatable("%(count)s superseded (superseded)"),
        "n.superseded_at IS NULL",
        lambda index, _: ~index.columns["superseded"],
        "(n.superseded_at IS NULL OR coalesce(n.superseded_since, n.superseded_at) > %(as_of)s)",
    ),
    "types": _one_of(
        "types", "type", "n.type", TYPES, Translatable("%(count)s of the type %(value)s (types)")
    ),
    "kinds": _one_of(
        "kinds",
        "kind",
        "coalesce(n.kind, 'memory')",
        KINDS,
        Translatable("%(count)s of the kind %(value)s (kinds)"),
    ),
    "origins": _one_of(
        "origins", "origin", "n.origin", ORIGINS, Translatable("%(count)s from %(value)s (origins)")
    ),
    "min_trust": CandidateFilter(
        Translatable("%(count)s trusted less than min_trust"),
        "n.trust >= %(min_trust)s",
        lambda index, least: index.columns["trust"] >= least,
    ),
    "include_expired": CandidateFilter(
        Translatable("%(count)s expired (include_expired)"),
        "(n.expires_at IS NULL OR n.expires_at > %(include_expired)s)",
        lambda index, now: index.columns["expires"] > now.timestamp(),
    ),
    "created_after": CandidateFilter(
        Translatable("%(count)s from before created_after"),
        "n.created_at >= %(created_after)s",
        lambda index, at: index.columns["created"] >= at.timestamp(),
    ),
    "created_before": CandidateFilter(
        Translatable("%(count)s not from before created_before"),
        "n.created_at < %(created_before)s",
        lambda index, at: index.columns["created"] < at.timestamp(),
    ),
    "session_id": CandidateFilter(
        Translatable("%(count)s of no or another session (session_id)"),
        "n.session_id = %(session_id)s",
        lambda index, session_id: index.in_session(session_id),
    ),
    "keywords": CandidateFilter(
        Translatable("%(count)s without the keywords"),
        "n.keywords_lower && %(keywords)s",
        lambda index, keywords: index.with_keywords(keywords),
    ),
    "idle": CandidateFilter(
        Translatable("%(count)s that say that something is idle"),
        "NOT n.is_idle",
        lambda index, _: ~index.columns["is_idle"],
    ),
    "small_talk": CandidateFilter(
        Translatable("%(count)s turns that only ask, or say nothing (small_talk)"),
        f"NOT {ASKS}",
        lambda index, _: index.columns["says"],
    ),
    # The original drops whatever contains "idle", expires nothing, and knows no node without a vector.
    "says_idle": CandidateFilter(
        Translatable("%(count)s that say that something is idle"),
        "strpos(n.embedding_key, 'idle') = 0",
        lambda index, _: ~index.columns["says_idle"],
    ),
    "not_embedded": CandidateFilter(
        Translatable("%(count)s not embedded yet"),
        "n.embedding_model IS NOT NULL",
        lambda index, _: index.columns["embedded"],
    ),
    # Of lists alone.
    "agent_id": CandidateFilter(
        Translatable("%(count)s of other agents (agent_id)"), "n.agent_id = %(agent_id)s"
    ),
    "from_user": CandidateFilter(
        Translatable("%(count)s of nobody or another user (from_user)"), "n.user_id = %(from_user)s"
    ),
    "archived": CandidateFilter(
        Translatable("%(count)s not archived (archived)"),
        "n.archived_at IS NOT NULL",
        past="n.archived_at <= %(as_of)s",
    ),
    "below": CandidateFilter(
        Translatable("%(count)s at other addresses (below)"),
        "(n.uri = %(below)s OR starts_with(n.uri, %(below)s || '/'))",
    ),
    "pattern": CandidateFilter(
        Translatable("%(count)s that the pattern does not match"), "n.description ~ %(pattern)s"
    ),
    "importance": CandidateFilter(
        Translatable("%(count)s less important than importance"), "n.poignancy >= %(importance)s"
    ),
    "without_vector": CandidateFilter(
        Translatable("%(count)s embedded (vector)"), "n.embedding_model IS NULL"
    ),
    "words": CandidateFilter(
        Translatable("%(count)s without the words"),
        """(n.description ILIKE %(words)s
            OR cardinality(%(terms)s::text[]) > 0 AND string_to_array(n.tokens, ' ') @> %(terms)s::text[])""",
    ),
    # What a retrieval measures; it is no condition of a memory alone.
    "min_similarity": CandidateFilter(Translatable("%(count)s less similar than min_similarity")),
    "min_probability": CandidateFilter(Translatable("%(count)s less likely to answer than min_probability")),
}
#: What there is at all, for whom and when it is asked.
_FIRST = ("user_id", "as_of", "include_archived")


def of_question(
    filters: Filters,
    now: datetime,
    *,
    user_id: str | None = None,
    as_of: datetime | None = None,
    original: bool = False,
) -> FilterValues:
    """The values of a retrieval's filters at its time ``now``; ``original``: as in Park et al. (2023)."""
    values = {
        "user_id": user_id,
        "as_of": as_of,
        "types": filters.types,
        "kinds": filters.kinds,
        "origins": filters.origins or None,
        "min_trust": filters.min_trust,
        "include_archived": None if filters.include_archived else False,
        "superseded": None if filters.superseded else False,
        "small_talk": None if filters.small_talk else False,
        "include_expired": None if original or filters.include_expired else now,
        "created_after": filters.created_after,
        "created_before": filters.created_before,
        "session_id": filters.session_id,
        "keywords": [keyword.lower() for keyword in filters.keywords] or None,
        **({"says_idle": True, "not_embedded": True} if original else {"idle": True}),
    }
    return {name: value for name, value in values.items() if value is not None or name == "user_id"}


def conditions(filter_values: FilterValues) -> LiteralString:
    """The filters in SQL for psycopg, whose parameters ``filter_values`` holds."""
    return " AND ".join(
        [
            "true",
            *(_sql(name, filter_values) for name in FILTERS if name in filter_values and FILTERS[name].sql),
        ]
    )


def clause(filter_values: FilterValues) -> TextClause:
    """The same for SQLAlchemy, of the table ``memory_nodes`` itself."""
    sql = _of_table(conditions(filter_values))
    return text(sql).bindparams(
        **{name: filter_values[name] for name in re.findall(r":(\w+)", sql.replace("::", ""))}
    )


def _of_table(sql: str) -> str:
    return re.sub(r"\bn\.", "memory_nodes.", re.sub(r"%\((\w+)\)s(?:::(\w+)\[\])?", _parameter, sql))


def _parameter(match: re.Match[str]) -> str:
    return f"CAST(:{match[1]} AS {match[2]}[])" if match[2] else f":{match[1]}"


def passing(index: Indexed, name: str, value: Any) -> Passing | None:
    """The rows of an index in memory that a filter lets pass with its value; None for all."""
    rows = FILTERS[name].rows
    return None if rows is None or value is None else rows(index, value)


def left_out(
    connection: Connection, group_id: str, agent_id: str, filter_values: FilterValues
) -> dict[str, int]:
    """How many of an agent's memories each filter alone leaves out, by name (``kinds.session``)."""
    parts: dict[str, LiteralString] = {}
    among: LiteralString = "true"
    for name in _FIRST:
        if name in filter_values:
            # No user learns how much others said in private.
            if name != "user_id" or filter_values[name] is None:
                parts[name] = f"{among} AND ({_sql(name, filter_values)}) IS NOT TRUE"
            among = f"{among} AND {_sql(name, filter_values)}"
    for name in (name for name in FILTERS if name in filter_values and name not in _FIRST):
        sql, values = _sql(name, filter_values), FILTERS[name].values
        if values is None:
            parts[name] = f"{among} AND ({sql}) IS NOT TRUE"
        else:
            parts |= {
                f"{name}.{value}": f"{among} AND {values[0]} = '{value}'"
                for value in values[1]
                if value not in filter_values[name]
            }
    counts: LiteralString = ", ".join(f"count(*) FILTER (WHERE {part})" for part in parts.values())
    whose = "n.group_id = %(group)s AND n.agent_id = %(agent)s"
    query = f"SELECT {counts} FROM memory_nodes n WHERE {whose}"  # noqa: S608 – no value
    row = connection.exec_driver_sql(query, {**filter_values, "group": group_id, "agent": agent_id}).one()
    return {name: count for name, count in zip(parts, row, strict=True) if count}


def _sql(name: str, filter_values: FilterValues) -> LiteralString:
    condition = FILTERS[name]
    return condition.past if condition.past and "as_of" in filter_values else condition.sql


def sentences(left_out: Mapping[str, int]) -> list[Translatable]:
    """One for each filter that leaves out any, those that leave out most first."""
    return [
        FILTERS[name].sentence.filled({"count": f"{count:,}", "value": value})
        for (name, _, value), count in (
            (name.partition("."), count)
            for name, count in sorted(left_out.items(), key=lambda item: -item[1])
        )
    ]


def with_left_out(message: str, left_out: Mapping[str, int]) -> str:
    """The message with what the filters leave out; each counts alone: a memory may count several times."""
    note = f"left out: {', '.join(sentences(left_out))}" if left_out else ""
    return "; ".join(filter(None, (message, note)))
