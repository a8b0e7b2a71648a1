"""Signing in by OpenID Connect, with a provider that runs here: who comes in, as what, and who does not."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import pytest
from flask import Flask, request
from flask.testing import FlaskClient
from joserfc import jwt
from joserfc.jwk import RSAKey
from werkzeug.serving import make_server

from jiyi.errors import SettingsError
from jiyi.settings import get_settings
from models.accounts import users
from models.accounts.users import User
from models.db.connection import unit_of_work
from models.db.scope import whole_service
from tests.integration.accounts.test_signin import audited
from tests.services import somebody
from web import create_app
from web.accounts import single_sign_on

SECRET = "s3cret-of-the-client"


class Provider:
    """Says of whoever signs in what ``claims`` says."""

    def __init__(self) -> None:
        self.key = self.signs_with = RSAKey.generate_key(2048, {"kid": "1"})
        self.claims: dict[str, Any] = {}
        self.url = ""
        self._challenges: dict[str, dict[str, str]] = {}

    def application(self) -> Flask:
        flask = Flask("provider")

        @flask.get("/.well-known/openid-configuration")
        def configuration() -> Any:
            names = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "jwks"}
            algorithms = {"id_token_signing_alg_values_supported": ["RS256"]}
            return {
                "issuer": self.url,
                **algorithms,
                **{name: f"{self.url}/{path}" for name, path in names.items()},
            }

        @flask.get("/jwks")
        def keys() -> Any:
            return {"keys": [self.key.as_dict(private=False)]}

        @flask.post("/token")
        def token() -> Any:
            asked = self._challenges.pop(request.form["code"])
            digest = hashlib.sha256(request.form["code_verifier"].encode()).digest()
            assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == asked["code_challenge"]
            credentials = request.authorization
            assert credentials is not None
            assert (credentials.username, credentials.password) == ("jiyi", SECRET)
            now = int(time.time())
            told = {
                "iss": self.url,
                "aud": "jiyi",
                "iat": now,
                "exp": now + 60,
                "nonce": asked["nonce"],
                **self.claims,
            }
            signed = jwt.encode({"alg": "RS256", "kid": "1"}, told, self.signs_with)
            return {"access_token": "a", "token_type": "Bearer", "id_token": signed}

        return flask

    def lets_in(self, address: str) -> str:
        """As its page does with whoever has signed in there: the query that the browser comes back with."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        assert asked["code_challenge_method"] == "S256"
        self._challenges[code := uuid4().hex] = asked
        return f"code={code}&state={asked['state']}"


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    made = Provider()
    server = make_server("127.0.0.1", 0, made.application(), threaded=True)
    made.url = f"http://127.0.0.1:{server.port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield made
    server.shutdown()
    thread.join()


@pytest.fixture
def file(provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    provider.signs_with = provider.key
    path = tmp_path / "oidc.json"
    content = {
        "issuer": provider.url,
        "client_id": "jiyi",
        "client_secret": SECRET,
        "label": "Acme",
        "roles": {"ops": "operator", "shop-leads": "admin", "staff": "viewer"},
        "groups": {"shop-leads": ["shop"], "staff": ["shop", "help"], "everywhere": ["*"]},
    }
    path.write_text(json.dumps(content))
    monkeypatch.setenv("JIYI_OIDC_FILE", str(path))
    get_settings.cache_clear()
    yield path
    monkeypatch.undo()
    get_settings.cache_clear()


@pytest.fixture
def browser(database: Any, file: Path) -> FlaskClient:
    return create_app().test_client()


def enter(browser: FlaskClient, provider: Provider, start: str = "/sign-in/oidc", **claims: Any) -> Any:
    """From the button to what the browser sees in the end."""
    provider.claims = claims
    away = browser.get(start)
    assert away.status_code == 302
    assert away.headers["Location"].startswith(f"{provider.url}/authorize?")
    return browser.get(f"/sign-in/oidc/back?{provider.lets_in(away.headers['Location'])}")


def called(name: str) -> User | None:
    with whole_service(), unit_of_work() as connection:
        return users.by_name(connection, name)


def test_who_has_a_role_at_the_provider_comes_in_with_it_and_with_what_it_is_by_now(
    browser: FlaskClient, provider: Provider
) -> None:
    sub, name = uuid4().hex, f"mia.{uuid4().hex[:8]}@example.org"
    assert "Sign in with Acme" in browser.get("/sign-in").text
    for start, email, groups, role, seen in (
        ("?next=/queues", name, ["staff", "shop-leads", "chess"], "admin", ("help", "shop")),
        ("", f"new.{name}", "ops", "operator", None),  # known by sub; another address changes no name
        ("", name, ["staff", "everywhere"], "viewer", None),
    ):
        answer = enter(browser, provider, f"/sign-in/oidc{start}", sub=sub, email=email, groups=groups)
        assert (answer.status_code, answer.headers["Location"]) == (303, "/queues" if start else "/")
        user = called(name)
        assert user is not None
        assert (user.role, user.groups) == (role, seen)
        assert browser.get("/account").status_code == 200
    assert set(audited(f"user:{name}")) >= {"signed in"}


def test_who_has_none_or_is_disabled_or_bears_another_s_name_stays_out(
    browser: FlaskClient, provider: Provider
) -> None:
    local = somebody("operator")
    name = f"tom-{uuid4().hex[:8]}"
    for claims in ({"groups": ["chess"]}, {}, {"groups": ["everywhere"]}):
        answer = enter(browser, provider, sub="x", email=name, **claims)
        assert answer.status_code == 403
        assert "no role here" in answer.text
    answer = enter(browser, provider, sub=uuid4().hex, email=local.name, groups=["ops"])
    assert answer.status_code == 403
    assert "another account" in answer.text
    assert called(local.name) == local
    sub = uuid4().hex
    assert enter(browser, provider, sub=sub, email=name, groups=["staff"]).status_code == 303
    with whole_service(), unit_of_work() as connection:
        users.set_disabled(connection, name, disabled=True)
    assert enter(browser, provider, sub=sub, email=name, groups=["staff"]).status_code == 403


def test_a_token_that_is_not_for_this_sign_in_or_was_not_asked_for_is_refused(
    browser: FlaskClient, provider: Provider
) -> None:
    eve = {"sub": uuid4().hex, "email": "eve@example.org", "groups": ["ops"]}
    wrong = {"aud": "other", "iss": "https://evil.example", "exp": 1, "nonce": "other", "sub": ""}
    for name, value in wrong.items():
        answer = enter(browser, provider, **{**eve, name: value})
        assert (answer.status_code, "Acme did not let you in" in answer.text) == (403, True), name
        assert browser.get("/").status_code == 303
    provider.signs_with = RSAKey.generate_key(2048, {"kid": "1"})
    assert enter(browser, provider, **eve).status_code == 403
    for query in ("code=1&state=2", "error=access_denied&error_description=Call+us"):
        answer = browser.get(f"/sign-in/oidc/back?{query}")
        assert (answer.status_code, "Call us" in answer.text) == (403, False)
    away = browser.get("/sign-in/oidc").headers["Location"]
    elsewhere = create_app().test_client().get(f"/sign-in/oidc/back?{provider.lets_in(away)}")
    assert elsewhere.status_code == 403
    assert browser.get("/").status_code == 303


def test_attempts_that_were_broken_off_keep_nobody_out(browser: FlaskClient, provider: Provider) -> None:
    """A browser drops a cookie above 4,096 bytes."""
    for _ in range(20):
        answer = browser.get("/sign-in/oidc")
    assert len(answer.headers["Set-Cookie"]) < 4_096
    ida = {"sub": uuid4().hex, "email": f"ida-{uuid4().hex[:8]}", "groups": ["staff"]}
    assert enter(browser, provider, **ida).status_code == 303


def test_a_provider_that_is_away_is_said(database: Any, file: Path) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), "issuer": "http://127.0.0.1:1/"}))
    answer = create_app().test_client().get("/sign-in/oidc")
    assert answer.status_code == 502
    assert "Acme does not answer" in answer.text


def test_a_wrong_file_is_refused_at_the_start_without_its_secret(file: Path) -> None:
    right = json.loads(file.read_text())
    for change, told in (
        ({"roles": {"ops": "boss"}}, "roles"),
        ({"issuer": "http://example.org"}, "issuer"),
        ({"secret": "x"}, "secret"),
        (None, "not JSON"),
    ):
        file.write_text("{" if change is None else json.dumps({**right, **change}))
        with pytest.raises(SettingsError, match=told) as refused:
            create_app()
        assert SECRET not in str(refused.value)
    file.unlink()
    with pytest.raises(SettingsError, match=r"oidc\.json"):
        single_sign_on.read(str(file))
