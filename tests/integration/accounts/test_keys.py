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
import redis
from flask import Blueprint, Flask, jsonify
from flask.testing import FlaskClient
from pydantic import ValidationError
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError
from typer.testing import CliRunner
from werkzeug.security import check_password_hash

from jiyi import Client
from jiyi.cli.app import app
from jiyi.client.caller import Caller
from jiyi.errors import BrokerUnavailable, InvalidRequest, NotFound, SettingsError
from jiyi.protocol import event_bodies
from jiyi.protocol.accounts import CreateKey, Key, ListKeys, NewKey, RevokeKey, RotateKey, password_problem
from jiyi.protocol.base import Paged
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
from tests.integration.memory.test_inbox import nodes, observed
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
from workers.intake.sources import Signature, open_source

CHECKOUT = Path(__file__).resolve().parents[3]
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


def audited(key_id: str) -> list[str]:
    with whole_service(), unit_of_work() as connection:
        found = text("SELECT action FROM audit_log WHERE target = :target ORDER BY audit_id")
        return list(connection.execute(found, {"target": f"key:{key_id}"}).scalars())


# Their making and end


def test_a_key_s_secret_is_nowhere_in_the_database(api_key: ApiKeyMaker, group: str) -> None:
    key = api_key(group, "read")
    parsed = parse_key(key)
    assert parsed is not None
    with whole_service(), unit_of_work() as connection:
        (row,) = connection.execute(
            text("SELECT * FROM api_keys WHERE key_id = :id"), {"id": parsed.key_id}
        ).mappings()
        (details,) = connection.execute(
            text("SELECT details::text FROM audit_log WHERE target = :id"), {"id": f"key:{parsed.key_id}"}
        ).scalars()
    assert bytes(row["secret_hash"]) == parsed.secret_hash
    assert parsed.secret not in str({**row}) + details
    assert parsed.secret_hash.hex() not in details
    assert not {"secret_hash", "signing_key"} & row_of(parsed.key_id).model_dump().keys()


def test_a_key_may_be_made_before_its_group_has_any_memory_and_goes_with_it(
    api_key: ApiKeyMaker, group: str
) -> None:
    key_id = id_of(api_key(group, "read"))
    change("DELETE FROM groups WHERE group_id = :group", group=group)
    with whole_service(), unit_of_work() as connection:
        assert api_keys.find(connection, [key_id]) == {}


def test_scopes_that_do_not_exist_and_an_end_that_is_past_are_refused(group: str) -> None:
    with pytest.raises(ValidationError, match="scopes"):
        CreateKey(key=NewKey.of(new_key()), name="x", scopes=["read", "everything"])  # type: ignore[list-item]
    wanted = CreateKey(
        key=NewKey.of(new_key()),
        name="x",
        scopes=["read"],
        expires_at=datetime.now(UTC) - timedelta(seconds=1),
    )
    with pytest.raises(InvalidRequest, match="expires_at"):
        actions.create_key.perform(operator(group), wanted)


def test_only_an_operator_makes_an_operator_s_key_which_may_everything(group: str) -> None:
    wanted = CreateKey(key=NewKey.of(new_key()), name="x", scopes=["read", "operator"])
    with pytest.raises(InvalidRequest, match="scopes"):
        actions.create_key.perform(Actor(group, "user:mia"), wanted)
    made = actions.create_key.perform(operator(group), wanted)
    assert (made.group_id, made.scopes) == (None, list(SCOPES))


def test_to_make_the_same_key_again_changes_nothing_and_another_of_its_id_is_refused(
    database: Any, group: str
) -> None:
    key, actor = new_key(), Actor(group, "test")
    wanted = CreateKey(key=NewKey.of(key), name="x", scopes=["read"])
    first_row = actions.create_key.perform(actor, wanted)
    assert actions.create_key.perform(actor, wanted.model_copy(update={"scopes": ["admin"]})) == first_row
    other = CreateKey(key=NewKey.of(KeyText(key.key_id, "t" * 43)), name="x", scopes=["read"])
    for whose in (actor, Actor(f"{group}-2", "test"), operator(group)):
        with pytest.raises(InvalidRequest, match="already used"):
            actions.create_key.perform(whose, other)
    assert audited(key.key_id) == ["keys.create"]


def test_a_key_is_revoked_once_and_for_good(api_key: ApiKeyMaker, group: str) -> None:
    key_id = id_of(api_key(group, "read"))
    wanted, rotation = (
        RevokeKey(id=key_id),
        RotateKey(id=key_id, key=NewKey.of(new_key()), grace=timedelta(hours=1)),
    )
    for action, request in ((actions.revoke_key, wanted), (actions.rotate_key, rotation)):
        with pytest.raises(NotFound):
            action.perform(Actor("another", "test"), request)  # type: ignore[arg-type]
    first_time = actions.revoke_key.perform(Actor(group, "test"), wanted)
    assert actions.revoke_key.perform(operator("another"), wanted) == first_time
    assert first_time.state == "revoked"
    with pytest.raises(InvalidRequest, match="revoked"):
        actions.rotate_key.perform(Actor(group, "test"), rotation)
    assert audited(key_id) == ["keys.create", "keys.revoke"]


def test_a_rotated_key_hands_its_rights_on_and_works_for_a_while(api_key: ApiKeyMaker, group: str) -> None:
    old = id_of(api_key(group, "publish", "read", expires_at=datetime.now(UTC) + timedelta(days=30)))
    before = row_of(old)
    assert before.expires_at is not None
    rotation = RotateKey(id=old, key=NewKey.of(new_key()), grace=timedelta(hours=24))
    made = actions.rotate_key.perform(Actor(group, "test"), rotation)
    assert (made.group_id, made.name, made.scopes, made.state) == (
        group,
        "test",
        ["publish", "read"],
        "alive",
    )
    assert made.expires_at is not None
    # Its span; "now" is this machine's for the one, the database's for the other.
    assert abs((made.expires_at - made.created_at) - (before.expires_at - before.created_at)) < timedelta(
        minutes=5
    )
    assert timedelta(hours=23) < left_of(old) <= timedelta(hours=24)
    # Again: the same one.
    assert actions.rotate_key.perform(Actor(group, "test"), rotation).key_id == made.key_id
    assert (audited(old), audited(made.key_id)) == (["keys.create", "keys.rotate"], [])
    # A grace beyond its end does not prolong it.
    longer = RotateKey(id=old, key=NewKey.of(new_key()), grace=timedelta(days=60))
    actions.rotate_key.perform(operator(group), longer)
    assert left_of(old) <= timedelta(hours=24)


def test_a_group_sees_its_own_keys_only(api_key: ApiKeyMaker, group: str) -> None:
    mine, others, operators = (
        id_of(api_key(group)),
        id_of(api_key(f"{group}-2")),
        id_of(api_key(None, "operator")),
    )
    with for_groups(group), unit_of_work() as connection:
        assert [row.key_id for row in api_keys.listed(connection)] == [mine]  # row-level security
        assert set(api_keys.find(connection, [mine, others, operators])) == {mine}
    with whole_service(), unit_of_work() as connection:
        assert [row.key_id for row in api_keys.listed(connection, group)] == [mine]
        assert {mine, others, operators} <= {row.key_id for row in api_keys.listed(connection)}
    everything = ListKeys(all_groups=True)
    assert [row.key_id for row in actions.list_keys.perform(Actor(group, "user:mia"), everything)] == [mine]
    assert {mine, others, operators} <= {
        row.key_id for row in actions.list_keys.perform(operator(group), everything)
    }


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


def forget(browser: FlaskClient) -> None:
    """As after ``KEY_SECONDS``."""
    browser.application.extensions.pop("jiyi.keys", None)


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
    change("UPDATE api_keys SET expires_at = now() WHERE key_id = :id", id=id_of(expired))
    revoked = api_key(group, "read")
    change("UPDATE api_keys SET revoked_at = now() WHERE key_id = :id", id=id_of(revoked))
    refusals = {}
    for name, header in {
        "missing": None,
        "empty": "",
        "basic": "Basic eA==",
        "no text": "Bearer",
        "no form": "Bearer hunter2",
        "unknown": f"Bearer {new_key()}",
        "wrong": f"Bearer jiyi_{id_of(good)}_{'x' * 43}",
        "expired": f"Bearer {expired}",
        "revoked": f"Bearer {revoked}",
        "two": f"Bearer {good} {good}",
        "odd": "Bearer \xe9\xff",
    }.items():
        answer = program.get("/api/test/who", headers={} if header is None else {"Authorization": header})
        assert answer.status_code == 401, name
        assert answer.headers["WWW-Authenticate"].lower().startswith("bearer"), name
        assert "hunter2" not in answer.text
        assert id_of(good) not in answer.text
        refusals[name] = answer.text
    assert refusals["unknown"] == refusals["wrong"]
    assert "This key is expired" in refusals["expired"]
    assert "This key is revoked" in refusals["revoked"]
    assert program.get(f"/api/test/who?key={good}").status_code == 401
    assert program.get("/api/test/who", headers=bearer(good)).status_code == 200


def test_a_key_is_remembered_for_seconds_and_no_longer(
    program: FlaskClient, api_key: ApiKeyMaker, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    revoked, ending = api_key(group, "read"), api_key(group, "read")
    for key in (revoked, ending):
        assert program.get("/api/test/who", headers=bearer(key)).status_code == 200
    known = program.application.extensions["jiyi.keys"].known
    assert known.fresh_seconds == KEY_SECONDS
    monkeypatch.setattr(known, "fresh_seconds", 3_600.0)  # a busy machine may take longer for the next lines
    entry = known.entries[id_of(ending)]
    known.entries[id_of(ending)] = replace(entry, value=replace(entry.value, expires_at=datetime.now(UTC)))
    # Its end is remembered with it.
    assert program.get("/api/test/who", headers=bearer(ending)).status_code == 401
    change("UPDATE api_keys SET revoked_at = now() WHERE key_id = :id", id=id_of(revoked))
    # Within the bound that is documented.
    assert program.get("/api/test/who", headers=bearer(revoked)).status_code == 200
    monkeypatch.setattr(known, "fresh_seconds", -1.0)
    assert program.get("/api/test/who", headers=bearer(revoked)).status_code == 401


def test_the_use_of_a_key_is_noted_at_most_once_a_minute(
    program: FlaskClient, api_key: ApiKeyMaker, group: str
) -> None:
    key = api_key(group, "read")
    assert row_of(id_of(key)).last_used_at is None
    program.get("/api/test/who", headers=bearer(key))
    noted = until(lambda: row_of(id_of(key)).last_used_at)
    for _ in range(2):  # by this process, and by another one
        program.get("/api/test/who", headers=bearer(key))
        forget(program)
    with whole_service(), unit_of_work() as connection:
        api_keys.used(connection, id_of(key))
    assert row_of(id_of(key)).last_used_at == noted
    change("UPDATE api_keys SET last_used_at = now() - '2 min'::interval WHERE key_id = :id", id=id_of(key))
    with whole_service(), unit_of_work() as connection:
        api_keys.used(connection, id_of(key))
    assert row_of(id_of(key)).last_used_at > noted


def test_without_the_database_no_key_is_good(
    program: FlaskClient, api_key: ApiKeyMaker, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = api_key(group, "read")
    nowhere = create_engine("postgresql+psycopg://nobody@/nothing?host=/nonexistent-folder")
    monkeypatch.setattr(base, "engine", lambda: nowhere)
    assert program.get("/api/test/who", headers=bearer(key)).status_code == 503


# How often


Limited = Callable[..., FlaskClient]


@pytest.fixture
def limited(web_app: Flask, monkeypatch: pytest.MonkeyPatch) -> Limited:
    """Makes a web with a rate limit, and two operations to ask."""

    def make(rate_limit: str, **settings: str) -> FlaskClient:
        changed = get_settings().model_copy(update={"rate_limit": rate_limit, **settings})
        monkeypatch.setattr("web.accounts.api_keys.get_settings", lambda: changed)
        app = create_app()

        @app.get("/api/test/who", endpoint="who")
        @app.get("/api/test/other", endpoint="other")
        def tell() -> Any:
            web_keys.identify_by_key()
            return jsonify({})

        return app.test_client()

    return make


def test_a_key_that_asks_too_often_waits_and_is_told_how_long(
    limited: Limited, api_key: ApiKeyMaker, group: str
) -> None:
    browser, key = limited("3/hour"), api_key(group)
    for left in (2, 1, 0):
        # Of all together.
        answer = browser.get("/api/test/other" if left == 1 else "/api/test/who", headers=bearer(key))
        assert answer.status_code == 200
        assert (answer.headers["RateLimit-Limit"], answer.headers["RateLimit-Remaining"]) == ("3", str(left))
        assert 0 < int(answer.headers["RateLimit-Reset"]) <= 3_600
    for _ in range(2):
        answer = browser.get("/api/test/who", headers=bearer(key))
        assert answer.status_code == 429
        assert 0 < int(answer.headers["Retry-After"]) <= 3_600
        assert answer.headers["RateLimit-Remaining"] == "0"
    assert browser.get("/api/test/who", headers=bearer(api_key(group))).status_code == 200  # each for itself
    # In whatever process.
    assert limited("3/hour").get("/api/test/who", headers=bearer(key)).status_code == 429
    assert limited("").get("/api/test/who", headers=bearer(key)).status_code == 200


def test_who_tries_keys_waits_too(
    limited: Limited, api_key: ApiKeyMaker, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("web.accounts.api_keys.REFUSED", "2/hour")
    browser = limited("")
    browser.environ_base["REMOTE_ADDR"] = f"2001:db8::{uuid4().hex[:4]}:{uuid4().hex[:4]}"
    statuses = [browser.get("/api/test/who", headers=bearer(str(new_key()))).status_code for _ in range(4)]
    assert statuses == [401, 401, 429, 429]
    assert browser.get("/api/test/who", headers=bearer(api_key(group))).status_code == 200


def test_without_valkey_each_process_counts_by_itself_and_says_so_once(
    limited: Limited, api_key: ApiKeyMaker, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    browser, key = limited("2/hour", redis_url="unix:///nonexistent-folder/v.sock?db=0"), api_key(group)
    with caplog.at_level(logging.INFO, "jiyi.web"):
        statuses = [browser.get("/api/test/who", headers=bearer(key)).status_code for _ in range(4)]
    assert statuses == [200, 200, 429, 429]
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


def test_signed_events_are_stored(signed_queue: Settings, api_key: ApiKeyMaker, group: str) -> None:
    """A client's, those of an operator's key, and of a body that was compressed after it was signed."""
    by_operator, compressed = observed(group), observed(group)
    with Client(group, settings=signed_queue, key=api_key(group, "publish")) as client, reading():
        one = client.observe("a", "one")
        many = client.observe_many([{"agent_id": "a", "description": f"many {i}"} for i in range(3)])
        body = event_bodies.encode([by_operator])
        publish(signed_queue, body, signed(api_key(None, "operator"), body))
        body = event_bodies.encode([compressed])
        publish(signed_queue, body, signed(api_key(group, "publish"), body), compression="gzip")
        until(lambda: len(nodes(group)) == 6)
    assert {node["node_id"] for node in nodes(group)} == {
        one,
        *many,
        by_operator.event_id,
        compressed.event_id,
    }


@pytest.mark.parametrize("required", [True, False])
def test_what_is_signed_wrongly_is_kept_under_no_group(
    signed_queue: Settings, api_key: ApiKeyMaker, group: str, required: bool
) -> None:
    good, reader = api_key(group, "publish"), api_key(group, "read")
    foreign, gone, late = (
        api_key(f"{group}-2", "publish"),
        api_key(group, "publish"),
        api_key(group, "publish"),
    )
    change("UPDATE api_keys SET revoked_at = now() WHERE key_id = :id", id=id_of(gone))
    change("UPDATE api_keys SET expires_at = now() WHERE key_id = :id", id=id_of(late))
    secret_key = signed_queue.secret_key.get_secret_value()
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
        (lambda body: signatures.service_headers("another" * 8, group, body), "not signed by this service"),
        (lambda body: signatures.service_headers(secret_key, "other", body), "signed for the group 'other'"),
    ]
    if required:
        cases.append((lambda body: {}, "not signed"))
    with environment(accept_unsigned="none" if required else "events"):
        events = [observed(group, f"case {i}") for i in range(len(cases))]
        for event, (headers, _) in zip(events, cases, strict=True):
            body = event_bodies.encode([event])
            publish(signed_queue, body, headers(body))
        with reading():
            for event, (_, reason) in zip(events, cases, strict=True):
                letter = until(lambda event=event: letter_with(str(event.event_id)))
                assert reason in letter["reason"]
                assert letter["group_id"] is None
                assert json.loads(letter["body"])["event_id"] == str(event.event_id)
    assert nodes(group) == []


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


def test_where_signatures_are_not_required_unsigned_events_are_stored(
    signed_queue: Settings, group: str
) -> None:
    with environment(accept_unsigned="events"):
        publish(signed_queue, event_bodies.encode([observed(group)]), {})
        with reading():
            until(lambda: nodes(group))


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
    tries = [1, 1]
    look_up = Signatures.look_up

    def away(self: Signatures, messages: Any) -> None:
        if tries:
            tries.pop()
            raise OperationalError("", {}, Exception("away"), connection_invalidated=True)
        look_up(self, messages)

    monkeypatch.setattr(Signatures, "look_up", away)
    monkeypatch.setattr("workers.intake.consumer.FIRST_PAUSE", 0.01)
    event = observed(group)
    body = event_bodies.encode([event])
    publish(signed_queue, body, signed(api_key(group, "publish"), body))
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
    assert [key["state"] for key in sorted(listed, key=lambda key: key["created_at"])] == [
        "alive",
        "alive",
        "revoked",
    ]
    assert not any("secret" in name or "signing" in name for key in listed for name in key)
    assert "crawler" in jiyi("keys", "list", "--group", service)[0]
    _, notice = jiyi("keys", "revoke", "aaaaaaaaaaaa", status=1)
    assert "no key 'aaaaaaaaaaaa'" in notice
    _, notice = jiyi("keys", "create", "x", "--scopes", "everything", status=1)
    assert "scopes" in notice


def test_people_are_added_given_passwords_and_disabled_from_the_command_line(service: str) -> None:
    name = f"mia-{uuid4().hex[:8]}"
    made, _ = jiyi(
        "people", "add", name, "--role", "admin", "--groups", service, "--groups", "b", "--generate", "--json"
    )
    assert made["groups"] == sorted([service, "b"])
    with whole_service(), unit_of_work() as connection:
        hashed = connection.execute(
            text("SELECT password_hash FROM users WHERE name = :n"), {"n": name}
        ).scalar_one()
    assert check_password_hash(hashed, made["password"])
    jiyi("people", "set_password", name, given="a password from a pipe\n")
    with whole_service(), unit_of_work() as connection:
        row = connection.execute(
            text("SELECT password_hash, epoch FROM users WHERE name = :n"), {"n": name}
        ).one()
    assert check_password_hash(row.password_hash, "a password from a pipe")
    assert row.epoch == 1
    assert jiyi("people", "update", name, "--disabled", "--json")[0]["disabled_at"] is not None
    assert name in jiyi("people", "list")[0]
    everywhere, notice = jiyi(
        "people", "add", f"all-{name}", "--role", "viewer", "--all-groups", "--generate"
    )
    assert everywhere.strip()
    assert "will see every group" in notice
    for arguments, given, reason in (
        (["add", name, "--role", "viewer", "--groups", "b", "--generate"], None, "is taken"),
        (["set_password", name], "short\n", "at least 10"),
        (["update", "nobody-here", "--no-disabled"], None, "nobody here is called"),
        (["add", "a b", "--role", "viewer"], "x" * 12, "name"),
        (
            ["add", "without-groups", "--role", "viewer", "--generate"],
            None,
            "groups: name at least one group",
        ),
        (
            ["add", "without-groups", "--role", "viewer", "--groups", "b", "--all-groups", "--generate"],
            None,
            "groups: give either",
        ),
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


def test_the_broker_s_user_that_is_described_can_publish_and_nothing_else(
    database: Stack, group: str
) -> None:
    (command,) = re.findall(
        r"^ACL SETUSER (.*)$", (CHECKOUT / "docs" / "tenants.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert database.urls is not None
    with redis.Redis.from_url(database.urls.redis_url) as valkey:
        name, *rules = command.split()
        valkey.execute_command("ACL", "SETUSER", name, "reset", *rules)
        try:
            address = database.urls.broker_url.replace("://", f"://{name}:PASSWORD@", 1)
            with (
                environment(broker_url=address, request_timeout="60"),
                Client(group, key=str(new_key())) as client,
            ):
                open_source(
                    Settings(broker_url=database.urls.broker_url)
                ).close()  # the service has declared its queue
                before = valkey.llen("memory.intake")
                client.observe("a", "hello")
                assert valkey.llen("memory.intake") == before + 1
                for queue in ("inspection", "upkeep", "embedding"):
                    waiting = valkey.llen(queue)
                    with pytest.raises(BrokerUnavailable, match=r"(?i)no permissions"):
                        Caller(client.settings).act("agents.list", queue, group, Paged(), 1)
                    assert valkey.llen(queue) == waiting
        finally:
            valkey.execute_command("ACL", "DELUSER", name)
            valkey.delete("memory.intake")
