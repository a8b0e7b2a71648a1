"""``jiyi mcp`` as a host and its model meet it: service away, slow or quick, answers of any length, names
with and without blanks.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx2
import pytest

pytest.importorskip("mcp", reason="needs the package mcp (the extra `mcp`)")

from flask import Flask
from mcp import Client as McpClient

from jiyi.client.http import failure
from jiyi.errors import BrokerUnavailable, InvalidRequest, NoAnswer
from jiyi.integrations import mcp
from jiyi.integrations.mcp import Gateway, http_app, instructions, server
from jiyi.protocol.openapi import functions
from jiyi.protocol.openapi.tools import Tool
from jiyi.text.budget import estimate_tokens
from tests.integration.client.test_ways import Served
from tests.integration.memory.test_inbox import rows
from tests.integration.programs import Program
from web.api.tools import _tools

CHECKOUT = Path(__file__).resolve().parents[2]
#: Tokens that Claude Code takes of one answer.
HOSTS_TAKE = 25_000
TOOLS = {tool.name: tool for tool, _ in _tools()}
ZH = "林岚在苏州平江路开了一家茶馆，每天清晨五点起床去挑水煮茶，她说碧螺春要用八十度的水。"
KeyMaker = Callable[..., str]


class Interrupted(httpx2.AsyncBaseTransport):
    """The web, whose first answer to a write does not come."""

    def __init__(self, app: Flask, error: type[httpx2.TransportError]) -> None:
        self._served, self._error, self._done = Served(app), error, False

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = await self._served.handle_async_request(request)
        if request.method != "GET" and not self._done:
            self._done = True
            raise self._error("", request=request)  # a time-out says nothing
        return answer


def gateway(transport: Any, agent: str = "") -> Gateway:
    return Gateway("http://localhost", httpx2.AsyncClient(transport=transport), agent)


BEES = {"agent_id": "bee", "description": "I keep bees in Braga"}


def call(of: Gateway, key: str, name: str, **arguments: Any) -> Any:
    return asyncio.run(of.call(key, name, arguments))


def text_of(result: Any) -> str:
    return "".join(part.text for part in result.content)


def said(result: Any) -> Any:
    assert not result.is_error, result.content
    return result.structured_content


def memories(group: str) -> list[str]:
    return [
        str(row["description"])
        for row in rows("SELECT description FROM memory_nodes WHERE group_id = :g", g=group)
    ]


def test_what_a_model_says_twice_within_a_minute_is_one_memory(
    web_app: Flask, api_key: KeyMaker, group: str
) -> None:
    of, key = gateway(Served(web_app)), api_key(group, "publish", "read")
    first, again = (said(call(of, key, "memory_observe", **BEES)) for _ in range(2))
    assert (first["node_id"], first["accepted"]) == (again["node_id"], 1)
    assert (again["accepted"], again["repeated"]) == (0, 1)
    for other in (
        {"agent_id": "wasp"},
        {"user_id": "mia"},
        {"session_id": "s"},
        {"node_type": "thought"},
        {"occurred_at": "2024-05-01T10:00:00Z"},
        *({"event_id": str(uuid4())} for _ in range(2)),  # ids of one's own are different on purpose
    ):
        assert said(call(of, key, "memory_observe", **{**BEES, **other}))["accepted"] == 1, other
    assert len(memories(group)) == 8


@pytest.mark.parametrize("error", [httpx2.ReadTimeout, httpx2.RemoteProtocolError])
def test_a_write_whose_answer_does_not_come_may_be_stored(
    web_app: Flask, api_key: KeyMaker, group: str, error: type[httpx2.TransportError]
) -> None:
    """The model was told "cannot reach http://…: ; is the service running", and stored it twice."""
    of, key = gateway(Interrupted(web_app, error)), api_key(group, "publish", "read")
    late = call(of, key, "memory_observe", **BEES)
    assert late.is_error
    assert "it may be stored" in text_of(late)
    assert "cannot reach" not in text_of(late)
    assert ": ;" not in text_of(late)
    assert said(call(of, key, "memory_observe", **BEES))["repeated"] == 1
    assert memories(group) == ["I keep bees in Braga"]


def test_what_was_corrected_or_erased_is_remembered_anew(program: Any, group: str) -> None:
    """Else it would be told as stored, and be found nowhere."""
    asks: Program = program(group)

    def observed() -> str:
        return str(asks.post("/events?once=100", BEES)["event_ids"][0])

    first = observed()
    assert observed() == first
    asks.ask("PATCH", f"/nodes/{first}", 200, json={"description": "I keep bees in Porto"})
    second = observed()
    assert second != first
    asks.ask("DELETE", f"/nodes/{second}", 202)
    assert observed() not in (first, second)


def test_a_second_deletion_is_the_first_one(web_app: Flask, api_key: KeyMaker, group: str) -> None:
    of, key = gateway(Served(web_app)), api_key(group, "publish", "read", "admin")
    node_id = said(call(of, key, "memory_observe", **BEES))["node_id"]
    first, again = (said(call(of, key, "memory_delete", id=node_id)) for _ in range(2))
    assert first == again
    assert first["state"] == "owed"
    assert len(rows("SELECT FROM erasures WHERE group_id = :g", g=group)) == 1
    assert "pending until the state is done" in TOOLS["memory_delete"].description


def test_an_agent_that_was_begun_on_is_erased_once_more(program: Any, group: str) -> None:
    """What it has been told since then is not the first erasure's."""
    asks: Program = program(group)
    asks.post("/events", BEES)
    first, again = (asks.post("/erasures", {"agent_id": "bee"})["erasure_id"] for _ in range(2))
    assert first == again
    rows("UPDATE erasures SET state = 'running' WHERE group_id = :g RETURNING 1", g=group)
    assert asks.post("/erasures", {"agent_id": "bee"})["erasure_id"] != first


def test_a_model_need_not_make_up_a_name(web_app: Flask, api_key: KeyMaker, group: str) -> None:
    of, key = gateway(Served(web_app), agent="assistant"), api_key(group, "publish", "read")
    for given in ({}, {"agent_id": None}, {"agent_id": "  "}, {"agent_id": " assistant\n"}):
        said(call(of, key, "memory_observe", description=f"I keep bees in Braga {given}", **given))
    assert said(call(of, key, "memory_list_agents"))["rows"][0]["agent_id"] == "assistant"
    found = rows("SELECT DISTINCT agent_id FROM memory_nodes WHERE group_id = :g", g=group)
    assert found == [{"agent_id": "assistant"}]
    offered = of.offered(TOOLS["memory_observe"]).input_schema
    assert "agent_id" not in offered["required"]
    assert offered["properties"]["agent_id"]["default"] == "assistant"
    assert "agent_id" in gateway(None).offered(TOOLS["memory_observe"]).input_schema["required"]
    assert not next(prompt for prompt in of.prompts() if prompt.name == "recall").arguments[0].required  # type: ignore[index]


def test_instructions_name_only_tools_that_the_key_may_use() -> None:
    everything = instructions(TOOLS, "")
    assert all(f"`{name}`" in everything for name in mcp.SAID)
    reader = instructions([name for name, tool in TOOLS.items() if tool.read_only], "mia")
    assert "`memory_retrieve`" in reader
    assert not any(name in reader for name in ("memory_observe", "memory_update", "memory_delete"))
    assert "mia" in reader


def test_a_text_for_quarantine_may_have_a_date(web_app: Flask, api_key: KeyMaker, group: str) -> None:
    of, key = gateway(Served(web_app)), api_key(group, "publish", "read")
    text, at = "The kiln needs two hours to cool down.", "2024-05-01T10:00:00Z"
    asked = {"content": text, "occurred_at": at, "wait": 0}
    ids = {said(call(of, key, "memory_ingest", **asked))["entry_id"] for _ in range(2)}
    assert len(ids) == 1
    [event] = rows("SELECT occurred_at FROM events WHERE group_id = :g", g=group)
    assert str(event["occurred_at"]).startswith("2024-05-01")


def long_answers() -> dict[str, Any]:
    """Answers of many and long memories, by tool."""

    def node(number: int, description: str) -> dict[str, Any]:
        texts = dict.fromkeys(("description", "embedding_key"), description)
        return {"node_id": str(UUID(int=number)), **texts, "score": 0.5, "kind": "memory"}

    nodes = [
        node(number, (f"记忆{number}：" + ZH * 600)[:20_000] if number % 10 == 0 else f"短记忆{number}：{ZH}")
        for number in range(150)
    ]
    by_id = {one["node_id"]: one for one in nodes}
    retrieved = {"retrieved_nodes": nodes[:100], "accessed_ids": [], "debug": {}}
    return {
        "memory_retrieve": {"status": "ok", "groups": [retrieved]},
        "memory_get": {**nodes[0], "provenance": {}},
        "memory_context": {"text": ZH * 2_000, "tokens": 90_000, "memories": []},
        "memory_why": {"node_id": nodes[0]["node_id"], "nodes": by_id, "missing": [], "beyond": []},
        "memory_working_memory": {"rows": nodes, "source": "valkey"},
        "memory_query_knowledge": {"results": nodes, "tiers": [], "status": "ok"},
        "memory_list": {"rows": nodes},
        "memory_list_knowledge": {"knowledge": nodes, "counts": {}},
        "memory_list_agents": {"agents": [{"agent_id": f"agent {n}", "memories": 3} for n in range(1_500)]},
    }


def told_pieces(tool: Tool, answer: Any, **arguments: Any) -> list[Any]:
    """An answer piece by piece, as a model asks for them."""
    pieces = [functions.answer_for_model(tool, arguments, answer)]
    while (after := pieces[-1].get("next")) is not None:
        pieces.append(functions.answer_for_model(tool, {**arguments, "cursor": after}, answer))
        assert len(pieces) < 200
    return pieces


def test_no_answer_is_longer_than_a_host_takes() -> None:
    """As text and as a structure together, so that it does not matter which of them a host counts."""
    for name, answer in long_answers().items():
        for piece in told_pieces(TOOLS[name], answer, detail="full"):
            assert 2 * estimate_tokens(json.dumps(piece, ensure_ascii=False)) <= HOSTS_TAKE, name


def test_what_did_not_fit_is_told_when_it_is_asked_for() -> None:
    answers = long_answers()
    pieces = told_pieces(TOOLS["memory_get"], answers["memory_get"])
    assert len(pieces) > 1
    text = "".join(piece["description"] for piece in pieces)
    assert text.replace("\n", "") == answers["memory_get"]["description"]
    all_of_why = {*answers["memory_why"]["nodes"]}
    retrieved = {node["node_id"] for node in answers["memory_retrieve"]["groups"][0]["retrieved_nodes"]}
    for name, detail in (("memory_retrieve", "full"), ("memory_retrieve", "short"), ("memory_why", "")):
        found: list[str] = []
        for piece in told_pieces(TOOLS[name], answers[name], detail=detail):
            listed = piece.get("memories") or piece.get("nodes") or piece["groups"][0]["retrieved_nodes"]
            found += list(listed) if isinstance(listed, dict) else [node["node_id"] for node in listed]
        assert sorted(found) == sorted(all_of_why if name == "memory_why" else retrieved), (name, detail)
    with pytest.raises(InvalidRequest, match="cursor: is no cursor of this answer"):
        functions.request_of(TOOLS["memory_get"], {"id": "x", "cursor": "the rest"})


def test_a_list_goes_on_by_its_own_cursor(
    program: Any, web_app: Flask, api_key: KeyMaker, group: str
) -> None:
    asks: Program = program(group)
    for start in (0, 100):
        events = [{"agent_id": "tea", "description": f"{n} {ZH * 5}"} for n in range(start, start + 100)]
        asks.post("/events", {"events": events})
    of, key = gateway(Served(web_app)), api_key(group, "read")
    seen, arguments, pages = list[str](), {"agent_id": "tea", "limit": 200}, 0
    cursor: dict[str, Any] = {}
    while pages == 0 or cursor["cursor"] is not None:
        result = call(of, key, "memory_list", **arguments, **cursor)
        assert 2 * estimate_tokens(text_of(result)) <= HOSTS_TAKE
        page = said(result)
        seen += [node["node_id"] for node in page["rows"]]
        cursor, pages = {"cursor": page.get("next")}, pages + 1
    assert pages > 1
    assert len(seen) == len({*seen}) == 200
    function = {"name": "memory_list", "arguments": json.dumps(arguments)}  # as it is with function calling
    told = asks.post("/tools/call", {"id": "1", "type": "function", "function": function}, 200)
    page = json.loads(told["content"])
    assert seen[: len(page["rows"])] == [node["node_id"] for node in page["rows"]]
    assert page["next"] is not None
    assert "left_out" not in page


def test_a_short_answer_is_told_whole_and_each_text_once() -> None:
    node = {"node_id": "n", "description": "I keep bees", "embedding_key": "I keep bees"}
    short = functions.answer_for_model(TOOLS["memory_get"], {}, node)
    assert short == {"node_id": "n", "description": "I keep bees"}
    other = {**node, "embedding_key": "bees"}
    assert functions.answer_for_model(TOOLS["memory_get"], {}, other) == other


Post = Callable[..., Awaitable[httpx2.Response]]


def over_http(url: str, key: str, talk: Callable[[Post], Awaitable[None]]) -> None:
    """Talk with the MCP server over HTTP of a service at ``url``: with requests to ``/mcp``."""
    app = http_app(url)
    accepted = "application/json, text/event-stream"

    async def run() -> None:
        transport = httpx2.ASGITransport(app=app)
        async with (
            _lifespan(app),
            httpx2.AsyncClient(transport=transport, base_url="http://localhost:8766") as http,
        ):

            async def post(what: Any = None, method: str = "POST", **headers: str) -> httpx2.Response:
                sent = {"Authorization": f"Bearer {key}", "Accept": accepted}
                sent |= {name.replace("_", "-"): value for name, value in headers.items()}
                return await http.request(method, "/mcp", json=what, headers=sent)

            await talk(post)

    asyncio.run(run())


def test_there_is_no_stream_to_wait_at(unlimited_web: int, api_key: KeyMaker, group: str) -> None:
    """``GET /mcp`` stayed open for ever."""

    async def talk(post: Post) -> None:
        for method in ("GET", "DELETE", "PUT"):
            answer = await post(method=method)
            assert (answer.status_code, answer.headers["Allow"]) == (405, "POST")
        assert (await post(method="GET", Authorization="")).status_code == 401

    over_http(f"http://127.0.0.1:{unlimited_web}", api_key(group, "read"), talk)


def test_who_asks_too_often_is_told_when_to_ask_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts were answered 503, as if the service were away, and asked again a second later."""
    words = "Too many requests without a good key."
    told = httpx2.Response(429, headers={"Retry-After": "23"}, json={"detail": words})
    of = gateway(httpx2.MockTransport(lambda _: told))
    monkeypatch.setattr(mcp, "Gateway", lambda _url, agent="": of)

    async def talk(post: Post) -> None:
        answer = await post(asked(1))
        assert (answer.status_code, answer.headers["Retry-After"]) == (429, "23")
        assert answer.json() == {"error": words}

    over_http("http://localhost", "jiyi_unknown", talk)


def asked(number: int, method: str = "tools/list", **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


HELLO = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "host", "version": "1"}}
NOTED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def test_a_batch_is_answered_in_the_version_that_has_batches(
    unlimited_web: int, api_key: KeyMaker, group: str
) -> None:
    """F064: 400, though this version was agreed on."""
    observed = {"name": "memory_observe", "arguments": BEES}
    batch = [asked(1), NOTED, asked(2, "tools/call", **observed), asked(3, "no/such")]

    async def talk(post: Post) -> None:
        answer = await post(batch)
        tools, told, unknown = answer.json()
        assert (answer.status_code, [one["id"] for one in answer.json()]) == (200, [1, 2, 3])
        assert len(tools["result"]["tools"]) > 5
        assert told["result"]["isError"] is False
        assert unknown["error"]["code"] == -32601
        assert (await post([NOTED])).status_code == 202
        assert (await post(asked(1))).json()["id"] == 1
        for refused, version, sentence in (
            (batch, "2025-06-18", "has no batches: send each message separately"),
            ([asked(n) for n in range(21)], "2025-03-26", "1 to 20 messages; this one has 21"),
            ([], "2025-03-26", "1 to 20 messages"),
            ([[asked(1)]], "2025-03-26", "must be an object"),
            ([asked(1, "initialize", **HELLO)], "2025-03-26", "initialize must not be in a batch"),
            ([asked(1, x="x" * 2_000_000)], "2025-03-26", "at most 1,048,576 bytes"),
        ):
            answer = await post(refused, MCP_Protocol_Version=version)
            assert (answer.status_code, answer.json()["id"]) == (400, None)
            assert sentence in answer.json()["error"]["message"]

    over_http(f"http://127.0.0.1:{unlimited_web}", api_key(group, "read", "publish"), talk)
    assert memories(group) == [BEES["description"]]


@asynccontextmanager
async def _lifespan(app: Any) -> AsyncIterator[None]:
    """An ASGI application that is up."""
    told: asyncio.Queue[Any] = asyncio.Queue()
    said_back: asyncio.Queue[Any] = asyncio.Queue()
    running = asyncio.create_task(
        app({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, told.get, said_back.put)
    )
    for event in ("startup", "shutdown"):
        await told.put({"type": f"lifespan.{event}"})
        assert (await said_back.get())["type"] == f"lifespan.{event}.complete"
        if event == "startup":
            yield
    await running


#: A program as `jiyi mcp` is, one of whose dependencies prints when it is imported and when it ends.
NOISY = """
import atexit, builtins, sys
importing = builtins.__import__
def noisy(name, *rest):
    if name == "jiyi.integrations":
        print("a dependency was imported")
    return importing(name, *rest)
builtins.__import__ = noisy
atexit.register(print, "a dependency says goodbye")
from jiyi.cli import main
sys.argv = ["jiyi", "mcp", "--agent", "mia"]
main()
"""


@pytest.mark.parametrize(("version", "batches"), [("2025-03-26", True), ("2025-06-18", False)])
def test_a_host_over_stdio_hears_the_protocol_alone_and_may_send_batches_in_that_version(
    version: str, batches: bool
) -> None:
    """And a service that is away ends nothing: the host is answered."""
    lines = [
        asked(1, "initialize", **{**HELLO, "protocolVersion": version}),
        NOTED,
        [asked(2, "ping"), asked(3, "ping")],
        asked(4, "ping"),
    ]
    away = {"JIYI_URL": "http://127.0.0.1:9", "JIYI_KEY": "jiyi_x", "PYTHONPATH": str(CHECKOUT)}
    pipes: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    command = [sys.executable, "-c", NOISY]
    with subprocess.Popen(command, env=os.environ | away, text=True, **pipes) as host:
        answers = []
        for line in lines:
            print(json.dumps(line), file=host.stdin, flush=True)
            if line is not NOTED:
                answers.append(json.loads(host.stdout.readline()))
        rest, errors = host.communicate(timeout=300)
    hello, other, pong = answers
    assert hello["id"] == 1
    assert hello["result"]["protocolVersion"] == version
    assert "mia" in hello["result"]["instructions"]
    assert hello["result"]["capabilities"]["tools"]["listChanged"] is True
    assert pong["id"] == 4
    if batches:
        assert sorted(answer["id"] for answer in other) == [2, 3]
    else:
        assert "has no batches" in other["error"]["message"]
    assert rest == ""
    assert errors.count("a dependency") == 2, errors


def test_a_host_may_be_started_before_the_service(
    web_app: Flask, api_key: KeyMaker, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is served at once; its tools come when the service does, and it is told of them."""
    monkeypatch.setattr(mcp, "FIRST_TOOLS_SECONDS", 0.0)
    there, served = asyncio.Event(), Served(web_app)

    class Away(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            if not there.is_set():
                raise httpx2.ConnectError("All connection attempts failed", request=request)
            return await served.handle_async_request(request)

    async def run() -> None:
        changed = asyncio.Event()

        async def heard(message: Any) -> None:
            if getattr(message, "method", "") == "notifications/tools/list_changed":
                changed.set()

        of = gateway(Away())
        served_by = server(of, api_key(group, "read"))
        async with McpClient(served_by, message_handler=heard, mode="legacy") as host:
            assert "Long-term memory" in (host.instructions or "")
            assert (await host.list_tools()).tools == []
            there.set()
            await asyncio.wait_for(changed.wait(), 60)
            assert (await host.list_tools(cache_mode="bypass")).tools != []

    asyncio.run(run())


def test_a_client_says_what_may_be_done() -> None:
    url = "http://localhost"
    request = httpx2.Request("POST", "http://localhost")
    late = failure(url, httpx2.ReadTimeout("", request=request), 15)
    assert (type(late), str(late)) == (NoAnswer, "no answer from http://localhost within 15 s")
    for error, sentence in (
        (httpx2.ConnectTimeout("", request=request), "cannot reach http://localhost: ConnectTimeout; is"),
        (httpx2.ReadError("", request=request), "broke before there was an answer (ReadError)"),
    ):
        broken = failure(url, error, 15)
        assert isinstance(broken, BrokerUnavailable)
        assert sentence in str(broken)
