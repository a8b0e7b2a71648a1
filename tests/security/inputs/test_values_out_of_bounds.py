"""Values that no column, index or file system holds: the one who sends them is told so, and learns nothing of
the server.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from pydantic import BaseModel
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from jiyi.errors import InvalidRequest, JiyiError
from jiyi.protocol import base
from jiyi.protocol.base import encode_cursor
from jiyi.protocol.wire.calls import open_reply
from jiyi.settings import get_settings
from models.actions import ACTIONS
from models.db.connection import unit_of_work
from models.db.errors import refused_value
from models.db.scope import Scope, within
from models.stores import saved_files as storefiles
from tests.integration.actions.calling import called, service
from tests.integration.memory.test_inbox import observed, save
from tests.integration.programs import Program
from tests.integration.stores.cases import SAY
from web.api import running

#: Beyond PostgreSQL's integer, its bigint, and whatever a driver writes as a number.
NUMBERS = (2**31, 2**63, 10**40)
TEXTS = ("a\x00b", "\ud800", "\u3300" * 200, "語" * 20_000)
#: What the service's own sentences must not contain: where it keeps what.
PRIVATE = ("/home", "/tmp", "/var", "SELECT", "psycopg", "sqlalchemy")
#: Answers that do not blame the request.
OURS = {"service_error", "database_unavailable", "broker_unavailable", "error"}


def refused(answer: Any) -> None:
    """A bad request is told so, without a path of the server or a statement."""
    assert answer.status_code == 422, answer.text
    words = [*PRIVATE, str(get_settings().home)]
    assert [word for word in words if word in json.dumps({**answer.json, "instance": ""})] == []


@pytest.fixture
def agent(database: object, group: str) -> str:
    save(observed(group, "the kiln is hot", "klaus"))
    return "klaus"


# Cursors


def forged_cursors(length: int) -> Iterator[str]:
    """Cursors with numbers where a list has its place; those of other forms are refused as of another
    list.
    """
    for number in (*NUMBERS, -(2**63) - 1):
        yield encode_cursor([number] * length if length > 1 else number)
        yield encode_cursor([number, *["a"] * (length - 1)])


LISTS = (
    "/nodes?agent_id=klaus /nodes?agent_id=klaus&archived=true /nodes /keywords?agent_id=klaus /agents"
    " /reflections /memory/digests /knowledge /dead-letters"
)


@pytest.mark.usefixtures("agent")
def test_a_cursor_beyond_what_is_counted_is_of_no_list(api: Program) -> None:
    cursors = [one for length in (1, 2, 3) for one in forged_cursors(length)]
    for path in LISTS.split():
        address, _, query = path.partition("?")
        for one in cursors:
            refused(api.ask("GET", address, query_string=f"{query}&cursor={one}"))


# Names and texts


def test_a_session_with_a_name_that_it_cannot_have_is_not_ended(api: Program, agent: str) -> None:
    for name in ("s" * 201, "語" * 201, "%00", "%20", "㌀" * 250):
        answer = api.ask("POST", f"/sessions/{name}/end", json={"agent_id": agent})
        assert answer.status_code in {404, 422}, answer.text
        assert not any(word in answer.json["detail"] for word in PRIVATE)


def test_the_longest_names_become_too_long_for_an_index_only_in_words_that_say_so(api: Program) -> None:
    """Compatibility characters grow when they are normalised; those of the agent do not, and share the
    index's row.
    """
    some = random.Random(20260302)
    agent_id = "".join(chr(some.randrange(0x20000, 0x2A6DF)) for _ in range(200))
    word = "".join(chr(some.randrange(0x3300, 0x3358)) for _ in range(200))
    words = dict.fromkeys(("subject", "predicate", "object", "session_id"), word)
    body = {"agent_id": agent_id, "description": "the kiln is hot", "keywords": [word], **words}
    answer = api.ask("POST", "/events", json=body)
    if answer.status_code != 202:
        refused(answer)


def test_a_stage_that_is_no_text_is_refused(api: Program) -> None:
    for stages in ([{}], [["pre"]], [None], {"pre": 1}, 7, [["pre"], "gen"]):
        nodes = [{"id": "writer", "memories": [{"name": "notes", "retrieve_stage": stages}]}]
        refused(api.ask("POST", "/stores/apply", json={**_declared("simple"), "nodes": nodes}))


# Files


@pytest.mark.parametrize("kind", ["simple", "blackboard"])
def test_a_group_with_a_long_name_keeps_its_stores(program: Callable[..., Program], kind: str) -> None:
    long_group = "语" * 100 + uuid4().hex
    asked = program(long_group)
    asked.post("/stores/apply", _declared(kind, "notes.json"), 200)
    asked.post("/stores/update", SAY, 200)
    assert asked.post("/stores/save", {"name": "notes"}, 200)["items"] == 1
    with within(Scope((long_group,))):
        assert storefiles.storage_path(long_group, "notes.json", "memory_path").is_file()


def test_a_file_s_name_that_is_too_long_or_elsewhere_is_refused_without_a_path_of_the_server(
    api: Program,
) -> None:
    long = f"{'n' * 300}.json", f"{'語' * 90}.json", f"{'d' * 300}/notes.json"
    for path in (*long, "../" * 300 + "notes.json", "/etc/x.json"):
        answer = api.ask("POST", "/stores/apply", json=_declared("simple", path))
        assert answer.status_code == 422, answer.text
        assert str(get_settings().home) not in answer.text


def _declared(kind: str, path: str = "") -> dict[str, Any]:
    config = {"config": {"memory_path": path}} if path else {}
    return {"graph": "pottery", "memory": [{"name": "notes", "type": kind, **config}], "nodes": []}


# What no model refuses is refused by the database

WRONG_STATEMENTS = {
    "SELECT CAST(:value AS bigint)": 2**63,
    "SELECT CAST(:value AS integer)": 2**31,
    "SELECT CAST(:value AS smallint)": -(2**40),
    "SELECT CAST(:value AS text)": "a\x00b",
    "SELECT CAST(:value AS varchar)": "\ud800",
    "SELECT CAST(:value AS timestamptz)": "no time",
    "SELECT timestamptz '2026-03-02' + CAST(:value AS interval)": "400000 years",
    "SELECT CAST(:value AS uuid)": "klaus",
    "SELECT chr(CAST(:value AS integer))": 2**30,
}


@pytest.mark.usefixtures("database")
def test_a_value_that_the_database_refuses_is_the_request_s_fault() -> None:
    for statement, value in WRONG_STATEMENTS.items():
        with pytest.raises((DBAPIError, UnicodeEncodeError)) as caught, unit_of_work() as connection:
            connection.execute(text(statement), {"value": value})
        told = refused_value(caught.value)
        assert told is not None, statement
        assert not any(word in str(told) for word in (*PRIVATE, str(value))), statement


@pytest.mark.usefixtures("database")
def test_a_statement_that_is_wrong_is_not() -> None:
    for statement in ("SELECT 1 / 0", "SELECT nothing", "SELECT FROM nowhere"):
        with pytest.raises(DBAPIError) as caught, unit_of_work() as connection:
            connection.execute(text(statement))
        assert refused_value(caught.value) is None, statement


def test_a_row_that_is_too_long_for_an_index_is(database: object) -> None:
    long = "".join(chr(random.Random(one).randrange(0x4E00, 0x9FFF)) for one in range(8_000))
    with pytest.raises(DBAPIError) as caught, unit_of_work() as connection:
        connection.execute(text("CREATE TEMPORARY TABLE of_texts (one text PRIMARY KEY) ON COMMIT DROP"))
        connection.execute(text("INSERT INTO of_texts VALUES (:one)"), {"one": long})
    assert "too long to be looked up" in str(refused_value(caught.value))


@pytest.mark.usefixtures("agent")
def test_through_both_doors_it_is_refused_in_words(
    api: Program, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the first looks at texts taken away: NUL comes as far as the database."""
    monkeypatch.setattr(running, "unstorable", lambda _value: iter(()))
    monkeypatch.setattr(base, "unstorable_texts", lambda _model, exclude=None: [])
    answer = api.ask("GET", "/keywords?agent_id=a%00b")
    refused(answer)
    with pytest.raises(InvalidRequest):
        open_reply(called("rpc.memory.keywords", {"group_id": group, "agent_id": "a\x00b"}, service()))


# Over the broker


def values(schema: dict[str, Any], known: dict[str, Any]) -> Any:
    """The least value that a JSON schema allows, or something like it."""
    if "$ref" in schema:
        return values(known[schema["$ref"].rpartition("/")[2]], known)
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return values(schema[several][0], known)
    if "const" in schema or "enum" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    match schema.get("type"):
        case "object":
            return {name: values(schema["properties"][name], known) for name in schema.get("required", ())}
        case "array":
            return (
                [values(schema["items"], known)] * max(1, schema.get("minItems", 1))
                if "items" in schema
                else []
            )
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return True
        case "string":
            formats = {"uuid": str(uuid4()), "date-time": "2026-03-02T08:00:00Z"}
            return formats.get(schema.get("format", ""), "klaus")
        case _:
            return None


def is_of(schema: dict[str, Any], kind: str) -> bool:
    return any(one.get("type") == kind and "format" not in one for one in (schema, *schema.get("anyOf", ())))


def hostile(model: type[BaseModel], kind: str, wrong: tuple[Any, ...]) -> Iterator[dict[str, Any]]:
    """Requests in each of which one field is wrong."""
    schema = model.model_json_schema()
    known = schema.get("$defs", {})
    least = values(schema, known)
    for name, field in schema.get("properties", {}).items():
        if is_of(field, kind):
            yield from ({**least, name: one} for one in wrong)


def blamed_on_the_service(task: str, request: dict[str, Any]) -> str:
    """What is wrong with the answer, if it blames the service or tells where it runs."""
    try:
        open_reply(called(task, request, service()))
    except JiyiError as error:
        said = str(error)
        if error.code in OURS or any(word in said for word in PRIVATE):
            return f"{task} {ascii(request)[:300]}: {type(error).__name__}: {said[:300]}"
    return ""


@pytest.mark.usefixtures("agent")
def test_no_action_blames_the_service_for_a_number_that_is_too_large_and_no_read_for_a_text(
    group: str,
) -> None:
    wrong = []
    for name, action in sorted(ACTIONS.items()):
        if action.function is not None:
            asked = [
                *hostile(action.request, "integer", NUMBERS),
                *(() if action.mutates else hostile(action.request, "string", TEXTS)),
            ]
            wrong += [
                blamed_on_the_service(f"rpc.{name}", {"group_id": group, **request}) for request in asked
            ]
    assert len(wrong) > len(ACTIONS)
    assert [said for said in wrong if said] == []


@pytest.mark.usefixtures("agent")
def test_a_search_for_nothing_or_too_much_is_refused(group: str) -> None:
    searches = {"resources.find": {"scope": "agent://klaus/"}, "conversations.search": {"agent_id": "klaus"}}
    for command, where in searches.items():
        for query in ("", "  \n", "\u3000", "\ufdfa" * 8_000, "a\x00b"):
            with pytest.raises(JiyiError) as caught:
                open_reply(called(f"rpc.{command}", {"group_id": group, "query": query, **where}, service()))
            assert caught.value.code == "invalid_request"
            assert str(caught.value).startswith("query: ") or "NUL" in str(caught.value)
