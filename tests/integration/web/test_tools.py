"""``/tools`` and ``/tools/call``: what a model calls is done with the rights of the key, and what goes wrong
is told to the model.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import jsonschema_rs
import pytest

from jiyi import Client
from jiyi.protocol.openapi import functions as tool_calls
from jiyi.protocol.openapi.tools import Tool
from tests.integration.programs import Program

pytestmark = pytest.mark.usefixtures("own_caller")

ProgramMaker = Callable[..., Program]


def called(api: Program, name: str, **arguments: Any) -> Any:
    """What a model that called a tool through chat completions is told."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    made = api.post("/tools/call", {"id": "call_1", "type": "function", "function": function}, 200)
    assert (made["role"], made["tool_call_id"]) == ("tool", "call_1")
    return json.loads(made["content"])


def used(api: Program, name: str, status: int = 200, **arguments: Any) -> Any:
    """What Claude is told that used one."""
    use = {"type": "tool_use", "id": "toolu_1", "name": name, "input": arguments}
    return api.post("/tools/call", use, status)


def test_a_model_remembers_and_recalls(client: Client, program: ProgramMaker) -> None:
    api = program(client.group)
    seen = {"agent_id": "mia", "description": "Mia is allergic to peanuts", "poignancy": 8, "subject": None}
    told = called(api, "memory_observe", **seen, wait=30)
    node_id = told["node_id"]
    asked = {"agent_id": "mia", "query": "What must Mia not eat?", "top_k": 3, "user_id": None}
    found = called(api, "memory_retrieve", **asked)
    assert [memory["node_id"] for memory in found["memories"]] == [node_id]
    full = called(api, "memory_retrieve", **asked, detail="full")
    assert full["groups"][0]["retrieved_nodes"][0]["node_id"] == node_id
    block = used(api, "memory_context", agent_id="mia", query="米娅不能吃什么？")
    assert (block["type"], block["tool_use_id"], block["is_error"]) == ("tool_result", "toolu_1", False)
    assert "peanuts" in block["content"]
    item = {"type": "function_call", "id": "fc", "call_id": "call_2", "name": "memory_get"}
    output = api.post("/tools/call", {**item, "arguments": json.dumps({"id": node_id})}, 200)
    assert (output["type"], output["call_id"]) == ("function_call_output", "call_2")
    assert json.loads(output["output"])["description"] == "Mia is allergic to peanuts"
    answers = {"memory_retrieve": full, "memory_retrieve, short": found, "memory_observe": told}
    _answers_hold(api, node_id, answers)


def _answers_hold(api: Program, node_id: str, answers: dict[str, Any]) -> None:
    """Each answer is what the tool's schema of its answer promises."""
    offered = {one["name"]: tool_calls.offered(Tool.model_validate(one)) for one in api.get("/tools")["rows"]}

    def call(name: str, **arguments: Any) -> Any:
        return answers.setdefault(f"memory_{name}", called(api, f"memory_{name}", **arguments))

    kiln, cools = "The kiln needs two hours to cool down after a firing.", "The kiln cools for two hours."
    call("context", agent_id="mia", query="peanuts")
    call("list", agent_id="mia", kinds=["memory"], limit=2)
    call("get", id=node_id)
    call("why", id=node_id)
    call("list_agents")
    call("end_session", session_id="a/b", agent_id="mia")
    call("ingest", content=kiln, wait=30)
    call("working_memory")
    call("promote", text=cools, kind="statement")
    call("query_knowledge", query=cools)
    knowledge_id = call("list_knowledge", words="kiln")["rows"][0]["entry_id"]
    call("edit_knowledge", id=knowledge_id, content="It cools for 3 hours.", reason="x")
    call("demote", knowledge_ids=[knowledge_id], reason="wrong")
    call("update", id=node_id, description="米娅对花生和虾过敏")
    call("reinstate", id=node_id)
    call("forget", agent_id="mia", text="my phone number")
    call("delete", id=node_id)
    for name, answer in answers.items():
        assert "error" not in answer, (name, answer)
        tool = offered.pop(name, None) or tool_calls.offered(
            Tool.model_validate(api.get("/tools", names=name.partition(",")[0])["rows"][0])
        )
        jsonschema_rs.validate(tool.output_schema, answer)
    assert offered == {}


def test_what_is_wrong_is_told_to_the_model(program: ProgramMaker, group: str) -> None:
    api, node_id = program(group), str(uuid4())
    mia = {"agent_id": "mia"}
    seen = {**mia, "description": "x"}
    for name, arguments, sentence in (
        ("memory_retrieve", mia, "query: required, but missing: a text"),
        ("memory_observe", {**seen, "group_id": "g"}, "it is not taken here; leave it out"),
        ("memory_retrieve", {**mia, "query": "x", "top_k": "many"}, "top_k: "),
        ("memory_observe", {**seen, "poignancy": 11}, "poignancy: "),
        ("memory_get", {}, "missing: id"),
        ("memory_get", {"id": None}, "missing: id"),
        ("memory_get", {"id": node_id}, "There is no memory"),
        ("memory_get", {"id": "../../stats"}, "id: must be an id such as"),
        ("memory_get", {"id": node_id, "x": 1}, "unknown arguments: x"),
        ("memory_list", {"limit": -1}, "limit: "),
        ("memory_end_session", {"session_id": " ", **mia}, "session_id: "),
        ("memory_erase_all", {}, "there is no tool 'memory_erase_all'; there are memory_retrieve, "),
    ):
        told = called(api, name, **arguments)
        assert list(told) == ["error"], (name, arguments, told)
        assert sentence in told["error"], told
        assert "Traceback" not in told["error"]
        block = used(api, name, **arguments)
        assert block["is_error"]
        assert json.loads(block["content"]) == told
    assert "NUL" in called(api, "memory_observe", agent_id="mia", description="nul \x00")["error"]
    not_json = {"id": "c", "type": "function", "function": {"name": "memory_get", "arguments": '{"id": '}}
    assert "arguments: not JSON" in json.loads(api.post("/tools/call", not_json, 200)["content"])["error"]
    no_arguments = {"type": "function", "id": "c", "function": {"name": "memory_get"}}
    for body in ({"type": "tool_result"}, {"name": "memory_get"}, [], no_arguments):
        api.post("/tools/call", body, 422)


def test_a_key_bounds_what_a_model_may_call(program: ProgramMaker, group: str) -> None:
    writer, reader = program(group, "publish"), program(group, "read")
    other = program(f"{group}-other", "read")
    seen = {"agent_id": "mia", "description": f"A secret of {group}"}
    node_id = called(writer, "memory_observe", **seen)["node_id"]
    for who, name, arguments, reason in (
        (writer, "memory_get", {"id": node_id}, "right “read”"),
        (reader, "memory_observe", seen, "right “publish”"),
        (reader, "memory_delete", {"id": node_id}, "right “admin”"),
        (other, "memory_get", {"id": node_id}, "There is no memory"),
    ):
        assert reason in called(who, name, **arguments)["error"]
    assert called(reader, "memory_get", id=node_id)["node_id"] == node_id
    used(Program(reader.client, "jiyi_wrong"), "memory_get", 401, id=node_id)


def test_tools_come_in_the_form_that_is_asked_for(program: ProgramMaker, group: str) -> None:
    api = program(group, "read")
    names = [tool["name"] for tool in api.get("/tools")["rows"]]
    assert "memory_observe" not in names
    openai = api.get("/tools", **{"for": "openai", "strict": "true"})["rows"]
    assert [tool["function"]["name"] for tool in openai] == names
    assert {tool["function"]["strict"] for tool in openai} == {True}
    assert openai[0]["function"]["parameters"]["properties"]["detail"]["anyOf"][0]["enum"] == [
        "short",
        "full",
    ]
    chosen = api.get("/tools", **{"for": "anthropic", "names": "memory_get,memory_observe"})["rows"]
    assert [[*tool] for tool in chosen] == [["name", "description", "input_schema"]]
    for query, sentence in (
        ({"for": "gemini"}, "for: "),
        ({"strict": "true"}, "strict: say for which API"),
        ({"names": "memory_gets"}, "did you mean memory_get?"),
        ({"for": "openai", "x": "1"}, "x: "),
    ):
        assert sentence in json.dumps(api.get("/tools", 422, **query)["errors"][0]).replace(
            '", "message": "', ": "
        ), query
