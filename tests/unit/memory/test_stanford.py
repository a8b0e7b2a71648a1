"""jiyi.cli.stanford: a tiny memory in the original's files, whole and broken."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jiyi.cli import stanford
from jiyi.cli.stanford import node_uuid
from jiyi.errors import InvalidRequest
from jiyi.protocol.events import AgentConfigured, MemoryObserved
from jiyi.protocol.limits import MAX_KEYWORDS
from jiyi.protocol.wire.vectors import to_array


def node(kind: str, text: str, **other: Any) -> dict[str, Any]:
    place = {"node_count": 1, "type_count": 1, "type": kind, "depth": 0}
    times = {"created": "2023-02-13 07:15:00", "expiration": None}
    triple = {"subject": "Ann", "predicate": "is", "object": "here"}
    texts = {"description": text, "embedding_key": text, "keywords": ["ann", "here"], "filling": []}
    return place | times | triple | texts | {"poignancy": 3} | other


def tiny() -> dict[str, Any]:
    """Newest first, as the original writes it."""
    rests = {"filling": ["node_1", "node_2"], "expiration": "2023-03-15 07:15:00"}
    return {
        "node_3": node("thought", "Ann likes it here", **rests),
        "node_2": node("chat", "Ann greets Bo", filling=[["Ann", "Hi"], ["Bo", "你好"]]),
        "node_1": node("event", "Ann (is here)", embedding_key="is here"),
    }


COUNTERS = {"importance_trigger_curr": 42, "importance_ele_n": 7}
SETTINGS = {"recency_w": 1, "relevance_w": 1, "importance_w": 1, "recency_decay": 0.995}
SETTINGS["importance_trigger_max"] = 150
WHO = {"name": "Ann Lee", "curr_time": "February 13, 2023, 08:00:00", "vision_r": 8}
SCRATCH = {**WHO, **SETTINGS, **COUNTERS}
VECTORS = {"is here": [1.0, 0.0], "Ann greets Bo": [0.0, 1.0]}

Save = Callable[..., Path]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """Write a memory as the original has it, or flat; a text is written as it is, None not at all."""

    def write(*, flat: bool = False, **files: Any) -> Path:
        folder = tmp_path / "ann"
        memory = folder if flat else folder / "bootstrap_memory" / "associative_memory"
        memory.mkdir(parents=True)
        contents = {"nodes": tiny(), "scratch": SCRATCH, "kw_strength": None, "embeddings": VECTORS} | files
        for name, content in contents.items():
            if content is not None:
                home = memory.parent if name == "scratch" and not flat else memory
                text = content if isinstance(content, str) else json.dumps(content)
                (home / f"{name}.json").write_text(text, encoding="utf-8")
        return folder

    return write


def memory_folder(folder: Path) -> Path:
    return next(folder.rglob("nodes.json")).parent


@pytest.mark.parametrize("flat", [True, False])
def test_both_layouts_are_read_in_the_order_of_numbers_not_of_letters(save: Save, *, flat: bool) -> None:
    nodes = {f"node_{k}": node("event", str(k)) for k in range(12, 0, -1)}
    folder = save(flat=flat, kw_strength={"kw_strength_event": {"ann": 2}}, nodes=nodes)
    memory = stanford.read(folder)
    assert memory.persona == "Ann Lee"
    assert [each["node_id"] for each in memory.nodes] == [f"node_{k}" for k in range(1, 13)]
    assert memory.now == datetime(2023, 2, 13, 8, 0, tzinfo=UTC)
    assert memory.kw_strength == {"kw_strength_event": {"ann": 2}}
    assert memory.vectors == VECTORS
    assert stanford.read(memory_folder(folder)).nodes == memory.nodes  # the inner folder may be named, too


def test_only_the_nodes_are_necessary(save: Save) -> None:
    memory = stanford.read(save(scratch=None, embeddings=None))
    assert memory.persona == "ann"
    assert (memory.now, memory.scratch, memory.kw_strength, memory.vectors) == (None, {}, {}, {})
    events = stanford.events(memory, "g", "ann")
    assert [type(event) for event in events] == [MemoryObserved] * 3
    assert all(event.payload.vector is None for event in events)


def events_in(folder: Path, **options: Any) -> list[Any]:
    return list(stanford.events(stanford.read(folder), "g", "ann", **options))


def test_15_a_memory_may_have_no_nodes_and_negative_weights_and_half_the_counters_are_none(
    save: Save,
) -> None:
    scratch = {"name": "Ann", "importance_trigger_curr": 5, "recency_w": -2}
    [last] = events_in(save(nodes={}, scratch=scratch))
    assert isinstance(last, AgentConfigured)
    assert (last.payload.counters, last.payload.recency_w) == (None, -2)


def test_vectors_are_read_from_npz_as_well(save: Save) -> None:
    folder = save(embeddings=None)
    vectors = {"keys": np.array(["is here"]), "vectors": np.array([[3.0, 4.0]])}
    np.savez(memory_folder(folder) / "embeddings.npz", **vectors)
    first = events_in(folder, embedding_model="mine")[0]
    assert to_array(first.payload.vector).tolist() == [3, 4]
    assert first.payload.embedding_model == "mine"


def test_nodes_become_events_in_their_order_with_the_settings_last(save: Save) -> None:
    first, second, third, last = events_in(save())
    for event in (first, second, third):
        assert isinstance(event, MemoryObserved)
        assert (event.group_id, event.agent_id) == ("g", "ann")
        assert event.occurred_at == datetime(2023, 2, 13, 7, 15, tzinfo=UTC)
        made = event.payload
        assert (made.historic, made.poignancy, made.keywords) == (True, 3, ["ann", "here"])
        assert (made.subject, made.predicate, made.object) == ("Ann", "is", "here")
    made = first.payload
    assert (made.node_type, made.description, made.embedding_key) == ("event", "Ann (is here)", "is here")
    assert to_array(made.vector).tolist() == [1, 0]
    assert made.embedding_model == stanford.ORIGINAL_MODEL
    assert made.provenance == {"source": "stanford", "node_id": "node_1"}
    assert isinstance(last, AgentConfigured)
    assert last.payload.model_dump(exclude_unset=True) == {**SETTINGS, "counters": COUNTERS}


def test_a_chats_filling_becomes_utterances_and_a_thoughts_evidence(save: Save) -> None:
    _, chat, thought, _ = (event.payload for event in events_in(save()))
    assert chat.node_type == "chat"
    assert (chat.utterances, chat.evidence, chat.expires_at) == ([("Ann", "Hi"), ("Bo", "你好")], [], None)
    assert thought.evidence == [node_uuid("g", "ann", "node_1"), node_uuid("g", "ann", "node_2")]
    assert (thought.utterances, thought.expires_at) == ([], datetime(2023, 3, 15, 7, 15, tzinfo=UTC))
    assert thought.vector is None  # none was saved for its key


@pytest.mark.parametrize(("filling", "kept"), [("node_1", {"filling": "node_1"}), (None, {})])
def test_another_filling_is_nothing_and_a_string_is_kept_as_provenance(
    filling: str | None, kept: dict[str, str], save: Save
) -> None:
    nodes = {"node_1": node("thought", "this is blank", filling=filling)}
    thought = events_in(save(nodes=nodes))[0].payload
    assert thought.evidence == thought.utterances == []
    assert thought.provenance == {"source": "stanford", "node_id": "node_1"} | kept


def test_ids_are_the_same_each_time_and_differ_between_agents_and_groups(save: Save) -> None:
    memory = stanford.read(save())
    once, again = stanford.events(memory, "g", "ann"), stanford.events(memory, "g", "ann")
    assert [event.event_id for event in once] == [event.event_id for event in again]
    assert len({event.event_id for event in once}) == 4
    others = stanford.events(memory, "g", "bo") + stanford.events(memory, "h", "ann")
    assert not {event.event_id for event in once} & {event.event_id for event in others}
    assert once[0].event_id == node_uuid("g", "ann", "node_1")


def imported(folder: Path) -> tuple[list[Any], list[str]]:
    """The observations, and what was left out."""
    observed = [event for event in events_in(folder) if isinstance(event, MemoryObserved)]
    return observed, stanford.left_out(stanford.read(folder))


#: More keywords than a memory keeps.
MANY = [f"k{number}" for number in range(MAX_KEYWORDS + 1)]
NO_POIGNANCY = {"poignancy": None, "historic": True}  # historic, so that no model is asked for it


@pytest.mark.parametrize(
    ("fields", "kept", "told"),
    [
        ({}, {"keywords": ["ann", "here"], "poignancy": 3}, []),
        ({"keywords": ["", "ann", ""]}, {"keywords": ["ann"]}, ["an empty keyword"]),
        ({"keywords": [""]}, {"keywords": []}, ["an empty keyword"]),
        ({"keywords": ["b" * 201, *MANY]}, {"keywords": MANY[:-1]}, ["201 characters", "1 of 65 keywords"]),
        ({"object": "y" * 501}, {"object": None}, ["the object, 501 characters are more than 500"]),
        *(
            (
                {"poignancy": value},
                NO_POIGNANCY,
                [f"the poignancy {value}, which is not between 1 and 10: it"],
            )
            for value in (-3, 10.5)
        ),
    ],
)
def test_15_what_cannot_be_kept_is_left_out_and_told(
    fields: dict[str, Any], kept: dict[str, Any], told: list[str], save: Save
) -> None:
    (event,), left_out = imported(save(nodes={"node_1": node("event", "x", **fields)}))
    assert {name: getattr(event.payload, name) for name in kept} == kept
    assert len(left_out) == len(told)
    for sentence, words in zip(left_out, told, strict=True):
        assert sentence.startswith("node_1: ")
        assert words in sentence


def test_15_a_thought_of_no_words_is_left_out_with_what_rests_on_it(save: Save) -> None:
    nodes = tiny() | {"node_2": node("thought", " ", filling=["node_1"])}
    events, left_out = imported(save(nodes=nodes))
    first, third = (node_uuid("g", "ann", one) for one in ("node_1", "node_3"))
    assert [event.event_id for event in events] == [first, third]
    assert events[1].payload.evidence == [first]
    assert left_out == ["node_2: the whole node, its description is empty"]


def test_15_an_empty_key_gives_way_to_the_description_and_keeps_its_vector(save: Save) -> None:
    nodes = {"node_1": node("event", "x", embedding_key="")}
    (event, *_), left_out = imported(save(nodes=nodes, embeddings={"": [0.0, 1.0]}))
    assert event.payload.embedding_key is None
    assert to_array(event.payload.vector).tolist() == [0, 1]
    assert left_out == []


def refusal(folder: Path) -> str:
    with pytest.raises(InvalidRequest) as caught:
        events_in(folder)
    (problem,) = caught.value.problems
    return problem


def test_a_folder_without_nodes_is_no_memory(tmp_path: Path) -> None:
    assert refusal(tmp_path).startswith(f"{tmp_path}: no Stanford memory")
    assert "nodes.json" in refusal(tmp_path / "nowhere")


@pytest.mark.parametrize("content", [b"no zip at all", b"", b"PK\x03\x04 and no more", None])
def test_broken_npz_vectors_are_named(content: bytes | None, save: Save) -> None:
    folder = save(embeddings=None)
    file = memory_folder(folder) / "embeddings.npz"
    if content is None:
        np.savez(file, vectors=np.ones((1, 2)))  # without their keys
    else:
        file.write_bytes(content)
    assert "embeddings.npz: " in refusal(folder)


def with_field(field: str, value: Any = None) -> dict[str, Any]:
    """A memory whose second node has this in a field, or has no such field."""
    nodes = tiny()
    nodes["node_2"] = {name: kept for name, kept in nodes["node_2"].items() if name != field}
    return {"nodes": nodes if value is None else nodes | {"node_2": nodes["node_2"] | {field: value}}}


IDS = {"node_1 node_3": "gap", "node_2": "gap", "node_0 node_1": "'node_0' is no node id"}
IDS |= {one: f"'{one}' is no node id" for one in ("1", "node_01")}
FILES = "nodes", "scratch", "kw_strength", "embeddings"
NO_JSON = {"{": "cannot be read as JSON", "[1]": "must hold a JSON object"}
NECESSARY = "type created description embedding_key poignancy keywords subject".split()


@pytest.mark.parametrize(
    ("files", "where", "words"),
    [
        *(
            ({"nodes": {one: node("event", "x") for one in ids.split()}}, "nodes.json: ", words)
            for ids, words in IDS.items()
        ),
        *(({name: text}, f"{name}.json: ", words) for name in FILES for text, words in NO_JSON.items()),
        ({"nodes": tiny() | {"node_2": "gone"}}, "node_2", ""),
        ({"embeddings": {"is here": [0, 0]}}, "node_1: payload.vector: ", ""),
        ({"scratch": SCRATCH | {"recency_decay": 2}}, "scratch.json: payload.recency_decay: ", ""),
        (with_field("type", "dream"), "node_2: ", "node_type"),
        *((with_field(name, "ann"), "node_2: ", name) for name in ("poignancy", "keywords")),
        *((with_field(name, "later"), "node_2: ", "later") for name in ("created", "expiration")),
        (with_field("created", 5), "node_2: ", ""),
        *((with_field("filling", filling), "node_2: ", "utterances") for filling in ([["Ann"]], [5])),
        *((with_field(name), "node_2: ", f"'{name}'") for name in NECESSARY),
    ],
)
def test_what_is_broken_is_named_by_its_place(
    files: dict[str, Any], where: str, words: str, save: Save
) -> None:
    problem = refusal(save(**files))
    assert where in problem
    assert words in problem
