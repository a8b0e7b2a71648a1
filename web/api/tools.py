"""The operations that an LLM can use as tools: in which form an API takes them, and its calls of them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any
from uuid import UUID

from pydantic_core import from_json, to_json
from werkzeug.exceptions import HTTPException

from jiyi.errors import InvalidRequest, JiyiError, unknown
from jiyi.protocol.base import JsonObject, Rows
from jiyi.protocol.openapi import functions as tool_calls
from jiyi.protocol.openapi.functions import ToolCall, ToolsQuery, functions, output_of
from jiyi.protocol.openapi.tools import OFFERED, Tool, tools
from jiyi.protocol.wire.signatures import KeyScope
from models.db.bounded_reads import SourceUnavailable
from web.accounts.identity import need
from web.api.bodies import checked_body
from web.api.problems import RequestRefused, answer_to
from web.api.registry import OPERATIONS, ApiOperation, operation
from web.api.running import Reply, RequestContext, checked_query

#: Errors reported to a model, so that it can do something else; any other error is a failure of ours.
REPORTED_ERRORS = (JiyiError, RequestRefused, SourceUnavailable, HTTPException)


@operation("GET /tools", "service", scope=None)
def list_tools(context: RequestContext, query: ToolsQuery) -> Rows[Tool | JsonObject]:
    """List the tools for an LLM.

    Operations that the key may use, each as what function calling and MCP take: a name, a description, a JSON
    schema of its arguments; and how to call it over HTTP: arguments that are in the path or in the query, all
    others in the body. With `for` they go into a request to a model as they are, and what it calls goes to
    call_tool.
    """
    may = [tool for tool, scope in _tools() if scope is None or context.identity.may(scope)]
    if wrong := [name for name in query.names if name not in OFFERED]:
        raise InvalidRequest([f"names: {unknown(wrong[0], OFFERED, 'tool')}"])
    chosen = [tool for tool in may if not query.names or tool.name in query.names]
    if query.for_ is None:
        if query.strict:
            raise InvalidRequest(["strict: say for which API, too: for=openai or for=anthropic"])
        return Rows(rows=chosen)
    return Rows(rows=functions(map(tool_calls.offered, chosen), query.for_, strict=query.strict))


@operation("POST /tools/call", "service", scope=None, errors=(504,))
def call_tool(context: RequestContext, body: ToolCall) -> JsonObject:
    """Do what a model called a tool for.

    The body is the call as the model's API gave it, of chat completions, the Responses API or Anthropic's
    messages; the answer is what to append to the conversation. A refusal or a failure is reported to the
    model in the same form. The key needs the scope of the tool's operation.
    """
    try:
        return output_of(body, _performed(context, body))
    except REPORTED_ERRORS as error:
        return output_of(body, error=_sentence(error))


def _performed(context: RequestContext, call: ToolCall) -> Any:
    """The answer to the model. Raises what the operation raises; InvalidRequest for what is no call of it."""
    tool = _tool_of(call.name)
    if tool is None:
        raise InvalidRequest([f"there is no tool {call.name!r}; there are {', '.join(OFFERED)}"])
    target = next(operation for operation in OPERATIONS if operation.id == OFFERED[tool.name])
    if target.scope is not None:
        need(target.scope)
    arguments = call.arguments()
    tool_request = tool_calls.request_of(tool, arguments)
    answer = _answer(context, target, tool_request)
    if (fewer := tool_calls.fewer(tool, tool_request, answer)) is not None:
        answer = _answer(context, target, fewer)
    return tool_calls.answer_for_model(tool, arguments, answer)


def _answer(context: RequestContext, target: ApiOperation, tool_request: tool_calls.ToolRequest) -> Any:
    """What the operation answers, as JSON values."""
    arguments: dict[str, Any] = {
        name: _part(target, name, value) for name, value in tool_request.parts.items()
    }
    if (
        query := checked_query(target.query, [(name, [value]) for name, value in tool_request.query.items()])
    ) is not None:
        arguments["query"] = query
    if target.body is not None:
        arguments["body"] = checked_body(target.body, to_json(tool_request.body or {}))
    value = target.handler(context, **arguments)
    if isinstance(value, Reply):
        value = value.value
    return from_json(value if isinstance(value, bytes) else to_json(value))


def _tool_of(name: str) -> Tool | None:
    return {tool.name: tool for tool, _ in _tools()}.get(name)


def _part(target: ApiOperation, name: str, value: str) -> Any:
    """A part of the path, as its converter would give it."""
    if target.parts[name] != "uuid":
        if not value.strip():
            raise InvalidRequest([f"{name}: must not be blank"])
        return value
    try:
        return UUID(value)
    except ValueError:
        raise InvalidRequest([f"{name}: must be an id such as {UUID(int=0)}, not {value[:100]!r}"]) from None


def _sentence(error: Exception) -> str:
    """What the API would have answered."""
    problem = from_json(answer_to(error).get_data())
    return str(problem["detail"])


@lru_cache(maxsize=1)
def _tools() -> list[tuple[Tool, KeyScope | None]]:
    return tools(OPERATIONS)
