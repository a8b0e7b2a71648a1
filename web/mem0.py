"""mem0's dialect at ``/api/mem0``: a program for mem0 needs a new address and a key of ours, and no other
code.

A thin interface: each path is one of our actions with the names changed, under the same scopes and row-level
rules. A memory keeps the id that it was added under, however often it is updated: here each version has an
id, and every one of them leads to the current version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from typing import Any, TypeVar, get_args
from uuid import UUID

from flask import Blueprint, Flask, Response, request
from pydantic import BaseModel
from pydantic_core import from_json
from uuid6 import uuid7

from jiyi.chat.recording import messages_of
from jiyi.errors import InvalidEvent, InvalidRequest, NotFound
from jiyi.imports.drafts import BadTimeError, time_of
from jiyi.polling import poll
from jiyi.protocol import events as wire
from jiyi.protocol.base import ById, ByIdForUser
from jiyi.protocol.conversation_commands import ExtractMessages
from jiyi.protocol.conversations import AnyKind, Message
from jiyi.protocol.erasure import MAX_NODES, Erasure
from jiyi.protocol.memory import Memory
from jiyi.protocol.recall import ListMemories, UpdateMemory
from jiyi.protocol.retrieval import Filters, RetrieveBody
from jiyi.protocol.wire.signatures import KeyScope
from models.conversations import actions as conversations
from models.db.actions import Action
from models.erasure import actions as erasures
from models.memory import archive, questions
from web import mem0_requests as dialect
from web.accounts.api_keys import identify_by_key
from web.actions import perform
from web.api.memory import accepted, retrieve_memories
from web.api.problems import RequestRefused, answer_to
from web.api.registry import ApiOperation
from web.api.running import RequestContext, run

PATH = "/api/mem0"
#: Memories that a list, a count or a deletion looks at; versions of one memory.
MOST, MOST_VERSIONS = 10_000, 100
#: Seconds that an addition waits to be retrievable, and a deletion to be done: mem0's are when they return.
SECONDS = 8.0
#: More are asked for than are wanted where some are left out afterwards.
WIDER = 5

#: In a newer version's provenance: the id that the memory was added under, by which mem0's programs know it.
FIRST = "mem0_id"

R = TypeVar("R")
blueprint = Blueprint("mem0", __name__, url_prefix=PATH)
blueprint.register_error_handler(Exception, answer_to)


#: One for each address. They stand in no document: who speaks the dialect has mem0's.
OPERATIONS: list[ApiOperation] = []


class Mem0Answer(BaseModel):
    """Whatever mem0 answers."""


@blueprint.before_request
def identify() -> None:
    """mem0's clients send the key as ``Token …`` or ``X-API-Key``."""
    scheme, _, key = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "token" or (not scheme and (key := request.headers.get("X-API-Key", ""))):
        request.environ["HTTP_AUTHORIZATION"] = f"Bearer {key.strip()}"
    identify_by_key()


def register(app: Flask) -> None:
    app.register_blueprint(blueprint)


def path(
    method: str, *addresses: str, scope: KeyScope, **options: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function the answer to these addresses, with the checks of every operation of the API."""

    def add(handler: Callable[..., Any]) -> Callable[..., Any]:
        name = handler.__name__
        options.setdefault("query", dialect.Project)

        def answer(context: RequestContext, query: BaseModel, **parts: Any) -> Any:
            return (
                handler(context, **parts)
                if isinstance(query, dialect.Project)
                else handler(context, query=query, **parts)
            )

        words = {
            "summary": name,
            "description": name,
            "tag": "memories",
            "id": f"mem0_{name}",
            "answer": Mem0Answer,
            "handler": answer,
        }
        for number, address in enumerate(addresses):
            fields: dict[str, Any] = {"method": method, "path": address, "scope": scope, **words, **options}
            operation = ApiOperation(**fields)
            OPERATIONS.append(operation)
            blueprint.add_url_rule(
                address, f"{name}_{number}", _view(operation), methods=[method], strict_slashes=False
            )
        return handler

    return add


def _view(operation: ApiOperation) -> Callable[..., Response]:
    return lambda **parts: run(operation, **parts)


@path("GET", "/v1/ping/", scope="read")
def ping(context: RequestContext) -> Any:
    """What its client asks first: is the key good?"""
    return {"status": "ok", "org_id": "jiyi", "project_id": context.group_id, "user_email": None}


@path(
    "POST", "/v3/memories/add/", "/v1/memories/", "/memories", scope="publish", body=dialect.Add, large=True
)
def add(context: RequestContext, body: dialect.Add) -> Any:
    """With ``infer`` the messages become turns, extracted soon; without it each is a memory at once."""
    if not body.entities:
        raise InvalidRequest(["user_id: required, or agent_id or run_id: the owner of the memory"])
    session, user = body.run_id, body.user_id
    at = None if body.timestamp is None else datetime.fromtimestamp(body.timestamp, UTC)
    messages, left_out = _messages_with_text(body.messages, at)
    extra = {"left_out": left_out} if left_out else {}
    if body.infer:
        turn_ids: list[UUID] = []
        if messages:
            extraction = ExtractMessages(
                agent_id=body.agent, messages=messages, session_id=session, user_id=user
            )
            turn_ids = _do(context, conversations.extract_and_store, extraction).turn_ids
        event_id = turn_ids[0] if turn_ids else None
        return {
            "message": "the facts in the messages are being extracted",
            "status": "PENDING",
            "event_id": event_id,
            "results": [],
            **extra,
        }
    messages = [message for message in messages if message.role != "system"]
    events = [
        wire.build(
            {
                "type": "memory.observed",
                "event_id": uuid7(),
                "occurred_at": at or datetime.now(UTC),
                "group_id": context.group_id,
                "agent_id": body.agent,
                "session_id": session,
                "payload": {
                    "description": message.text,
                    "user_id": user,
                    "origin": message.role,
                    "expires_at": _moment(body.expiration_date),
                    "provenance": _provenance({}, body.metadata, body.app_id) | {"role": message.role},
                },
            }
        )
        for message in messages
    ]
    if events:
        accepted(events, SECONDS)
    results = [
        {"id": event.event_id, "memory": message.text, "event": "ADD", "role": message.role}
        for event, message in zip(events, messages, strict=True)
    ]
    return {"results": results, **extra}


def _messages_with_text(
    messages: Sequence[Mapping[str, Any]], at: datetime | None
) -> tuple[list[Message], list[str]]:
    """The messages that have a text, and why each other one is left out."""
    usable: list[Message] = []
    left_out = []
    for place, message in enumerate(messages):
        content = message.get("content")
        parts = [content] if isinstance(content, dict) else content
        try:
            with_text = messages_of([{"role": message.get("role", "user"), "content": parts, "at": at}])
        except InvalidEvent as error:
            left_out.append(str(error).replace("messages.0.", f"messages.{place}.", 1))
            continue
        usable += with_text
        if not with_text:
            left_out.append(f"messages.{place}.content: has no text, which alone is remembered")
    return usable, left_out


@path(
    "POST",
    "/v3/memories/search/",
    "/v2/memories/search/",
    "/v1/memories/search/",
    "/search",
    scope="read",
    body=dialect.SearchRequest,
)
def search(context: RequestContext, body: dialect.SearchRequest) -> Any:
    """The memories that matter for a query, best first; ``score`` is how likely each is to answer."""
    if body.is_impossible:
        return {"results": []}
    most = body.top_k or body.limit or dialect.DEFAULT_FOUND
    filters = Filters(
        session_id=body.entities.get("run_id"),
        created_after=body.created_after,
        created_before=body.created_before,
    )
    retrieval = RetrieveBody(
        agent_id=body.agent,
        query=body.query,
        user_id=body.entities.get("user_id"),
        top_k=most * WIDER,
        filters=filters,
        flat=True,
    )
    nodes = from_json(retrieve_memories(context, retrieval))["retrieved_nodes"]
    rows = [{**_as_mem0(node), "score": _score(node)} for node in nodes if _is_of(node, body)]
    return {
        "results": [row for row in rows if body.threshold is None or row["score"] >= body.threshold][:most]
    }


def _score(node: Mapping[str, Any]) -> float:
    likely = node.get("probability")
    return float(node["score"] if likely is None else likely)


@path(
    "POST", "/v3/memories/", "/v2/memories/", scope="read", body=dialect.ListRequest, query=dialect.PageQuery
)
def get_page(context: RequestContext, body: dialect.ListRequest, query: dialect.PageQuery) -> Any:
    """Memories of an entity, newest first, page by page."""
    return _listed(context, body, query.page or body.page, query.page_size or body.page_size)


@path("GET", "/v1/memories/", "/memories", scope="read", query=dialect.ListRequest)
def get_all(context: RequestContext, query: dialect.ListRequest) -> Any:
    """The same, asked in the address."""
    return _listed(context, query, query.page, query.page_size)


def _listed(context: RequestContext, whose: dialect.EntityFilter, page: int, size: int) -> Any:
    rows = list(islice(_rows(context, whose), MOST))
    first = (page - 1) * size
    results = [
        _as_mem0(_memory(context, row.node_id).model_dump(mode="json")) for row in rows[first : first + size]
    ]
    following = f"{request.path}?page={page + 1}&page_size={size}" if first + size < len(rows) else None
    return {"count": len(rows), "next": following, "previous": None, "results": results}


@path("GET", "/v1/memories/<string:memory_id>/", "/memories/<string:memory_id>", scope="read")
def get(context: RequestContext, memory_id: str) -> Any:
    """The current version of a memory."""
    return _as_mem0(_current_version(context, memory_id).model_dump(mode="json"), memory_id)


@path(
    "PUT",
    "/v1/memories/<string:memory_id>/",
    "/memories/<string:memory_id>",
    scope="publish",
    body=dialect.MemoryChange,
)
def update(context: RequestContext, memory_id: str, body: dialect.MemoryChange) -> Any:
    """A newer version; the older ones are its history."""
    old = _current_version(context, memory_id)
    first = old.provenance.get(FIRST) or str(old.node_id)
    change: dict[str, Any] = {"provenance": _provenance(old.provenance, body.metadata, None) | {FIRST: first}}
    if body.words is not None:
        change["description"] = body.words
    _do(context, archive.update_memory, UpdateMemory.model_validate({"id": old.node_id, **change}))
    memory = _as_mem0(_current_version(context, memory_id).model_dump(mode="json"), memory_id)
    return {**memory, "text": memory["memory"], "message": "Memory updated successfully!"}


@path("GET", "/v1/memories/<string:memory_id>/history/", "/memories/<string:memory_id>/history", scope="read")
def history(context: RequestContext, memory_id: str) -> Any:
    """Its versions, oldest first."""
    versions = _versions(context, _current_version(context, memory_id))
    return [
        {
            "id": version.node_id,
            "memory_id": memory_id,
            "user_id": version.user_id,
            "event": "UPDATE" if number else "ADD",
            "old_memory": versions[number - 1].description if number else None,
            "new_memory": version.description,
            "created_at": version.stored_at,
            "updated_at": version.stored_at,
        }
        for number, version in enumerate(versions)
    ]


@path("DELETE", "/v1/memories/<string:memory_id>/", "/memories/<string:memory_id>", scope="admin")
def delete(context: RequestContext, memory_id: str) -> Any:
    """A memory with all its versions, for good."""
    is_done = _erase(
        context, [version.node_id for version in _versions(context, _current_version(context, memory_id))]
    )
    return {"message": "Memory deleted successfully!" if is_done else "The memory is being deleted"}


@path("DELETE", "/v1/memories/", "/memories", scope="admin", query=dialect.EntityFilter)
def delete_all(context: RequestContext, query: dialect.EntityFilter) -> Any:
    """All memories of an entity, whichever agent has them, with the turns and what was made of them."""
    if not query.entities:
        raise InvalidRequest(
            ["user_id: required, or agent_id, run_id or app_id: the owner of the memories to delete"]
        )
    rows = list(islice(_rows(context, query, everything=True), MOST))
    # Memories go with them; the other way around the rest would stay.
    turns_first = sorted(rows, key=lambda row: row.kind != "session")
    is_done = _erase(context, [row.node_id for row in turns_first])
    if len(rows) == MOST:
        return {"message": f"{MOST:,} memories deleted; there may be more: send this again"}
    return {"message": "Memories deleted successfully!" if is_done else "The memories are being deleted"}


@path("DELETE", "/v2/entities/<string:kind>/<string:name>/", scope="admin")
def delete_entity(context: RequestContext, kind: str, name: str) -> Any:
    """The same, as its client deletes users."""
    if f"{kind}_id" not in dialect.ENTITIES:
        raise RequestRefused(404, "There are users, agents, runs and apps.")
    return delete_all(context, dialect.EntityFilter.model_validate({f"{kind}_id": name}))


@path("GET", "/v1/entities/", "/entities", scope="read")
def entities(context: RequestContext) -> Any:
    """Agents, users and runs, each with the number of its current memories among the latest ones."""
    counts: dict[tuple[str, str], int] = {}
    for row in islice(_rows(context, None, everything=True), MOST):
        is_current = row.kind != "session" and row.superseded_by is None
        for kind, name in (("agent", row.agent_id), ("user", row.user_id), ("run", row.session_id)):
            if name is not None:
                counts[kind, name] = counts.get((kind, name), 0) + is_current
    results = [
        {"id": name, "name": name, "type": kind, "total_memories": count}
        for (kind, name), count in sorted(counts.items())
    ]
    return {"count": len(results), "next": None, "previous": None, "results": results}


def _do(context: RequestContext, action: Action[Any, R], body: BaseModel) -> R:
    return perform(action, context.group_id, body)


def _rows(
    context: RequestContext, whose: dialect.EntityFilter | None, *, everything: bool = False
) -> Iterable[Memory]:
    """Memories of an entity, newest first; None: of all. An agent that is not there has none.

    With ``everything`` whichever agent has them, and turns, archived memories and older versions, too.
    """
    entity_filter = whose or dialect.EntityFilter()
    if entity_filter.is_impossible:
        return
    narrow = entity_filter.app_id is not None or entity_filter.metadata is not None
    user_id, of_all = entity_filter.entities.get("user_id"), whose is None or everything
    fields: dict[str, Any] = {
        "agent_id": entity_filter.entities.get("agent_id") if of_all else entity_filter.agent,
        "user_id": user_id,
        "from_user": user_id,
        "session_id": entity_filter.entities.get("run_id"),
        "created_after": entity_filter.created_after,
        "created_before": entity_filter.created_before,
        "limit": 500,
    }
    if everything:
        fields |= {"kinds": get_args(AnyKind), "superseded": True, "archived": "with"}
    cursor: str | None = None
    while True:
        try:
            page = _do(
                context, questions.list_memories, ListMemories.model_validate({**fields, "cursor": cursor})
            )
        except NotFound:
            return
        for row in page.rows:
            if not narrow or _is_of(row.model_dump(mode="json"), entity_filter):
                yield row
        if page.next is None:
            return
        cursor = page.next


def _is_of(memory: Mapping[str, Any], whose: dialect.EntityFilter) -> bool:
    """Whether it is just theirs: mem0's programs do not expect what is nobody's in particular."""
    names, provenance = whose.entities, memory.get("provenance") or {}
    if "user_id" in names and memory["user_id"] != names["user_id"]:
        return False
    if "app_id" in names and provenance.get("app_id") != names["app_id"]:
        return False
    metadata = provenance.get("metadata") or {}
    return all(metadata.get(name) == value for name, value in (whose.metadata or {}).items())


def _memory(context: RequestContext, node_id: UUID) -> Memory:
    return _do(context, questions.get_memory, ByIdForUser(id=node_id))


def _current_version(context: RequestContext, memory_id: str) -> Memory:
    """The latest version of a memory, asked for by the id of any. 404 if there is none."""
    try:
        memory = _memory(context, UUID(memory_id))
        for _ in range(MOST_VERSIONS):
            if memory.superseded_by is None:
                break
            memory = _memory(context, memory.superseded_by)
    except (ValueError, NotFound):
        raise RequestRefused(404, "Memory not found!", code="not_found") from None
    return memory


def _versions(context: RequestContext, memory: Memory) -> list[Memory]:
    """It and what it replaced, oldest first."""
    versions = [memory]
    while len(versions) < MOST_VERSIONS and versions[-1].supersedes:
        versions.append(_memory(context, versions[-1].supersedes[0]))
    return versions[::-1]


def _erase(context: RequestContext, node_ids: list[UUID]) -> bool:
    """Erase them, and wait until they are gone, for as long as a request may; whether they are."""
    pending = []
    for first in range(0, len(node_ids), MAX_NODES):
        with suppress(NotFound):  # gone meanwhile, with what they rest on
            requested = _do(
                context, erasures.request_erasure, Erasure(node_ids=node_ids[first : first + MAX_NODES])
            )
            pending.append(ById(id=requested.erasure_id))

    def are_done() -> bool:
        return all(_do(context, erasures.get_erasure, each).state == "done" for each in pending)

    return poll(are_done, bool, SECONDS)


def _as_mem0(memory: Mapping[str, Any], memory_id: str | None = None) -> dict[str, Any]:
    """A memory as mem0 shows one."""
    provenance = memory.get("provenance") or {}
    return {
        "id": memory_id or provenance.get(FIRST) or memory["node_id"],
        "memory": memory["description"],
        "user_id": memory["user_id"],
        "agent_id": memory["agent_id"],
        "run_id": memory["session_id"],
        "app_id": provenance.get("app_id"),
        "metadata": provenance.get("metadata"),
        "categories": memory["keywords"],
        "expiration_date": memory["expires_at"],
        "created_at": memory["created_at"],
        "updated_at": memory.get("stored_at", memory["created_at"]),
    }


def _provenance(
    existing: Mapping[str, Any], metadata: Mapping[str, Any] | None, app_id: str | None
) -> dict[str, Any]:
    changes = {"metadata": metadata and dict(metadata), "app_id": app_id}
    return {**existing, **{name: value for name, value in changes.items() if value is not None}}


def _moment(text: str | None) -> datetime | None:
    try:
        return time_of(text)
    except BadTimeError as error:
        raise InvalidRequest([f"expiration_date: {error}"]) from None
