"""``JiyiStore`` beside LangGraph's own ``PostgresStore``, on the same server with the same embedder: case by
case the same answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

pytest.importorskip(
    "langgraph.store.postgres", reason="needs langgraph and langgraph-checkpoint-postgres (the extra `dev`)"
)

import psycopg
from flask import Flask
from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    Item,
    MatchCondition,
    PutOp,
    SearchOp,
)
from langgraph.store.base import ListNamespacesOp as ListOp
from langgraph.store.memory import InMemoryStore
from langgraph.store.postgres import PostgresStore

from engine.providers.embedders import embedder
from jiyi.errors import InvalidRequest
from jiyi.integrations.langgraph import JiyiStore
from jiyi.polling import poll
from tests.integration.client.test_ways import client_of
from workers.embedded.stack import Stack

Case = Callable[[BaseStore], Any]
CASES: dict[str, Case] = {}
DOCS = {
    "tea": {"text": "Mia drinks oolong tea in the afternoon", "n": 9, "tags": ["drink", "mia"], "ok": True},
    "kiln": {"text": "The kiln is fired on Fridays", "n": 10, "tags": [], "ok": False},
    "乌龙": {"text": "米娅下午喝乌龙茶", "n": 2.5, "deep": {"a": 1}, "nothing": None},
}


def case(function: Case) -> Case:
    CASES[function.__name__] = function
    return function


def told(found: Any) -> Any:
    """An answer without its times; scores as far as two databases agree."""
    if isinstance(found, list):
        return [told(one) for one in found]
    if isinstance(found, Item):
        score = getattr(found, "score", None)
        rounded = None if score is None else round(score, 4)
        return type(found).__name__, found.namespace, found.key, found.value, rounded
    return found


def filled(store: BaseStore) -> BaseStore:
    for key, value in DOCS.items():
        store.put(("docs",), key, value)
    store.put(("docs", "old"), "kiln", {"text": "The old kiln stands in the yard", "n": 1})
    store.put(("docsother",), "x", {"text": "Elsewhere"})
    return store


def raised(do: Callable[[], Any]) -> str:
    try:
        do()
    except (ValueError, TypeError) as error:
        return "ValueError" if isinstance(error, ValueError) else "TypeError"
    return "nothing"


@case
def what_is_put_is_got(store: BaseStore) -> Any:
    return [told(filled(store).get(("docs",), key)) for key in (*DOCS, "not there")]


@case
def a_put_replaces_the_whole_value(store: BaseStore) -> Any:
    store.put(("a",), "k", {"x": 1, "y": 2})
    before = store.get(("a",), "k")
    store.put(("a",), "k", {"x": 3})
    after = store.get(("a",), "k")
    assert before is not None
    assert after is not None
    return told(after), after.created_at == before.created_at, after.updated_at > before.updated_at


@case
def a_delete_and_a_put_of_nothing(store: BaseStore) -> Any:
    filled(store).delete(("docs",), "tea")
    store.delete(("docs",), "not there")
    return sorted(item.key for item in store.search(("docs",)))


@case
def the_newest_first_without_a_query_and_page_by_page(store: BaseStore) -> Any:
    filled(store)
    pages = [told(store.search((), limit=2, offset=offset)) for offset in (0, 2, 4, 6)]
    return told(store.search(("docs",))), pages


@case
def a_prefix_is_of_whole_labels(store: BaseStore) -> Any:
    filled(store)
    prefixes = [(), ("docs",), ("docs", "old"), ("doc",), ("docs_",)]
    return [told(store.search(prefix)) for prefix in prefixes]


@case
def equal_filters(store: BaseStore) -> Any:
    numbers: list[dict[str, Any]] = [{"n": 9}, {"n": 9.0}, {"n": "9"}, {"n": {"$ne": 10}}]
    values = [{"ok": True}, {"tags": ["drink", "mia"]}, {"nothing": None}, {"missing": None}]
    texts = [{"text": "米娅下午喝乌龙茶"}, {"it's": 'a "quoted" name; --'}]
    both = [{"n": {"$eq": 10}, "ok": False}, {"deep": {"$eq": {"a": 1}}}]
    filled(store)
    filters = [*numbers, *values, *texts, *both]
    return [[item.key for item in store.search(("docs",), filter=one)] for one in filters]


@case
def compared_filters(store: BaseStore) -> Any:
    for number in range(1, 8):
        store.put(("n",), f"k{number}", {"n": number, "word": f"w{number}"})
    numbers = [{"n": {"$gt": 3}}, {"n": {"$gte": 3, "$lt": 6}}, {"n": {"$lte": 2}}]
    words = [{"word": {"$gt": "w5"}}, {"word": {"$lt": "w2"}}]
    unknown = raised(lambda: store.search(("a",), filter={"n": {"$regex": "x"}}))
    return [[item.key for item in store.search(("n",), filter=one)] for one in (*numbers, *words)], unknown


@case
def the_most_similar_first(store: BaseStore) -> Any:
    filled(store)
    found = [told(store.search(("docs",), query=query)) for query in ("oolong tea for Mia", "the kiln")]
    return found, told(store.search(("docs",), query="乌龙茶")[:1])


@case
def a_query_with_a_filter_and_a_limit(store: BaseStore) -> Any:
    filled(store)
    return told(store.search(("docs",), query="kiln", filter={"n": {"$ne": 10}}, limit=2))


@case
def what_is_not_indexed_is_got_but_not_found(store: BaseStore) -> Any:
    store.put(("a",), "seen", {"text": "tea"})
    store.put(("a",), "hidden", {"text": "tea"}, index=False)
    found = told(store.search(("a",), query="tea"))
    return told(store.get(("a",), "hidden")), found, len(store.search(("a",)))


@case
def paths_of_an_index(store: BaseStore) -> Any:
    parts = [{"said": "oolong tea"}, {"said": "the kiln is hot"}]
    value = {"text": "nothing of this", "parts": parts, "meta": {"title": "Glaze"}}
    store.put(("a",), "parts", value, index=["parts[*].said"])
    store.put(("a",), "title", value, index=["meta.title"])
    return told(store.search(("a",), query="oolong tea")), told(store.search(("a",), query="Glaze"))


@case
def a_value_that_changed_is_found_as_it_is(store: BaseStore) -> Any:
    store.put(("a",), "one", {"text": "oolong tea"})
    store.put(("a",), "two", {"text": "a yellow glaze"})
    store.put(("a",), "one", {"text": "a red kiln"})
    return told(store.search(("a",), query="oolong tea")), told(store.search(("a",), query="a red kiln"))


@case
def namespaces(store: BaseStore) -> Any:
    users = [("users", "mia", "notes"), ("users", "mia", "plans"), ("users", "tom", "notes")]
    for place in [*users, ("docs",), ("用户", "米娅")]:
        store.put(place, "k", {})
    asked: list[dict[str, Any]] = [
        {"prefix": ("users",)},
        {"suffix": ("notes",)},
        {"prefix": ("users", "*", "notes")},
        {"prefix": ("users",), "max_depth": 2},
        {"prefix": ("users",), "limit": 1, "offset": 1},
        {"prefix": ("user",)},
        {"prefix": ("users",), "suffix": ("mia",)},
        {"prefix": ("用户",)},
    ]
    return sorted(store.list_namespaces()), [store.list_namespaces(**one) for one in asked]


@case
def a_batch_reads_before_it_writes(store: BaseStore) -> Any:
    store.put(("a",), "k", {"n": 1})
    ops = [
        PutOp(("a",), "k", {"n": 2}),
        GetOp(("a",), "k"),
        SearchOp(("a",)),
        PutOp(("a",), "k", {"n": 3}),
        PutOp(("b",), "gone", None),
        ListOp(match_conditions=(MatchCondition("prefix", ("a",)),)),
    ]
    return told(store.batch(ops)), told(store.get(("a",), "k")), store.batch([])


@case
def namespaces_that_are_refused(store: BaseStore) -> Any:
    places: list[Any] = [(), ("a.b",), ("",), ("langgraph",), ("a", 3)]
    return [raised(lambda place=place: store.put(place, "k", {})) for place in places]


@case
def odd_values(store: BaseStore) -> Any:
    names = {"": "empty name", "'; DROP TABLE items; --": 1, "emoji": "🍵", "list": [[], {}, None]}
    store.put(("a_b", "%"), "key with spaces / ü", {**names, "big": 10**15, "small": -1.5e-7})
    got = told(store.get(("a_b", "%"), "key with spaces / ü"))
    return got, told(store.search(("a_b",))), told(store.search(("aXb",)))


@case
def time_that_has_come(store: BaseStore) -> Any:
    store.put(("a",), "short", {"text": "tea"}, ttl=0.001)
    store.put(("a",), "long", {"text": "tea"}, ttl=60)
    short = lambda: store.get(("a",), "short", refresh_ttl=False)
    poll(lambda: short() is None, bool, 30)
    return told(short()), told(store.search(("a",), refresh_ttl=False)), store.list_namespaces()


@case
def the_same_without_waiting(store: BaseStore) -> Any:
    async def talk() -> Any:
        await store.aput(("a",), "k", {"text": "tea"}, ttl=5)
        found = await store.asearch(("a",), query="tea")
        one = await store.aget(("a",), "k")
        places = await store.alist_namespaces(prefix=("a",))
        await store.adelete(("a",), "k")
        return told(found), told(one), places, await store.aget(("a",), "k")

    return asyncio.run(talk())


# Both stores


def vectors(texts: list[str]) -> list[list[float]]:
    return [[float(number) for number in vector] for vector in embedder().passages(texts)]


pytestmark = pytest.mark.xdist_group("langgraph")  # one database of LangGraph's for all of them


@pytest.fixture(scope="module")
def address(database: Stack) -> Iterator[str]:
    """Of a database of its own beside the service's."""
    assert database.urls is not None
    url = database.urls.database_url.replace("+psycopg", "")
    name = f"langgraph_{uuid4().hex[:8]}"
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(f"CREATE DATABASE {name}".encode())
        own = psycopg.conninfo.make_conninfo(url, dbname=name)
        yield own
        owner.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture(scope="module")
def langgraphs(address: str) -> Iterator[PostgresStore]:
    index: Any = {"dims": len(vectors(["x"])[0]), "embed": vectors, "fields": ["text"]}
    with PostgresStore.from_conn_string(address, index=index, ttl={"omit_expired": True}) as store:
        store.setup()
        yield store


@pytest.fixture
def theirs(langgraphs: PostgresStore) -> PostgresStore:
    return emptied(langgraphs)


def emptied(store: PostgresStore) -> PostgresStore:
    store.conn.execute("TRUNCATE store CASCADE")
    return store


#: What is tried over HTTP, too: one of each kind of request and of value.
OVER_HTTP = (
    what_is_put_is_got,
    the_most_similar_first,
    a_batch_reads_before_it_writes,
    namespaces,
    odd_values,
    the_same_without_waiting,
)


@pytest.fixture(params=["broker"])
def ours(
    request: pytest.FixtureRequest, service: str, web_app: Flask, api_key: Callable[..., str]
) -> Iterator[JiyiStore]:
    with client_of(str(request.param), web_app, api_key, service, "publish", "read") as client:
        yield JiyiStore(client, fields=["text"])


@pytest.mark.parametrize("way", ["broker", "http"])
def test_the_store_does_what_langgraphs_does(
    way: str, service: str, web_app: Flask, api_key: Callable[..., str], langgraphs: PostgresStore
) -> None:
    different = []
    for name in CASES if way == "broker" else [one.__name__ for one in OVER_HTTP]:
        own = f"{service}-{name}"  # each begins with nothing
        with client_of(way, web_app, api_key, own, "publish", "read") as client:
            found = CASES[name](JiyiStore(client, fields=["text"]))
        if found != (expected := CASES[name](emptied(langgraphs))):
            different.append((name, found, expected))
    assert different == []


def test_numbers_are_compared_as_numbers_as_in_memory_and_an_old_text_finds_nothing(
    ours: JiyiStore, theirs: PostgresStore
) -> None:
    """Where LangGraph's own two stores do not agree, or what they do harms: what they say, and what we
    say.
    """
    memory = InMemoryStore()
    for store in (ours, theirs, memory):
        store.put(("n",), "nine", {"n": 9})
        store.put(("n",), "ten", {"n": 10})

    def above(store: BaseStore) -> list[str]:
        return [item.key for item in store.search(("n",), filter={"n": {"$gt": 9}})]

    assert (above(ours), above(memory), above(theirs)) == (["ten"], ["ten"], [])
    for store in (ours, theirs):
        store.put(("a",), "k", {"text": "oolong tea"})
        store.put(("a",), "k", {"text": "oolong tea"}, index=False)
    assert ours.search(("a",), query="oolong tea") == []
    assert len(theirs.search(("a",), query="oolong tea")) == 1  # by the vector of the value before


def test_a_default_time_counts_for_every_put(ours: JiyiStore) -> None:
    store = JiyiStore(ours.client, ttl={"default_ttl": 0.001, "refresh_on_read": False})
    store.put(("a",), "k", {})
    store.put(("a",), "kept", {}, ttl=None)
    poll(lambda: store.get(("a",), "k") is None, bool, 30)
    assert [item.key for item in store.search(("a",))] == ["kept"]


@pytest.mark.parametrize("ours", ["broker", "http"], indirect=True)
def test_what_is_wrong_is_said_with_its_field(ours: JiyiStore) -> None:
    without_fields = JiyiStore(ours.client, fields=None)  # ignores queries
    without_fields.put(("a",), "k", {"text": "tea"})
    assert told(without_fields.search(("a",), query="anything")) == [
        ("SearchItem", ("a",), "k", {"text": "tea"}, None)
    ]
    with pytest.raises(InvalidRequest, match=r"filter: n: unknown operator '\$regex': use \$eq, \$ne"):
        ours.search(("a",), filter={"n": {"$regex": "x"}})
    with pytest.raises(InvalidRequest, match="value"):
        ours.put(("a",), "k", {"it": object()})
    with pytest.raises(InvalidNamespaceError, match="cannot contain periods"):
        ours.batch([GetOp(("a.b",), "k")])
    with pytest.raises(TypeError, match=r"a list of paths, such as \['text'\]"):
        JiyiStore(ours.client, fields="text")


def test_a_graph_keeps_what_its_nodes_put(ours: JiyiStore) -> None:
    from langgraph.config import get_store
    from langgraph.graph import END, START, StateGraph

    def remember(state: dict[str, Any]) -> dict[str, Any]:
        store = get_store()
        known = [item.value["text"] for item in store.search(("users", "mia"), query=state["said"])]
        store.put(("users", "mia"), uuid4().hex, {"text": state["said"]})
        return {"said": state["said"], "known": known}

    graph: Any = StateGraph(dict)
    graph.add_node("remember", remember)
    graph.add_edge(START, "remember")
    graph.add_edge("remember", END)
    run = graph.compile(store=ours)
    run.invoke({"said": "I drink oolong tea"})
    assert run.invoke({"said": "What tea?"})["known"] == ["I drink oolong tea"]
