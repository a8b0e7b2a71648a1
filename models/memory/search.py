"""Search of memories for people: by words, by part of a text, by what is known of them. Not the retrieval.

A memory is found by a text when it has all its tokens (``jiyi.text.words``: stems of words, pairs of Chinese characters, the
very ones that retrieval goes by), or when its description has the text somewhere in it, as it was typed.

Bound to a group, to an agent if one is named, and by the caller's statement time-out: without an agent every memory of
the group is looked at, because nothing is indexed across agents.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeVar
from uuid import UUID

from pydantic import BaseModel
from sqlalchemy import ColumnElement, Connection, Text, func, or_, select, tuple_
from sqlalchemy.dialects.postgresql import ARRAY

from jiyi.errors import InvalidRequest
from jiyi.protocol.memory import Memory
from jiyi.protocol.recall import ListMemories
from jiyi.text.words import tokens
from models.db.conditions import ilike_pattern
from models.db.rows import columns, fetch
from models.memory.tables import MemoryNode

R = TypeVar("R", bound=BaseModel)
Archived = Literal["without", "with", "only"]

#: Characters of what is searched for; more is a text, and for a text there is retrieval.
MAX_WORDS_CHARS = 500
#: Characters of a description that a list carries; the memory's own page has all of it.
MAX_LISTED_CHARS = 4_000


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryFilter:
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
    #: Also what newer memories superseded.
    superseded: bool = True
    without_vector: bool = False


#: Between the time and the id of a place in a group's list.
PLACE_SEPARATOR = "/"
#: What PostgreSQL's ``integer`` holds has at most so many digits.
MAX_PLACE_DIGITS = 9


class FoundMemory(Memory):
    """A memory of a list, and how long its description is."""

    chars: int


#: Where a page ends, so that rows which arrive do not move the next one: the number of its last memory in an agent, when
#: it happened and its id in a group.
Place = int | tuple[datetime, UUID]


def search(connection: Connection, row: type[R], group_id: str, wanted: MemoryFilter, before: Place | None, limit: int) -> list[R]:
    """Memories, newest first: one agent's in the order of their numbers, a group's by when they happened."""
    node = MemoryNode
    computed = {"description": func.left(node.description, MAX_LISTED_CHARS), "chars": func.length(node.description)}
    statement = select(*columns(row, node, **computed)).where(node.group_id == group_id, *_conditions(wanted)).limit(limit)
    if isinstance(before, int):
        statement = statement.where(node.node_count < before)
    elif before is not None:
        statement = statement.where(tuple_(node.created_at, node.node_id) < before)
    order = [node.node_count.desc()] if wanted.agent_id is not None else [node.created_at.desc(), node.node_id.desc()]
    return fetch(connection, row, statement.order_by(*order))


def _conditions(wanted: MemoryFilter) -> Iterator[ColumnElement[bool]]:  # noqa: C901 – one case after another, each simple
    node = MemoryNode
    if wanted.agent_id is not None:
        yield node.agent_id == wanted.agent_id
    if wanted.types:
        yield node.type.in_(wanted.types)
    if wanted.session_id is not None:
        yield node.session_id == wanted.session_id
    if wanted.created_from is not None:
        yield node.created_at >= wanted.created_from
    if wanted.created_to is not None:
        yield node.created_at < wanted.created_to
    if wanted.importance is not None:
        yield node.poignancy >= wanted.importance
    if wanted.keyword:
        yield node.keywords_lower.contains([wanted.keyword.lower()])
    if wanted.archived != "with":
        yield node.archived_at.is_(None) if wanted.archived == "without" else node.archived_at.is_not(None)
    if not wanted.superseded:
        yield node.superseded_at.is_(None)
    if wanted.without_vector:
        yield node.embedding_model.is_(None)
    if words := wanted.words.strip()[:MAX_WORDS_CHARS]:
        as_typed = node.description.ilike(ilike_pattern(words))
        terms = list(dict.fromkeys(tokens(words)))
        yield or_(func.string_to_array(node.tokens, " ", type_=ARRAY(Text)).contains(terms), as_typed) if terms else as_typed


def page(connection: Connection, group_id: str, request: ListMemories) -> tuple[list[Memory], str | None]:
    """The memories of a page, and what stands for its end; None if it is the last one."""
    wanted = MemoryFilter(
        words=request.words,
        agent_id=request.agent_id,
        types=request.types,
        session_id=request.session_id,
        created_from=request.created_after,
        created_to=request.created_before,
        keyword=request.keyword or "",
        archived="with" if request.include_archived else "without",
        superseded=request.include_superseded,
    )
    rows = search(connection, Memory, group_id, wanted, _place_of(request), request.limit)
    if len(rows) < request.limit:
        return rows, None
    last = rows[-1]
    numbered = request.agent_id is not None
    return rows, str(last.node_count) if numbered else f"{last.created_at.isoformat()}{PLACE_SEPARATOR}{last.node_id}"


def _place_of(request: ListMemories) -> Place | None:
    """Where the page before ended: a number of the agent's memories, or a time and an id of the group's.

    Raises:
        InvalidRequest: it is no place of this list.
    """
    after = request.after
    if not after:
        return None
    try:
        if request.agent_id is not None and after.isdecimal() and len(after) <= MAX_PLACE_DIGITS:
            return int(after)
        if request.agent_id is None:
            at, _, node_id = after.partition(PLACE_SEPARATOR)
            moment = datetime.fromisoformat(at)
            if moment.tzinfo is not None:
                return moment, UUID(node_id)
    except ValueError:
        pass
    raise InvalidRequest(["after: is no place of this list; give `next` of the page before"])
