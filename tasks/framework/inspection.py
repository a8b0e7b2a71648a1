"""Answers to the questions of :mod:`jiyi.protocol.queries`.

Whoever may use the broker is trusted with dead letters of no known group, such as a message that is no event: the
questions about them look across groups, and their statements' own conditions keep to the group and to those letters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from celery import current_app
from pydantic import BaseModel
from pydantic_core import to_jsonable_python
from sqlalchemy import Connection

from jiyi.accounts.signatures import service_headers
from jiyi.errors import NotFound, SettingsError
from jiyi.protocol import queries as ask
from jiyi.protocol.broker import bind_anew, exchange, intake_queue, stamp
from jiyi.protocol.events import CONTENT_TYPE
from jiyi.protocol.vectors import to_bytes, to_text
from jiyi.settings import get_settings
from models.db import valkey_keys
from models.db.connection import unit_of_work
from models.db.scope import whole_service
from models.db.valkey import valkey
from models.memory import listing
from models.memory.agents import agent_settings
from models.queue import dead_letters as dead
from models.queue import news
from models.retrieval import index_cache
from tasks.framework.answering import answers
from tasks.framework.work import wake

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


@inspects("stats", ask.StatsQuery)
def stats(query: ask.StatsQuery) -> dict[str, Any]:
    with whole_service(), unit_of_work() as connection:  # the work owed by kind is all groups'
        counts, owed = listing.group_counts(connection, query.group_id), listing.work_owed(connection)
    counters = {name.decode(): int(value) for name, value in valkey().hgetall(valkey_keys.COUNTERS).items()}
    return {
        "group": counts,
        "work_owed": owed,
        "counters": counters,
        "access_buffered": valkey().zcard(valkey_keys.ACCESS),
        "indexes": index_cache.reports(),
    }


@inspects("dead_letters", ask.DeadLettersQuery)
def dead_letters(query: ask.DeadLettersQuery) -> dict[str, Any]:
    with whole_service(), unit_of_work() as connection:
        rows = dead.letters(connection, query.group_id, query.state, query.kind, query.before, query.limit)
    return _page(rows, query.limit, "letter_id")


@inspects("resolve", ask.ResolveQuery)
def resolve(query: ask.ResolveQuery) -> dict[str, Any]:
    """Replayed events go through the exchange again, like new ones, before their letters close."""
    with whole_service(), unit_of_work() as connection:
        resolved = dead.resolve(connection, query.group_id, query.letter_ids, query.kind, replay=query.action == "replay")
        if query.letter_ids and not resolved.count:
            raise NotFound("letter_ids: none of these is an open dead letter of this group")
        _publish(resolved.bodies, query.group_id)
    wake(*resolved.kinds)
    news.resolved(query.group_id, resolved.count, "replayed" if query.action == "replay" else "discarded")
    return {"resolved": resolved.count}


def _publish(bodies: list[str], group_id: str) -> None:
    """Refused bodies, as they came, to the exchange: what has been mended since passes, the rest comes back.

    Who signed them has no part in it: the service signs, for the group of whoever replays, so that a message that was
    refused because it is another group's is refused again.
    """
    settings = get_settings()
    secret_key = settings.secret_key.get_secret_value()
    if bodies and settings.require_signed_events and not secret_key:
        raise SettingsError("JIYI_SECRET_KEY is not set for this worker, so that it cannot sign what is replayed")
    with current_app.producer_or_acquire() as producer:
        for text in bodies:
            body = text.encode()
            bind_anew(intake_queue(settings), producer.channel)
            producer.publish(
                body,
                exchange=exchange(settings),
                routing_key="replayed",
                content_type=CONTENT_TYPE,
                content_encoding="utf-8",
                retry=True,
                retry_policy={"max_retries": 3},
                headers=stamp() | (service_headers(secret_key, group_id, body) if secret_key else {}),
            )


def _must_exist(connection: Connection, group_id: str, agent_id: str) -> None:
    if agent_settings(connection, group_id, agent_id) is None:
        raise NotFound(f"agent_id: no agent {agent_id!r} in the group {group_id!r}; see `jiyi agents`")
