"""The mem0 store, against a server that speaks as mem0 does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from engine.providers.web_search import Address
from engine.stores import devall
from jiyi.errors import ConfigError
from models.stores import backends
from tasks.framework.work import run_until_idle
from tasks.stores import search
from tests.integration.memory.test_inbox import execute
from tests.integration.stores.kept import Kept

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")


class Server:
    """What was asked, and what is answered."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Any]] = []
        self.status = 200
        self.memories: list[dict[str, Any]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.asked.append((self.path, self.headers["Authorization"], body))
                answer = json.dumps(outer.memories if "search" in self.path else {}).encode()
                self.send_response(outer.status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: Any) -> None:
                """Nothing."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    made = Server()
    thread = Thread(target=made.http.serve_forever)
    thread.start()
    monkeypatch.setattr(backends, "check_public", lambda _url: None)
    monkeypatch.setattr(
        devall, "Address", lambda url, trusted, setting: Address(url, trusted=True, setting=setting)
    )
    yield made
    made.http.shutdown()
    thread.join()
    made.http.server_close()


def declared(url: str, **config: Any) -> dict[str, Any]:
    return {
        "name": "away",
        "type": "mem0",
        "config": {"api_key": "m0-key", "base_url": url, "user_id": "mia", **config},
    }


def send() -> int:
    return run_until_idle(backends.SEND_ITEM, search.send_items)


def test_mem0_searches_for_user_or_agent(group: str, server: Server) -> None:
    kept = Kept(group)
    kept.apply(declared(server.url, agent_id="helper"))
    server.memories = [
        {"id": "m1", "memory": "Mia likes tea.", "score": 0.8, "created_at": "2026-03-01T08:00:00+00:00"}
    ]
    [hit] = kept.ask("what does Mia like?", "away", top_k=2, threshold=0.3).hits
    assert (hit.item.id, hit.item.content_summary, hit.score) == ("m1", "Mia likes tea.", 0.8)
    [(path, key, body)] = server.asked
    assert (path, key) == ("/v2/memories/search/", "Token m0-key")
    filters = {"OR": [{"user_id": "mia"}, {"agent_id": "helper"}]}
    assert body == {"query": "what does Mia like?", "filters": filters, "top_k": 2, "threshold": 0.3}
    kept.ask("again", "away")
    assert "threshold" not in server.asked[-1][2]


def test_only_the_users_text_is_written_without_headers_as_work_owed(group: str, server: Server) -> None:
    kept = Kept(group)
    kept.apply(declared(server.url))
    assert kept.say("the answer", "away", inputs="=== INPUT FROM plan (user) ===\nI like tea.").item_id
    assert server.asked == []
    assert send() == 1
    [(path, _, body)] = server.asked
    assert (path, body) == (
        "/v1/memories/",
        {"messages": [{"role": "user", "content": "I like tea."}], "user_id": "mia"},
    )
    assert kept.items("away").rows == []


def test_an_error_is_visible_and_loses_nothing(group: str, server: Server) -> None:
    kept = Kept(group)
    kept.apply(declared(server.url))
    server.status = 503
    found = kept.ask("anything", "away")
    assert (found.hits, found.notes) == ([], ["mem0 refused with status 503"])
    kept.say("the answer", "away", inputs="I like tea.")
    send()
    assert [one.content_summary for one in kept.items("away").rows] == ["I like tea."]
    server.status = 200
    execute("UPDATE pending_work SET due_at = now() WHERE kind = 'send_item'")
    assert send() == 1
    assert kept.items("away").rows == []


def test_a_private_address_and_nobody_are_refused(group: str) -> None:
    kept = Kept(group)
    with pytest.raises(ConfigError, match=r"memory\[0\].config.base_url: leads into a private network"):
        kept.apply(declared("http://127.0.0.1:1"))
    with pytest.raises(ConfigError, match=r"memory\[0\].config.*user_id"):
        kept.apply({"name": "away", "type": "mem0", "config": {"api_key": "k"}})
