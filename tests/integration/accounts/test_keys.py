"""API keys from their making to their end: over HTTP, on the exchange, from the command line; and how often
they may ask.
"""

from __future__ import annotations

import json
import logging
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import kombu
import pytest
from flask import Blueprint, Flask, jsonify
from flask.testing import FlaskClient
from pydantic import ValidationError
from sqlalchemy import text
from sqlalchemy.exc import OperationalError
from typer.testing import CliRunner
from werkzeug.security import check_password_hash

from jiyi import Client
from jiyi.cli.app import app
from jiyi.errors import InvalidRequest, NotFound, SettingsError
from jiyi.protocol import event_bodies
from jiyi.protocol.accounts import CreateKey, Key, ListKeys, NewKey, RevokeKey, RotateKey, password_problem
from jiyi.protocol.operations import ResolveBody, Resolved
from jiyi.protocol.wire import signatures
from jiyi.protocol.wire.broker import exchange, intake_queue
from jiyi.protocol.wire.signatures import SCOPES, KeyText, new_key, parse_key
from jiyi.settings import Settings, get_settings
from models.accounts import actions, api_keys
from models.accounts.api_keys import KEY_SECONDS
from models.db import connection as base
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.db.scope import for_groups, whole_service
from models.queue import actions as queue_actions
from tests.integration.conftest import away
from tests.integration.memory.test_inbox import nodes, observed, rows
from tests.integration.memory.test_intake import letter_with, reading, until
from tests.services import intake_of_ones_own
from web import create_app
from web.accounts import api_keys as web_keys
from web.accounts.identity import who
from workers import up
from workers.embedded.stack import Stack
from workers.ephemeral import environment
from workers.intake import sources
from workers.intake.opening import Signatures
from workers.intake.sources import Signature

ApiKeyMaker = Callable[..., str]


def id_of(key: str) -> str:
    parsed = parse_key(key)
    assert parsed is not None
    return parsed.key_id


def row_of(key_id: str) -> Key:
    with whole_service(), unit_of_work() as connection:
        return next(row for row in api_keys.listed(connection) if row.key_id == key_id)


def left_of(key_id: str) -> timedelta:
    """How long the key still works."""
    ends = row_of(key_id).expires_at
    assert ends is not None
    return ends - datetime.now(UTC)


def operator(group: str) -> Actor:
    return Actor(group, "test", operator=True)


def change(statement: str, **parameters: Any) -> None:
    with whole_service(), unit_of_work() as connection:
        connection.execute(text(statement), parameters)


def ended(key: str, column: str) -> str:
    """The same key, which has expired or was revoked just now."""
    change(f"UPDATE api_keys SET {column} = now() WHERE key_id = :id", id=id_of(key))
    return key


def new(name: str = "x", key: KeyText | None = None, **fields: Any) -> CreateKey:
    return CreateKey(key=NewKey.of(key or new_key()), name=name, **{"scopes": ["read"], **fields})


def rotation(key_id: str, **grace: float) -> RotateKey:
    return RotateKey(id=key_id, key=NewKey.of(new_key()), grace=timedelta(**grace))


def audited(key_id: str) -> list[str]:
    found = rows("SELECT action FROM audit_log WHERE target = :key ORDER BY audit_id", key=f"key:{key_id}")
    return [row["action"] for row in found]


# Their making and end


def test_a_key_s_secret_is_nowhere_in_the_database(api_key: ApiKeyMaker, group: str) -> None:
    parsed = parse_key(api_key(group, "read"))
    assert parsed is not None
    [row] = rows("SELECT * FROM api_keys WHERE key_id = :id", id=parsed.key_id)
    [audit] = rows("SELECT details::text FROM audit_log WHERE target = :id", id=f"key:{parsed.key_id}")
    assert bytes(row["secret_hash"]) == parsed.secret_hash
    assert parsed.secret not in str(row) + str(audit)
    assert parsed.secret_hash.hex() not in str(audit)
    assert not {"secret_hash", "signing_key"} & row_of(parsed.key_id).model_dump().keys()


def test_a_key_may_be_made_before_its_group_has_any_memory_and_goes_with_it(
    api_key: ApiKeyMaker, group: str
) -> None:
    key_id = id_of(api_key(group, "read"))
    change("DELETE FROM groups WHERE group_id = :group", group=group)
    with whole_service(), unit_of_work() as connection:
        assert api_keys.find(connection, [key_id]) == {}


def test_a_key_is_made_once_with_scopes_that_there_are_and_its_maker_may_give(
    database: Any, group: str
) -> None:
    key, actor = new_key(), Actor(group, "test")
    first_row = actions.create_key.perform(actor, new(key=key))
    assert actions.create_key.perform(actor, new(key=key, scopes=["admin"])) == first_row
    for whose in (actor, Actor(f"{group}-2", "test"), operator(group)):
        with pytest.raises(InvalidRequest, match="already used"):
            actions.create_key.perform(whose, new(key=KeyText(key.key_id, "t" * 43)))
    assert audited(key.key_id) == ["keys.create"]
    with pytest.raises(ValidationError, match="scopes"):
        new(scopes=["read", "everything"])
    with pytest.raises(InvalidRequest, match="expires_at"):
        actions.create_key.perform(actor, new(expires_at=datetime.now(UTC) - timedelta(seconds=1)))
    may_everything = new(scopes=["read", "operator"])
    with pytest.raises(InvalidRequest, match="scopes"):
        actions.create_key.perform(Actor(group, "user:mia"), may_everything)
    made = actions.create_key.perform(operator(group), may_everything)
    assert (made.group_id, made.scopes) == (None, list(SCOPES))


def test_a_key_is_revoked_once_and_for_good(api_key: ApiKeyMaker, group: str) -> None:
    key_id = id_of(api_key(group, "read"))
    wanted, new_one = RevokeKey(id=key_id), rotation(key_id, hours=1)
    for action, request in ((actions.revoke_key, wanted), (actions.rotate_key, new_one)):
        with pytest.raises(NotFound):
            action.perform(Actor("another", "test"), request)  # type: ignore[arg-type]
    first_time = actions.revoke_key.perform(Actor(group, "test"), wanted)
    assert actions.revoke_key.perform(operator("another"), wanted) == first_time
    assert first_time.state == "revoked"
    with pytest.raises(InvalidRequest, match="revoked"):
        actions.rotate_key.perform(Actor(group, "test"), new_one)
    assert audited(key_id) == ["keys.create", "keys.revoke"]


def test_a_rotated_key_hands_its_rights_on_and_works_for_a_while(api_key: ApiKeyMaker, group: str) -> None:
    old = id_of(api_key(group, "publish", "read", expires_at=datetime.now(UTC) + timedelta(days=30)))
    before, wanted = row_of(old), rotation(old, hours=24)
    made = actions.rotate_key.perform(Actor(group, "test"), wanted)
    handed_on = (made.group_id, made.name, made.scopes, made.state)
    assert handed_on == (group, "test", ["publish", "read"], "alive")
    assert before.expires_at is not None
    assert made.expires_at is not None
    # Its span; "now" is this machine's for the one, the database's for the other.
    span = made.expires_at - made.created_at
    assert abs(span - (before.expires_at - before.created_at)) < timedelta(minutes=5)
    assert timedelta(hours=23) < left_of(old) <= timedelta(hours=24)
    assert actions.rotate_key.perform(Actor(group, "test"), wanted).key_id == made.key_id
    assert (audited(old), audited(made.key_id)) == (["keys.create", "keys.rotate"], [])
    # A grace beyond its end does not prolong it.
    actions.rotate_key.perform(operator(group), rotation(old, days=60))
    assert left_of(old) <= timedelta(hours=24)


def test_a_group_sees_its_own_keys_only(api_key: ApiKeyMaker, group: str) -> None:
    mine, *others = (id_of(api_key(*of)) for of in ((group,), (f"{group}-2",), (None, "operator")))
    with for_groups(group), unit_of_work() as connection:  # row-level security
        assert [row.key_id for row in api_keys.listed(connection)] == [mine]
        assert set(api_keys.find(connection, [mine, *others])) == {mine}
    everything = ListKeys(all_groups=True)
    assert [row.key_id for row in actions.list_keys.perform(Actor(group, "user:mia"), everything)] == [mine]
    all_keys = {row.key_id for row in actions.list_keys.perform(operator(group), everything)}
    assert {mine, *others} <= all_keys


# Over HTTP


@pytest.fixture
def program(web_app: Flask) -> FlaskClient:
    """The web with an operation that tells who asks."""
    blueprint = Blueprint("testing", __name__, url_prefix="/api/test")
    blueprint.before_request(web_keys.identify_by_key)

    @blueprint.get("/who")
    def tell() -> Any:
        groups = who().groups
        return jsonify(actor=who().actor, scopes=sorted(who().scopes), groups=groups and sorted(groups))

    web_app.register_blueprint(blueprint)
    return web_app.test_client()


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def asked(browser: FlaskClient, key: str, path: str = "who") -> int:
    """The status of an operation that is asked with a key."""
    return browser.get(f"/api/test/{path}", headers=bearer(key)).status_code


def test_a_key_tells_who_asks_and_for_which_group(
    program: FlaskClient, api_key: ApiKeyMaker, group: str
) -> None:
    key = api_key(group, "read", "publish")
    found = program.get("/api/test/who", headers=bearer(key)).json
    assert found == {"actor": f"key:{id_of(key)} (test)", "scopes": ["publish", "read"], "groups": [group]}
    found = program.get("/api/test/who", headers=bearer(api_key(None, "operator"))).json
    assert (found["scopes"], found["groups"]) == (["admin", "operator", "publish", "read"], None)


def test_every_bad_key_gets_one_sentence_and_unknown_and_wrong_the_same(
    program: FlaskClient, api_key: ApiKeyMaker, group: str
) -> None:
    good = api_key(group, "read")
    expired = api_key(group, "read", expires_at=datetime.now(UTC) + timedelta(hours=1))
    refusals = {}
    for name, header in {
        "missing": None,
        "empty": "",
        "basic": "Basic eA==",
        "no text": "Bearer",
        "no form": "Bearer hunter2",
        "unknown": f"Bearer {new_key()}",
        "wrong": f"Bearer jiyi_{id_of(good)}_{'x' * 43}",
        "expired": f"Bearer {ended(expired, 'expires_at')}",
        "revoked": f"Bearer {ended(api_key(group, 'read'), 'revoked_at')}",
        "two": f"Bearer {good} {good}",
        "odd": "Bearer \xe9\xff",
    }.items():
        answer = program.get("/api/test/who", headers={} if header is None else {"Authorization": header})
        assert answer.status_code == 401, name
        assert answer.headers["WWW-Authenticate"].lower().startswith("bearer"), name
        assert not {"hunter2", id_of(good)} & set(re.split(r"\W", answer.text)), name
        refusals[name] = answer.text
    assert refusals["unknown"] == refusals["wrong"]
    for state in ("expired", "revoked"):
        assert f"This key is {state}" in refusals[state]
    assert program.get(f"/api/test/who?key={good}").status_code == 401
    assert asked(program, good) == 200


def test_a_key_is_remembered_for_seconds_and_no_longer(
    program: FlaskClient, api_key: ApiKeyMaker, group: str
) -> None:
    revoked, ending = api_key(group, "read"), api_key(group, "read")
    assert [asked(program, key) for key in (revoked, ending)] == [200, 200]
    known = program.application.extensions["jiyi.keys"].known
    assert known.fresh_seconds == KEY_SECONDS
    known.fresh_seconds = 3_600.0  # a busy machine may take longer for the next lines
    entry = known.entries[id_of(ending)]
    known.entries[id_of(ending)] = replace(entry, value=replace(entry.value, expires_at=datetime.now(UTC)))
    assert asked(program, ending) == 401, "its end is remembered with it"
    ended(revoked, "revoked_at")
    assert asked(program, revoked) == 200, "within the bound that is documented"
    known.fresh_seconds = -1.0
    assert asked(program, revoked) == 401


def test_the_use_of_a_key_is_noted_at_most_once_a_minute(
    program: FlaskClient, api_key: ApiKeyMaker, group: str
) -> None:
    key = api_key(group, "read")
    assert row_of(id_of(key)).last_used_at is None
    asked(program, key)
    noted = until(lambda: row_of(id_of(key)).last_used_at)
    for _ in range(2):  # by this process, and by another one, which has its own memory of keys
        asked(program, key)
        program.application.extensions.pop("jiyi.keys", None)
    for moved in (False, True):
        with whole_service(), unit_of_work() as connection:
            api_keys.used(connection, id_of(key))
        last = row_of(id_of(key)).last_used_at
        assert (last > noted) is moved
        change(
            "UPDATE api_keys SET last_used_at = now() - '2 min'::interval WHERE key_id = :id", id=id_of(key)
        )


def test_without_the_database_no_key_is_good(program: FlaskClient, api_key: ApiKeyMaker, group: str) -> None:
    key = api_key(group, "read")
    with environment(**away("database")):
        assert asked(program, key) == 503


# How often


@contextmanager
def limited(rate_limit: str, **settings: str) -> Iterator[FlaskClient]:
    """A web with a rate limit, and two operations to ask."""
    with environment(rate_limit=rate_limit, **settings):
        app = create_app()

        @app.get("/api/test/who", endpoint="who")
        @app.get("/api/test/other", endpoint="other")
        def tell() -> Any:
            web_keys.identify_by_key()
            return jsonify({})

        yield app.test_client()


def test_a_key_that_asks_too_often_waits_and_is_told_how_long(api_key: ApiKeyMaker, group: str) -> None:
    key = api_key(group)
    with limited("3/hour") as browser:
        for path, status, left in (
            ("who", 200, "2"),
            ("other", 200, "1"),
            ("who", 200, "0"),
            ("who", 429, "0"),
            ("other", 429, "0"),
        ):
            answer = browser.get(f"/api/test/{path}", headers=bearer(key))
            assert answer.status_code == status
            told = answer.headers
            assert (told["RateLimit-Limit"], told["RateLimit-Remaining"]) == ("3", left)
            assert 0 < int(told["Retry-After" if status == 429 else "RateLimit-Reset"]) <= 3_600
        assert asked(browser, api_key(group)) == 200, "each for itself"
    for rate, status in (("3/hour", 429), ("", 200)):  # another process
        with limited(rate) as browser:
            assert asked(browser, key) == status


def test_who_tries_keys_waits_too(api_key: ApiKeyMaker, group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("web.accounts.api_keys.REFUSED", "2/hour")
    with limited("") as browser:
        browser.environ_base["REMOTE_ADDR"] = f"2001:db8::{uuid4().hex[:4]}:{uuid4().hex[:4]}"
        assert [asked(browser, str(new_key())) for _ in range(4)] == [401, 401, 429, 429]
        assert asked(browser, api_key(group)) == 200


def test_without_valkey_each_process_counts_by_itself_and_says_so_once(
    api_key: ApiKeyMaker, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    key = api_key(group)
    with limited("2/hour", **away("valkey")) as browser, caplog.at_level(logging.INFO, "jiyi.web"):
        assert [asked(browser, key) for _ in range(4)] == [200, 200, 429, 429]
    assert sum("storage unreachable" in record.message for record in caplog.records) == 1


# On the exchange


@pytest.fixture
def signed_queue(database: Stack) -> Iterator[Settings]:
    """A queue of the test's own, on which signatures are required."""
    name = f"signed-{uuid4().hex[:8]}"
    with intake_of_ones_own(name), environment(work_lease_seconds="30", accept_unsigned="none"):
        yield get_settings()


@pytest.fixture(autouse=True)
def _no_letters_left_for_everybody(database: Stack) -> Iterator[None]:
    yield
    change("DELETE FROM dead_letters WHERE group_id IS NULL")


def publish(settings: Settings, body: bytes, headers: dict[str, str], compression: str | None = None) -> None:
    with kombu.Connection(settings.broker_url) as connection, connection.Producer() as producer:
        producer.publish(
            body,
            exchange=exchange(),
            routing_key="memory.observed",
            content_type="application/json",
            content_encoding="utf-8",
            headers=headers,
            compression=compression,
            declare=[intake_queue(settings)],
        )


def signed(key: str, body: bytes) -> dict[str, str]:
    parsed = parse_key(key)
    assert parsed is not None
    return signatures.key_headers(parsed, body)


def send(event: Any, key: str, **how: str) -> None:
    """Publish an event that is signed with a key."""
    body = event_bodies.encode([event])
    publish(get_settings(), body, signed(key, body), **how)


def test_signed_events_are_stored(signed_queue: Settings, api_key: ApiKeyMaker, group: str) -> None:
    """A client's, those of an operator's key, and of a body that was compressed after it was signed."""
    by_operator, compressed = observed(group), observed(group)
    with Client(group, settings=signed_queue, key=api_key(group, "publish")) as client, reading():
        one = client.observe("a", "one")
        many = client.observe_many([{"agent_id": "a", "description": f"many {i}"} for i in range(3)])
        send(by_operator, api_key(None, "operator"))
        send(compressed, api_key(group, "publish"), compression="gzip")
        until(lambda: len(nodes(group)) == 6)
    sent = {one, *many, by_operator.event_id, compressed.event_id}
    assert {node["node_id"] for node in nodes(group)} == sent


@pytest.mark.parametrize("accept_unsigned", ["none", "events"])
def test_what_is_signed_wrongly_is_kept_under_no_group(
    signed_queue: Settings, api_key: ApiKeyMaker, group: str, accept_unsigned: str
) -> None:
    """Whether or not what is not signed at all is stored."""
    good, reader, gone, late = (api_key(group, right) for right in ("publish", "read", "publish", "publish"))
    foreign = api_key(f"{group}-2", "publish")
    ended(gone, "revoked_at")
    ended(late, "expires_at")
    secret_key = signed_queue.secret_key.get_secret_value()
    service = signatures.service_headers
    cases: list[tuple[Callable[[bytes], dict[str, str]], str]] = [
        (lambda body: signed(str(new_key()), body), "not that of any key"),
        (lambda body: signed(good, body + b" "), "not that of any key"),
        (lambda body: {**signed(good, body), "jiyi-signature": ""}, "not that of any key"),
        (lambda body: {"jiyi-signature": signed(good, body)["jiyi-signature"]}, "not that of any key"),
        (lambda body: {"jiyi-key": id_of(good)}, "not that of any key"),
        (lambda body: {**signed(good, body), "jiyi-key": "a\0b"}, "not that of any key"),
        (lambda body: signed(gone, body), "is revoked"),
        (lambda body: signed(late, body), "is expired"),
        (lambda body: signed(reader, body), "may not publish"),
        (lambda body: signed(foreign, body), f"signed for the group '{group}-2'"),
        (lambda body: service("another" * 8, group, body), "not signed by this service"),
        (lambda body: service(secret_key, "other", body), "signed for the group 'other'"),
        (lambda _body: {}, "not signed" if accept_unsigned == "none" else ""),
    ]
    with environment(accept_unsigned=accept_unsigned):
        events = [observed(group, f"case {i}") for i in range(len(cases))]
        for event, (headers, _) in zip(events, cases, strict=True):
            body = event_bodies.encode([event])
            publish(signed_queue, body, headers(body))
        with reading():
            for event, (_, reason) in zip(events, cases, strict=True):
                if not reason:
                    until(lambda: nodes(group))
                    continue
                letter = until(lambda event=event: letter_with(str(event.event_id)))
                assert reason in letter["reason"]
                assert letter["group_id"] is None
                assert json.loads(letter["body"])["event_id"] == str(event.event_id)
    stored = [] if accept_unsigned == "none" else [events[-1].event_id]
    assert [node["node_id"] for node in nodes(group)] == stored


def test_one_event_of_another_group_condemns_the_message(
    signed_queue: Settings, api_key: ApiKeyMaker, group: str
) -> None:
    """An event that is only wrong does not; it is not attributed to a group that did not sign it."""
    mine, others, good = observed(group), observed(f"{group}-2"), observed(group)
    wrong = [json.loads(event_bodies.encode([observed(name)])) for name in (group, f"{group}-2")]
    for event in wrong:
        event["payload"]["poignancy"] = 11
    bodies = (
        event_bodies.encode([mine, others]),
        json.dumps({"events": [json.loads(event_bodies.encode([good])), *wrong]}).encode(),
    )
    for body in bodies:
        publish(signed_queue, body, signed(api_key(group, "publish"), body))
    with reading():
        letter = until(lambda: letter_with(str(mine.event_id)))
        letters = [until(lambda event=event: letter_with(event["event_id"])) for event in wrong]
    assert letter["reason"] == f"signed for the group '{group}', but of the group '{group}-2'"
    assert [letter["group_id"] for letter in letters] == [group, None]
    assert ([node["node_id"] for node in nodes(group)], nodes(f"{group}-2")) == ([good.event_id], [])


def test_a_replay_is_for_the_group_of_whoever_replays_whoever_signed(
    signed_queue: Settings, group: str
) -> None:
    event = observed(group)
    publish(signed_queue, event_bodies.encode([event]), {})
    with reading():
        letter = until(lambda: letter_with(str(event.event_id)))

    def replay(whose: str, letter_id: UUID) -> Resolved:
        wanted = ResolveBody(action="replay", letter_ids=[letter_id])
        return queue_actions.resolve_letters.perform(Actor(whose, operator=True), wanted)

    assert replay(f"{group}-2", letter["letter_id"]) == Resolved(resolved=1, refused_again=1)
    again = letter_with(str(event.event_id))
    assert again is not None
    assert again["letter_id"] != letter["letter_id"]
    assert again["reason"] == f"replayed for the group '{group}-2', but of the group '{group}'"
    assert replay(group, again["letter_id"]) == Resolved(resolved=1)
    assert [node["node_id"] for node in nodes(group)] == [event.event_id]
    assert letter_with(str(event.event_id)) is None


def test_a_database_that_is_away_refuses_no_signature(
    signed_queue: Settings, api_key: ApiKeyMaker, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries, look_up = [1], Signatures.look_up

    def fails_once(self: Signatures, messages: Any) -> None:
        if tries:
            tries.pop()
            raise OperationalError("", {}, Exception("away"), connection_invalidated=True)
        look_up(self, messages)

    monkeypatch.setattr(Signatures, "look_up", fails_once)
    send(observed(group), api_key(group, "publish"))
    with reading():
        until(lambda: nodes(group))
    assert tries == []


def test_signatures_come_through_other_brokers_too(
    signed_queue: Settings, api_key: ApiKeyMaker, group: str
) -> None:
    name = f"memory-{uuid4().hex}"
    on_memory = signed_queue.model_copy(
        update={"broker_url": "memory://", "intake_queue": name, "exchange": f"{name}-exchange"}
    )
    reader = sources.open_source(on_memory)
    try:
        assert reader.take(1, 0.05) is None
        headers = signed(api_key(group, "publish"), "书".encode())
        publish(on_memory, "书".encode(), headers)
        batch = reader.take(1, 60)
    finally:
        reader.close()
    assert batch is not None
    (message,) = batch.messages
    assert message.signature == Signature(headers["jiyi-key"], headers["jiyi-signature"])
    signatures = Signatures(get_settings())
    signatures.look_up([message])
    assert signatures.problem(message) == ""


# From the command line


def jiyi(*arguments: str, given: str | None = None, status: int = 0) -> tuple[Any, str]:
    """The document (or the text) that the command printed, and its notices."""
    done = CliRunner().invoke(app, arguments, input=given)
    assert done.exit_code == status, done.output
    return json.loads(done.stdout) if "--json" in arguments else done.stdout, done.stderr


def test_keys_are_made_listed_rotated_and_revoked_from_the_command_line(service: str) -> None:
    made, _ = jiyi(
        "keys", "create", "crawler", "--group", service, "--scopes", "publish", "--expires", "90d", "--json"
    )
    assert parse_key(made["key"]) is not None
    assert (made["group_id"], made["scopes"], made["created_by"]) == (service, ["publish"], "operator")
    printed, notice = jiyi("keys", "create", "reader", "--group", service)
    assert parse_key(printed.strip()) is not None
    assert "not shown again" in notice
    new, _ = jiyi("keys", "rotate", made["key_id"], "--grace", "1h", "--json")
    assert new["key"] != made["key"]
    revoked, _ = jiyi("keys", "revoke", new["key_id"], "--json")
    assert revoked["state"] == "revoked"
    listed, _ = jiyi("keys", "list", "--group", service, "--json")
    states = [key["state"] for key in sorted(listed, key=lambda key: key["created_at"])]
    assert states == ["alive", "alive", "revoked"]
    assert not any("secret" in name or "signing" in name for key in listed for name in key)
    assert "crawler" in jiyi("keys", "list", "--group", service)[0]
    _, notice = jiyi("keys", "revoke", "aaaaaaaaaaaa", status=1)
    assert "no key 'aaaaaaaaaaaa'" in notice
    _, notice = jiyi("keys", "create", "x", "--scopes", "everything", status=1)
    assert "scopes" in notice


def test_people_are_added_given_passwords_and_disabled_from_the_command_line(service: str) -> None:
    name = f"mia-{uuid4().hex[:8]}"

    def stored() -> dict[str, Any]:
        [row] = rows("SELECT password_hash, epoch FROM users WHERE name = :n", n=name)
        return row

    in_groups = ["--role", "admin", "--groups", service, "--groups", "b"]
    made, _ = jiyi("people", "add", name, *in_groups, "--generate", "--json")
    assert made["groups"] == sorted([service, "b"])
    assert check_password_hash(stored()["password_hash"], made["password"])
    jiyi("people", "set_password", name, given="a password from a pipe\n")
    assert check_password_hash(stored()["password_hash"], "a password from a pipe")
    assert stored()["epoch"] == 1
    assert jiyi("people", "update", name, "--disabled", "--json")[0]["disabled_at"] is not None
    assert name in jiyi("people", "list")[0]
    viewer = ["--role", "viewer"]
    everywhere, notice = jiyi("people", "add", f"all-{name}", *viewer, "--all-groups", "--generate")
    assert everywhere.strip()
    assert "will see every group" in notice
    both = ["--groups", "b", "--all-groups"]
    for arguments, given, reason in (
        (["add", name, *viewer, "--groups", "b", "--generate"], None, "is taken"),
        (["set_password", name], "short\n", "at least 10"),
        (["update", "nobody-here", "--no-disabled"], None, "nobody here is called"),
        (["add", "a b", *viewer], "x" * 12, "name"),
        (["add", "without-groups", *viewer, "--generate"], None, "groups: name at least one group"),
        (["add", "without-groups", *viewer, *both, "--generate"], None, "groups: give either"),
    ):
        assert reason in jiyi("people", *arguments, given=given, status=1)[1]


# The first start


def test_a_home_s_secret_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    with environment(secret_key=""):
        made = up.secret_key(tmp_path)
        assert up.secret_key(tmp_path) == made
    assert len(made) == 64
    assert stat.S_IMODE((tmp_path / "secret_key").stat().st_mode) == 0o600
    with environment(secret_key="chosen" * 8):
        assert up.secret_key(tmp_path) == "chosen" * 8
    (tmp_path / "secret_key").write_text("", encoding="ascii")
    with environment(secret_key=""), pytest.raises(SettingsError, match="is empty"):
        up.secret_key(tmp_path)


def test_the_first_person_is_made_where_there_is_none(database: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with base.engine().connect() as connection:
        transaction = connection.begin()

        @contextmanager
        def within() -> Iterator[Any]:
            yield connection

        monkeypatch.setattr(up, "unit_of_work", within)
        connection.exec_driver_sql("SELECT set_config('jiyi.whole_service', 'on', true)")
        connection.execute(text("DELETE FROM users"))
        password = up.create_admin()
        assert password is not None
        assert password_problem(password) == ""
        assert up.create_admin() is None
        (row,) = connection.execute(text("SELECT name, role, groups FROM users"))
        assert tuple(row) == ("admin", "operator", None)
        transaction.rollback()


# The broker's user for programs
