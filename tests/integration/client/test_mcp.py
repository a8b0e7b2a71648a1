"""``jiyi mcp`` through the official SDK's own client: over standard input and output, and over streamable
HTTP.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest

pytest.importorskip("mcp", reason="needs the package mcp (the extra `mcp`)")

import uvicorn
from mcp import Client as McpClient
from mcp import MCPError, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from jiyi.integrations.mcp import http_app
from jiyi.protocol.openapi.functions import SHORT_TOKENS, shortened
from jiyi.protocol.wire.signatures import new_key
from jiyi.text.budget import estimate_tokens

pytestmark = [
    pytest.mark.usefixtures(
        "service"
    ),  # its workers are running: after the tests that do their work themselves
    pytest.mark.xdist_group("mcp"),  # one web for all of them
]

CHECKOUT = Path(__file__).resolve().parents[3]
KeyMaker = Callable[..., str]
#: Opens the SDK's client for a key.
Opens = Callable[[str], AbstractAsyncContextManager[McpClient]]


@pytest.fixture(scope="module")
def address(unlimited_web: int, _workers: None) -> str:
    """Of the whole service over HTTP."""
    return f"http://127.0.0.1:{unlimited_web}"


@pytest.fixture(scope="module")
def mcp_address(address: str) -> Iterator[str]:
    """Of ``jiyi mcp --http``."""
    server = uvicorn.Server(
        uvicorn.Config(http_app(address), host="127.0.0.1", port=0, log_level="warning", lifespan="on")
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.02)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}/mcp"
    server.should_exit = True
    thread.join(60)


@pytest.fixture(params=["stdio", "http"])
def opens(request: pytest.FixtureRequest, address: str, mcp_address: str) -> Opens:
    return over_stdio(address) if request.param == "stdio" else over_http(mcp_address)


def over_stdio(address: str) -> Opens:
    @asynccontextmanager
    async def opened(key: str) -> AsyncIterator[McpClient]:
        env = {"JIYI_KEY": key, "JIYI_URL": address, "PYTHONPATH": str(CHECKOUT)}
        command = StdioServerParameters(command=sys.executable, args=["-m", "jiyi", "mcp"], env=env)
        async with McpClient(stdio_client(command)) as client:
            yield client

    return opened


def over_http(address: str) -> Opens:
    @asynccontextmanager
    async def opened(key: str) -> AsyncIterator[McpClient]:
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=30) as http,
            McpClient(streamable_http_client(address, http_client=http)) as client,
        ):
            yield client

    return opened


def talk(opens: Opens, key: str, say: Callable[[McpClient], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with opens(key) as client:
            return await say(client)

    return asyncio.run(run())


async def said(client: McpClient, tool: str, **arguments: Any) -> Any:
    """The answer to a call of a tool."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


def text_of(result: Any) -> str:
    return "".join(part.text for part in result.content)


async def names(client: McpClient) -> set[str]:
    return {tool.name for tool in (await client.list_tools()).tools}


def test_a_host_remembers_recalls_corrects_and_explains(opens: Opens, api_key: KeyMaker, group: str) -> None:
    mia, question = {"agent_id": "mia"}, "What must Mia not eat?"

    async def say(client: McpClient) -> None:
        assert "Call `memory_retrieve` before answering" in (client.instructions or "")
        seen = {**mia, "description": "Mia is allergic to peanuts", "poignancy": 8}
        node_id = (await said(client, "memory_observe", **seen))["node_id"]
        await retrievable(client, node_id)
        talk = [
            {"role": "user", "content": text} for text in ("Mia comes for dinner", "What must she not eat?")
        ]
        for asked in ({"query": question, "top_k": 3, "now": None}, {"messages": talk}):
            found = await said(client, "memory_retrieve", **mia, **asked)
            assert [memory["node_id"] for memory in found["memories"]] == [node_id]
        # The name from before, and all that is known of it.
        found = await said(client, "retrieve", **mia, query=question, detail="full")
        assert [node["node_id"] for node in found["groups"][0]["retrieved_nodes"]] == [node_id]
        listed = await said(client, "memory_list", **mia, limit=5)
        assert [node["description"] for node in listed["rows"]] == ["Mia is allergic to peanuts"]
        assert (await said(client, "memory_why", id=node_id, depth=1))["node_id"] == node_id
        [read] = (await client.read_resource(f"jiyi://memories/{node_id}")).contents
        assert "allergic to peanuts" in read.text
        assert (await client.read_resource("jiyi://agents/mia/profile")).contents
        [recalled] = (await client.get_prompt("recall", {**mia, "query": question})).messages
        assert "peanuts" in recalled.content.text
        assert recalled.content.text.endswith(question)
        with pytest.raises(MCPError, match="missing: text"):
            await client.get_prompt("remember", mia)
        changed = await said(client, "memory_update", id=node_id, description="米娅对花生和虾过敏")
        await retrievable(client, changed["node_id"])
        again = await said(client, "memory_context", **mia, query="米娅不能吃什么？")
        assert "花生和虾" in json.dumps(again, ensure_ascii=False)
        assert (await said(client, "memory_delete", id=changed["node_id"]))["erasure_id"]
        await tiers(client)
        await what_is_wrong(client)

    async def tiers(client: McpClient) -> None:
        kiln, cools = "The kiln needs two hours to cool down after a firing.", "The kiln cools for two hours."
        assert await said(client, "memory_ingest", content=kiln, agent_id="potter", node_id="n1", wait=30)
        assert await said(client, "memory_promote", text=cools, kind="statement")
        known = await said(client, "memory_query_knowledge", query=cools)
        assert any("kiln" in item["content"] for item in known["results"])

    async def what_is_wrong(client: McpClient) -> None:
        """The LLM is told so."""
        for tool, arguments, sentence in (
            ("memory_retrieve", mia, "query: required"),
            ("memory_retrieve", {**mia, "query": "x", "top_k": "many"}, "top_k"),
            ("memory_get", {}, "id"),
            ("memory_get", {"id": str(uuid4())}, "There is no memory"),
            ("memory_get", {"id": "../../stats"}, "the address does not exist"),
            ("memory_get", {"id": str(uuid4()), "x": 1}, "unknown arguments: x"),
        ):
            result = await client.call_tool(tool, arguments)
            assert result.is_error, (tool, arguments)
            assert sentence in text_of(result), text_of(result)

    async def retrievable(client: McpClient, node_id: str) -> None:
        for _ in range(1_200):
            result = await client.call_tool("memory_get", {"id": node_id})
            if not result.is_error and result.structured_content.get("embedding_model") is not None:
                return
            await asyncio.sleep(0.05)
        raise AssertionError("not retrievable")

    talk(opens, api_key(group, "publish", "read", "admin"), say)


def test_a_key_bounds_its_tools_and_its_group(mcp_address: str, api_key: KeyMaker, group: str) -> None:
    async def reader(client: McpClient) -> None:
        assert {"memory_retrieve", "memory_list", "memory_why"} <= await names(client)
        assert not {"memory_observe", "memory_delete", "memory_promote"} & await names(client)
        with pytest.raises(MCPError, match="there is no tool 'memory_observe' that this key may use"):
            await client.call_tool("memory_observe", {"agent_id": "mia", "description": "x"})
        assert (await said(client, "memory_list"))["rows"] == []

    async def writer(client: McpClient) -> None:
        assert "memory_observe" in await names(client)
        assert "memory_retrieve" not in await names(client)
        await said(client, "memory_observe", agent_id="mia", description=f"A secret of {group}")

    talk(over_http(mcp_address), api_key(group, "publish"), writer)
    talk(over_http(mcp_address), api_key(f"{group}-other", "read"), reader)


def test_tools_say_what_an_llm_needs(mcp_address: str, api_key: KeyMaker, group: str) -> None:
    async def say(client: McpClient) -> None:
        for tool in (await client.list_tools()).tools:
            assert len(tool.description or "") > 40, tool.name
            assert "`" not in tool.name
            assert {"properties", "anyOf"} & (tool.output_schema or {}).keys(), (
                tool.name
            )  # the client checks answers against it
            for name, schema in tool.input_schema["properties"].items():
                assert schema.get("description") or "$ref" in json.dumps(schema), (tool.name, name)
            for other in ("retrieve_memories", "list_memories", "get_memory"):
                assert other not in (tool.description or ""), (tool.name, other)
        hints = {tool.name: tool.annotations for tool in (await client.list_tools()).tools}
        assert hints["memory_delete"].destructive_hint
        assert hints["memory_retrieve"].read_only_hint
        assert hints["memory_retrieve"].idempotent_hint
        assert not hints["memory_observe"].read_only_hint

    talk(over_http(mcp_address), api_key(group, "publish", "read", "admin"), say)


def test_a_short_answer_has_each_memory_once_and_is_short() -> None:
    nodes = [
        {"node_id": str(uuid4()), "description": f"{n} 她说 " + "word " * 400, "score": 0.5, "kind": None}
        for n in range(30)
    ]
    answer = shortened(
        {"message": "", "groups": [{"retrieved_nodes": nodes}, {"retrieved_nodes": nodes[:2]}]}
    )
    assert len(answer["memories"]) + answer["left_out"] == 30
    assert answer["memories"][0]["text"].endswith("…")
    assert estimate_tokens(json.dumps(answer, ensure_ascii=False)) <= SHORT_TOKENS


def test_nobody_comes_in_without_a_key(mcp_address: str, api_key: KeyMaker, group: str) -> None:
    """Nor a page of another site by DNS rebinding: its name leads to this machine."""
    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    for headers in ({}, {"Authorization": "Bearer jiyi_wrong"}, {"Authorization": "Basic eA=="}):
        answer = httpx2.post(mcp_address, json=listing, headers=headers, timeout=60)
        assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
    good = {
        "Authorization": f"Bearer {api_key(group, 'read')}",
        "Accept": "application/json, text/event-stream",
    }
    answer = httpx2.post(mcp_address, json=listing, headers={**good, "Host": "evil.example"}, timeout=60)
    assert answer.status_code == 421


def test_the_command_says_what_it_needs(address: str) -> None:
    for key, sentence in (("", "JIYI_KEY: set it to an API key"), (str(new_key()), "")):
        done = subprocess.run(
            [sys.executable, "-m", "jiyi", "mcp"],
            env={**os.environ, "JIYI_URL": address, "JIYI_KEY": key},
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done.stderr
        assert sentence in done.stderr
