"""Answers to the questions of :mod:`jiyi.protocol.queries`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel
from pydantic_core import to_jsonable_python
from sqlalchemy import Connection

from jiyi.errors import NotFound
from jiyi.protocol import queries as ask
from jiyi.protocol.vectors import to_bytes, to_text
from models.db.connection import unit_of_work
from models.db.scope import whole_service
from models.memory import listing
from models.memory.agents import agent_settings
from tasks.framework.answering import answers

M = TypeVar("M", bound=BaseModel)


def inspects(what: str, query: type[M]) -> Callable[[Callable[[M], Any]], Callable[[M], Any]]:
    """The task ``inspect.<what>``; its answer may hold ids and times, which become text."""

    def register(function: Callable[[M], Any]) -> Callable[[M], Any]:
        answers(f"inspect.{what}", query)(lambda request: to_jsonable_python(function(request)))
        return function

    return register


def _page(rows: list[dict[str, Any]], limit: int, cursor: str) -> dict[str, Any]:
    return {"rows": rows, "next": rows[-1][cursor] if len(rows) == limit else None}


@inspects("event_states", ask.EventStatesQuery)
def event_states(query: ask.EventStatesQuery) -> list[dict[str, Any]]:
    with whole_service(), unit_of_work() as connection:
        return listing.event_states(connection, query.group_id, query.event_ids)


@inspects("nodes", ask.NodesQuery)
def nodes(query: ask.NodesQuery) -> dict[str, Any]:
    with unit_of_work() as connection:
        rows = listing.nodes(connection, query.group_id, query.agent_id, query.types, query.before, query.limit)
        if not rows and query.before is None:
            _must_exist(connection, query.group_id, query.agent_id)
    return _page(rows, query.limit, "node_count")


@inspects("keywords", ask.KeywordsQuery)
def keywords(query: ask.KeywordsQuery) -> dict[str, Any]:
    with unit_of_work() as connection:
        rows = listing.keywords(connection, query.group_id, query.agent_id, query.offset, query.limit)
        if not rows and not query.offset:
            _must_exist(connection, query.group_id, query.agent_id)
    return {"rows": rows, "next": query.offset + query.limit if len(rows) == query.limit else None}


@inspects("agents", ask.AgentsQuery)
def agents(query: ask.AgentsQuery) -> dict[str, Any]:
    with unit_of_work() as connection:
        return _page(listing.agents(connection, query.group_id, query.after, query.limit), query.limit, "agent_id")


@inspects("related", ask.RelatedQuery)
def related(query: ask.RelatedQuery) -> dict[str, Any]:
    parts = (query.subject, query.predicate, query.object)
    with unit_of_work() as connection:
        return listing.related(connection, query.group_id, query.agent_id, parts, query.limit)


@inspects("export", ask.ExportQuery)
def export(query: ask.ExportQuery) -> dict[str, Any]:
    with unit_of_work() as connection:
        rows = listing.events(connection, query.group_id, query.agent_id, query.after, query.with_vectors, query.limit)
    last = rows[-1]["position"] if len(rows) == query.limit else None
    for row in rows:
        del row["position"]
        vector, model = row.pop("embedding"), row.pop("embedding_model")
        if vector is not None:
            row["payload"] = {**row["payload"], "vector": to_text(to_bytes(vector.to_numpy())), "embedding_model": model}
        else:
            row["payload"].pop("embedding_model", None)  # its vector is not exported, so it would name nothing
    return {"rows": rows, "next": last}


def _must_exist(connection: Connection, group_id: str, agent_id: str) -> None:
    if agent_settings(connection, group_id, agent_id) is None:
        raise NotFound(f"agent_id: no agent {agent_id!r} in the group {group_id!r}; see `jiyi agents`")
