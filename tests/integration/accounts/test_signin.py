"""Signing in and out: sessions, guessing, forged forms, and a gate that no route gets past."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import UUID, uuid4

import pytest
from flask import Flask
from flask.testing import FlaskClient
from pydantic import SecretStr
from sqlalchemy import text

from jiyi.errors import InvalidRequest
from jiyi.protocol.accounts import AddPerson, SetPassword, UpdatePerson
from jiyi.settings import get_settings
from models.accounts import actions, users
from models.accounts import sign_in as sign_in_
from models.accounts.users import User
from models.db import connection as base
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.db.scope import for_groups, whole_service
from tests.integration.conftest import PASSWORD, Browser, SignIn, away, password_hash
from tests.integration.memory.test_inbox import rows
from tests.services import done_within, somebody
from web import create_app
from web.accounts import sessions, signin
from web.accounts.sessions import IDLE_SECONDS, SESSION_SECONDS
from workers.ephemeral import environment
from workers.web import serve

OPERATOR = Actor("group", "test", operator=True)
WRONG = "The name or the password is wrong."


@pytest.fixture
def address() -> str:
    """Of this test alone: guesses are counted by address, too."""
    return f"2001:db8:{uuid4().hex[:4]}:{uuid4().hex[:4]}::1"


@pytest.fixture
def person(database: Any) -> User:
    """Somebody with ``PASSWORD``."""
    return somebody()


@pytest.fixture
def stranger(web_app: Flask, address: str) -> FlaskClient:
    """A browser without a session."""
    return client_of(web_app, address)


def client_of(app: Flask, address: str) -> FlaskClient:
    made = app.test_client()
    made.environ_base["REMOTE_ADDR"] = address
    return made


def token(browser: FlaskClient, path: str = "/sign-in", **how: str) -> str:
    found = re.search(r'name="csrf_token" value="([^"]+)"', browser.get(path, **how).text)
    assert found is not None
    return found[1]


def enter(browser: FlaskClient, name: str, password: str = PASSWORD, **fields: str) -> Any:
    """Sends the form of the page of signing in; ``csrf_token=…``: one that was got before."""
    if "csrf_token" not in fields:
        fields["csrf_token"] = token(browser)
    return browser.post("/sign-in", data={"name": name, "password": password, **fields})


def audited(target: str | None = None, address: str | None = None, column: str = "action") -> list[str]:
    """What the audit log says in its order of somebody, or of an address."""
    of = "(CAST(:target AS text) IS NULL OR target = :target)"
    of += " AND (CAST(:address AS text) IS NULL OR details ->> 'address' = :address)"
    found = f"SELECT {column} FROM audit_log WHERE {of} ORDER BY audit_id"
    return [str(row[column]) for row in rows(found, target=target, address=address)]


def test_who_signs_in_sees_the_admin_and_who_signs_out_does_not(stranger: FlaskClient, person: User) -> None:
    answer = enter(stranger, person.name, next="/letters?kind=embed")
    assert answer.status_code == 303
    assert answer.headers["Location"] == "/letters?kind=embed"
    cookie = answer.headers["Set-Cookie"]
    assert cookie.startswith("jiyi_session_")
    assert {"HttpOnly", "SameSite=Lax"} <= set(cookie.split("; "))
    assert "Secure" not in cookie  # http on this machine
    assert PASSWORD not in cookie
    page = stranger.get("/")
    assert page.status_code == 200
    assert person.name in page.text
    assert stranger.get("/sign-in").status_code == 303  # there already
    assert stranger.post("/sign-out", data={"csrf_token": token(stranger, "/account")}).status_code == 303
    assert stranger.get("/").status_code == 303
    assert audited(f"user:{person.name}") == ["people.add", "signed in", "signed out"]


def test_over_https_the_cookie_is_secure_and_browsers_are_told_to_stay(
    web_app: Flask, person: User, address: str
) -> None:
    browser = client_of(web_app, address)
    secure = {"base_url": "https://localhost"}
    assert browser.get("/sign-in", **secure).headers["Strict-Transport-Security"].startswith("max-age=")
    form = {"name": person.name, "password": PASSWORD, "csrf_token": token(browser, **secure)}
    answer = browser.post("/sign-in", data=form, **secure)
    assert answer.status_code == 303, answer.text
    cookie = answer.headers["Set-Cookie"]
    assert cookie.startswith("__Host-jiyi_session=")
    assert "Secure" in cookie
    assert browser.get("/", **secure).status_code == 200
    assert browser.get("/").status_code == 303  # not over plain http


def test_a_password_is_taken_over_plain_http_on_this_machine_only(database: Any) -> None:
    with environment(web_hosts="localhost,memory.example"):
        browser = create_app().test_client()
        for origin, status in (
            ("http://localhost", 200),
            ("http://memory.example", 403),
            ("https://memory.example", 200),
            ("https://evil.example", 400),
        ):
            answer = browser.get("/sign-in", base_url=origin)
            assert (answer.status_code, "https" in answer.text) == (status, status == 403), origin


def test_behind_a_proxy_its_word_counts_and_without_one_nobody_s(database: Any) -> None:
    forwarded = {"Proto": "https", "For": "203.0.113.9", "Host": "evil.example"}
    headers = {f"X-Forwarded-{name}": value for name, value in forwarded.items()}
    for proxies, secure in (("0", False), ("1", True)):
        with environment(web_proxies=proxies):
            answer = create_app().test_client().get("/sign-in", headers=headers)
        assert answer.status_code == 200
        assert ("Strict-Transport-Security" in answer.headers) is secure


def test_unknown_names_wrong_passwords_and_disabled_people_are_told_the_same(
    stranger: FlaskClient, person: User, address: str
) -> None:
    disabled = somebody("viewer")
    actions.update_person.perform(OPERATOR, UpdatePerson(name=disabled.name, disabled=True))
    for name, password in (
        (person.name, "wrong"),
        ("nobody-" + uuid4().hex, PASSWORD),
        (disabled.name, PASSWORD),
        ("", ""),
        ("a\0b", PASSWORD),
        (person.name, "x" * 10_000),
        ("🙂" * 500, "🙂"),
    ):
        answer = enter(stranger, name, password)
        assert answer.status_code == 403, name
        assert WRONG in answer.text
        assert stranger.get("/").status_code == 303
    assert set(audited(address=address)) == {"wrong password"}
    named = {f"user:{person.name}", f"user:{disabled.name}", "nobody"}  # what else was typed is not kept
    assert set(audited(address=address, column="target")) == named


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Lets seconds pass for those who guess."""
    moment = [time.time()]
    monkeypatch.setattr(sign_in_.time, "time", lambda: moment[0])

    def advance(seconds: float) -> None:
        moment[0] += seconds

    return advance


def test_after_five_wrong_passwords_the_next_waits_whether_the_name_exists_or_not(
    web_app: Flask, person: User, address: str, clock: Callable[[float], None]
) -> None:
    browser = client_of(web_app, address)
    for name in (person.name, "nobody-" + uuid4().hex):
        for _ in range(5):
            assert enter(browser, name, "wrong").status_code == 403
        for _ in range(2):
            answer = enter(browser, name)  # the right one, too soon
            assert answer.status_code == 429
            assert "Too many wrong passwords" in answer.text
            assert answer.headers["Retry-After"] == "1"
    assert audited(f"user:{person.name}") == ["people.add", *["wrong password"] * 5, "locked"]
    clock(1.01)
    assert enter(browser, person.name).status_code == 303  # a pause, no lock


def test_pauses_double_up_to_a_minute(address: str, database: Any, clock: Callable[[float], None]) -> None:
    """Guesses are counted before they are looked at, so that many at the same moment get no further than one
    after the other.
    """
    name, waits = "x" + uuid4().hex, []
    for _ in range(sign_in_.FREE_BY_PAIR - 1):
        assert sign_in_.count_guess(name, address).wait == 0
    for _ in range(8):
        assert sign_in_.count_guess(name, address).wait == 0
        waits.append(sign_in_.count_guess(name, address).wait)
        clock(waits[-1] + 0.01)
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    sign_in_.reset_guesses(name)
    assert sign_in_.count_guess(name, address).wait == 0


def test_whoever_guesses_at_a_name_locks_nobody_out(
    web_app: Flask, person: User, address: str, clock: Callable[[float], None]
) -> None:
    guesser = client_of(web_app, address)
    assert enter(client_of(web_app, "198.51.100.7"), person.name).status_code == 303  # where the person works
    for _ in range(5):
        assert enter(guesser, person.name, "wrong").status_code == 403
    assert enter(guesser, person.name, "wrong").status_code == 429
    # From elsewhere, known or not, the person comes in at once.
    assert enter(client_of(web_app, "192.0.2.5"), person.name).status_code == 303
    # Guesses from everywhere hold up whoever is new, for seconds, and nobody who is known.
    for number in range(sign_in_.FREE_BY_NAME):
        sign_in_.count_guess(person.name, f"203.0.113.{number}")
    waits = enter(client_of(web_app, "192.0.2.77"), person.name)
    assert waits.status_code == 429
    assert 0 < int(waits.headers["Retry-After"]) <= sign_in_.PAUSE_BY_NAME
    assert enter(client_of(web_app, "198.51.100.7"), person.name).status_code == 303


def test_a_name_that_is_guessed_at_from_everywhere_is_guessed_at_slowly(
    database: Any, clock: Callable[[float], None]
) -> None:
    name, looked_at = "x" + uuid4().hex, 0
    for second in range(600):  # from a new address each time
        looked_at += sign_in_.count_guess(name, f"10.{second // 250}.{second % 250}.1").wait == 0
        clock(1)
    assert looked_at <= sign_in_.FREE_BY_NAME + 4 + 600 / sign_in_.PAUSE_BY_NAME


def test_an_address_that_guesses_at_many_names_waits(
    web_app: Flask, address: str, clock: Callable[[float], None]
) -> None:
    browser = client_of(web_app, address)
    for _ in range(sign_in_.FREE_BY_ADDRESS):
        assert enter(browser, "nobody-" + uuid4().hex, "wrong").status_code == 403
    assert enter(browser, somebody().name).status_code == 429
    neighbour = client_of(web_app, address.removesuffix("1") + "2")  # the same subscriber's
    assert enter(neighbour, somebody().name).status_code == 429
    clock(1.01)
    assert enter(neighbour, somebody().name).status_code == 303


def test_right_passwords_are_no_guesses_and_forgive_the_wrong_ones_before(
    web_app: Flask, person: User, address: str
) -> None:
    for _ in range(sign_in_.FREE_BY_ADDRESS + 2):
        assert enter(client_of(web_app, address), person.name).status_code == 303
    browser = client_of(web_app, address)
    for _ in range(2):
        for _ in range(4):
            assert enter(browser, person.name, "wrong").status_code == 403
        assert enter(client_of(web_app, address), person.name).status_code == 303


def test_without_valkey_or_the_database_nobody_signs_in_and_no_guess_is_counted(
    stranger: FlaskClient, person: User
) -> None:
    given = token(stranger)
    for server, reason, times in (("valkey", "Valkey did not answer", 1), ("database", "", 6)):
        with environment(**away(server)):
            for _ in range(times):
                answer = enter(stranger, person.name, csrf_token=given)
                assert answer.status_code == 503
                assert reason in answer.text
        assert stranger.get("/").status_code == 303
    assert enter(stranger, person.name).status_code == 303
    assert stranger.get("/").status_code == 200


def test_one_is_led_to_no_other_site(web_app: Flask, person: User, address: str) -> None:
    for elsewhere in (
        "https://evil.example/",
        "//evil.example",
        "/\\evil.example",
        "/\t/evil.example",
        "javascript:alert(1)",
        "http:/evil.example",
        "evil.example",
        " /x",
        "/sign-in?next=/x",
        "/sign-out",
        "",
    ):
        answer = enter(client_of(web_app, address), person.name, next=elsewhere)
        assert answer.headers["Location"] == "/", elsewhere


def test_who_is_not_signed_in_is_led_to_the_page_and_back(stranger: FlaskClient) -> None:
    answer = stranger.get("/letters?kind=embed&group=g")
    assert answer.status_code == 303
    address = urlsplit(answer.headers["Location"])
    assert (address.path, parse_qs(address.query)) == ("/sign-in", {"next": ["/letters?kind=embed&group=g"]})
    assert 'value="/letters?kind=embed&amp;group=g"' in stranger.get(answer.headers["Location"]).text
    answer = stranger.get(
        "/overview/live", headers={"HX-Request": "true", "HX-Current-URL": "http://localhost/?group=g"}
    )
    assert answer.status_code == 401
    assert answer.headers["HX-Redirect"] == "/sign-in?next=/?group%3Dg"
    answer = stranger.get("/overview.json")
    assert (answer.status_code, answer.json["error"]["code"]) == (401, 401)
    assert stranger.get("/events/tail", headers={"Accept": "text/event-stream"}).status_code == 401
    # Strangers learn nothing of what there is.
    assert stranger.get("/there-is-no-such-page").status_code == 303


def test_no_route_can_be_forgotten(web_app: Flask, stranger: FlaskClient) -> None:
    """Every rule of the app, with every method it has, against somebody without a session."""
    openly = {"/sign-in", "/sign-in/oidc", "/sign-in/oidc/back", "/healthz", "/readyz", "/metrics"}
    oauth = ("oauth-protected-resource", "oauth-protected-resource/<path:path>", "oauth-authorization-server")
    openly |= {"/static/<path:filename>", *(f"/.well-known/{name}" for name in oauth)}
    assert openly == signin.OPEN
    closed = 0
    values = {"uuid": str(UUID(int=1)), "int": "1", "name": "x", "path": "x", "default": "x", "string": "x"}
    part = r"<(?:(\w+)(?:\([^)]*\))?:)?\w+>"
    for rule in web_app.url_map.iter_rules():
        if rule.rule in openly or rule.rule.startswith("/api/"):
            continue
        path = re.sub(part, lambda found: values.get(found[1] or "default", "x"), rule.rule)
        for method in (rule.methods or set()) - {"OPTIONS"}:
            answer = stranger.open(path, method=method)
            led_away = answer.status_code == 303 and answer.headers["Location"].startswith("/sign-in")
            assert led_away or answer.status_code == 401, (rule, method, answer.status_code)
            closed += 1
    assert closed > 5


def test_programs_are_not_let_in_by_a_session(signed_in: Browser) -> None:
    for rule in signed_in.application.url_map.iter_rules():
        if rule.rule.startswith("/api/v1/") and "GET" in (rule.methods or ()) and not rule.arguments:
            assert signed_in.get(rule.rule).status_code == 401, rule


def test_forms_from_elsewhere_are_refused(signed_in: Browser, stranger: FlaskClient, person: User) -> None:
    good, signed_in.token = signed_in.token, ""
    for headers in ({}, {"X-CSRFToken": "x"}, {"X-CSRFToken": token(stranger)}):
        answer = signed_in.post("/sign-out", headers=headers)
        assert answer.status_code == 400
        assert "too old, or not from here" in answer.text
    assert signed_in.get("/").status_code == 200
    assert signed_in.post("/sign-out", headers={"X-CSRFToken": good}).status_code == 303
    # The sign-in page, too: nobody is to be signed in under another's name without noticing.
    assert stranger.post("/sign-in", data={"name": person.name, "password": PASSWORD}).status_code == 400


def test_every_route_that_changes_something_asks_for_the_token(signed_in: Browser) -> None:
    signed_in.token = ""
    tried = 0
    for rule in signed_in.application.url_map.iter_rules():
        if rule.rule.startswith("/api/"):
            continue
        for method in (rule.methods or set()) - {"GET", "HEAD", "OPTIONS"}:
            path = re.sub(r"<uuid:\w+>", str(UUID(int=1)), rule.rule)
            path = re.sub(r"<[^>]+>", "1", path)
            answer = signed_in.open(path, method=method)
            assert answer.status_code == 400, (rule, method, answer.status_code)
            tried += 1
    assert tried >= 2


def test_signing_in_begins_a_new_session(stranger: FlaskClient, person: User) -> None:
    before = token(stranger)
    with stranger.session_transaction() as session:
        session["planted"] = "x"
        raw = session["csrf_token"]
    stranger.post("/sign-in", data={"name": person.name, "password": PASSWORD, "csrf_token": before})
    stranger.get("/account")
    with stranger.session_transaction() as session:
        assert "planted" not in session
        assert session.get("csrf_token") != raw


def test_a_copied_cookie_is_worth_nothing_after_signing_out(
    web_app: Flask, stranger: FlaskClient, person: User
) -> None:
    enter(stranger, person.name)
    with stranger.session_transaction() as session:
        copied = dict(session)
    thief = web_app.test_client()
    with thief.session_transaction() as session:
        session.update(copied)
    assert thief.get("/").status_code == 200
    stranger.post("/sign-out", data={"csrf_token": token(stranger, "/account")})
    assert thief.get("/").status_code == 303


def test_a_new_password_or_being_disabled_ends_every_session(sign_in: SignIn) -> None:
    new_password = lambda name: SetPassword(name=name, password_hash=password_hash())
    for action, request in (
        (actions.set_password, new_password),
        (actions.update_person, lambda name: UpdatePerson(name=name, disabled=True)),
    ):
        browser = sign_in("viewer")
        name = browser.user.name  # type: ignore[attr-defined]
        known = browser.application.extensions["jiyi.people"]
        assert known.fresh_seconds in (sessions.USER_SECONDS, -1.0)
        known.fresh_seconds = 3_600.0  # a busy machine may take longer for the next lines
        assert browser.get("/").status_code == 200
        action.perform(OPERATOR, request(name))  # type: ignore[arg-type]
        assert browser.get("/").status_code == 200  # within the bound that is documented
        known.fresh_seconds = -1.0
        assert browser.get("/").status_code == 303
        actions.update_person.perform(OPERATOR, UpdatePerson(name=name, disabled=False))
        assert browser.get("/").status_code == 303  # it does not come back to life


def test_a_session_ends_by_itself(sign_in: SignIn) -> None:
    now, idle, longest = int(time.time()), IDLE_SECONDS, SESSION_SECONDS
    for began, seen, status in (
        (now, now - idle + 60, 200),
        (now, now - idle - 60, 303),
        (now - longest + 60, now, 200),
        (now - longest - 60, now, 303),
    ):
        browser = sign_in("viewer")
        with browser.session_transaction() as session:
            session.update(began=began, seen=seen)
        assert browser.get("/").status_code == status


def test_what_an_open_page_asks_for_by_itself_is_no_visit(sign_in: SignIn) -> None:
    browser = sign_in("viewer")
    before = int(time.time()) - 3_600
    by_itself = ({"HX-Request": "true"}, {"Accept": "text/event-stream"})
    for headers in (*by_itself, {}):
        with browser.session_transaction() as session:
            session["seen"] = before
        browser.get("/healthz")
        browser.get("/", headers=headers)
        with browser.session_transaction() as session:
            assert (session["seen"] != before) is (headers not in by_itself), headers


def test_a_cookie_of_another_version_or_secret_is_nobody_s(web_app: Flask, person: User) -> None:
    browser = web_app.test_client()
    for held in (
        {"user": "x"},
        {"user": 5, "epoch": 0, "began": 0, "seen": 0},
        {"user": str(UUID(int=1)), "epoch": None, "began": 2**31, "seen": 2**31},
    ):
        with browser.session_transaction() as session:
            session.clear()
            session.update(held)
        assert browser.get("/").status_code == 303
    foreign = create_app()
    foreign.secret_key = "another" * 8
    with foreign.test_client() as other:
        with other.session_transaction() as session:
            session.update(sessions.fresh(person, int(time.time())))
        name = f"jiyi_session_{get_settings().web_port}"
        cookie = other.get_cookie(name)
        assert cookie is not None
        browser.set_cookie(name, cookie.value)
        assert browser.get("/").status_code == 303


def test_roles_and_groups_become_rights(sign_in: SignIn, group: str) -> None:
    for role, groups, expected in (
        ("operator", None, {"publish", "read", "admin", "operator"}),
        ("admin", [group], {"publish", "read", "admin"}),
        ("viewer", [group], {"read"}),
    ):
        identity = signin.identity_of(sign_in(role, groups).user)  # type: ignore[attr-defined]
        assert identity.scopes == expected
        assert identity.sees("another") is (groups is None)
        assert identity.sees(group)


def test_people_are_seen_by_the_whole_service_only(person: User, group: str) -> None:
    with for_groups(group), unit_of_work() as connection:
        assert users.listed(connection) == []
        assert users.by_name(connection, person.name) is None
    with whole_service(), unit_of_work() as connection:
        [row] = [row for row in users.listed(connection) if row.name == person.name]
    assert "password_hash" not in row.model_dump()


def test_the_last_operator_cannot_be_disabled(database: Any) -> None:
    with whole_service(), base.engine().connect() as connection, connection.begin() as transaction:
        connection.execute(text("DELETE FROM users"))
        for name in ("one", "two"):
            added = AddPerson(name=name, password_hash=password_hash(), role="operator")
            done_within(connection, actions.add_person, OPERATOR, added)
        done_within(connection, actions.update_person, OPERATOR, UpdatePerson(name="one", disabled=True))
        with pytest.raises(ValueError, match="last operator"):
            done_within(connection, actions.update_person, OPERATOR, UpdatePerson(name="two", disabled=True))
        transaction.rollback()


@pytest.mark.usefixtures("clock")
def test_guesses_at_the_old_password_are_counted_as_at_the_sign_in_page(signed_in: Browser) -> None:
    guess = {"old": "wrong", "new": "a" * 12, "again": "a" * 12}
    statuses = [signed_in.post("/account/password", data=guess).status_code for _ in range(7)]
    assert statuses == [403] * 5 + [429] * 2


def test_bodies_have_a_bound(web_app: Flask, signed_in: Browser) -> None:
    assert signed_in.post("/sign-out", data={"x": "x" * 1_100_000}).status_code == 413
    answer = web_app.test_client().post("/sign-in", data={"name": "x" * 70_000})
    assert answer.status_code == 413


def test_a_web_for_others_does_not_start_when_nobody_can_be_asked(database: Any) -> None:
    assert isinstance(serve.somebody_signs_in(), bool)
    with environment(**away("database")), pytest.raises(ValueError, match="the database does not say"):
        serve.somebody_signs_in()


def test_the_secret_is_not_shown_with_the_settings() -> None:
    shown = get_settings().model_copy(
        update={"secret_key": SecretStr("hunter2"), "key": SecretStr("hunter3")}
    )
    assert "hunter" not in repr(shown)
    assert "hunter" not in shown.model_dump_json()


def test_only_an_operator_sets_the_password_of_somebody_else(person: User) -> None:
    wanted = SetPassword(name=person.name, password_hash=password_hash())
    for actor in ("user:mia", f"key:{person.name}", person.name):
        with pytest.raises(InvalidRequest, match="only an operator"):
            actions.set_password.perform(Actor("group", actor), wanted)
    actions.set_password.perform(Actor("group", person.actor), wanted)
    assert audited(person.actor)[-1] == "people.set_password"
