"""Open WebUI's filter as ``jiyi connect open-webui`` writes it by its API: a new chat knows what an earlier
one said.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
import threading
import types
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from flask import Flask, request
from typer.testing import CliRunner
from werkzeug.serving import make_server

from jiyi import Client
from jiyi.cli.app import app
from jiyi.polling import poll
from jiyi.settings import get_settings
from tests.integration.proxy.test_proxy import turns

pytestmark = pytest.mark.long

PATIENCE = 60.0
MIA = {"id": "mia", "name": "Mia", "role": "user"}


class Host:
    """In place of Open WebUI 0.12: its API of functions, and how it calls a filter."""

    def __init__(self) -> None:
        self.functions: dict[str, dict[str, Any]] = {}
        self.valves: dict[str, Any] = {}
        self.calls: list[str] = []
        self._loaded: Any = None

    def application(self) -> Flask:
        flask = Flask("host")

        @flask.before_request
        def administrators() -> tuple[dict[str, str], int] | None:
            self.calls.append(f"{request.method} {request.path.removeprefix('/api/v1/functions')}")
            return (
                None
                if request.headers["Authorization"] == "Bearer sk-admin"
                else ({"detail": "401 Unauthorized"}, 401)
            )

        @flask.get("/api/v1/functions/export")
        def export() -> Any:
            return list(self.functions.values())

        @flask.post("/api/v1/functions/create")
        @flask.post("/api/v1/functions/id/jiyi/update")
        def write() -> Any:
            form = request.get_json()
            state = self.functions.get(form["id"], {"is_active": False, "is_global": False})
            self.functions[form["id"]] = {**state, **form}
            self._loaded = self._load(form["content"])
            return self.functions[form["id"]]

        @flask.get("/api/v1/functions/id/jiyi/valves")
        def valves() -> Any:
            return self.valves

        @flask.post("/api/v1/functions/id/jiyi/valves/update")
        def change_valves() -> Any:
            self.valves = self._loaded.Valves(**request.get_json()).model_dump(exclude_unset=True)
            return self.valves

        @flask.post("/api/v1/functions/id/jiyi/toggle")
        @flask.post("/api/v1/functions/id/jiyi/toggle/global")
        def toggle() -> Any:
            field = "is_global" if request.path.endswith("global") else "is_active"
            self.functions["jiyi"][field] = not self.functions["jiyi"][field]
            return self.functions["jiyi"]

        @flask.delete("/api/v1/functions/id/jiyi/delete")
        def delete() -> Any:
            return [self.functions.pop("jiyi") is not None]

        return flask

    def filter(self, which: str, body: dict[str, Any], user: dict[str, Any]) -> dict[str, Any]:
        self._loaded.valves = self._loaded.Valves(**self.valves)
        handler = getattr(self._loaded, which)
        given = {"__user__": user, "__metadata__": {}, "__request__": None}
        named = {
            name: value for name, value in given.items() if name in inspect.signature(handler).parameters
        }
        answer: dict[str, Any] = asyncio.run(handler(body, **named))
        return answer

    @staticmethod
    def _load(content: str) -> Any:
        module = types.ModuleType("function_jiyi")
        sys.modules[module.__name__] = module
        try:
            exec(content, module.__dict__)  # as Open WebUI does
            module.RECALL_SECONDS = 20.0  # type: ignore[attr-defined]  # a busy machine
            return module.Filter()
        finally:
            del sys.modules[module.__name__]


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    made = Host()
    server = make_server("127.0.0.1", 0, made.application(), threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("OPEN_WEBUI_URL", f"http://127.0.0.1:{server.port}")
    monkeypatch.setenv("OPEN_WEBUI_KEY", "sk-admin")
    yield SimpleNamespace(of=made, port=server.port)
    server.shutdown()
    thread.join()


def connect(*arguments: str, key: str = "jiyi_x", code: int = 0) -> str:
    with patch.dict(os.environ, {"JIYI_KEY": key}):
        get_settings.cache_clear()  # now, as threads of other tests ask for settings, too
        result = CliRunner().invoke(app, ["connect", "open-webui", "--yes", *arguments])
    get_settings.cache_clear()  # nobody else speaks with this key
    assert result.exit_code == code, result.output
    return result.output


def test_a_new_chat_knows_what_an_earlier_one_said(
    host: Any, service: str, client: Client, unlimited_web: int, api_key: Callable[..., str]
) -> None:
    key = api_key(service, "publish", "read")
    url = f"http://127.0.0.1:{unlimited_web}"
    assert key not in connect("--agent", "helper", "--url", url, key=key)
    function = host.of.functions["jiyi"]
    assert function["is_active"]
    assert function["is_global"]
    assert host.of.valves == {"url": url, "key": key, "agent": "helper", "tz": ""}
    host.of.valves["priority"] = 3
    connect("--agent", "helper", "--url", url, key=key)
    assert host.of.valves["priority"] == 3
    assert host.of.functions["jiyi"] == function

    said = [
        {"id": "m-1", "role": "user", "content": "I am allergic to peanuts.", "timestamp": 1_795_000_000},
        {
            "id": "m-2",
            "role": "assistant",
            "content": "I will keep that in mind.",
            "timestamp": 1_795_000_002,
        },
    ]
    for chat in ("c-1", "c-1", "temporary:c-0", ""):  # the second time an answer that was made anew
        host.of.filter("outlet", {"chat_id": chat, "messages": said}, MIA)
    assert sorted(turns(service, "helper", 2)) == sorted(message["content"] for message in said)
    client.end_session("helper", "c-1")

    def asked(user: dict[str, Any]) -> list[dict[str, Any]]:
        body = {
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "What am I allergic to?"},
            ]
        }
        messages: list[dict[str, Any]] = host.of.filter("inlet", body, user)["messages"]
        return messages

    messages = poll(lambda: asked(MIA), lambda messages: "peanuts" in str(messages), PATIENCE, str)
    assert [message["role"] for message in messages] == ["system", "system", "user"]
    assert len(asked({**MIA, "id": "tom"})) == 2
    host.of.valves["in_message"] = True
    assert "peanuts" in asked(MIA)[1]["content"][0]["text"]
    host.of.valves["url"] = "http://127.0.0.1:1"
    assert len(asked(MIA)) == 2
    connect("--remove")
    assert host.of.functions == {}
    assert "nothing to change" in connect("--remove")


def test_what_is_wrong_is_said_in_a_sentence(host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPEN_WEBUI_KEY", "sk-other")
    assert "401" in connect(code=1)
    monkeypatch.setenv("OPEN_WEBUI_KEY", "")
    assert "OPEN_WEBUI_KEY" in connect(code=1)
    monkeypatch.setenv("OPEN_WEBUI_KEY", "sk-admin")
    assert "127.0.0.1:1" in connect("--host-url", "http://127.0.0.1:1", code=1)
    assert not host.of.functions
