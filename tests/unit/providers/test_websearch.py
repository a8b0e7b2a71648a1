"""engine.providers.web_search: two engines, one protocol, and nothing that leads elsewhere."""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any
from unittest.mock import create_autospec
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr, ValidationError

from engine.providers import breakers
from engine.providers.web_search import (
    MAX_BODY_BYTES,
    Address,
    SearchHit,
    SearchResult,
    SearXNG,
    Tavily,
    WebSearchOptions,
    configured_engine,
    fetch_json,
    hits_of,
    within,
    words,
)
from engine.tiers.answer import Cache, Quota, Searcher, Skipped, items_of
from jiyi.errors import SearchUnavailable
from jiyi.settings import Settings

HIT = {"title": "Glaze", "url": "https://example.org/glaze", "content": "Glaze cracks.", "score": 0.8}
BETTER = HIT | {"url": "https://b.org", "score": 0.9}
TAVILY = {"query": "q", "answer": "Because of the clay.", "results": [HIT, BETTER]}
SEARXNG = {
    "query": "q",
    "answers": [{"answer": "Clay."}],
    "results": [HIT | {"score": 4.0}, BETTER | {"score": 1.0}],
}

#: Headers, pieces of the body.
Reply = tuple[int, dict[str, str], list[bytes]]


@dataclass
class Engine:
    """A local server: what it answers, and what it was asked."""

    replies: list[Reply] = field(default_factory=list)
    asked: list[tuple[str, str, dict[str, str], Any]] = field(default_factory=list)
    base_url: str = ""
    #: Ends the pauses between pieces.
    release: Event = field(default_factory=Event)
    pause: float = 0.0

    def says(self, *contents: Any, status: int = 200, **headers: str) -> None:
        for content in contents:
            body = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.replies.append((status, headers, [body]))


@contextmanager
def running(engine: Engine) -> Iterator[Engine]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            engine.asked.append((self.command, self.path, headers, json.loads(body) if body else None))
            status, extra, pieces = engine.replies.pop(0) if engine.replies else (200, {}, [b"{}"])
            self.send_response(status)
            for name, value in extra.items():
                self.send_header(name, value)
            self.end_headers()
            try:
                for piece in pieces:
                    self.wfile.write(piece)
                    self.wfile.flush()
                    engine.release.wait(engine.pause)
            except OSError:
                pass  # the client has gone

        do_POST = do_GET

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    engine.base_url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield engine
    finally:
        engine.release.set()
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def engine() -> Iterator[Engine]:
    with running(Engine()) as made:
        yield made


def tavily(engine: Engine, seconds: float = 20) -> Tavily:
    return Tavily(Address(engine.base_url, True, "S"), SecretStr("tvly-secret"), seconds)


def searxng(engine: Engine, seconds: float = 20) -> SearXNG:
    return SearXNG(Address(engine.base_url, True, "S"), seconds)


OPTIONS = WebSearchOptions()


def test_tavily_is_asked_as_it_wants(engine: Engine) -> None:
    engine.says(TAVILY)
    options = WebSearchOptions(search_type="news", domains=("Example.org", "b.org"))
    found = tavily(engine).search("为什么釉面开裂 " + "x" * 1_000, options)
    ((method, path, headers, body),) = engine.asked
    assert (method, path, headers["authorization"]) == ("POST", "/search", "Bearer tvly-secret")
    assert len(body.pop("query")) == 400
    assert body == {
        "search_depth": "advanced",
        "include_answer": True,
        "topic": "news",
        "max_results": 5,
        "include_domains": ["example.org", "b.org"],
    }
    assert (found.provider, found.answer) == ("tavily", "Because of the clay.")
    shown = [(hit.url, hit.score) for hit in found.results]
    assert shown == [("https://b.org", 0.9), ("https://example.org/glaze", 0.8)]


def test_searxng_is_asked_as_it_wants(engine: Engine) -> None:
    engine.says(SEARXNG, {"results": [], "answers": ["plain"]})
    found = searxng(engine).search("glaze & 釉", OPTIONS)
    searxng(engine).search("glaze", WebSearchOptions(domains=("b.org",)))
    method, path, _, body = engine.asked[0]
    assert (method, urlsplit(path).path, body) == ("GET", "/search", None)
    query = {"q": ["glaze & 釉"], "format": ["json"], "categories": ["general"]}
    assert parse_qs(urlsplit(path).query) == query
    assert parse_qs(urlsplit(engine.asked[1][1]).query)["q"] == ["site:b.org glaze"]
    assert found.answer == "Clay."
    assert [hit.score for hit in found.results] == [1.0, 0.25]  # of 4 and 1, the sums of its engines


@pytest.mark.parametrize(
    ("make", "status", "said", "expected"),
    [
        (tavily, 401, {"detail": "bad tvly-secret"}, "refuses the key"),
        (tavily, 432, {}, "plan's limit"),
        (tavily, 400, {"detail": {"error": "query is tvly-secret"}}, "answered 400: {'error': 'query is …'}"),
        (searxng, 403, b"<html>", "add json to search.formats"),
        (searxng, 404, b"<html>", "no /search"),
        (searxng, 429, b"<html>", "limiter"),
        (searxng, 502, b"<html>", "answered 502"),
    ],
)
def test_what_an_engine_refuses_is_said_with_what_to_do_and_without_the_key(
    engine: Engine, make: Any, status: int, said: Any, expected: str
) -> None:
    engine.says(said, status=status)
    with pytest.raises(SearchUnavailable) as caught:
        make(engine).search("q", OPTIONS)
    assert expected in str(caught.value)
    assert "tvly-secret" not in str(caught.value)


@pytest.mark.parametrize("make", [tavily, searxng])
def test_answers_that_are_none_are_errors(engine: Engine, make: Any) -> None:
    for said in (b"<html>", b"", b"[" * 100_000, b"[1]", b"null"):
        engine.says(said)
        with pytest.raises(SearchUnavailable):
            make(engine).search("q", OPTIONS)


def test_an_answer_too_large_is_not_read_to_its_end_and_a_compressed_one_not_unpacked(engine: Engine) -> None:
    engine.replies.append((200, {}, [b"x" * 2**20] * 64))
    with pytest.raises(SearchUnavailable, match=f"more than {MAX_BODY_BYTES:,} bytes"):
        searxng(engine).search("q", OPTIONS)
    engine.says(gzip.compress(b" " * 2**26), **{"Content-Encoding": "gzip"})
    with pytest.raises(SearchUnavailable, match="compressed"):
        searxng(engine).search("q", OPTIONS)
    assert engine.asked[0][2]["accept-encoding"] == "identity"
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        with pytest.raises(SearchUnavailable, match=r"http://127\.0\.0\.1:\d+ cannot be reached"):
            SearXNG(Address(f"http://user:secret@127.0.0.1:{port}", True, "S"), 10).search("q", OPTIONS)


@pytest.mark.parametrize("pieces", [[b""] * 2, [b"x"] * 10_000])
def test_an_answer_too_slow_is_given_up_even_if_it_trickles(engine: Engine, pieces: list[bytes]) -> None:
    engine.replies.append((200, {}, pieces))
    engine.pause = 0.05 if pieces[0] else 30
    with pytest.raises(SearchUnavailable, match=r"did not answer within 0\.4 s"):
        searxng(engine, 0.4).search("q", OPTIONS)


def test_redirects_stay_on_the_host_and_end(engine: Engine) -> None:
    engine.says(b"", status=302, Location="/found?format=json")
    engine.says(SEARXNG)
    assert len(searxng(engine).search("q", OPTIONS).results) == 2
    assert [path for _, path, _, _ in engine.asked][1] == "/found?format=json"
    for _ in range(10):
        engine.says(b"", status=302, Location="/search")
    with pytest.raises(SearchUnavailable, match="redirects more than 3 times"):
        searxng(engine).search("q", OPTIONS)
    assert len(engine.asked) == 2 + 4


def test_redirects_to_other_hosts_are_refused(engine: Engine) -> None:
    port = urlsplit(engine.base_url).port
    others = [f"http://localhost:{port}/", f"https://127.0.0.1:{port}/"]
    for asked, target in enumerate(["http://169.254.169.254/latest", "file:///etc/passwd", *others], 1):
        engine.says(b"", status=307, Location=target)
        with pytest.raises(SearchUnavailable, match="redirects to another host"):
            tavily(engine).search("q", OPTIONS)
        assert len(engine.asked) == asked


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, list[str]], list[str]]:
    """Names with their addresses, and the names that were looked up."""
    known: dict[str, list[str]] = {}
    looked_up: list[str] = []

    def getaddrinfo(host: str, port: int, *_args: Any, **_options: Any) -> Any:
        looked_up.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in known.get(host, [host])]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return known, looked_up


def test_a_vendors_name_that_means_a_private_machine_is_refused(names: Any) -> None:
    """Even one among others: which is connected to would be chance. What the operator set may be private."""
    names[0]["api.tavily.com"] = ["93.184.215.14", "10.0.0.8"]
    address = Address("https://api.tavily.com", False, "JIYI_WEB_SEARCH_BASE_URL")
    sentence = r"is not a public address here .* set JIYI_WEB_SEARCH_BASE_URL if it is meant"
    with pytest.raises(SearchUnavailable, match=sentence):
        fetch_json(address, "POST", "/search", seconds=5)


def test_the_connection_goes_to_the_address_that_was_looked_at(
    engine: Engine, names: Any, configure: Callable[..., Settings]
) -> None:
    """A second look-up could give another answer: there is none."""
    port = urlsplit(engine.base_url).port
    names[0]["search.example"] = ["127.0.0.1"]
    configure(private_hosts="search.example")
    engine.says(TAVILY)
    fetch_json(Address(f"http://search.example:{port}", False, "S"), "POST", "/search", seconds=20, body={})
    assert names[1].count("search.example") == 1
    assert engine.asked[0][2]["host"] == f"search.example:{port}"


def test_results_are_bounded_readable_and_once_each() -> None:
    addresses = [
        *("javascript:alert(1)", "https://x.org/" + "y" * 2_000, "https://user:pw@bank.example"),
        *("https://[::1", 'https://x.org/"><script>', None),
    ]
    long = {"url": "https://long.org", "content": "w\x00o\x1b[2J\u202erd " * 5_000, "score": float("nan")}
    odd: list[Any] = [{"url": "https://empty.org"}, "text", None, 7]
    found = [HIT, HIT | {"score": 0.1}, *(HIT | {"url": url} for url in addresses), *odd, long]
    first, second = hits_of(found, OPTIONS)
    assert first.model_dump() == HIT
    assert (second.url, second.title) == ("https://long.org", "long.org")
    assert (second.score, len(second.content)) == (0.0, 2_000)
    assert second.content.isprintable()
    hit = SearchHit.model_validate(HIT)
    (item,) = items_of(SearchResult(query="q", provider="tavily", answer="said by nobody", results=[hit]))
    assert (item.source, item.verified, item.temporary, item.score) == ("external", False, False, 0.8)
    assert item.content == "Glaze\nGlaze cracks.\n<https://example.org/glaze>"
    assert item.metadata == {"url": HIT["url"], "title": "Glaze", "provider": "tavily"}
    assert hits_of({"not": "a list"}, OPTIONS) == []


FIELDS = st.sampled_from(["url", "title", "content", "score"])
JSON = st.recursive(
    st.none() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner),
    max_leaves=10,
)


@given(JSON)
def test_any_json_gives_hits_or_none(found: Any) -> None:
    for hit in hits_of(found, OPTIONS):
        assert 0 <= hit.score <= 1
        assert hit.url.startswith("http")
    assert words(found, 10) == "" or len(words(found, 10)) <= 10


def test_domains_are_whole_names_and_other_options_have_bounds() -> None:
    urls = {"https://a.b.org/x": True, "https://b.org:8443": True}
    urls |= dict.fromkeys(("https://evilb.org", "https://b.org.evil.com", "https://x.org/?b.org"), False)
    for url, inside in urls.items():
        assert within(url, ["b.org"]) is inside
        assert within(url, [])
        assert bool(hits_of([HIT | {"url": url}], WebSearchOptions(domains=("b.org",)))) is inside
    wrong: list[dict[str, Any]] = [{"max_results": 0}, {"max_results": 11}, {"search_type": "all"}]
    for options in [*wrong, {"domains": ("a.org OR site:b.org",)}]:
        with pytest.raises(ValidationError):
            WebSearchOptions(**options)


def made(engine: Any, why_none: str = "nothing set up") -> Searcher:
    """Its cache is a dictionary, its quota endless; see integration/tiers/test_web_search.py."""
    results: dict[tuple[str, str], SearchResult] = {}
    cache, quota = create_autospec(Cache, instance=True), create_autospec(Quota, instance=True)
    cache.get.side_effect = lambda group_id, key: results.get((group_id, key))
    cache.put.side_effect = lambda group_id, key, result: results.update({(group_id, key): result})
    quota.take.return_value = True
    return Searcher(engine, cache, quota, why_none)


def test_what_was_asked_lately_is_not_asked_again_and_an_engine_that_fails_is_left_alone(
    engine: Engine,
) -> None:
    engine.says(*[SEARXNG] * 5)
    search = made(searxng(engine))

    def ask(query: str, group: str = "g", **options: Any) -> None:
        search.search(query, WebSearchOptions(**options), group_id=group, session_id="s")

    for query in ("Why glaze?", " why  GLAZE? "):
        ask(query)
    assert len(engine.asked) == 1
    others: list[dict[str, Any]] = [{"max_results": 3}, {"search_type": "news"}, {"domains": ("a.org",)}]
    for different in others:
        ask("Why glaze?", **different)
    assert len(engine.asked) == 4
    ask("Why glaze?", "other")  # what one tenant has asked is no answer to another
    assert len(engine.asked) == 5
    with pytest.raises(Skipped, match="nothing to search for"):
        ask(" \x00")
    for _ in range(breakers.FAIL_MAX):
        engine.says(b"away", status=500)
        with pytest.raises(SearchUnavailable, match="answered 500"):  # and nothing of it is cached
            ask("q")
    with pytest.raises(SearchUnavailable, match=r"searxng is not called for 30 s after 5 failures in a row"):
        ask("q")
    assert len(engine.asked) == 5 + breakers.FAIL_MAX


def test_without_a_key_or_an_address_searches_are_skipped_and_say_why(
    configure: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch, engine: Engine
) -> None:
    for setting, why in {
        "off": "set JIYI_WEB_SEARCH to tavily or searxng",
        "tavily": "Tavily needs a key: set TAVILY_API_KEY",
        "searxng": "set JIYI_WEB_SEARCH_BASE_URL to yours",
    }.items():
        none, why_none = configured_engine(configure(web_search=setting))
        assert none is None
        with pytest.raises(Skipped, match=why):
            made(None, why_none).search("q", OPTIONS, group_id="g", session_id="s")
    monkeypatch.setenv("TAVILY_API_KEY", "tvly-env")
    engine.says(TAVILY)
    found, _ = configured_engine(configure(web_search="tavily", web_search_base_url=engine.base_url))
    assert found is not None
    found.search("q", OPTIONS)
    assert [headers["authorization"] for _, _, headers, _ in engine.asked] == ["Bearer tvly-env"]
    for url in ("file:///etc/passwd", "gopher://x", "http://", "search"):
        with pytest.raises(SearchUnavailable, match="S is no http"):
            Address(url, True, "S")
