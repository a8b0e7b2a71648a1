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


ADDRESSES = "/api/openapi.json", "/api/openapi.json?for=dify", "/api/docs"


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_document_is_made_once_whatever_host_and_port_it_is_asked_for(
    web_app: Flask, made: list[str], address: str
) -> None:
    def ask(number: int) -> str:
        host, whom = f"localhost:{number}", {"REMOTE_ADDR": f"2001:db8::{number:x}"}
        answer = web_app.test_client().get(address, headers={"Host": host}, environ_base=whom)
        assert answer.status_code == 200
        text: str = answer.text
        assert f"http://{host}" in text
        assert docs.ROOT not in text
        return text.replace(f"http://{host}", "")

    with ThreadPoolExecutor(16) as threads:
        texts = set(threads.map(ask, range(1, 65)))
    assert len(texts) == 1
    assert len(made) == 1


def test_documents_are_there_before_the_first_request(web_app: Flask, made: list[str]) -> None:
    with web_app.app_context():
        docs.make()
    del made[:]
    whom = {"REMOTE_ADDR": f"2001:db8:{uuid4().hex[:4]}::1"}
    for address in ADDRESSES:
        assert web_app.test_client().get(address, environ_base=whom).status_code == 200
    assert not made


def test_an_address_may_ask_so_often_and_others_still_may(
    database: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_keys, "DOCUMENTS", "3/minute")
    app = create_app()
    for address in ("/api/openapi.json", "/api/docs"):
        net = f"2001:db8:{uuid4().hex[:4]}::"
        answers = [
            app.test_client().get(address, environ_base={"REMOTE_ADDR": f"{net}{who}"}) for who in "111112"
        ]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429, 200]
        assert all(int(one.headers["Retry-After"]) > 0 for one in answers if one.status_code == 429)
