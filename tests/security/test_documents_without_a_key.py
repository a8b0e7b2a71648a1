"""Keeping the web busy without a key, with what it shows to everybody."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
from flask import Flask

from jiyi.protocol.openapi import document as openapi
from web import create_app
from web.accounts import api_keys
from web.api import docs


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Each time that the document is made; nothing is remembered from before."""
    found: list[str] = []
    real = openapi.document

    def counted(root: str, *more: object) -> openapi.Json:
        found.append(root)
        return real(root, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(openapi, "document", counted)
    for kept in (docs.whole_document, docs.document_bytes, docs.page_bytes):
        kept.cache_clear()
    return found


@pytest.mark.parametrize("address", ["/api/openapi.json", "/api/openapi.json?for=dify", "/api/docs"])
def test_a_document_is_made_once_whatever_host_and_port_it_is_asked_for(
    database: object, made: list[str], address: str
) -> None:
    app = create_app()

    def ask(number: int) -> str:
        host = f"localhost:{number}"
        answer = app.test_client().get(
            address, headers={"Host": host}, environ_base={"REMOTE_ADDR": f"2001:db8::{number:x}"}
        )
        assert answer.status_code == 200
        text: str = answer.text
        assert f"http://{host}" in text
        assert docs.ROOT not in text
        return text.replace(f"http://{host}", "")

    with ThreadPoolExecutor(16) as threads:
        texts = set(threads.map(ask, range(1, 65)))
    assert len(texts) == 1
    assert len(made) == 1


def test_documents_are_there_before_the_first_request(database: object, made: list[str]) -> None:
    app = create_app()
    with app.app_context():
        docs.make()
    del made[:]
    client = app.test_client()
    for address in ("/api/openapi.json", "/api/openapi.json?for=dify", "/api/docs"):
        assert (
            client.get(address, environ_base={"REMOTE_ADDR": f"2001:db8:{uuid4().hex[:4]}::1"}).status_code
            == 200
        )
    assert not made


@pytest.mark.parametrize("address", ["/api/openapi.json", "/api/docs"])
def test_an_address_may_ask_so_often_and_others_still_may(
    database: object, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setattr(api_keys, "DOCUMENTS", "3/minute")
    app = create_app()
    asker, other = ({"REMOTE_ADDR": f"2001:db8:{uuid4().hex[:4]}::{number}"} for number in (1, 2))

    def ask(app: Flask, who: dict[str, str]) -> int:
        answer = app.test_client().get(address, environ_base=who)
        assert answer.status_code != 429 or int(answer.headers["Retry-After"]) > 0
        return answer.status_code

    assert [ask(app, asker) for _ in range(5)] == [200, 200, 200, 429, 429]
    assert ask(app, other) == 200
