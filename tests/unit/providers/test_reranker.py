"""Against a real server that behaves, and misbehaves: both forms, what is verified, what is bounded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engine.providers import breakers
from engine.providers.llms import Reranker, reranker
from engine.providers.remote import MOST_DOCUMENT_CHARS, MOST_QUERY_CHARS
from jiyi.errors import RerankerUnavailable, SettingsError
from jiyi.settings import Settings
from tests import misbehaving as bad

Configure = Callable[..., Settings]
SECRET = "sk-very-secret"
DOCUMENTS = ["a kettle", "the green tea", "tea"]


def length(_query: str, document: str) -> float:
    return -float(len(document))


@pytest.fixture
def server(configure: Configure, server: bad.Vendor, monkeypatch: pytest.MonkeyPatch) -> bad.Vendor:
    server.otherwise = bad.rerank(length)
    monkeypatch.setenv("COMPATIBLE_API_KEY", SECRET)
    configure(reranker=f"bge@{server.base_url}")
    return server


def ask(made: Reranker | None = None, seconds: float = 30) -> list[float]:
    return (made or reranker()).relevance("tea?", DOCUMENTS, seconds)


def test_documents_get_their_relevance_in_their_own_order(server: bad.Vendor) -> None:
    assert ask() == [-8, -13, -3]
    (request,) = server.requests
    assert request.path == "/v1/rerank"
    assert request.body == {"model": "bge", "query": "tea?", "documents": DOCUMENTS, "top_n": 3}
    assert request.headers["authorization"] == f"Bearer {SECRET}"


def test_a_server_that_wants_texts_is_found_out_once(server: bad.Vendor) -> None:
    server.otherwise = bad.rerank(length, "texts")
    made = reranker()
    assert ask(made) == ask(made) == [-8, -13, -3]
    assert ["documents" in request.body for request in server.requests] == [True, False, False]
    assert server.requests[-1].body == {"query": "tea?", "texts": DOCUMENTS, "truncate": True}


def test_what_is_sent_is_bounded(server: bad.Vendor) -> None:
    reranker().relevance("q" * 50_000 + "?", ["d" * 50_000], 30)
    (request,) = server.requests
    assert (len(request.body["query"]), request.body["query"][-1]) == (MOST_QUERY_CHARS, "?")
    assert [len(text) for text in request.body["documents"]] == [MOST_DOCUMENT_CHARS]


def results(*rows: Any) -> bad.Script:
    return bad.json_body({"results": list(rows)})


ROW = {"index": 0, "relevance_score": 1.0}


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (bad.status(401, f"bad key {SECRET}"), "refuses the key"),
        (bad.status(404), "no such address"),
        (bad.status(422, "the green tea is no text"), "refuses the request"),  # in both forms
        (bad.redirect(302, "http://127.0.0.1:9/"), "redirects"),
        (bad.json_body("yes"), "no object"),
        (bad.json_body({"data": []}), "no list of results"),  # another API
        (bad.json_body([[0, 1.0]]), "no list of results"),
        (results(ROW), "1 results for 3"),
        (results({**ROW, "index": 3}), "which document"),
        (results({**ROW, "index": True}), "which document"),
        (results({**ROW, "relevance_score": float("nan")}), "no number"),
        (results({**ROW, "relevance_score": 10**400}), "no number"),
        (results({**ROW, "relevance_score": "high"}), "no number"),
    ],
)
def test_what_is_no_answer_is_said_without_secrets(
    server: bad.Vendor, reply: bad.Script, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    server.otherwise = reply
    with caplog.at_level("DEBUG", logger="jiyi"), pytest.raises(RerankerUnavailable, match=words) as caught:
        ask()
    for said in (str(caught.value), caplog.text):
        assert SECRET not in said
        assert "green tea" not in said  # who meets the open breaker may be of another group


@pytest.mark.parametrize("late", [bad.slow(3), bad.dribbling(0.1)])
def test_one_that_is_late_is_not_waited_for(server: bad.Vendor, late: bad.Script) -> None:
    server.otherwise = late
    with pytest.raises(RerankerUnavailable, match="did not answer within"):
        ask(seconds=0.3)
    assert len(server.requests) == 1
    server.otherwise = bad.status(503)
    for _ in range(breakers.FAIL_MAX + 1):
        with pytest.raises(RerankerUnavailable):
            ask()
    assert len(server.requests) == breakers.FAIL_MAX  # one that keeps failing is left alone


@pytest.mark.parametrize(
    "wrong", ["nobody", "compatible:bge", "bge@", "bge@ftp://host", "@http://host", "b g@http://host"]
)
def test_a_setting_that_names_no_model_or_no_address_is_refused(configure: Configure, wrong: str) -> None:
    with pytest.raises(SettingsError, match=r"^JIYI_RERANKER: "):
        configure(reranker=wrong)
