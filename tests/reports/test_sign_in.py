"""Sign-in by OAuth: what hosts do when two of their windows, or a lost answer, get into the way."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from typing import Any

from flask import Flask
from flask.testing import FlaskClient

from jiyi.protocol.limits import STRANGERS_BYTES
from tests.integration.accounts.test_oauth import (
    BACK,
    _on,
    asking,
    change,
    client_id,
    connect,
    ended,
    person,
    program,
    renew,
    works,
)
from tests.integration.conftest import Browser, SignIn

FORM = "application/x-www-form-urlencoded"
__all__ = ["_on", "client_id", "program"]


def test_two_refreshes_at_once_keep_the_connection(
    web_app: Flask, program: FlaskClient, sign_in: SignIn, client_id: str, group: str
) -> None:
    """Two windows of a host find its token expired at the same moment: both go on, with the same tokens."""
    browser = sign_in("admin", [group])
    old = connect(program, browser, client_id, group)["refresh_token"]
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: renew(web_app.test_client(), client_id, old), range(2))
    assert (first.status_code, second.status_code) == (200, 200)
    assert first.json == second.json
    assert works(program, first.json) == 200
    following = renew(program, client_id, second.json["refresh_token"]).json
    assert works(program, following) == 200
    assert ended(person(browser)) == []


def test_a_refresh_is_repeated_after_its_answer_was_lost(
    program: FlaskClient, sign_in: SignIn, client_id: str, group: str
) -> None:
    told = connect(program, sign_in("admin", [group]), client_id, group)
    lost = renew(program, client_id, told["refresh_token"]).json
    again = renew(program, client_id, told["refresh_token"]).json
    assert again == lost
    assert works(program, again) == 200


def test_a_refresh_token_that_comes_again_later_ends_the_connection(
    program: FlaskClient, sign_in: SignIn, client_id: str, group: str
) -> None:
    browser = sign_in("admin", [group])
    old = connect(program, browser, client_id, group)["refresh_token"]
    told = renew(program, client_id, old).json
    change(
        "UPDATE oauth_connections SET renewed_at = renewed_at - interval '31 s' WHERE group_id = :g", g=group
    )
    assert renew(program, client_id, old).json["error"] == "invalid_grant"
    assert works(program, told) == 401
    assert ended(person(browser)) == ["refresh token used again"]


def test_a_key_that_was_revoked_is_not_brought_back_by_the_grace(
    program: FlaskClient, sign_in: SignIn, client_id: str, group: str
) -> None:
    old = connect(program, sign_in("admin", [group]), client_id, group)["refresh_token"]
    told = renew(program, client_id, old).json
    change("UPDATE api_keys SET revoked_at = now() WHERE group_id = :g", g=group)
    assert renew(program, client_id, old).json["error"] == "invalid_grant"
    assert works(program, told) == 401


def test_a_program_that_is_not_registered_is_told_so(program: FlaskClient) -> None:
    """401 ``invalid_client``: hosts register again then, and do so for no other error."""
    unknown = {"client_id": "nosuch", "refresh_token": "x", "code": "x", "code_verifier": "v" * 50}
    for grant in ("refresh_token", "authorization_code"):
        answer: Any = program.post("/api/oauth/token", data={"grant_type": grant, **unknown})
        assert (answer.status_code, answer.json["error"]) == (401, "invalid_client")


def test_an_address_that_is_refused_at_registration_is_refused_in_the_request(
    program: FlaskClient, signed_in: Browser, client_id: str
) -> None:
    """``client_id`` is registered for ``http://127.0.0.1/cb``, with any port."""

    def authorizes(uri: str) -> int:
        query = asking(client_id, redirect_uri=uri)
        return int(signed_in.get("/oauth/authorize", query_string=query).status_code)

    local = "http://127.0.0.1"
    for uri in (f"{local}:1/cb#x", f"{local}:99999/cb", f"{local}:0/cb", f"{BACK}#x"):
        assert program.post("/api/oauth/register", json={"redirect_uris": [uri]}).status_code == 400
        assert authorizes(uri) == 400
    assert authorizes(f"{local}:65535/cb") == 200


def test_a_body_that_is_too_large_is_refused_unread_and_by_its_own_limit(program: FlaskClient) -> None:
    """The refusal named the limit of other addresses, of 1 MiB, for a body of 70 kB."""
    for address in ("/api/oauth/register", "/api/oauth/token", "/api/oauth/revoke"):
        length = STRANGERS_BYTES + 1
        sent = BytesIO(b"x" * length)
        answer: Any = program.post(address, input_stream=sent, content_length=length, content_type=FORM)
        assert (answer.status_code, sent.tell()) == (413, 0)
        assert answer.json["detail"] == "The body is larger than 65,536 bytes."
        longest = program.post(address, data=b"x" * STRANGERS_BYTES, content_type=FORM)
        assert longest.status_code in (200, 400, 401)
