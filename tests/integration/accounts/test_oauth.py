"""OAuth for MCP: a person lets a program in, and what becomes of its tokens; the whole way with the official
SDK's own client.
"""

from __future__ import annotations

import asyncio
import html
import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from uuid import uuid4

import pytest
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import text

from jiyi.protocol.accounts import NewKey, RevokeKey, UpdatePerson
from jiyi.protocol.wire.signatures import new_key
from jiyi.settings import get_settings
from models.accounts import actions, api_keys
from models.accounts.users import User
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.db.scope import whole_service
from tests.integration.conftest import Browser, SignIn
from tests.integration.memory.test_inbox import rows

OPERATOR = Actor("group", "test", operator=True)
URL = "http://localhost/mcp"
BACK = "https://host.example/back?x=1"
VERIFIER = "v" * 50
Row = dict[str, Any]


@pytest.fixture(autouse=True)
def _on(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The setting, before ``web_app`` is made; and what is revoked is so at once."""
    monkeypatch.setenv("JIYI_MCP_URL", URL)
    monkeypatch.setattr(api_keys, "KEY_SECONDS", 0.0)
    get_settings.cache_clear()
    yield
    monkeypatch.undo()
    get_settings.cache_clear()


@pytest.fixture
def program(web_app: Flask, _on: None) -> FlaskClient:
    """Without a session."""
    return web_app.test_client()


@pytest.fixture
def client_id(program: FlaskClient) -> str:
    answer = program.post(
        "/api/oauth/register", json={"client_name": "Claude", "redirect_uris": [BACK, "http://127.0.0.1/cb"]}
    )
    assert answer.status_code == 201, answer.text
    assert answer.json["token_endpoint_auth_method"] == "none"
    return str(answer.json["client_id"])


def asking(client_id: str, **other: str) -> dict[str, str]:
    wanted = {"response_type": "code", "client_id": client_id, "redirect_uri": BACK, "state": "s&t"}
    challenge = {
        "code_challenge": create_s256_code_challenge(VERIFIER),
        "code_challenge_method": "S256",
        "resource": URL,
    }
    return {**wanted, **challenge, **other}


def consent(browser: Browser, client_id: str, group: str, *allow: str, **other: str) -> dict[str, str]:
    """What the program is told at its redirect_uri."""
    chosen = {"group": group, "allow": list(allow or ("read", "publish")), "answer": "yes"}
    page = browser.post("/oauth/authorize", data={**asking(client_id), **chosen, **other})
    assert page.status_code == 200, page.text
    return told_back(page.text)


def told_back(page: str) -> dict[str, str]:
    found = re.search(r'id="back" href="([^"]+)"', page)
    assert found is not None, page
    return dict(parse_qsl(urlsplit(html.unescape(found[1])).query))


def spend(program: FlaskClient, client_id: str, code: str, /, **other: str) -> Any:
    given = {"grant_type": "authorization_code", "code": code, "redirect_uri": BACK, "client_id": client_id}
    return program.post(
        "/api/oauth/token", data={**given, "code_verifier": VERIFIER, "resource": URL, **other}
    )


def renew(program: FlaskClient, client_id: str, token: str) -> Any:
    given = {"grant_type": "refresh_token", "refresh_token": token, "client_id": client_id}
    return program.post("/api/oauth/token", data=given)


def is_over(program: FlaskClient, client_id: str, told: Row) -> bool:
    """Whether neither token of a connection is good any more."""
    refused = renew(program, client_id, told["refresh_token"]).json.get("error") == "invalid_grant"
    return works(program, told) == 401 and refused


def connect(program: FlaskClient, browser: Browser, client_id: str, group: str, *allow: str) -> Row:
    answer = spend(program, client_id, consent(browser, client_id, group, *allow)["code"])
    assert answer.status_code == 200, answer.text
    return dict(answer.json)


def works(program: FlaskClient, told: Row) -> int:
    """The status of a request with an access token."""
    return program.get("/api/v1/agents", headers=bearer(told)).status_code


def bearer(told: Row) -> dict[str, str]:
    return {"Authorization": f"Bearer {told['access_token']}"}


def change(statement: str, **values: Any) -> None:
    with whole_service(), unit_of_work() as connection:
        connection.execute(text(statement), values)


def ended(user: User) -> list[str]:
    """Why connections of somebody ended, as the audit log has it."""
    statement = (
        "SELECT details ->> 'reason' AS reason FROM audit_log"
        " WHERE actor = :who AND action = 'connection ended' ORDER BY audit_id"
    )
    return [str(row["reason"]) for row in rows(statement, who=user.actor)]


def person(browser: Browser) -> User:
    user: User = browser.user  # type: ignore[attr-defined]
    return user


def test_hosts_find_out_where_to_ask(program: FlaskClient) -> None:
    for path in ("", "/mcp"):
        told = program.get(f"/.well-known/oauth-protected-resource{path}").json
        assert (told["resource"], told["authorization_servers"]) == (URL, ["http://localhost"])
    assert program.get("/.well-known/oauth-protected-resource/other").status_code == 404
    told = program.get("/.well-known/oauth-authorization-server").json
    assert told["code_challenge_methods_supported"] == ["S256"]
    assert told["issuer"] == "http://localhost"
    led = program.get("/oauth/authorize", query_string={"client_id": "x"})
    assert led.headers["Location"] == "/sign-in?next=/oauth/authorize?client_id%3Dx"


def test_only_safe_addresses_are_registered(program: FlaskClient) -> None:
    for uri in (
        "http://host.example/",
        "cursor://x",
        "https://a.example/#x",
        "https://u@a.example/",
        "https://a.example\\x",
        "javascript:x",
    ):
        answer = program.post("/api/oauth/register", json={"redirect_uris": [uri]})
        assert (answer.status_code, answer.json["error"]) == (400, "invalid_redirect_uri"), uri


def test_the_page_names_program_group_and_rights(sign_in: SignIn, client_id: str, group: str) -> None:
    page = sign_in("admin", [group]).get("/oauth/authorize", query_string=asking(client_id)).text
    for told in ("Claude", "host.example", group, "find and read memories", 'value="admin"'):
        assert told in page
    page = sign_in("viewer", [group]).get("/oauth/authorize", query_string=asking(client_id)).text
    assert 'value="publish"' not in page


def test_what_is_wrong_is_shown_and_sent_nowhere(signed_in: Browser, client_id: str) -> None:
    for wrong in (
        {"redirect_uri": "https://evil.example/back"},
        {"redirect_uri": "https://host.example/back"},
        {"redirect_uri": "http://127.0.0.1:8/other"},
        {"client_id": "x"},
        {"code_challenge_method": "plain"},
        {"code_challenge": ""},
        {"resource": "https://other.example/mcp"},
        {"response_type": "token"},
        {"scope": "operator"},
    ):
        answer = signed_in.get("/oauth/authorize", query_string=asking(client_id) | wrong)
        assert (answer.status_code, "Location" in answer.headers) == (400, False), wrong


def test_a_connection_has_the_rights_that_were_given_in_its_group(
    program: FlaskClient, sign_in: SignIn, client_id: str, group: str
) -> None:
    browser = sign_in("admin", [group])
    own_port = {"redirect_uri": "http://127.0.0.1:4711/cb"}
    back = consent(browser, client_id, group, "read", **own_port)
    assert (back["state"], back["iss"]) == ("s&t", "http://localhost")
    told = spend(program, client_id, back["code"], **own_port).json
    assert (told["scope"], told["token_type"], told["expires_in"]) == ("read", "Bearer", 3600)
    assert works(program, told) == 200
    tools = {tool["name"] for tool in program.get("/api/v1/tools", headers=bearer(told)).json["rows"]}
    assert "memory_retrieve" in tools
    assert not tools & {"memory_observe", "memory_delete"}
    assert program.post("/api/v1/events", json={}, headers=bearer(told)).status_code == 403
    account = browser.get("/account").text
    assert "Claude" in account
    found = re.search(r'action="(/account/connections/[^"]+)"', account)
    assert found is not None
    assert sign_in("admin", [group]).post(found[1]).status_code == 404  # of somebody else
    assert works(program, told) == 200
    assert browser.post(found[1]).status_code == 303
    assert is_over(program, client_id, told)
    assert ended(person(browser)) == ["by the person"]


def test_nobody_gives_what_they_have_not(
    program: FlaskClient, sign_in: SignIn, client_id: str, group: str
) -> None:
    viewer, everything = sign_in("viewer", [group]), ("read", "publish", "admin", "operator")
    assert connect(program, viewer, client_id, group, *everything)["scope"] == "read"
    for wrong in ({"group": uuid4().hex, "allow": "read"}, {"group": group, "allow": "admin"}):
        form = {**asking(client_id), "answer": "yes", **wrong}
        assert viewer.post("/oauth/authorize", data=form).status_code == 400
    assert consent(viewer, client_id, group, answer="no")["error"] == "access_denied"
    # Keys would go on working when the person may nothing any more.
    told = connect(program, sign_in("admin", [group]), client_id, group, "read", "admin")
    wanted = {"key": NewKey.of(new_key()).model_dump(), "name": "mine", "scopes": ["read"]}
    answer = program.post("/api/v1/actions/keys.create", json=wanted, headers=bearer(told))
    assert (answer.status_code, "cannot create keys" in answer.text) == (403, True), answer.text


def test_a_code_is_for_whoever_asked_for_it(
    program: FlaskClient, sign_in: SignIn, client_id: str, group: str
) -> None:
    browser = sign_in("admin", [group])
    other = str(program.post("/api/oauth/register", json={"redirect_uris": [BACK]}).json["client_id"])
    for wrong, error in (
        ({"code_verifier": "w" * 50}, "invalid_grant"),
        ({"redirect_uri": "http://127.0.0.1/cb"}, "invalid_grant"),
        ({"client_id": other}, "invalid_grant"),
        ({"client_id": "other"}, "invalid_client"),
        ({"code": "x"}, "invalid_grant"),
        ({"code_verifier": ""}, "invalid_request"),
        ({"resource": "https://other.example/mcp"}, "invalid_target"),
        ({"grant_type": "password"}, "unsupported_grant_type"),
    ):
        code = consent(browser, client_id, group)["code"]
        answer = spend(program, client_id, code, **wrong)
        status = 401 if error == "invalid_client" else 400
        assert (answer.status_code, answer.json["error"]) == (status, error), wrong
    told = connect(program, browser, client_id, group)
    assert renew(program, other, told["refresh_token"]).json["error"] == "invalid_grant"
    assert works(program, told) == 200


def test_a_code_that_comes_twice_ends_the_connection(
    program: FlaskClient, sign_in: SignIn, client_id: str, group: str
) -> None:
    browser = sign_in("admin", [group])
    code = consent(browser, client_id, group)["code"]
    told = spend(program, client_id, code).json
    assert works(program, told) == 200
    assert spend(program, client_id, code).json["error"] == "invalid_grant"
    assert works(program, told) == 401
    assert ended(person(browser)) == ["code used again"]
    late = consent(browser, client_id, group)["code"]
    change("UPDATE oauth_connections SET expires_at = now() WHERE group_id = :g", g=group)
    assert spend(program, client_id, late).json["error"] == "invalid_grant"


def test_refresh_tokens_rotate_and_an_old_one_ends_the_connection(
    program: FlaskClient, sign_in: SignIn, client_id: str, group: str
) -> None:
    browser = sign_in("admin", [group])
    first = connect(program, browser, client_id, group)
    second = renew(program, client_id, first["refresh_token"]).json
    assert (works(program, first), works(program, second)) == (401, 200)
    change("UPDATE api_keys SET expires_at = now() WHERE group_id = :g", g=group)
    assert works(program, second) == 401  # expired
    third = renew(program, client_id, second["refresh_token"]).json
    assert works(program, third) == 200
    assert renew(program, client_id, first["refresh_token"]).json["error"] == "invalid_grant"
    assert works(program, third) == 401
    assert ended(person(browser)) == ["refresh token used again"]


def test_a_program_ends_its_own_connection(
    program: FlaskClient, sign_in: SignIn, client_id: str, group: str
) -> None:
    browser = sign_in("admin", [group])

    def revoke(token: str, whose: str) -> None:
        form = {"token": token, "client_id": whose}
        assert program.post("/api/oauth/revoke", data=form).status_code == 200

    for kind in ("access_token", "refresh_token"):
        told = connect(program, browser, client_id, group)
        for token, whose in ((told[kind], "other"), ("x", client_id), (told[kind][:-5] + "aaaaa", client_id)):
            revoke(token, whose)
        assert works(program, told) == 200
        revoke(told[kind], client_id)
        assert works(program, told) == 401


def test_tokens_end_with_what_their_person_may(
    program: FlaskClient, sign_in: SignIn, client_id: str, group: str
) -> None:
    browser = sign_in("admin", [group])
    told, name = connect(program, browser, client_id, group), person(browser).name
    for less, back in (("groups = '{other}'", "groups = NULL"), ("role = 'viewer'", "role = 'admin'")):
        for changed, status in ((less, 401), (back, 200)):
            change(f"UPDATE users SET {changed} WHERE name = :n", n=name)
            assert works(program, told) == status
    key_id = told["access_token"].split("_")[1]
    # On the page of keys.
    actions.revoke_key.perform(Actor(group, "user:other", admin=True), RevokeKey(id=key_id))
    assert is_over(program, client_id, told)
    told = connect(program, browser, client_id, group)
    actions.update_person.perform(OPERATOR, UpdatePerson(name=name, disabled=True))
    assert is_over(program, client_id, told)


def test_the_official_client_finds_its_way(
    web_app: Flask, sign_in: SignIn, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Discovery, registration, consent, the token, a tool, and another token when it has ended, at one
    address as behind a proxy.
    """
    pytest.importorskip("mcp", reason="needs the package mcp (the extra `mcp`)")
    import httpx2
    from mcp import Client as McpClient
    from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared.auth import OAuthClientMetadata

    browser = sign_in("admin", [group])

    class Kept:
        tokens: Any = None
        client: Any = None

        async def get_tokens(self) -> Any:
            return self.tokens

        async def set_tokens(self, tokens: Any) -> None:
            self.tokens = tokens

        async def get_client_info(self) -> Any:
            return self.client

        async def set_client_info(self, client_info: Any) -> None:
            self.client = client_info

    with BehindOneName(web_app, monkeypatch) as url:
        back: list[dict[str, str]] = []

        async def redirected(address: str) -> None:
            asked = dict(parse_qsl(urlsplit(address).query))
            data = {**asked, "group": group, "allow": ["read"], "answer": "yes"}
            back.append(told_back(browser.post("/oauth/authorize", data=data).text))

        async def called_back() -> Any:
            return AuthorizationCodeResult(**back[-1])

        kept = Kept()
        metadata = OAuthClientMetadata(client_name="SDK", redirect_uris=["http://localhost:3030/callback"])  # type: ignore[list-item]

        async def talk(*refusals: str) -> list[str]:
            provider = OAuthClientProvider(url, metadata, kept, redirected, called_back)
            async with (
                httpx2.AsyncClient(auth=provider, timeout=30) as http,
                McpClient(streamable_http_client(url, http_client=http)) as client,
            ):
                names = [tool.name for tool in (await client.list_tools()).tools]
                for refusal in refusals:
                    assert refusal in str((await client.call_tool("memory_list_agents", {})).content)
                told = await client.call_tool("memory_list_agents", {})
                assert not told.is_error, told
                return names

        assert "memory_retrieve" in asyncio.run(talk())
        first = kept.tokens.access_token
        assert len(back) == 1
        change("UPDATE api_keys SET expires_at = now() WHERE group_id = :g", g=group)
        # The server has known the key a moment ago: from the next request on it sends a 401.
        asyncio.run(talk("expired"))
        assert kept.tokens.access_token != first


class BehindOneName:
    """The web and ``jiyi mcp --http`` at one address, as a reverse proxy shows them."""

    def __init__(self, app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
        self._app, self._patch = app, monkeypatch

    def __enter__(self) -> str:
        import uvicorn

        from jiyi.integrations.mcp import http_app

        made: dict[str, Callable[..., Any]] = {}

        async def front(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "lifespan" or scope["path"] == "/mcp":
                await made["mcp"](scope, receive, send)
                return
            body, more = b"", True
            while more:
                message = await receive()
                body, more = body + message.get("body", b""), message.get("more_body", False)
            headers = [(name.decode(), value.decode()) for name, value in scope["headers"]]
            asked = {
                "method": scope["method"],
                "query_string": scope["query_string"],
                "data": body,
                "headers": headers,
            }
            answer = await asyncio.to_thread(
                lambda: FlaskClient(self._app, self._app.response_class).open(scope["path"], **asked)
            )
            told = [(name.lower().encode(), value.encode()) for name, value in answer.headers]
            await send({"type": "http.response.start", "status": answer.status_code, "headers": told})
            await send({"type": "http.response.body", "body": answer.data})

        config = uvicorn.Config(front, host="127.0.0.1", port=0, log_level="warning", lifespan="on")
        config.load()
        (listening,) = [config.bind_socket()]
        root = f"http://127.0.0.1:{listening.getsockname()[1]}"
        self._patch.setenv("JIYI_MCP_URL", f"{root}/mcp")
        get_settings.cache_clear()
        made["mcp"] = http_app(root, public=f"{root}/mcp")  # type: ignore[assignment]
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([listening],), daemon=True)
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive()
            time.sleep(0.02)
        return f"{root}/mcp"

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(60)
