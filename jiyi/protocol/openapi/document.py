"""Operations of the REST API, the OpenAPI 3.1 document made of them and of pydantic's schemas, and problem
details (RFC 9457).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, TypeAdapter

from jiyi import __version__
from jiyi.protocol import limits
from jiyi.protocol.base import MAX_NAME_CHARS, NOT_BLANK
from jiyi.protocol.events import CONTENT_TYPE
from jiyi.protocol.rest import FieldProblem, Problem
from jiyi.protocol.wire.signatures import KeyScope

Json = dict[str, Any]
#: (model, mode) → where its schema is.
Refs = dict[Any, Json]

REF = "#/components/schemas/{model}"
TITLE = "Jiyi 记忆"
DESCRIPTION = """Memory for AI agents: send it what happened, ask it what matters now.

Send `Authorization: Bearer jiyi_…` with every request. The key says which group (tenant) it speaks for and
what it may:
`publish` events, `read` memories, `admin` the group, or (an `operator`'s key) all of the service. Whatever
is not of the
key's group is not found. Errors are problem details (RFC 9457)."""
TAGS = {
    "events": "What happened: published and followed.",
    "retrieval": "What matters now.",
    "memories": "Memories one by one, and what they rest on.",
    "agents": "Who remembers, and with which settings.",
    "reflections": "What agents concluded from their memories.",
    "tiers": "What a workflow's nodes say: quarantine, working memory, long-term memory.",
    "conversations": "What is remembered of conversations, and what of it belongs before an answer.",
    "stores": "Stores that graphs of agents declare: searched, written, looked at.",
    "growth": "What agents learn from what worked, who they are, and what they do by themselves.",
    "items": "What programs keep for themselves: JSON values under a namespace and a key.",
    "service": "Counts, queues, dead letters, scheduled jobs.",
    "erasure": "Erasing for good.",
}
PART_TEXTS = {
    "id": (
        "Its id, as lists and other answers have it. A memory has that of its event, and so has an entry of"
        " quarantine."
    ),
    "digest_id": "Id of a digest.",
    "agent_id": "Name of an agent. What has a meaning in addresses is percent-encoded: a/b is a%2Fb.",
    "session_id": "Name of a session, percent-encoded.",
    "name": "Name of an action, such as `agents.list`.",
    "job": "Name of a job, such as `snapshot`: see list_jobs.",
}
#: Limits that validators check, and so no model can say: property → keyword of JSON schema, number.
LIMITS = {
    "description": ("maxLength", limits.MAX_DESCRIPTION_CHARS),
    "embedding_key": ("maxLength", limits.MAX_DESCRIPTION_CHARS),
    "query": ("maxLength", limits.MAX_FOCAL_CHARS),
    "queries": ("maxItems", limits.MAX_FOCAL_TEXTS),
    "keywords": ("maxItems", limits.MAX_KEYWORDS),
}
VECTOR = {
    "anyOf": [
        {"type": "array", "items": {"type": "number"}, "minItems": 1},
        {"type": "string", "contentEncoding": "base64", "description": "Little-endian float32."},
    ]
}
#: Description of the live stream, which is no operation of the registry.
STREAM = {
    "get": {
        "operationId": "stream",
        "tags": ["service"],
        "summary": "Watch what changes",
        "description": (
            "Server-sent events of the key's group, as they happen; `Last-Event-ID` goes on where one was cut"
            " off. Only ids, names of agents, counts and durations go over it. Needs the right `read`."
        ),
        "parameters": [
            {
                "name": "Last-Event-ID",
                "in": "header",
                "required": False,
                "schema": {"type": "string"},
                "description": "The last id that was received.",
            }
        ],
        "responses": {
            "200": {
                "description": "A stream that does not end.",
                "content": {"text/event-stream": {"schema": {"type": "string"}}},
            },
            "401": {"$ref": "#/components/responses/Problem401"},
            "403": {"$ref": "#/components/responses/Problem403"},
        },
    }
}

#: Numbers of requirements, and double back quotes, mean something in the code only.


MEDIA_TYPE = "application/problem+json"
#: The API's statuses of a :class:`JiyiError`, by its code; a code that is not here is a failure of ours.
STATUSES: Mapping[str, int] = {
    "invalid_event": 422,
    "invalid_request": 422,
    "model_mismatch": 422,
    "event_rejected": 422,
    "id_reused": 409,
    "text_refused": 422,
    "not_found": 404,
    "switched_off": 404,
    "conflict": 409,
    "not_allowed": 403,
    "too_many_questions": 429,
    "broker_unavailable": 503,
    "database_unavailable": 503,
    "provider_unavailable": 503,
    "embedding_unavailable": 503,
    "llm_unavailable": 503,
    "no_answer": 504,
}
TITLES: Mapping[int, str] = {
    400: "Bad request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict",
    413: "Content too large",
    415: "Unsupported media type",
    422: "Unprocessable content",
    429: "Too many requests",
    500: "Internal server error",
    503: "Service unavailable",
    504: "Gateway timeout",
}
#: What each kind means and what to do about it: the docs page shows it.
MEANINGS: Mapping[int, str] = {
    400: (
        "The request could not be read: its body is not JSON (or not UTF-8, or nested too deeply), or it was"
        " addressed to another host."
    ),
    401: "The header `Authorization: Bearer jiyi_…` is missing, or the key is unknown, expired or revoked.",
    403: (
        "The key is valid, but lacks the scope that this operation needs. What belongs to other groups is"
        " answered with 404."
    ),
    404: "Nothing in the key's group has this id or name, or the address does not exist.",
    405: "The address does not accept this method; the header `Allow` lists those it does.",
    409: (
        "The id in the request is already used; choose another. `code` is `id_reused` if an event's id was"
        " used again with other content: nothing of the request is stored, and the first event stays"
        " unchanged. It is `conflict` if somebody else changed or decided the same thing in the meantime:"
        " read it again."
    ),
    413: (
        "The body is larger than 1 MiB (events, imports and texts: than 16 MiB), or has more than 100,000"
        f" values (in large bodies one for every {limits.BYTES_A_VALUE} bytes), lists and objects, or names;"
        " send several requests."
    ),
    415: "Bodies are JSON: send `Content-Type: application/json`.",
    422: "The request is JSON, but fields are missing, unknown or invalid; `errors` has a sentence for each.",
    429: (
        "The key exceeded its rate limit, or it or its group has too many requests in progress; retry after"
        " the seconds in the header `Retry-After`."
    ),
    500: "The service failed. Its log has the details.",
    503: (
        "The database, the broker or the embedding model is unavailable, or too many requests are in"
        " progress; retry after the seconds in `Retry-After`. Nothing was changed."
    ),
    504: (
        "No worker answered in time; it may be slow or stopped. Repeating a read is harmless. Or the database"
        " did not confirm in time that the request was stored: it may be, and it is safe to send it again"
        " with the same `event_id`."
    ),
}

_UNKNOWN = re.compile(r"unknown option '([^']{1,400})'")


def field_problem(sentence: str) -> FieldProblem:
    """``field: what is wrong`` in two; a sentence on an unknown option names the field itself."""
    if (unknown := _UNKNOWN.match(sentence)) is not None:
        return FieldProblem(field=unknown[1], message=sentence)
    name, colon, message = sentence.partition(": ")
    if not colon or " " in name:
        return FieldProblem(field="", message=sentence)
    return FieldProblem(field="" if name == "value" else name, message=message)


PREFIX = "/api/v1"
#: An operator's key says with it which group it speaks for.
GROUP_HEADER = "Jiyi-Group"

Method = Literal["GET", "POST", "PATCH", "DELETE"]
Tag = Literal[
    "events",
    "retrieval",
    "memories",
    "agents",
    "reflections",
    "service",
    "erasure",
    "tiers",
    "conversations",
    "stores",
    "growth",
    "items",
]

#: ``<converter:name>`` of a path.
_PART = re.compile(r"<(\w{1,40}):(\w{1,40})>")


def parts_of(path: str) -> dict[str, str]:
    """Name → converter of what varies in a path."""
    return {name: converter for converter, name in _PART.findall(path)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Method and path, what it takes and what it answers with."""

    method: Method
    path: str
    id: str
    #: None: what it does decides.
    scope: KeyScope | None
    tag: Tag
    summary: str
    description: str
    answer: type[BaseModel]
    status: int = 200
    query: type[BaseModel] | None = None
    body: type[BaseModel] | None = None
    body_required: bool = True
    #: Bodies, or queries, by what they show.
    examples: Mapping[str, Any] = field(default_factory=dict)
    answer_example: Any = None
    #: Statuses beyond those that follow from the rest.
    errors: tuple[int, ...] = ()
    #: Fields that the document for Dify keeps; None: not in it.
    flat: tuple[str, ...] | None = None
    #: Of these, what they need beyond what the body itself does: one of several ways to ask.
    needed: tuple[str, ...] = ()
    #: Which of the body's models those are fields of, where it has several forms.
    flat_body: type[BaseModel] | None = None

    @property
    def parts(self) -> dict[str, str]:
        """Name → converter of what varies in the path."""
        return parts_of(self.path)

    @property
    def url(self) -> str:
        """The whole path as OpenAPI writes it."""
        return PREFIX + _PART.sub(r"{\2}", self.path)

    @property
    def statuses(self) -> list[int]:
        """Every status that it may answer with."""
        possible = {self.status, 400, 401, 403, 429, 500, 503, *self.errors}
        if self.parts:
            possible |= {404}
        if self.body is not None:
            possible |= {413, 415}
        return sorted(possible | {422})


def document(root: str, operations: Sequence[Operation]) -> Json:
    """The document of the service at ``root`` (scheme, host, port), with these operations."""
    refs, schemas = _schemas(operations)
    paths: dict[str, Json] = {}
    for operation in operations:
        paths.setdefault(operation.url, {})[operation.method.lower()] = _operation(operation, refs, schemas)
    paths[f"{PREFIX}/stream"] = STREAM
    used = {status for operation in operations for status in operation.statuses}
    tags = {operation.tag for operation in operations}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": TITLE,
            "version": __version__,
            "description": DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": root.rstrip("/")}],
        "tags": [{"name": name, "description": text} for name, text in TAGS.items() if name in tags],
        "security": [{"key": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "An API key, `jiyi_…`."}
            },
            "schemas": schemas,
            "responses": {f"Problem{status}": _problem(status) for status in TITLES if status in used},
        },
    }


def example_of(operation: Operation) -> Json:
    """The examples of a body as OpenAPI has them."""
    return {name: {"summary": name, "value": value} for name, value in operation.examples.items()}


def parameters(operation: Operation, schemas: Json) -> list[Json]:
    """The path's parts and the query's fields."""
    described: list[Json] = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": PART_TEXTS[name],
            "schema": {"type": "string", "format": "uuid"} if converter == "uuid" else _NAME,
        }
        for name, converter in operation.parts.items()
    ]
    if operation.query is None:
        return described
    schema = operation.query.model_json_schema(ref_template=REF)
    schemas.update(
        {
            name: _clean(definition)
            for name, definition in schema.pop("$defs", {}).items()
            if name not in schemas
        }
    )
    first: Json = next(iter(operation.examples.values()), {})
    for name, property_ in _clean(schema)["properties"].items():
        text = property_.pop("description", "")
        described.append(
            {
                "name": name,
                "in": "query",
                "required": name in schema.get("required", []),
                "description": text,
                "schema": not_null(property_),
                **({"example": first[name]} if name in first else {}),
            }
        )
    return described


def not_null(schema: Json) -> Json:
    """The schema without the possibility of null."""
    options = [option for option in schema.get("anyOf", []) if option.get("type") != "null"]
    rest = {
        name: value
        for name, value in schema.items()
        if name != "anyOf" and not (name == "default" and value is None)
    }
    return (
        {**rest, **options[0]} if len(options) == 1 else {**rest, **({"anyOf": options} if options else {})}
    )


_NAME = {"type": "string", "minLength": 1, "maxLength": MAX_NAME_CHARS, "pattern": NOT_BLANK}


def _operation(operation: Operation, refs: Refs, schemas: Json) -> Json:
    answer: Json = {"schema": refs[operation.answer, "serialization"]}
    if operation.answer_example is not None:
        answer["example"] = operation.answer_example
    responses: Json = {
        str(operation.status): {"description": operation.summary, "content": {CONTENT_TYPE: answer}}
    }
    for status in operation.statuses:
        if status != operation.status:
            responses[str(status)] = {"$ref": f"#/components/responses/Problem{status}"}
    described: Json = {
        "operationId": operation.id,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": (
            operation.description + (f" Needs the right `{operation.scope}`." if operation.scope else "")
        ),
        "parameters": parameters(operation, schemas),
        "responses": responses,
    }
    if operation.scope == "operator":
        described["parameters"].append(_GROUP)
    if operation.body is not None:
        content = {"schema": refs[operation.body, "validation"], "examples": example_of(operation)}
        described["requestBody"] = {"required": operation.body_required, "content": {CONTENT_TYPE: content}}
    return described


_GROUP = {
    "name": GROUP_HEADER,
    "in": "header",
    "required": False,
    "schema": {"type": "string", "maxLength": MAX_NAME_CHARS},
    "description": "Which group an operator's key speaks for; the deployment's own unless given.",
}


def _problem(status: int) -> Json:
    content = {MEDIA_TYPE: {"schema": {"$ref": REF.format(model="Problem")}}}
    return {"description": f"{TITLES[status]}. {MEANINGS[status]}", "content": content}


def _schemas(operations: Iterable[Operation]) -> tuple[Refs, Json]:
    """(model, mode) → a reference, and the schemas by name."""
    models: list[Any] = [(operation.answer, "serialization") for operation in operations]
    models += [(operation.body, "validation") for operation in operations if operation.body is not None]
    adapters = [
        (model, mode, TypeAdapter(model))
        for model, mode in dict.fromkeys([*models, (Problem, "serialization")])
    ]
    refs, defined = TypeAdapter.json_schemas(adapters, ref_template=REF)
    return {key: dict(ref) for key, ref in refs.items()}, {
        name: _clean(definition) for name, definition in defined["$defs"].items()
    }


def _clean(schema: Any) -> Any:
    """Without titles that only repeat a name, and with the limits."""
    if isinstance(schema, list):
        return [_clean(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    cleaned = {
        name: _clean(value) for name, value in schema.items() if name != "title" or not isinstance(value, str)
    }
    if isinstance(text := cleaned.get("description"), str):
        cleaned["description"] = " ".join(text.replace("``", "`").split())
    if cleaned.get("format") == "binary":  # pydantic's word for a vector (jiyi.protocol.wire.vectors)
        return VECTOR
    for name, (keyword, limit) in LIMITS.items():
        property_ = (
            cleaned.get("properties", {}).get(name) if isinstance(cleaned.get("properties"), dict) else None
        )
        for typed in _typed(property_, keyword):
            typed[keyword] = limit
    return cleaned


def _typed(schema: Any, keyword: str) -> Iterator[Json]:
    """The schema, or those of its options, to which a keyword applies and which do not have it."""
    kind = {"maxLength": "string", "maxItems": "array"}[keyword]
    if isinstance(schema, dict):
        if schema.get("type") == kind and keyword not in schema and "enum" not in schema:
            yield schema
        for option in schema.get("anyOf", []):
            yield from _typed(option, keyword)
