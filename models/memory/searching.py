"""Search of memories for people: by words, by part of a text, by what is known of them. Not the retrieval.

A memory is found by a text when it has all its tokens (``jiyi.text.tokens``: stems of words, pairs of Chinese characters, the
very ones that retrieval goes by), or when its description has the text somewhere in it, as it was typed.

Bound to a group, to an agent if one is named, and by the caller's statement time-out: without an agent every memory of
the group is looked at, because nothing is indexed across agents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import Connection, text

from jiyi.text.tokens import tokens

Row = dict[str, Any]
Archived = Literal["without", "with", "only"]

#: Characters of what is searched for; more is a text, and for a text there is retrieval.
MAX_WORDS_CHARS = 500
#: Characters of a description that a list carries; the memory's own page has all of it.
MAX_LISTED_CHARS = 4_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """What is searched for; what is None or empty counts for nothing."""

    words: str = ""
    agent_id: str | None = None
    types: Sequence[str] = ()
    session_id: str | None = None
    created_from: datetime | None = None
    created_to: datetime | None = None
    importance: float | None = None
    keyword: str = ""
    archived: Archived = "without"
    without_vector: bool = False


#: Where a page ends, so that rows which arrive do not move the next one: the number of its last memory in an agent, when
#: it happened and its id in a group.
Place = int | tuple[datetime, UUID]


def search(connection: Connection, group_id: str, wanted: Wanted, before: Place | None, limit: int) -> list[Row]:
    """Memories, newest first: one agent's in the order of their numbers, a group's by when they happened."""
    conditions = ["n.group_id = :group"]
    given: dict[str, Any] = {"group": group_id, "limit": limit, "chars": MAX_LISTED_CHARS}

    def only(condition: str, **values: Any) -> None:
        conditions.append(condition)
        given.update(values)

    if wanted.agent_id is not None:
        only("n.agent_id = :agent", agent=wanted.agent_id)
    if wanted.types:
        only("n.type = ANY(:types)", types=list(wanted.types))
    if wanted.session_id is not None:
        only("n.session_id = :session", session=wanted.session_id)
    if wanted.created_from is not None:
        only("n.created_at >= :from", **{"from": wanted.created_from})
    if wanted.created_to is not None:
        only("n.created_at < :to", to=wanted.created_to)
    if wanted.importance is not None:
        only("n.poignancy >= :importance", importance=wanted.importance)
    if wanted.keyword:
        only("n.keywords_lower @> ARRAY[CAST(:keyword AS text)]", keyword=wanted.keyword.lower())
    if wanted.archived != "with":
        only(f"n.archived_at IS {'NULL' if wanted.archived == 'without' else 'NOT NULL'}")
    if wanted.without_vector:
        only("n.embedding_model IS NULL")
    if words := wanted.words.strip()[:MAX_WORDS_CHARS]:
        found = list(dict.fromkeys(tokens(words)))
        by_tokens = "string_to_array(n.tokens, ' ') @> CAST(:tokens AS text[]) OR " if found else ""
        only(f"({by_tokens}n.description ILIKE :part)", part=_part(words), **({"tokens": found} if found else {}))
    if isinstance(before, int):
        only("n.node_count < :count", count=before)
    elif before is not None:
        only("(n.created_at, n.node_id) < (:at, CAST(:id AS uuid))", at=before[0], id=before[1])
    order = "n.node_count DESC" if wanted.agent_id is not None else "n.created_at DESC, n.node_id DESC"
    statement = text(f"{_SELECT} WHERE {' AND '.join(conditions)} ORDER BY {order} LIMIT :limit")
    return [dict(row) for row in connection.execute(statement, given).mappings()]


def _part(words: str) -> str:
    """``words`` anywhere in a text, for ILIKE; its own wildcards stand for themselves."""
    for special in ("\\", "%", "_"):
        words = words.replace(special, f"\\{special}")
    return f"%{words}%"


_SELECT = """
    SELECT n.node_id, n.agent_id, n.session_id, n.type, n.node_count, n.depth, n.created_at, n.expires_at, n.archived_at,
        left(n.description, :chars) AS description, length(n.description) AS chars, n.keywords, n.poignancy, n.is_idle,
        n.embedding_model
    FROM memory_nodes n
"""
