"""Tools as the APIs of OpenAI and Anthropic have them, a model's call as it comes, and its result; of MCP,
too.

A strict schema is in the subset of both APIs: objects are closed, what has no fixed fields is left out,
limits stand in the descriptions. No answer is longer than a host takes: the rest is asked for with its
``next``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from operator import getitem
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, RootModel
from pydantic_core import from_json, to_json

from jiyi.errors import InvalidRequest
from jiyi.protocol.base import MAX_NAME_CHARS, JsonObject, Request
from jiyi.protocol.openapi.tools import PREFIX, Tool
from jiyi.protocol.wire.bounds import MESSAGE
from jiyi.protocol.wire.json_checks import repeated_key, sentence
from jiyi.text.budget import CUT, cut_to_tokens, estimate_tokens
from jiyi.text.prompting import visible

Json = dict[str, Any]

RETRIEVE, OBSERVE = f"{PREFIX}retrieve", f"{PREFIX}observe"
#: Tools whose answer is one text, returned in pieces where it is long, and the field that it is in.
TEXTS = {f"{PREFIX}get": "description", f"{PREFIX}context": "text"}
#: Arguments that name something, in which blanks around the name are a model's slip.
NAMES = ("agent_id", "user_id", "session_id")
#: Tokens of an answer. MCP sends it as text and as a structure, and hosts take 25,000 of both (Claude Code).
MOST_TOKENS = 12_000
#: Tokens of one text of an answer that does not fit as a whole.
TEXT_TOKENS = 1_000
#: Characters that a token has at most; only of long compounds and blanks it has more.
MOST_CHARS = 8
#: Tokens that a list's cursor may take.
CURSOR_TOKENS = 200
#: Tokens of a short answer, and of one memory in it.
SHORT_TOKENS, MEMORY_TOKENS = 1_500, 200
DETAIL = {
    "type": "string",
    "enum": ["short", "full"],
    "default": "short",
    "description": "`full`: with every score explained.",
}
CURSOR = {"type": "string", "description": "`next` of the answer before: for what did not fit into it."}
NEXT = {"type": "string", "description": "Give it as `cursor` for what did not fit."}
LEFT_OUT = {"type": "integer", "description": "How many there are beyond these."}
#: The form of a short answer.
SHORT = {
    "type": "object",
    "properties": {
        "next": NEXT,
        "memories": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "text": {"type": "string"},
                    "node_id": {"type": "string", "format": "uuid"},
                    "kind": {"type": "string"},
                    "created_at": {"type": "string", "format": "date-time"},
                    "superseded_at": {"type": "string", "format": "date-time"},
                    "score": {"type": "number"},
                },
                "required": ["text", "node_id", "score"],
                "additionalProperties": False,
            },
        },
        "left_out": LEFT_OUT,
        "message": {"type": "string", "description": "Why there are none, or what the filters leave out."},
    },
    "required": ["memories", "left_out"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """A request of the tool's operation."""

    #: In place of the path's braces, not yet percent-encoded.
    parts: dict[str, str]
    query: dict[str, str]
    #: None: it has no body.
    body: Json | None


def request_of(tool: Tool, arguments: Mapping[str, Any]) -> ToolRequest:
    """The request that a call is. A null says that an argument is not given, at any depth. Raises
    InvalidRequest for a missing or unknown argument.
    """
    place_in(tool, arguments)  # a cursor that is none is said before anything is done
    own = {*(["detail"] if tool.name == RETRIEVE else []), *(["cursor"] if _is_paged(tool) else [])}
    fields: Json = {
        field: _trimmed(field, value) for field, value in without_nulls(arguments).items() if field not in own
    }
    if missing := [field for field in tool.in_path if field not in fields]:
        raise InvalidRequest([f"missing: {', '.join(missing)}"])
    body = {field: value for field, value in fields.items() if field not in (*tool.in_path, *tool.in_query)}
    has_body = tool.method not in ("GET", "DELETE")
    if body and not has_body:
        raise InvalidRequest([f"unknown arguments: {', '.join(body)}"])
    return ToolRequest(
        {field: str(fields[field]) for field in tool.in_path},
        {**tool.fixed, **{field: _text(fields[field]) for field in tool.in_query if field in fields}},
        body if has_body else None,
    )


def answer_for_model(tool: Tool, arguments: Mapping[str, Any], answer: Any) -> Any:
    """An operation's answer as returned to the model: without nulls, and as much as fits; of a retrieval the
    short form unless it asked for more.
    """
    answer = _once_each(without_nulls(answer))
    if not isinstance(answer, dict):
        return answer
    if tool.name == OBSERVE and "event_ids" in answer:
        answer = {"node_id": answer["event_ids"][0], **_without(answer, "event_ids")}
    after = place_in(tool, arguments)
    if tool.name == RETRIEVE and arguments.get("detail") != "full":
        return shortened(answer, after)
    if tool.name in TEXTS:
        return _piece(answer, TEXTS[tool.name], after)
    shorter = fitted(answer, after)
    return (
        shorter
        if _is_paged(tool) or "left_out" not in shorter
        else {**_without(shorter, "next"), **_only(answer, "next")}
    )


def fewer(tool: Tool, request: ToolRequest, answer: Any) -> ToolRequest | None:
    """The request to make instead where a list with a cursor of its own is too long."""
    if not {"cursor", "limit"} <= {*tool.in_query}:
        return None
    whole = _once_each(without_nulls(answer))
    shorter = fitted(whole, 0, MOST_TOKENS - CURSOR_TOKENS)
    if "left_out" not in shorter:
        return None
    [field] = _longest(whole)
    return replace(request, query={**request.query, "limit": str(len(shorter[field]))})


def place_in(tool: Tool, arguments: Mapping[str, Any]) -> int:
    """How much of a tool's answer was returned before. Raises InvalidRequest for an invalid cursor."""
    cursor = arguments.get("cursor") if _is_paged(tool) else None
    if cursor in (None, ""):
        return 0
    if not (str(cursor).isascii() and str(cursor).isdigit()):
        raise InvalidRequest(["cursor: is no cursor of this answer; give `next` of the answer before"])
    return int(cursor)


def _is_paged(tool: Tool) -> bool:
    """Whether its answers are cut into pieces here; lists have cursors of their own."""
    return tool.read_only and "cursor" not in tool.in_query


def offered(tool: Tool) -> Tool:
    """The tool as models are offered it: with a choice of short and full answers, and a cursor."""
    arguments, answer = tool.input_schema, _may_lack(tool.output_schema, "embedding_key")
    more: Json = {
        **({"detail": DETAIL} if tool.name == RETRIEVE else {}),
        **({"cursor": CURSOR} if _is_paged(tool) else {}),
    }
    properties = answer.get("properties", {})
    if tool.name == OBSERVE and "event_ids" in properties:
        node_id = {"type": "string", "format": "uuid", "description": "The memory's id."}
        properties = {"node_id": node_id, **_without(properties, "event_ids")}
        required = [name for name in answer.get("required", []) if name != "event_ids"]
        answer = {**answer, "properties": properties, "required": ["node_id", *required]}
    if _is_paged(tool):
        answer = {**answer, "properties": {**properties, "next": NEXT, "left_out": LEFT_OUT}}
    if tool.name == RETRIEVE:
        answer = {
            "type": "object",
            "anyOf": [SHORT, _without(answer, "$defs")],
            "$defs": answer.get("$defs", {}),
        }
    arguments = {**arguments, "properties": {**arguments["properties"], **more}}
    return tool.model_copy(update={"input_schema": arguments, "output_schema": answer})


def fitted(answer: Json, after: int, most: int = MOST_TOKENS) -> Json:
    """As much of an answer as fits: with its texts cut, and of its longest list the rows behind ``after``.
    ``next`` is where it goes on, ``left_out`` how much there is.
    """
    if not after and _fits(answer, most):
        return answer
    path = _longest(answer)
    if not path:
        return dict(_with_cut_texts(answer))
    rows = reduce(getitem, path, answer)
    items = [*rows.items()] if isinstance(rows, dict) else [*rows]
    rest: Json = _with_cut_texts(_with(answer, path, type(rows)()))
    room, page = most - _tokens(rest), list[Any]()
    for item in items[after:]:
        cut = _with_cut_texts(item)
        room -= _tokens(cut) + 1
        if room < 0 and page:
            break
        page.append(cut)
    remaining = len(items) - after - len(page)
    shorter = _with(rest, path, type(rows)(page))
    return {**shorter, "next": str(after + len(page)), "left_out": remaining} if remaining > 0 else shorter


def _piece(answer: Json, field: str, after: int) -> Json:
    """An answer, with as much of its text from a character on as fits."""
    if not after and _fits(answer, MOST_TOKENS):
        return answer
    text = str(answer.get(field, ""))[after:]
    rest = _without(fitted({**answer, field: ""}, 0, MOST_TOKENS // 2), "next")
    piece = cut_to_tokens(text[: MOST_TOKENS * MOST_CHARS], MOST_TOKENS - _tokens(rest))
    if piece == text:
        return {**rest, field: text}
    piece = piece.removesuffix(CUT)
    return {**rest, field: piece, "next": str(after + len(piece))}


def _without(value: Json, name: str) -> Json:
    return {field: part for field, part in value.items() if field != name}


def _only(value: Json, name: str) -> Json:
    return {name: value[name]} if name in value else {}


def _tokens(value: Any) -> int:
    return estimate_tokens(to_json(value).decode())


def _fits(value: Any, most: int) -> bool:
    """Whether it has at most so many tokens; of what is much too long they are not counted."""
    text = to_json(value).decode()
    return len(text) <= most * MOST_CHARS and estimate_tokens(text) <= most


def _longest(answer: Json) -> tuple[Any, ...]:
    """The path of an answer's longest list; empty if it has none."""
    places = [
        ((), answer),
        *((("groups", number), group) for number, group in enumerate(answer.get("groups", []))),
    ]
    paths = [
        (*path, field)
        for path, place in places
        for field, value in place.items()
        if isinstance(value, list | dict)
    ]
    return max(
        (path for path in paths if path != ("groups",)),
        key=lambda path: len(to_json(reduce(getitem, path, answer))),
        default=(),
    )


def _with(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy with something else at a path."""
    if not path:
        return new
    copied = dict(value) if isinstance(value, dict) else list(value)
    copied[path[0]] = _with(value[path[0]], path[1:], new)
    return copied


def _with_cut_texts(value: Any) -> Any:
    """A copy whose texts have at most ``TEXT_TOKENS``."""
    if isinstance(value, dict):
        return {name: _with_cut_texts(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_with_cut_texts, value))
    return cut_to_tokens(value[: TEXT_TOKENS * MOST_CHARS], TEXT_TOKENS) if isinstance(value, str) else value


def _once_each(value: Any) -> Any:
    """Without the texts that were embedded where they are the memories' own."""
    if isinstance(value, dict):
        description = value.get("description")
        return {
            name: _once_each(part)
            for name, part in value.items()
            if name != "embedding_key" or part != description
        }
    return [_once_each(part) for part in value] if isinstance(value, list) else value


def _may_lack(schema: Any, field: str) -> Any:
    """A schema in which no object must have a field of that name."""
    if isinstance(schema, dict):
        properties = {name: _may_lack(part, field) for name, part in schema.items()}
        if isinstance(required := properties.get("required"), list):
            properties["required"] = [name for name in required if name != field]
        return properties
    return [_may_lack(part, field) for part in schema] if isinstance(schema, list) else schema


def _trimmed(field: str, value: Any) -> Any:
    return value.strip() if field in NAMES and isinstance(value, str) else value


def shortened(answer: Mapping[str, Any], after: int = 0) -> Json:
    """A retrieval's answer in at most ``SHORT_TOKENS``: each memory once, those behind ``after``."""
    rest = {
        "memories": [],
        "left_out": 0,
        "next": "00",
        **({"message": answer["message"]} if answer.get("message") else {}),
    }
    room = SHORT_TOKENS - _tokens(rest)
    nodes = [
        *{node["node_id"]: node for group in answer["groups"] for node in group["retrieved_nodes"]}.values()
    ][after:]
    memories: list[Json] = []
    for node in nodes:
        brief = {
            name: node[name]
            for name in ("node_id", "kind", "created_at", "superseded_at")
            if node.get(name) is not None
        }
        memory = {
            "text": cut_to_tokens(node["description"], MEMORY_TOKENS),
            **brief,
            "score": round(node["score"], 3),
        }
        room -= estimate_tokens(to_json(memory).decode()) + 1
        if room < 0:
            break
        memories.append(memory)
    remaining = len(nodes) - len(memories)
    goes_on = {"next": str(after + len(memories))} if remaining else {}
    return {**_without(rest, "next"), "memories": memories, "left_out": remaining, **goes_on}


def without_nulls(value: Any) -> Any:
    """A JSON value without the fields that are null; in lists nulls keep their places."""
    if isinstance(value, Mapping):
        return {name: without_nulls(part) for name, part in value.items() if part is not None}
    return [without_nulls(part) for part in value] if isinstance(value, list) else value


def _text(value: Any) -> str:
    """A parameter as it stands behind a question mark."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


Form = Literal["openai", "openai-responses", "anthropic"]

#: Formats of texts that both APIs know.
FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")
#: Keywords that a strict schema has no room for, and that a description can say.
SAID = ("default", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "maxItems")


class ToolsQuery(Request, use_attribute_docstrings=True):
    """In which form?"""

    for_: Form | None = Field(None, alias="for")
    """As an API takes them: `openai` (chat completions), `openai-responses` or `anthropic`."""
    strict: bool = False
    """With closed schemas, whose arguments models cannot get wrong in form. Needs `for`."""
    names: list[str] = Field([])
    """Only these: strict tools are compiled, and the APIs limit how many go into a request."""


def functions(tools: Iterable[Tool], form: Form, *, strict: bool) -> list[Json]:
    """The tools as the API takes them."""
    return [_function(tool, form, strict=strict) for tool in tools]


def _function(tool: Tool, form: Form, *, strict: bool) -> Json:
    # With OpenAI all that may be left out is null instead; Anthropic's may be left out, and it limits how
    # many may be null.
    schema = strict_schema(tool.input_schema, nullable=form != "anthropic") if strict else tool.input_schema
    base: Json = {"name": tool.name, "description": tool.description}
    if form == "anthropic":
        return {**base, "input_schema": schema, **({"strict": True} if strict else {})}
    function = {**base, "parameters": schema, "strict": strict}
    return (
        {"type": "function", **function}
        if form == "openai-responses"
        else {"type": "function", "function": function}
    )


def strict_schema(schema: Json, *, nullable: bool) -> Json:
    """A tool's arguments in a form that can be kept to. ``nullable``: what is optional is required, and may
    be null. Raises ValueError if something required has no fixed form.
    """
    defs = {name: _strict(part, nullable=nullable) for name, part in schema.get("$defs", {}).items()}
    open_ = {f"#/$defs/{name}" for name, part in defs.items() if part is None}
    if open_:
        raise ValueError(f"these have no fixed form: {', '.join(sorted(open_))}")
    closed = _strict({name: part for name, part in schema.items() if name != "$defs"}, nullable=nullable)
    if closed is None:
        raise ValueError("the arguments have no fixed form")
    return {**closed, **({"$defs": defs} if defs else {})}


def _strict(schema: Json, *, nullable: bool) -> Json | None:
    """None if it has no fixed form."""
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        strict_options = [_strict(option, nullable=nullable) for option in options]
        forms = [option for option in strict_options if option is not None]
        return _described({"anyOf": forms}, schema) if forms else None
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}
    return (
        _simple(schema)
        if schema.get("type") not in ("object", "array")
        else _nested(schema, nullable=nullable)
    )


def _simple(schema: Json) -> Json | None:
    if "enum" in schema or "const" in schema:
        return _described(
            {name: schema[name] for name in ("type", "enum", "const") if name in schema}, schema
        )
    if schema.get("type") not in ("string", "integer", "number", "boolean", "null"):
        return None
    return _described(
        {"type": schema["type"], **({"format": schema["format"]} if schema.get("format") in FORMATS else {})},
        schema,
    )


def _nested(schema: Json, *, nullable: bool) -> Json | None:
    if schema["type"] == "object":
        return _closed(schema, nullable=nullable)
    items = _strict(schema.get("items", {}), nullable=nullable)
    return None if items is None else _described({"type": "array", "items": items}, schema)


def _closed(schema: Json, *, nullable: bool) -> Json | None:
    if "properties" not in schema and schema.get("additionalProperties") is not False:
        return None
    required = schema.get("required", [])
    properties: Json = {}
    for name, property_ in schema.get("properties", {}).items():
        strict = _strict(property_, nullable=nullable)
        if strict is None:
            if name in required:
                raise ValueError(f"{name}: has no fixed form")
            continue
        if nullable and name not in required:
            text = {"description": strict.pop("description")} if "description" in strict else {}
            strict = {"anyOf": [strict, {"type": "null"}], **text}
        properties[name] = strict
    required_names = [*properties] if nullable else [name for name in properties if name in required]
    return _described(
        {
            "type": "object",
            "properties": properties,
            "required": required_names,
            "additionalProperties": False,
        },
        schema,
    )


def _described(strict: Json, schema: Json) -> Json:
    """With its description, and with what else it says of the values."""
    limits = ", ".join(f"{name}: {schema[name]}" for name in SAID if schema.get(name, "") not in ("", []))
    text = " ".join(filter(None, [schema.get("description"), f"({limits})" if limits else ""]))
    return {**strict, **({"description": text} if text else {})}


Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARS)]
Arguments = Annotated[str, Field(description="The arguments as the model wrote them: a JSON object as text.")]


class CalledFunction(BaseModel, frozen=True):
    """Which function, and with what."""

    name: Name
    arguments: Arguments


class ChatCall(BaseModel, frozen=True):
    """One of `tool_calls` of a chat completion."""

    type: Literal["function"]
    id: Name
    function: CalledFunction


class ResponsesCall(BaseModel, frozen=True):
    """An output item of the Responses API."""

    type: Literal["function_call"]
    call_id: Name
    name: Name
    arguments: Arguments


class ToolUse(BaseModel, frozen=True):
    """A content block of Anthropic's messages."""

    type: Literal["tool_use"]
    id: Name
    name: Name
    input: dict[str, Any]


class ToolCall(RootModel[Annotated[ChatCall | ResponsesCall | ToolUse, Field(discriminator="type")]]):
    """A model's call of a tool, as the API gave it."""

    @property
    def name(self) -> str:
        return self.root.function.name if isinstance(self.root, ChatCall) else self.root.name

    def arguments(self) -> Json:
        """What the model gave. Raises InvalidRequest if that is no JSON object."""
        if isinstance(self.root, ToolUse):
            return self.root.input
        text = self.root.function.arguments if isinstance(self.root, ChatCall) else self.root.arguments
        try:
            MESSAGE.check(text.encode("utf-8", "replace"))
            content = from_json(text) if text.strip() else {}
        except ValueError as error:
            raise InvalidRequest([f"arguments: not JSON ({error}); write one JSON object"]) from None
        if not isinstance(content, dict):
            raise InvalidRequest([f"arguments: must be a JSON object, not {type(content).__name__}"])
        if (repeated := repeated_key(text)) is not None:
            raise InvalidRequest([f"arguments: {sentence(repeated)}"])
        return content


def output_of(call: ToolCall, answer: Any = None, *, error: str = "") -> JsonObject:
    """The result of a call in the form of its API, ready to be appended to the model's conversation: the
    answer as JSON, or what was wrong with it. Nothing in it passes for a mark of the prompt.
    """
    text = visible(to_json({"error": error} if error else answer).decode())
    match call.root:
        case ChatCall(id=id_):
            return {"role": "tool", "tool_call_id": id_, "content": text}
        case ResponsesCall(call_id=id_):
            return {"type": "function_call_output", "call_id": id_, "output": text}
        case ToolUse(id=id_):
            return {"type": "tool_result", "tool_use_id": id_, "content": text, "is_error": bool(error)}
