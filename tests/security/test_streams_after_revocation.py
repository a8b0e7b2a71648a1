"""Going on to watch a group with a key that was revoked, or a session that has ended, on a stream that was
opened before.
"""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest
from flask import Flask

from jiyi.protocol.accounts import RevokeKey, UpdatePerson
from jiyi.protocol.wire.signatures import parse_key
from models.accounts.actions import revoke_key, update_person
from models.db.actions import Actor
from tests.integration.conftest import Browser, SignIn
from web import stream as web_stream

#: Seconds that a stream may outlive the key, and what a busy machine needs on top.
PROMISED, BUSY = 5.0, 25.0


def test_a_stream_ends_with_its_key(unlimited_web: int, group: str, api_key: Callable[..., str]) -> None:
    key = api_key(group, "read")
    asked = "/api/v1/stream", None, {"Authorization": f"Bearer {key}"}
    with closing(
        http.client.HTTPConnection("127.0.0.1", unlimited_web, timeout=PROMISED + BUSY)
    ) as connection:
        connection.request("GET", *asked)
        response = connection.getresponse()
        assert response.status == 200
        assert response.readline().startswith(b"retry:")
        given = parse_key(key)
        assert given is not None
        revoke_key.perform(Actor(group, "test", operator=True), RevokeKey(id=given.key_id))
        response.read()  # to its end; a stream that went on would run into the connection's time-out
        connection.request("GET", *asked)
        assert connection.getresponse().status == 401


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams look for their callers all the time."""
    for name, seconds in (("LOOK", 0.01), ("HEARTBEAT", 0.1)):
        monkeypatch.setattr(web_stream, name, seconds)


@pytest.mark.usefixtures("quick")
def test_a_stream_goes_on_for_as_long_as_its_key_is_good(
    web_app: Flask, group: str, api_key: Callable[..., str]
) -> None:
    headers = {"Authorization": f"Bearer {api_key(group, 'read')}"}
    with closing(web_app.test_client().get("/api/v1/stream", headers=headers, buffered=False)) as answer:
        chunks = iter(answer.response)
        assert next(chunks).startswith(b"retry:")
        assert [next(chunks) for _ in range(3)] == [b":\n\n"] * 3


@pytest.mark.usefixtures("quick")
def test_a_stream_ends_with_its_session(sign_in: SignIn, group: str) -> None:
    browser = sign_in("viewer", [group])
    with _opened(browser, group) as chunks:
        assert browser.post("/sign-out").status_code == 303
        assert not [chunk for chunk in chunks if chunk != b":\n\n"]  # it ends


@pytest.mark.usefixtures("quick")
def test_a_stream_ends_when_a_person_is_disabled(sign_in: SignIn, group: str) -> None:
    browser = sign_in("viewer", [group])
    with _opened(browser, group) as chunks:
        disabled = UpdatePerson(name=browser.user.name, disabled=True)  # type: ignore[attr-defined]
        update_person.perform(Actor("", "test", operator=True), disabled)
        assert not [chunk for chunk in chunks if chunk != b":\n\n"]


@contextmanager
def _opened(browser: Browser, group: str) -> Iterator[Iterator[bytes]]:
    """A stream's pieces after the first; closed in the end, as a server closes it, so that nobody reads on
    for it.
    """
    headers = {"Accept": "text/event-stream"}
    answer = browser.get(f"/live/stream?group={group}", headers=headers, buffered=False)
    with closing(answer):
        assert answer.status_code == 200
        chunks: Iterator[bytes] = iter(answer.response)
        assert next(chunks).startswith(b"retry:")
        yield chunks
