"""Tools as the APIs of OpenAI and Anthropic take them, checked with their own packages; and what schemas of
answers promise.
"""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from pydantic import TypeAdapter, ValidationError

pytest.importorskip("anthropic", reason="needs the extra `dev`")

from anthropic import transform_schema
from anthropic.types import ToolParam, ToolResultBlockParam, ToolUseBlock
from openai.lib._pydantic import _ensure_strict_json_schema
from openai.types.chat import (
    ChatCompletionFunctionToolParam,
    ChatCompletionMessageFunctionToolCall,
    ChatCompletionToolMessageParam,
)
from openai.types.responses import FunctionToolParam, ResponseFunctionToolCall
from openai.types.responses.response_input_item_param import FunctionCallOutput

from jiyi.errors import InvalidRequest
from jiyi.protocol.openapi import functions as tool_calls
from jiyi.protocol.openapi.functions import FORMATS, ToolCall, functions, output_of, strict_schema
from jiyi.protocol.openapi.tools import Tool
from web.api.tools import _tools

TOOLS = [tool_calls.offered(tool) for tool, _ in _tools()]
BY_NAME = {tool.name: tool for tool in TOOLS}
EACH = pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
PARAMS = {
    "openai": ChatCompletionFunctionToolParam,
    "openai-responses": FunctionToolParam,
    "anthropic": ToolParam,
}
#: What OpenAI's strict mode knows of JSON schema.
KNOWN = {"type", "properties", "required", "additionalProperties", "description", "anyOf", "enum", "const"}
KNOWN |= {"items", "format", "$ref", "$defs"}


def schemas_in(schema: Any) -> list[dict[str, Any]]:
    """A schema and all within it."""
    inner = [part for name in ("properties", "$defs") for part in schema.get(name, {}).values()]
    inner += schema.get("anyOf", [])
    inner += [schema["items"]] if "items" in schema else []
    return [schema, *(found for one in inner for found in schemas_in(one))]


@pytest.mark.parametrize("form", PARAMS)
@pytest.mark.parametrize("strict", [True, False])
def test_tools_are_what_the_package_takes(form: Any, strict: bool) -> None:
    for function in functions(TOOLS, form, strict=strict):
        TypeAdapter(PARAMS[form]).validate_python(function, strict=True)
        said = function.get("function", function)
        assert len(said["description"]) <= 1_024
        assert said.get("strict", False) is strict


@EACH
def test_a_strict_schema_is_closed_and_whole(tool: Tool) -> None:
    """OpenAI's own helper, which makes schemas strict, finds nothing to do."""
    strict = strict_schema(tool.input_schema, nullable=True)
    assert _ensure_strict_json_schema(json.loads(json.dumps(strict)), path=(), root=strict) == strict
    for schema in schemas_in(strict):
        assert schema.keys() <= KNOWN
        assert schema.get("format") in {None, *FORMATS}
        if schema.get("type") == "object":
            assert schema["additionalProperties"] is False
            assert schema["required"] == [*schema["properties"]]
    optional = strict["properties"].keys() - set(tool.input_schema["required"])
    assert all({"type": "null"} in strict["properties"][name]["anyOf"] for name in optional)
    left_out = tool.input_schema["properties"].keys() - strict["properties"].keys()
    assert left_out <= {"provenance"}  # any object


@EACH
def test_anthropic_s_own_helper_changes_nothing_of_a_strict_schema(tool: Tool) -> None:
    strict = strict_schema(tool.input_schema, nullable=False)
    transformed = transform_schema(json.loads(json.dumps(strict)))
    for schema in schemas_in(transformed):
        if "enum" in schema:  # it leaves out the type of what is listed
            schema["type"] = "string"
    assert transformed == strict
    assert set(strict["required"]) == set(tool.input_schema["required"])


def test_what_has_no_fixed_form_is_left_out() -> None:
    short = {"type": "string", "minLength": 3}
    for schema, strict in (
        ({"type": "object", "additionalProperties": True}, None),
        ({"type": "array", "items": {}}, None),
        ({"anyOf": [{"type": "object"}, short]}, {"anyOf": [{"type": "string"}]}),
        (
            {"type": "integer", "maximum": 9, "description": "How many."},
            {"type": "integer", "description": "How many. (maximum: 9)"},
        ),
        ({"type": "string", "format": "binary"}, {"type": "string"}),
    ):
        one: dict[str, Any] = {"type": "object", "properties": {"a": schema}}
        made = strict_schema(one, nullable=False)
        assert made["properties"] == ({} if strict is None else {"a": strict})
        if strict is None:
            with pytest.raises(ValueError, match="a: has no fixed form"):
                strict_schema({**one, "required": ["a"]}, nullable=True)


TEXT = '{"id": "x", "user_id": null}'
CALLS = {
    "chat": ChatCompletionMessageFunctionToolCall(
        id="call_1", type="function", function={"name": "memory_get", "arguments": TEXT}
    ),
    "responses": ResponseFunctionToolCall(
        type="function_call", id="fc_1", call_id="call_1", name="memory_get", arguments=TEXT
    ),
    "anthropic": ToolUseBlock(type="tool_use", id="call_1", name="memory_get", input=json.loads(TEXT)),
}
RESULTS: dict[str, Any] = {
    "chat": ChatCompletionToolMessageParam,
    "responses": FunctionCallOutput,
    "anthropic": ToolResultBlockParam,
}


@pytest.mark.parametrize("api", CALLS)
def test_a_call_comes_as_the_package_gives_it_and_its_result_is_what_the_package_takes(api: str) -> None:
    call = ToolCall.model_validate_json(CALLS[api].model_dump_json())
    assert call.name == "memory_get"
    assert tool_calls.request_of(BY_NAME["memory_get"], call.arguments()) == tool_calls.ToolRequest(
        {"id": "x"}, {}, None
    )
    for made in (output_of(call, {"text": "</tool> 茶"}), output_of(call, error="node_id: wrong")):
        assert TypeAdapter(RESULTS[api]).validate_python(made, strict=True) == made
        assert "call_1" in made.values()
        assert "</tool>" not in json.dumps(made)
    assert made.get("is_error", True)


CALL = {"type": "function_call", "call_id": "c", "name": "n"}


def test_arguments_that_are_none_and_what_is_no_call_are_refused() -> None:
    for text, sentence in {
        "{": "not JSON",
        "[1]": "must be a JSON object, not list",
        '{"a": 1, "a": 2}': "a: given twice",
        '{"a":' * 300: "not JSON",
    }.items():
        with pytest.raises(InvalidRequest, match=sentence):
            ToolCall.model_validate({**CALL, "arguments": text}).arguments()
    assert ToolCall.model_validate({**CALL, "arguments": " "}).arguments() == {}
    use = {"type": "tool_use", "id": "", "name": "n", "input": {}}
    for wrong in ({"type": "tool_result", "id": "1"}, {"type": "function", "id": "1"}, use):
        with pytest.raises(ValidationError):
            ToolCall.model_validate(wrong)


def test_nulls_are_arguments_that_are_not_given_at_any_depth() -> None:
    given = {"id": "a/b", "keywords": ["x"], "poignancy": None, "filters": {"after": None, "kinds": [None]}}
    assert tool_calls.request_of(BY_NAME["memory_update"], given).body == {
        "keywords": ["x"],
        "filters": {"kinds": [None]},
    }


@EACH
def test_the_schema_of_an_answer_knows_no_null_at_its_fields(tool: Tool) -> None:
    assert tool.output_schema["type"] == "object"
    jsonschema_rs.meta.validate(tool.output_schema)
    assert len(tool.output_schema) > 1
    for schema in schemas_in(tool.output_schema):
        for field in schema.get("properties", {}).values():
            assert {"type": "null"} not in field.get("anyOf", [])
