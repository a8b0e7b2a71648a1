"""Items in a real database: upsert, filters, likeness, time, tenants, erasure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from pydantic import ValidationError
from sqlalchemy import text

from jiyi.protocol.base import Rows
from jiyi.protocol.items import GetItems, Item, ListNamespaces, PutItems, SearchItems
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.items import actions
from models.items.storage import EMBED_VALUES
from tests.integration.erasure.test_erasure import alone as alone  # noqa: PLC0414 - a fixture
from tests.integration.erasure.test_erasure import erase, places
from tests.integration.tiers.outputs import job, run, tasks

pytestmark = pytest.mark.usefixtures("database")


def put(group: str, namespace: list[str], key: str, value: dict[str, Any] | None, **fields: Any) -> None:
    item = {"namespace": namespace, "key": key, "value": value, **fields}
    actions.put_items.perform(Actor(group), PutItems.model_validate({"items": [item]}))


def get(group: str, namespace: list[str], key: str, **fields: Any) -> Any:
    request = GetItems.model_validate({"items": [{"namespace": namespace, "key": key, **fields}]})
    answer: Rows[Item | None] = actions.get_items.perform(Actor(group), request)
    return answer.rows[0]


def found(group: str, **asked: Any) -> list[Item]:
    answer: Rows[Item] = tasks("items").search(Actor(group), SearchItems(**asked))
    return answer.rows


def keys(group: str, **asked: Any) -> list[str]:
    return [item.key for item in found(group, **asked)]


def owed(group: str) -> int:
    with unit_of_work() as connection:
        return len(connection.execute(_OWED, {"group": group, "kind": EMBED_VALUES}).all())


def test_a_value_takes_the_place_of_what_was_there(group: str) -> None:
    put(group, ["a"], "k", {"n": 1, "nothing": None})
    first = get(group, ["a"], "k")
    put(group, ["a"], "k", {"n": 2})
    second = get(group, ["a"], "k")
    assert (first.value, second.value) == ({"n": 1, "nothing": None}, {"n": 2})
    assert (second.created_at, second.updated_at > first.updated_at) == (first.created_at, True)
    put(group, ["a"], "k", None)
    assert get(group, ["a"], "k") is None


@pytest.mark.usefixtures("nothing_owed")
def test_what_was_stored_is_found_at_once_and_embedded_by_whoever_comes_first(group: str) -> None:
    put(group, ["a"], "tea", {}, texts=["Mia drinks oolong tea."])
    put(group, ["a"], "kiln", {}, texts=["The kiln is fired on Fridays."])
    put(group, ["a"], "silent", {})
    assert owed(group) == 2
    assert keys(group, query="oolong tea") == ["tea", "kiln"]
    run(EMBED_VALUES, "items", "embed_values")
    assert owed(group) == 0
    put(group, ["a"], "tea", {}, texts=["The garden has a pond."])
    run(EMBED_VALUES, "items", "embed_values")
    assert keys(group, query="a pond in the garden")[0] == "tea"
    put(group, ["a"], "tea", {})
    assert keys(group, query="a pond in the garden") == ["kiln"]


def test_numbers_compare_as_numbers_and_what_is_not_there_fits_nothing(group: str) -> None:
    for key, value in (("nine", {"n": 9}), ("ten", {"n": 10}), ("text", {"n": "9"}), ("none", {"m": 1})):
        put(group, ["a"], key, value)
    assert set(keys(group, filter={"n": {"$gt": 9}})) == {"ten"}
    assert set(keys(group, filter={"n": {"$lte": 10}})) == {"nine", "ten"}
    assert set(keys(group, filter={"n": {"$ne": 9}})) == {"ten", "text"}
    assert set(keys(group, filter={"n": {"$gte": "8"}})) == {"text"}
    with pytest.raises(ValidationError, match=r"n: unknown operator '\$in': use \$eq"):
        SearchItems(filter={"n": {"$in": [1]}})


def test_time_begins_anew_with_an_access_and_then_the_item_is_gone(group: str) -> None:
    put(group, ["a"], "k", {}, ttl_minutes=10)
    put(group, ["a"], "kept", {})
    _age(group, minutes=9)
    assert get(group, ["a"], "k", refresh_ttl=False) is not None
    assert _minutes_left(group) < 2
    get(group, ["a"], "k")
    assert _minutes_left(group) > 9
    _age(group, minutes=9)
    assert keys(group) == ["kept", "k"]
    assert _minutes_left(group) > 9
    _age(group, minutes=11)
    assert get(group, ["a"], "k") is None
    assert keys(group) == ["kept"]
    assert job("expire_items", group) == {"expired": 1}
    assert get(group, ["a"], "kept") is not None


def test_another_group_has_items_of_its_own(group: str) -> None:
    other = f"{group}-other"
    put(group, ["a"], "k", {"whose": "ours"}, texts=["ours"])
    put(other, ["a"], "k", {"whose": "theirs"}, texts=["theirs"])
    assert get(group, ["a"], "k").value == {"whose": "ours"}
    assert [item.value for item in found(group, query="theirs")] == [{"whose": "ours"}]
    put(other, ["a"], "k", None)
    assert get(group, ["a"], "k") is not None
    assert actions.list_namespaces.perform(Actor(other), ListNamespaces()).rows == []


@pytest.mark.usefixtures("alone")
def test_erasure_takes_what_names_a_person_and_what_is_an_agents(group: str) -> None:
    name = f"Maria Quill{uuid4().hex[:8]}"
    put(
        group,
        ["notes"],
        "one",
        {"deep": [{"said": f"Ask {name} about the glaze."}]},
        texts=["Ask about the glaze."],
    )
    put(group, ["notes"], "two", {"said": "Nobody."}, texts=[f"{name} again"])
    put(group, ["notes"], "three", {"said": "Nobody."})
    erase(group, person=name)
    assert places(name, group=group) == []
    assert keys(group) == ["three", "two"]


NESTED: dict[str, Any] = {}
for _ in range(200):
    NESTED = {"in": NESTED}


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"value": NESTED}, "nested deeper than 50 levels"),
        ({"namespace": []}, "namespace"),
        ({"namespace": [""]}, "namespace"),
        ({"key": "k" * 501}, "key"),
        ({"value": {"n": float("nan")}}, "finite"),
        ({"value": {"text": "x" * 500_000}}, "larger than 500,000 bytes"),
        ({"value": {"nul": "\x00"}}, "NUL"),
        ({"ttl_minutes": 0}, "ttl_minutes"),
        ({"texts": ["x"] * 33}, "texts"),
    ],
)
def test_bad_input_is_refused(fields: dict[str, Any], wrong: str) -> None:
    with pytest.raises(ValidationError, match=wrong):
        PutItems.model_validate({"items": [{"namespace": ["a"], "key": "k", "value": {}, **fields}]})


def _age(group: str, minutes: float) -> None:
    with unit_of_work() as connection:
        connection.execute(_AGE, {"group": group, "by": timedelta(minutes=minutes)})


def _minutes_left(group: str) -> float:
    with unit_of_work() as connection:
        until = connection.execute(_UNTIL, {"group": group}).scalar_one()
    return float((until - datetime.now(UTC)).total_seconds() / 60)


_OWED = text("SELECT 1 FROM pending_work WHERE group_id = :group AND kind = :kind")
_AGE = text("UPDATE items SET expires_at = expires_at - :by WHERE group_id = :group")
_UNTIL = text("SELECT expires_at FROM items WHERE group_id = :group AND ttl_minutes IS NOT NULL")
