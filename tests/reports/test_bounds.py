"""Nobody can exhaust a process with one request or message."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from pydantic import ValidationError

from jiyi.errors import MAX_ERRORS, MAX_PROBLEMS, problems_of
from jiyi.protocol import event_bodies, limits
from jiyi.protocol.actions import TABLE
from jiyi.protocol.base import Request
from jiyi.protocol.events import CONTENT_TYPE, ONE
from jiyi.protocol.retrieval import RetrievalRequest
from jiyi.protocol.wire import vectors
from jiyi.settings import Settings, get_settings
from models.db.valkey import valkey
from models.memory.ingest import identity
from tests.integration.memory.test_inbox import rows
from tests.integration.programs import Program
from web import create_app, mem0
from web.api.registry import OPERATIONS
from workers.embedded.stack import Stack
from workers.intake.opening import KEPT_OF_TOO_LARGE, Opened, Signatures, open_messages
from workers.intake.sources import MessageBatch, Taken

#: More values than anything but vectors may have; of a kilobyte's thousand each there is an error where they
#: are not counted before.
MANY = limits.MAX_VALUES + 1
FORM = "application/x-www-form-urlencoded"


def many(before: bytes, one: bytes, after: bytes, count: int = MANY) -> bytes:
    return before + b",".join([one] * count) + after


# Bodies of the API


def names_of(count: int) -> bytes:
    return b",".join(b'"x%d":1' % number for number in range(count))


def test_a_list_of_many_numbers_is_refused_in_a_sentence(api: Program) -> None:
    for address, before, one, what in (
        ("/events", b'{"events":[', b"1", "values in its lists and objects"),
        ("/events", b'{"events":[', b'""', "texts"),
        ("/retrieve", b'{"agent_id":"klaus","queries":[', b"1", "values in its lists and objects"),
        ("/actions/memory.list", b'{"origins":[', b"1", "values in its lists and objects"),
    ):
        answer = api.ask("POST", address, 413, data=many(before, one, b"]}"), content_type=CONTENT_TYPE)
        assert answer.json["detail"] == f"The body has more than 100,000 {what}; send several requests."
        assert len(answer.data) < 1_000


#: Addresses, and bodies of wrong values, as many as are read.
WRONG = [
    ("/events", many(b'{"events":[', b"1", b"]}", 50_000)),
    ("/events", b'{"agent_id":"klaus","description":"tea",' + names_of(50_000) + b"}"),
    ("/retrieve", many(b'{"agent_id":"klaus","queries":[', b"1", b"]}", 50_000)),
    ("/retrieve", many(b'{"agent_id":"klaus","query":"tea","vectors":[', b"[1]", b"]}", 40_000)),
    ("/actions/memory.list", many(b'{"origins":[', b"1", b"]}", 50_000)),
    ("/events", many(b'{"agent_id":"klaus","description":"tea","evidence":[', b'"x"', b"]}", 50_000)),
    ("/events", many(b'{"events":[', b'{"agent_id":"klaus","description":"\\u0000"}', b"]}", 400)),
    ("/actions/memory.list", b"{" + names_of(50_000) + b"}"),
]


def test_a_refusal_names_some_tens_of_problems_at_most(api: Program) -> None:
    for address, body in WRONG:
        answer = api.ask("POST", address, 422, data=body, content_type=CONTENT_TYPE)
        assert len(answer.json["errors"]) <= MAX_PROBLEMS + 1, body[:60]
        assert len(answer.data) < 20_000, body[:60]


def test_too_many_events_are_told_in_one_sentence(api: Program) -> None:
    answer = api.ask(
        "POST", "/events", 422, data=many(b'{"events":[', b"1", b"]}", 501), content_type=CONTENT_TYPE
    )
    assert answer.json["detail"] == "events: 501 are more than 500; send fewer"


def test_a_vector_in_quotes_is_no_way_around() -> None:
    with pytest.raises(ValueError, match="more than those of 4,096 numbers"):
        vectors.to_bytes("[" + "[]," * vectors.MAX_TEXT_CHARS + "[]]")
    assert len(vectors.to_bytes(json.dumps([-0.12345678901234567e-100, 1.0] * 2_048))) == 4 * 4_096


def _lists(schema: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(schema, dict):
        if schema.get("type") in ("list", "set", "frozenset") or (
            schema.get("type") == "tuple" and "variadic_item_index" in schema
        ):
            yield path, schema
        for name, part in schema.items():
            if name not in ("metadata", "serialization", "cls"):
                yield from _lists(
                    part, f"{path}.{name}" if "schema" not in name and name != "fields" else path
                )
    elif isinstance(schema, list | tuple):
        for part in schema:
            yield from _lists(part, path)


def test_no_list_of_any_request_makes_an_error_of_each_of_its_items() -> None:
    """Of a list that has a length the rest is not looked at; of another one nothing after the first wrong
    item.
    """
    create_app()
    bodies = {operation.body for operation in (*OPERATIONS, *mem0.OPERATIONS)} - {None}
    models: set[Any] = {action.request for action in TABLE.values()} | bodies | {RetrievalRequest}
    schemas = {model.__name__: model.__pydantic_core_schema__ for model in models} | {
        "Event": ONE.core_schema
    }
    found = [(name, *one) for name, schema in schemas.items() for one in _lists(schema)]
    assert len(found) > 80
    assert [
        (name, path) for name, path, one in found if "max_length" not in one and not one.get("fail_fast")
    ] == []


class _Strict(Request):
    known: int = 0


def test_of_more_errors_than_are_listed_the_number_is_told() -> None:
    def problems(count: int) -> list[str]:
        with pytest.raises(ValidationError) as raised:
            _Strict.model_validate({f"x{number}": 1 for number in range(count)})
        return problems_of(raised.value, _Strict)

    assert len(problems(MAX_PROBLEMS)) == MAX_PROBLEMS
    assert problems(MAX_PROBLEMS + 7)[-1] == "and 7 more problems"
    assert problems(MAX_ERRORS + 1) == [f"{MAX_ERRORS + 1:,} problems, too many to be listed"]


# Forms, and whoever has not said who they are


def test_a_form_of_whoever_is_not_signed_in_has_64_kilobytes(web_app: Flask) -> None:
    browser = web_app.test_client()
    for address, status in (("/sign-in", 413), ("/sign-out", 303), ("/api/v1/nothing", 404)):
        sent = BytesIO(many(b"name=a&", b"x=1&", b"", limits.STRANGERS_BYTES))
        length = len(sent.getbuffer())
        answer = browser.post(address, input_stream=sent, content_length=length, content_type=FORM)
        assert (answer.status_code, sent.tell()) == (status, 0)
    longest = b"name=" + b"a" * (limits.STRANGERS_BYTES - 5)
    assert browser.post("/sign-in", data=longest, content_type=FORM).status_code == 400  # it has no token


def test_a_form_of_somebody_who_is_signed_in_may_hold_a_file(signed_in: FlaskClient) -> None:
    text = "记" * limits.MAX_IDENTITY_CHARS
    assert signed_in.post("/nothing", data={"text": text}).status_code == 404
    assert signed_in.post("/nothing", data={"text": text * 10}).status_code == 413


# Messages


#: Of an event and a group that can be read. They are cut off: a parser would find no JSON.
BEGINNING = b'{"event_id":"01890000-0000-7000-8000-000000000001","group_id":"g",'
BOMBS = {
    "lists and objects": many(BEGINNING + b'"events":[', b"{}", b""),
    "values": many(BEGINNING + b'"events":[', b"1", b""),
    "names": BEGINNING + names_of(MANY),
}


@pytest.mark.parametrize("words", BOMBS)
def test_a_message_of_too_many_values_becomes_a_dead_letter_unparsed(words: str) -> None:
    body = BOMBS[words]
    (letter,) = open_messages([Taken(body, CONTENT_TYPE)], Signatures(Settings())).rejected
    assert words in letter.reason
    assert len(letter.body) <= KEPT_OF_TOO_LARGE
    ((_, reason),) = event_bodies.decode(body).rejected
    assert words in reason
    whole = body + (b"}" if words == "names" else b"]}")
    assert identity(whole.decode()) == (None, None)


GOOD, POISONOUS = b'{"events":[]}', b'{"events":[{}]}'


def test_a_message_of_which_three_intakes_died_is_put_aside_unread(
    database: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    from workers.intake import consumer

    opened: list[bytes] = []

    def opening(messages: list[Taken], _signatures: Signatures) -> Opened:
        if messages[0].body == POISONOUS:
            raise SystemExit(134)  # as much of a death as a test survives
        opened.append(messages[0].body)
        return Opened()

    monkeypatch.setattr(consumer, "open_messages", opening)
    batch = MessageBatch([Taken(body, CONTENT_TYPE) for body in (GOOD, POISONOUS, GOOD)], "", again=True)
    source: Any = SimpleNamespace(turn=lambda _batch, _shard: True)
    poisonous = {"reason": consumer.POISON, "body": POISONOUS.decode()}
    sql = "SELECT group_id FROM dead_letters WHERE reason = :reason AND body = :body"
    before = len(rows(sql, **poisonous))
    for _ in range(2):  # the first one died before
        with pytest.raises(SystemExit):
            consumer.Intake(get_settings())._store_again(source, batch)
    assert len(rows(sql, **poisonous)) == before
    assert consumer.Intake(get_settings())._store_again(source, batch)
    assert rows(sql, **poisonous) == [{"group_id": None}] * (before + 1), "nobody's: it is not believed"
    assert opened == [GOOD] * 4
    assert valkey().keys("jiyi:intake:attempts:*") == []


def test_a_message_that_is_no_task_is_not_quoted_in_a_worker_s_log(
    database: Stack, caplog: pytest.LogCaptureFixture
) -> None:
    from workers.worker_setup import Consumer

    class Message:
        body, headers, rejected = (
            b'"my lawyer is called Mara"',
            {"task": "no.such_task", "id": "1", "argsrepr": "Mara"},
            0,
        )

        def reject_log_error(self, *_: Any) -> None:
            self.rejected += 1

    consumer, message = Consumer.__new__(Consumer), Message()
    consumer.connection_errors = ()
    consumer.on_unknown_task(None, message, KeyError("Mara"))
    consumer.on_unknown_message(message.body, message)
    consumer.on_invalid_task(message.body, message, ValueError("Mara"))
    consumer.on_decode_error(message, ValueError("Mara"))
    assert message.rejected == 4
    assert "no.such_task" in caplog.text
    assert "Mara" not in caplog.text


def test_a_call_of_too_many_values_is_put_aside_before_it_is_parsed(
    database: Stack, caplog: pytest.LogCaptureFixture
) -> None:
    from workers.worker_setup import Consumer

    rejected: list[int] = []
    message = SimpleNamespace(
        body=many(b"[[", b"1", b"],{},{}]"), headers={}, reject_log_error=lambda *_: rejected.append(1)
    )
    consumer = Consumer.__new__(Consumer)
    consumer.connection_errors = ()
    consumer.bounded(lambda _: pytest.fail("it was handled"))(message)
    assert rejected == [1]
    assert "more than 100,000 values" in caplog.text
