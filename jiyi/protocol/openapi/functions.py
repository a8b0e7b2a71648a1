"""Function calling as the APIs of OpenAI and Anthropic have it: tools in their form, a model's call as it comes, and its result.

A strict schema is in the subset that both APIs accept: objects are closed, what has no fixed fields is left out, and limits
stand in the descriptions, where a model reads them; the service checks them in any case.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, RootModel
from pydantic_core import from_json, to_json

from jiyi.errors import InvalidRequest
from jiyi.protocol.base import MAX_NAME_CHARS, Request
from jiyi.protocol.openapi.tools import Tool
from jiyi.protocol.wire.json_checks import repeated_key, sentence
from jiyi.text.prompting import visible

Json = dict[str, Any]
Form = Literal["openai", "openai-responses", "anthropic"]

#: Formats of texts that both APIs know.
FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")
#: Keywords that a strict schema has no room for, and that a description can say.
SAID = ("default", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "maxItems")


class ToolsQuery(Request):
    """In which form?"""

    for_: Form | None = Field(
        None, alias="for", description="As an API takes them: `openai` (chat completions), `openai-responses` or `anthropic`."
    )
    strict: bool = Field(False, description="With closed schemas, whose arguments models cannot get wrong in form. Needs `for`.")
    names: list[str] = Field([], description="Only these: strict tools are compiled, and the APIs limit how many go into a request.")


def functions(tools: Iterable[Tool], form: Form, *, strict: bool) -> list[Json]:
    """The tools as the API takes them."""
    return [_function(tool, form, strict=strict) for tool in tools]


def _function(tool: Tool, form: Form, *, strict: bool) -> Json:
    # With OpenAI all that may be left out is null instead; Anthropic's may be left out, and it limits how many may be null.
    schema = strict_schema(tool.input_schema, nullable=form != "anthropic") if strict else tool.input_schema
    named: Json = {"name": tool.name, "description": tool.description}
    if form == "anthropic":
        return {**named, "input_schema": schema, **({"strict": True} if strict else {})}
    function = {**named, "parameters": schema, "strict": strict}
    return {"type": "function", **function} if form == "openai-responses" else {"type": "function", "function": function}


def strict_schema(schema: Json, *, nullable: bool) -> Json:
    """A tool's arguments in a form that can be kept to. ``nullable``: what is optional is required, and may be null.

    Raises:
        ValueError: something that is required has no fixed form.
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
        kept = [_strict(option, nullable=nullable) for option in options]
        forms = [option for option in kept if option is not None]
        return _described({"anyOf": forms}, schema) if forms else None
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}
    return _simple(schema) if schema.get("type") not in ("object", "array") else _nested(schema, nullable=nullable)


def _simple(schema: Json) -> Json | None:
    if "enum" in schema or "const" in schema:
        return _described({name: schema[name] for name in ("type", "enum", "const") if name in schema}, schema)
    if schema.get("type") not in ("string", "integer", "number", "boolean", "null"):
        return None
    return _described({"type": schema["type"], **({"format": schema["format"]} if schema.get("format") in FORMATS else {})}, schema)


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
    kept = [*properties] if nullable else [name for name in properties if name in required]
    return _described({"type": "object", "properties": properties, "required": kept, "additionalProperties": False}, schema)


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
            given = from_json(text) if text.strip() else {}
        except ValueError as error:
            raise InvalidRequest([f"arguments: not JSON ({error}); write one JSON object"]) from None
        if not isinstance(given, dict):
            raise InvalidRequest([f"arguments: must be a JSON object, not {type(given).__name__}"])
        if (repeated := repeated_key(text)) is not None:
            raise InvalidRequest([f"arguments: {sentence(repeated)}"])
        return given


class ToolMessage(BaseModel):
    """The message that follows a chat completion with this call."""

    role: Literal["tool"] = "tool"
    tool_call_id: str
    content: str


class FunctionCallOutput(BaseModel):
    """The input item that answers a call of the Responses API."""

    type: Literal["function_call_output"] = "function_call_output"
    call_id: str
    output: str


class ToolResult(BaseModel):
    """The block for the next user message to Anthropic's models."""

    type: Literal["tool_result"] = "tool_result"
    tool_use_id: str
    content: str
    is_error: bool = False


class ToolOutput(RootModel[ToolMessage | FunctionCallOutput | ToolResult]):
    """What the model is told, ready to be appended to its conversation; in what it was told, nothing passes for a mark of the prompt."""


def output_of(call: ToolCall, answer: Any = None, *, error: str = "") -> ToolOutput:
    """The result of a call: the answer as JSON, or what was wrong with it."""
    text = visible(to_json({"error": error} if error else answer).decode())
    match call.root:
        case ChatCall(id=id_):
            return ToolOutput(ToolMessage(tool_call_id=id_, content=text))
        case ResponsesCall(call_id=id_):
            return ToolOutput(FunctionCallOutput(call_id=id_, output=text))
        case ToolUse(id=id_):
            return ToolOutput(ToolResult(tool_use_id=id_, content=text, is_error=bool(error)))
