"""Programs with the official clients of OpenAI and Anthropic get another address, and their LLM remembers.

What passes the proxy is the upstream's, byte for byte; memory adds to requests, and never costs an answer.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

pytest.importorskip("starlette", reason="needs the extra `proxy`")

import uvicorn
from anthropic import Anthropic as AnthropicClient
from openai import APIStatusError
from openai import OpenAI as OpenAIClient
from starlette.types import ASGIApp

from jiyi import Client
from jiyi.client.http import AsyncHttpTransport
from jiyi.errors import NotFound
from jiyi.polling import poll
from jiyi.protocol.wire.signatures import new_key, parse_key
from jiyi.proxy.app import ProxyConfig, make_app, upstreams_of
from jiyi.proxy.app import Upstream as UpstreamConfig
from jiyi.proxy.bodies import MAX_BODY_BYTES
from jiyi.settings import get_settings
from tests.integration.proxy.upstream import Upstream
from workers import ephemeral

pytestmark = [pytest.mark.usefixtures("service"), pytest.mark.xdist_group("proxy")]

KeyMaker = Callable[..., str]
#: What the deployment pays with, and what a caller does.
OURS, THEIRS = "sk-of-the-deployment", "sk-of-the-caller"
#: Seconds that a busy machine may take to extract or publish.
PATIENCE = 60.0


@contextmanager
def serving(app: ASGIApp) -> Iterator[str]:
    """The address of an application that is served by a thread of this process."""
    server = uvicorn.Server(
        uvicorn.Config(
            app, host="127.0.0.1", port=0, log_level="critical", lifespan="on", timeout_keep_alive=60
        )
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.02)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(60)


@pytest.fixture(scope="module")
def web(unlimited_web: int, _workers: None) -> str:
    return f"http://127.0.0.1:{unlimited_web}"


@pytest.fixture
def upstream() -> Upstream:
    return Upstream()


@pytest.fixture
def upstream_address(upstream: Upstream) -> Iterator[str]:
    with serving(upstream.app()) as address:
        yield address


Proxied = Callable[..., str]


@pytest.fixture
def proxied(web: str, upstream_address: str) -> Iterator[Proxied]:
    """The proxy's address, with ``/v1``."""
    opened: list[Any] = []

    def start(**options: Any) -> str:
        known = UpstreamConfig(f"{upstream_address}/v1", OURS)
        upstreams = {"openai": known, "anthropic": known}
        config = {"service": web, **upstreams, "agent": "mia", "recall_seconds": 20.0, **options}
        manager = serving(make_app(ProxyConfig(**config)))
        opened.append(manager)
        return f"{manager.__enter__()}/v1"

    yield start
    for manager in opened:
        manager.__exit__(None, None, None)


def ask(client: OpenAIClient, *texts: str, **more: Any) -> str:
    """The answer to the last of several messages, of which every second is the assistant's."""
    messages: Any = [
        {"role": ("user", "assistant")[place % 2], "content": text} for place, text in enumerate(texts)
    ]
    answer = client.chat.completions.create(model="m", messages=messages, **more)
    if more.get("stream"):
        return "".join(chunk.choices[0].delta.content or "" for chunk in answer)
    return answer.choices[0].message.content or ""


def turns(group: str, agent: str, count: int) -> list[str]:
    """What was recorded, once there is so much of it."""

    def recorded() -> list[str]:
        try:
            return [node.description for node in client.list(agent, kinds=["session"])]
        except NotFound:  # nothing has arrived of this agent
            return []

    with Client(group) as client:
        return poll(recorded, lambda texts: len(texts) >= count, PATIENCE)


def until_known(client: Client, query: str, word: str, **who: str) -> None:
    """Wait until the word is recalled for a question."""
    asked = {"agent_id": "mia", "query": query, **who}
    poll(lambda: client.conversations.context(**asked).context, lambda text: word in text, PATIENCE)


def test_what_was_said_is_in_the_prompt_of_another_conversation(
    proxied: Proxied, upstream: Upstream, api_key: KeyMaker, group: str
) -> None:
    key, address = api_key(group, "publish", "read"), proxied()
    client = OpenAIClient(api_key=key, base_url=address)
    first = "我对花生过敏，一点都不能吃。"
    assert ask(client, first) == upstream.answer
    assert upstream.last["messages"] == [
        {"role": "user", "content": first}
    ]  # nothing is known yet, so nothing was changed
    assert upstream.requests[-1][0]["authorization"] == f"Bearer {OURS}"
    assert ask(client, first, upstream.answer, "今天天气不错。", stream=True) == upstream.answer
    assert len(turns(group, "mia", 4)) == 4  # the first two, sent again, are not recorded again

    with Client(group) as jiyi:
        until_known(jiyi, "我对什么过敏？", "花生")
    ask(client, "帮我推荐一道下酒菜，我对什么过敏？")
    assert "花生" in str(upstream.last["messages"]), (
        "in what was recalled, or, once it is a fact, in what a session begins with"
    )
    asked = upstream.last["messages"][-1]["content"]
    assert asked.endswith("帮我推荐一道下酒菜，我对什么过敏？")

    anthropic = AnthropicClient(api_key=key, base_url=address.removesuffix("/v1"))
    message: Any = {"role": "user", "content": [{"type": "text", "text": "我对什么过敏？"}]}
    told = anthropic.messages.create(model="m", max_tokens=9, system="You are kind.", messages=[message])
    assert told.content[0].text == upstream.answer  # type: ignore[union-attr]
    assert "花生" in json.dumps(upstream.last, ensure_ascii=False)
    assert upstream.last["messages"][-1]["content"][-1] == message["content"][0]
    assert upstream.requests[-1][0]["x-api-key"] == OURS
    with anthropic.messages.stream(
        model="m", max_tokens=9, messages=[{"role": "user", "content": "再见"}]
    ) as stream:
        assert "".join(stream.text_stream) == upstream.answer


@pytest.mark.parametrize("kind", ["openai", "anthropic", "responses"])
def test_streams_pass_byte_for_byte_and_so_do_refusals(
    kind: str, proxied: Proxied, upstream: Upstream, api_key: KeyMaker, group: str
) -> None:
    headers = {
        "x-jiyi-key": api_key(group, "publish", "read"),
        "authorization": f"Bearer {THEIRS}",
        "x-jiyi-session": "s",
    }
    path = {"openai": "chat/completions", "anthropic": "messages", "responses": "responses"}[kind]
    talk = {"input" if kind == "responses" else "messages": [{"role": "user", "content": "hello"}]}
    body = {"model": "m", "stream": True, "max_tokens": 5, **talk, "unknown": [1, None]}
    address = proxied()
    answer = httpx2.post(f"{address}/{path}", json=body, headers=headers)
    assert answer.content == upstream.stream(kind)
    sent, got = upstream.requests[-1]
    assert got == body
    assert sent["authorization"] == f"Bearer {THEIRS}"  # the caller's own, and nothing of Jiyi's
    assert not [name for name in sent if name.startswith("x-jiyi")]
    upstream.status = 429
    refused = httpx2.post(f"{address}/{path}", json=body, headers=headers)
    assert (refused.status_code, refused.headers["retry-after"], refused.headers["x-own"]) == (429, "7", "1")
    assert refused.json() == {"error": {"message": "slow down", "type": "rate_limit"}}
    upstream.status = 200
    assert [model["id"] for model in httpx2.get(f"{address}/models", headers=headers).json()["data"]] == ["m"]
    assert turns(group, "mia", 2) == [upstream.answer, "hello"]


def test_what_a_stream_said_before_it_broke_off_is_recorded(
    proxied: Proxied, upstream: Upstream, api_key: KeyMaker, group: str
) -> None:
    headers = {
        "authorization": f"Bearer {api_key(group, 'publish', 'read')}",
        "x-jiyi-session": "s",
        "x-jiyi-agent": "晓雨",
    }
    encoded = {name.encode(): value.encode() for name, value in headers.items()}
    upstream.answer, upstream.break_after = "The first half is heard. " * 8, 1_500
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "tell me a story"}]}
    with pytest.raises(httpx2.HTTPError):
        httpx2.post(f"{proxied()}/chat/completions", json=body, headers=encoded)
    told = turns(group, "晓雨", 2)
    assert "tell me a story" in told
    assert any(text.startswith("The first half") for text in told)


def test_a_header_says_whether_memory_is_read_and_written(
    proxied: Proxied, upstream: Upstream, api_key: KeyMaker, group: str
) -> None:
    client, question = (
        OpenAIClient(api_key=api_key(group, "publish", "read"), base_url=proxied()),
        "What am I",
    )
    with Client(group) as jiyi:
        jiyi.observe("mia", "Ben is allergic to shrimp.", wait=True, timeout=PATIENCE)
        jiyi.add_turn("mia", "user", "I am allergic to shrimp.", "earlier")
        until_known(jiyi, f"{question} allergic to?", "shrimp")
    for mode, reads in {"off": False, "write": False, "read": True, "on": True}.items():
        headers = {"X-Jiyi-Memory": mode, "X-Jiyi-Session": mode}
        ask(client, f"{question} allergic to? {mode}", extra_headers=headers)
        assert ("shrimp" in str(upstream.last["messages"])) is reads, mode
    recorded = sorted(text for text in turns(group, "mia", 5) if text.startswith(question))
    assert recorded == [f"{question} allergic to? {mode}" for mode in ("on", "write")]
    with pytest.raises(APIStatusError, match="X-Jiyi-Memory: 'maybe' is none of on, read, write, off"):
        ask(client, "hello", extra_headers={"X-Jiyi-Memory": "maybe"})


def test_the_responses_api_remembers_streamed_and_not(
    proxied: Proxied, upstream: Upstream, api_key: KeyMaker, group: str
) -> None:
    client = OpenAIClient(
        api_key=THEIRS, base_url=proxied(), default_headers={"X-Jiyi-Key": api_key(group, "publish", "read")}
    )
    first = client.responses.create(
        model="m", input="我对花生过敏，一点都不能吃。", instructions="You are kind."
    )
    assert first.output_text == upstream.answer
    assert upstream.last["instructions"] == "You are kind."  # nothing is known yet, so nothing was changed
    with Client(group) as jiyi:
        until_known(jiyi, "我对什么过敏？", "花生")
    talk: Any = [
        {"role": "user", "content": "<environment_context>\n<cwd>/花茶</cwd>\n</environment_context>"},
        {"role": "user", "content": [{"type": "input_text", "text": "帮我推荐一道菜，我对什么过敏？"}]},
    ]
    with client.responses.stream(
        model="m", input=talk, store=False
    ) as stream:  # as Codex asks: all of it each time
        assert stream.get_final_response().output_text == upstream.answer
    assert upstream.last["input"][0] == talk[0]
    assert "花生" in json.dumps(upstream.last, ensure_ascii=False)
    assert upstream.last["input"][1]["content"][-1] == talk[1]["content"][0]
    after = client.responses.create(model="m", input="还有呢？", previous_response_id=first.id)
    client.responses.create(model="m", input="还有呢？", previous_response_id=after.id)
    recorded = turns(group, "mia", 8)
    asked = ["我对花生过敏，一点都不能吃。", "帮我推荐一道菜，我对什么过敏？", *["还有呢？"] * 2]
    assert sorted(recorded) == sorted([*[upstream.answer] * 4, *asked])
    with Client(group) as jiyi:
        sessions = {node.session_id for node in jiyi.list("mia", kinds=["session"])}
    assert len(sessions) == 2  # what follows a response is in its session


def test_tools_are_called_with_memory_in_the_prompt(
    proxied: Proxied, upstream: Upstream, api_key: KeyMaker, group: str
) -> None:
    key, address = api_key(group, "publish", "read"), proxied()
    question, schema = "What do I collect?", {"type": "object", "properties": {}}
    with Client(group) as jiyi:
        jiyi.add_turn("mia", "user", "I collect models of shrimp boats.", "earlier")
        until_known(jiyi, question, "shrimp")
    openai = OpenAIClient(api_key=key, base_url=address)
    tools: Any = [{"type": "function", "function": {"name": "look", "parameters": schema}}]
    messages: Any = [{"role": "user", "content": question}]
    called = openai.chat.completions.create(model="m", messages=messages, tools=tools).choices[0].message
    assert called.tool_calls is not None
    messages += [
        called.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": called.tool_calls[0].id, "content": "nothing"},
    ]
    assert (
        openai.chat.completions.create(model="m", messages=messages, tools=tools).choices[0].finish_reason
        == "stop"
    )
    assert "shrimp" in upstream.last["messages"][-3]["content"]  # as in the request before
    assert upstream.last["messages"][-2:] == messages[-2:]

    given: Any = [{"role": "user", "content": question}]
    of_responses: Any = [{"type": "function", "name": "look", "parameters": schema, "strict": False}]
    answer = openai.responses.create(model="m", input=given, tools=of_responses)
    given += [item.model_dump(exclude_none=True) for item in answer.output]
    given.append({"type": "function_call_output", "call_id": answer.output[1].call_id, "output": "nothing"})  # type: ignore[union-attr]
    assert openai.responses.create(model="m", input=given, tools=of_responses).output_text == upstream.answer
    assert "shrimp" in json.dumps(upstream.last["input"][0])
    assert upstream.last["input"][1:] == given[1:]

    anthropic = AnthropicClient(api_key=key, base_url=address.removesuffix("/v1"))
    mark: Any = {"type": "ephemeral", "ttl": "1h"}
    talk: Any = [{"role": "user", "content": [{"type": "text", "text": question, "cache_control": mark}]}]
    fields: Any = {
        "model": "m",
        "max_tokens": 9,
        "system": [{"type": "text", "text": "Be kind.", "cache_control": mark}],
        "tools": [{"name": "look", "input_schema": schema}],
    }
    told = anthropic.messages.create(messages=talk, **fields)
    assert told.stop_reason == "tool_use"
    result = {"type": "tool_result", "tool_use_id": told.content[1].id, "content": "nothing"}
    talk += [{"role": "assistant", "content": [block.model_dump() for block in told.content]}]
    talk += [{"role": "user", "content": [result, {"type": "text", "text": f"So: {question}"}]}]
    assert (
        anthropic.messages.create(messages=talk, **fields).stop_reason == "end_turn"
    )  # refused if anything were out of order
    assert upstream.last["messages"][-1]["content"][0]["type"] == "tool_result"
    assert "shrimp" in json.dumps(upstream.last)


@pytest.mark.parametrize("over", ["http", "broker"])
def test_what_one_user_says_is_not_told_to_another(
    over: str,
    proxied: Proxied,
    upstream: Upstream,
    api_key: KeyMaker,
    group: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group, question = f"{group} 茶", "What am I allergic to?"
    address = proxied(broker=get_settings() if over == "broker" else None)
    client = OpenAIClient(api_key=api_key(group, "publish", "read"), base_url=address)
    if over == "broker":
        ask(client, "hello", extra_headers={"X-Jiyi-Memory": "off"})  # now the key is known, and whose it is
        monkeypatch.setattr(AsyncHttpTransport, "call", lambda *_: pytest.fail("recall went over HTTP"))
    ask(client, "I am allergic to shrimp.", user="zoe")
    with Client(group) as jiyi:
        until_known(jiyi, question, "shrimp", user_id="zoe")
    for headers, shown in (
        ({"X-Jiyi-User": "ben"}, False),
        ({"X-OpenWebUI-User-Id": "zoe"}, True),
        ({}, False),
    ):
        ask(client, question, extra_headers=headers)
        assert ("shrimp" in json.dumps(upstream.last)) is shown, headers


def test_a_service_that_is_away_costs_no_answer_and_turns_arrive_later(
    proxied: Proxied, upstream: Upstream, api_key: KeyMaker, group: str, tmp_path: Path
) -> None:
    key, port = api_key(group, "publish", "read"), ephemeral.free_port()
    address = proxied(service=f"http://127.0.0.1:{port}", recall_seconds=0.3)
    own = {"X-Jiyi-Key": key, "X-Jiyi-Session": "s"}
    client = OpenAIClient(api_key=THEIRS, base_url=address, default_headers=own)
    assert ask(client, "remember me") == upstream.answer
    with pytest.raises(
        APIStatusError, match="cannot be asked whether this key is good"
    ):  # the deployment's key is not for anybody
        ask(OpenAIClient(api_key=key, base_url=address, max_retries=0), "hello")
    with ephemeral.environment(web_port=str(port)), ephemeral.processes(tmp_path, ["web"]):
        assert sorted(turns(group, "mia", 2)) == sorted(["remember me", upstream.answer])


def test_a_hundred_streams_at_once(
    proxied: Proxied, upstream: Upstream, api_key: KeyMaker, group: str
) -> None:
    headers, address = {"authorization": f"Bearer {api_key(group, 'publish', 'read')}"}, proxied()

    async def one(http: httpx2.AsyncClient, number: int) -> bytes:
        body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": f"question {number}"}]}
        return (
            await http.post(f"{address}/chat/completions", json=body, headers=headers, timeout=PATIENCE)
        ).content

    async def all_of_them() -> list[bytes]:
        async with httpx2.AsyncClient(limits=httpx2.Limits(max_connections=100)) as http:
            return await asyncio.gather(*(one(http, number) for number in range(100)))

    assert set(asyncio.run(all_of_them())) == {upstream.stream("openai")}


def test_what_is_wrong_is_said_in_the_api_s_own_form(proxied: Proxied, api_key: KeyMaker, group: str) -> None:
    key, address = api_key(group, "publish", "read"), proxied()
    good = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    for headers, status, sentence in (
        ({}, 401, "send a key of Jiyi's in X-Jiyi-Key"),
        ({"authorization": f"Bearer {THEIRS}"}, 401, "this proxy has no key of its own"),
        ({"x-jiyi-key": "jiyi_x"}, 401, "not in the form of a key"),
        ({"authorization": f"Bearer {new_key()}"}, 401, "does not know this key"),
        (good | {"x-jiyi-agent": "a" * 201}, 400, "x-jiyi-agent: at most 200 characters"),
        (good | {"host": "evil.example"}, 400, "Invalid host"),
    ):
        answer = httpx2.post(f"{address}/chat/completions", json=body, headers=headers)
        assert (answer.status_code, sentence in answer.text) == (status, True), answer.text
        assert str(key) not in answer.text
    refused = httpx2.post(f"{address}/messages", json=body, headers={"x-api-key": "no"})
    assert refused.json()["type"] == "error"
    large = httpx2.post(f"{address}/chat/completions", content=b"x" * (MAX_BODY_BYTES + 1), headers=good)
    assert large.status_code == 413
    odd: Any
    for odd in (b"no json", b"[]"):
        assert httpx2.post(f"{address}/embeddings", content=odd, headers=good).status_code == 400
    for odd in (b'{"messages": 1}', b'{"messages": [1]}', b'{"messages": [{"role": "user"}]}'):
        assert (
            httpx2.post(f"{address}/embeddings", content=odd, headers=good).status_code == 404
        )  # as the upstream says
    for path, status in (("files", 403), ("files/%2e%2e/models", 400)):
        assert httpx2.get(f"{address}/{path}", headers=good).status_code == status
    away = proxied(openai=UpstreamConfig(f"http://127.0.0.1:{ephemeral.free_port()}/v1"))
    answer = httpx2.post(f"{away}/chat/completions", json=body, headers=good)
    assert (answer.status_code, answer.json()["error"]["type"]) == (502, "upstream_unavailable")


def test_each_key_has_its_upstream(
    proxied: Proxied, upstream: Upstream, api_key: KeyMaker, group: str
) -> None:
    other, key, usual = (
        Upstream(answer="from the other one"),
        api_key(group, "publish", "read"),
        api_key(group, "publish", "read"),
    )
    with serving(other.app()) as address:
        of_key = {parse_key(key).key_id: {"openai": {"url": f"{address}/v1", "key": "sk-other"}}}  # type: ignore[union-attr]
        place = proxied(upstreams=upstreams_of(json.dumps(of_key)))
        quiet = {"X-Jiyi-Memory": "off"}
        assert ask(OpenAIClient(api_key=key, base_url=place, default_headers=quiet), "hello") == other.answer
        assert (
            ask(OpenAIClient(api_key=usual, base_url=place, default_headers=quiet), "hello")
            == upstream.answer
        )
    assert [got[0]["authorization"] for got in (*other.requests, *upstream.requests)] == [
        "Bearer sk-other",
        f"Bearer {OURS}",
    ]
