"""jiyi.cli.memory.stanford: a tiny memory in the original's files, whole and broken."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jiyi.cli.memory import stanford
from jiyi.cli.memory.stanford import node_uuid
from jiyi.errors import InvalidRequest
from jiyi.protocol import limits
from jiyi.protocol.events import AgentConfigured, MemoryObserved
from jiyi.protocol.wire.vectors import to_array


def node(kind: str, text: str, **other: Any) -> dict[str, Any]:
    return {
        "node_count": 1,
        "type_count": 1,
        "type": kind,
        "depth": 0,
        "created": "2023-02-13 07:15:00",
        "expiration": None,
        "subject": "Ann",
        "predicate": "is",
        "object": "here",
        "description": text,
        "embedding_key": text,
        "poignancy": 3,
        "keywords": ["ann", "here"],
        "filling": [],
    } | other


def tiny() -> dict[str, Any]:
    """Newest first, as the original writes it."""
    return {
        "node_3": node("thought", "Ann likes it here", filling=["node_1", "node_2"], expiration="2023-03-15 07:15:00"),
        "node_2": node("chat", "Ann greets Bo", filling=[["Ann", "Hi"], ["Bo", "你好"]]),
        "node_1": node("event", "Ann (is here)", embedding_key="is here"),
    }


SCRATCH = {
    "name": "Ann Lee",
    "curr_time": "February 13, 2023, 08:00:00",
    "recency_w": 1,
    "relevance_w": 1,
    "importance_w": 1,
    "recency_decay": 0.995,
    "importance_trigger_max": 150,
    "importance_trigger_curr": 42,
    "importance_ele_n": 7,
    "vision_r": 8,
}
VECTORS = {"is here": [1.0, 0.0], "Ann greets Bo": [0.0, 1.0]}

Save = Callable[..., Path]


@pytest.fixture(params=["flat", "original"])
def layout(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def save(tmp_path: Path, layout: str) -> Save:
    """Write a memory in one of the two layouts; text and bytes are written as they are, None not at all."""

    def write(**files: Any) -> Path:
        folder = tmp_path / "ann"
        memory = folder if layout == "flat" else folder / "bootstrap_memory" / "associative_memory"
        memory.mkdir(parents=True)
        contents = {"nodes": tiny(), "scratch": SCRATCH, "kw_strength": None, "embeddings": VECTORS} | files
        for name, content in contents.items():
            if content is not None:
                home = memory.parent if name == "scratch" and layout == "original" else memory
                text = content if isinstance(content, str) else json.dumps(content)
                (home / f"{name}.json").write_text(text, encoding="utf-8")
        return folder

    return write


def memory_folder(folder: Path) -> Path:
    return next(folder.rglob("nodes.json")).parent


def test_both_layouts_are_read(save: Save) -> None:
    memory = stanford.read(save(kw_strength={"kw_strength_event": {"ann": 2}}))
    assert memory.persona == "Ann Lee"
    assert [each["node_id"] for each in memory.nodes] == ["node_1", "node_2", "node_3"]
    assert memory.now == datetime(2023, 2, 13, 8, 0, tzinfo=UTC)
    assert memory.kw_strength == {"kw_strength_event": {"ann": 2}}
    assert memory.vectors == VECTORS


def test_the_inner_folder_may_be_named_too(save: Save) -> None:
    assert len(stanford.read(memory_folder(save())).nodes) == 3


def test_only_the_nodes_are_necessary(save: Save) -> None:
    memory = stanford.read(save(scratch=None, embeddings=None))
    assert memory.persona == "ann"
    assert (memory.now, memory.scratch, memory.kw_strength, memory.vectors) == (None, {}, {}, {})
    events = stanford.events(memory, "g", "ann")
    assert [type(event) for event in events] == [MemoryObserved] * 3
    assert all(event.payload.vector is None for event in events)


def test_ids_are_in_the_order_of_numbers_not_of_letters(save: Save) -> None:
    memory = stanford.read(save(nodes={f"node_{k}": node("event", str(k)) for k in range(12, 0, -1)}))
    assert [each["description"] for each in memory.nodes] == [str(k) for k in range(1, 13)]


def test_an_empty_memory_is_a_memory(save: Save) -> None:
    memory = stanford.read(save(nodes={}))
    assert memory.nodes == []
    assert [type(event) for event in stanford.events(memory, "g", "ann")] == [AgentConfigured]


def test_vectors_are_read_from_npz_as_well(save: Save) -> None:
    folder = save(embeddings=None)
    np.savez(memory_folder(folder) / "embeddings.npz", keys=np.array(["is here"]), vectors=np.array([[3.0, 4.0]]))
    first = stanford.events(stanford.read(folder), "g", "ann")[0]
    assert to_array(first.payload.vector).tolist() == [3, 4]


def test_nodes_become_events_in_their_order_with_the_settings_last(save: Save) -> None:
    first, second, third, last = stanford.events(stanford.read(save()), "g", "ann")
    for event in (first, second, third):
        assert isinstance(event, MemoryObserved)
        assert (event.group_id, event.agent_id) == ("g", "ann")
        assert event.occurred_at == datetime(2023, 2, 13, 7, 15, tzinfo=UTC)
        assert event.payload.historic
        assert event.payload.poignancy == 3
        assert event.payload.keywords == ["ann", "here"]
        assert (event.payload.subject, event.payload.predicate, event.payload.object) == ("Ann", "is", "here")
    assert (first.payload.node_type, first.payload.description, first.payload.embedding_key) == ("event", "Ann (is here)", "is here")
    assert to_array(first.payload.vector).tolist() == [1, 0]
    assert first.payload.embedding_model == stanford.ORIGINAL_MODEL
    assert first.payload.provenance == {"source": "stanford", "node_id": "node_1"}
    assert isinstance(last, AgentConfigured)
    assert last.payload.model_dump(exclude_unset=True) == {
        "recency_w": 1,
        "relevance_w": 1,
        "importance_w": 1,
        "recency_decay": 0.995,
        "importance_trigger_max": 150,
        "counters": {"importance_trigger_curr": 42, "importance_ele_n": 7},
    }


def test_a_chats_filling_becomes_utterances(save: Save) -> None:
    chat = stanford.events(stanford.read(save()), "g", "ann")[1].payload
    assert chat.node_type == "chat"
    assert chat.utterances == [("Ann", "Hi"), ("Bo", "你好")]
    assert chat.evidence == []
    assert chat.expires_at is None


def test_a_thoughts_filling_becomes_evidence(save: Save) -> None:
    thought = stanford.events(stanford.read(save()), "g", "ann")[2].payload
    assert thought.evidence == [node_uuid("g", "ann", "node_1"), node_uuid("g", "ann", "node_2")]
    assert thought.utterances == []
    assert thought.expires_at == datetime(2023, 3, 15, 7, 15, tzinfo=UTC)
    assert thought.vector is None  # none was saved for its key


def test_a_filling_that_is_a_string_is_kept_as_provenance(save: Save) -> None:
    nodes = tiny() | {"node_3": node("thought", "this is blank", filling="node_1")}
    thought = stanford.events(stanford.read(save(nodes=nodes)), "g", "ann")[2].payload
    assert thought.evidence == []
    assert thought.provenance == {"source": "stanford", "node_id": "node_3", "filling": "node_1"}


@pytest.mark.parametrize("kind", ["event", "thought", "chat"])
def test_a_filling_of_none_is_nothing(kind: str, save: Save) -> None:
    (event, _) = stanford.events(stanford.read(save(nodes={"node_1": node(kind, "x", filling=None)})), "g", "ann")
    assert event.payload.evidence == event.payload.utterances == []


def test_half_the_counters_are_no_counters(save: Save) -> None:
    scratch = {"name": "Ann", "importance_trigger_curr": 5, "recency_w": 2}
    last = stanford.events(stanford.read(save(scratch=scratch)), "g", "ann")[-1]
    assert last.payload.counters is None
    assert last.payload.recency_w == 2


def test_ids_are_the_same_each_time_and_differ_between_agents_and_groups(save: Save) -> None:
    memory = stanford.read(save())
    once, again = stanford.events(memory, "g", "ann"), stanford.events(memory, "g", "ann")
    assert [event.event_id for event in once] == [event.event_id for event in again]
    assert len({event.event_id for event in once}) == 4
    others = stanford.events(memory, "g", "bo") + stanford.events(memory, "h", "ann")
    assert not {event.event_id for event in once} & {event.event_id for event in others}
    assert once[0].event_id == node_uuid("g", "ann", "node_1")


def test_another_model_may_have_made_the_vectors(save: Save) -> None:
    first = stanford.events(stanford.read(save()), "g", "ann", embedding_model="mine")[0]
    assert first.payload.embedding_model == "mine"


# What the original writes and Jiyi cannot keep


def imported(folder: Path) -> tuple[list[Any], list[str]]:
    """The observations, and what was left out."""
    memory = stanford.read(folder)
    events = stanford.events(memory, "g", "ann")
    return [event for event in events if isinstance(event, MemoryObserved)], stanford.left_out(memory)


def test_15_an_ordinary_memory_loses_nothing(save: Save) -> None:
    assert imported(save())[1] == []


def test_15_an_empty_keyword_is_left_out_and_told(save: Save) -> None:
    nodes = tiny() | {"node_2": node("chat", "Ann greets Bo", keywords=["", "ann", ""], filling=[])}
    events, left_out = imported(save(nodes=nodes))
    assert len(events) == 3
    assert events[1].payload.keywords == ["ann"]
    assert left_out == ["node_2: an empty keyword"]


def test_15_a_node_with_an_empty_keyword_only_has_none(save: Save) -> None:
    (event,), left_out = imported(save(nodes={"node_1": node("event", "x", keywords=[""])}))
    assert (event.payload.keywords, len(left_out)) == ([], 1)


def test_15_keywords_beyond_the_limits_are_left_out_and_told(save: Save, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_KEYWORDS", 3)
    (event,), left_out = imported(save(nodes={"node_1": node("event", "x", keywords=["a", "b" * 201, "c", "d", "e"])}))
    assert event.payload.keywords == ["a", "c", "d"]
    assert [sentence.partition(":")[0] for sentence in left_out] == ["node_1", "node_1"]
    assert "201 characters" in left_out[0]
    assert "1 of 4 keywords" in left_out[1]


@pytest.mark.parametrize("poignancy", [0, -3, 11, 10.5])
def test_15_an_importance_off_the_scale_is_left_out_and_told(poignancy: float, save: Save) -> None:
    (event,), left_out = imported(save(nodes={"node_1": node("event", "x", poignancy=poignancy)}))
    assert event.payload.poignancy is None
    assert event.payload.historic  # so that no model is asked for it
    assert left_out == [f"node_1: the poignancy {poignancy:g}, which is not between 1 and 10: it counts as 0"]


def test_15_a_thought_of_no_words_is_left_out_with_what_rests_on_it(save: Save) -> None:
    nodes = tiny() | {"node_2": node("thought", " ", filling=["node_1"])}
    events, left_out = imported(save(nodes=nodes))
    assert [event.event_id for event in events] == [node_uuid("g", "ann", "node_1"), node_uuid("g", "ann", "node_3")]
    assert events[1].payload.evidence == [node_uuid("g", "ann", "node_1")]
    assert left_out == ["node_2: the whole node, its description is empty"]


def test_15_a_triple_that_is_too_long_is_left_out_and_told(save: Save) -> None:
    (event,), left_out = imported(save(nodes={"node_1": node("event", "x", object="y" * 501)}))
    assert (event.payload.subject, event.payload.object) == ("Ann", None)
    assert left_out == ["node_1: the object, 501 characters are more than 500"]


def test_15_an_empty_key_gives_way_to_the_description_and_keeps_its_vector(save: Save) -> None:
    (event, *_), left_out = imported(save(nodes={"node_1": node("event", "x", embedding_key="")}, embeddings={"": [0.0, 1.0]}))
    assert event.payload.embedding_key is None
    assert to_array(event.payload.vector).tolist() == [0, 1]
    assert left_out == []


@pytest.mark.parametrize("name", ["recency_w", "relevance_w", "importance_w"])
def test_15_a_negative_weight_is_kept(name: str, save: Save) -> None:
    last = stanford.events(stanford.read(save(scratch=SCRATCH | {name: -1})), "g", "ann")[-1]
    assert getattr(last.payload, name) == -1


# Broken memories


def refusal(folder: Path) -> str:
    with pytest.raises(InvalidRequest) as caught:
        stanford.events(stanford.read(folder), "g", "ann")
    (problem,) = caught.value.problems
    return problem


def test_a_folder_without_nodes_is_no_memory(tmp_path: Path) -> None:
    assert refusal(tmp_path).startswith(f"{tmp_path}: no Stanford memory")
    assert "nodes.json" in refusal(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        (["node_1", "node_3"], "gap"),
        (["node_2"], "gap"),
        (["node_0", "node_1"], "'node_0' is no node id"),
        (["node_1", "node_x"], "'node_x' is no node id"),
        (["1"], "'1' is no node id"),
        (["node_01"], "'node_01' is no node id"),
    ],
)
def test_strange_or_missing_ids_are_refused(ids: list[str], words: str, save: Save) -> None:
    problem = refusal(save(nodes={node_id: node("event", "x") for node_id in ids}))
    assert "nodes.json: " in problem
    assert words in problem


@pytest.mark.parametrize("name", ["nodes", "scratch", "kw_strength", "embeddings"])
@pytest.mark.parametrize(("content", "words"), [("{", "cannot be read as JSON"), ("[1]", "must hold a JSON object")])
def test_a_broken_file_is_named(name: str, content: str, words: str, save: Save) -> None:
    problem = refusal(save(**{name: content}))
    assert f"{name}.json: " in problem
    assert words in problem


@pytest.mark.parametrize(
    "content",
    [pytest.param(b"no zip at all", id="text"), pytest.param(b"", id="empty"), pytest.param(b"PK\x03\x04 and no more", id="cut off")],
)
def test_broken_npz_vectors_are_named(content: bytes, save: Save) -> None:
    folder = save(embeddings=None)
    (memory_folder(folder) / "embeddings.npz").write_bytes(content)
    assert "embeddings.npz: " in refusal(folder)


def test_npz_vectors_without_their_keys_are_named(save: Save) -> None:
    folder = save(embeddings=None)
    np.savez(memory_folder(folder) / "embeddings.npz", vectors=np.ones((1, 2)))
    assert "embeddings.npz: " in refusal(folder)


@pytest.mark.parametrize("field", ["type", "created", "description", "embedding_key", "poignancy", "keywords", "subject"])
def test_a_missing_field_is_named_with_its_node(field: str, save: Save) -> None:
    nodes = tiny()
    del nodes["node_2"][field]
    problem = refusal(save(nodes=nodes))
    assert problem.startswith("node_2: ")
    assert f"'{field}'" in problem


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("type", "dream", "node_type"),
        ("created", "yesterday", "yesterday"),
        ("created", 5, ""),
        ("poignancy", "high", "poignancy"),
        ("keywords", "ann", "keywords"),
        ("filling", [["Ann"]], "utterances"),
        ("filling", [5], "utterances"),
        ("expiration", "later", "later"),
    ],
)
def test_a_wrong_field_is_named_with_its_node(field: str, value: Any, words: str, save: Save) -> None:
    nodes = tiny()
    nodes["node_2"][field] = value
    problem = refusal(save(nodes=nodes))
    assert problem.startswith("node_2: ")
    assert words in problem


def test_a_node_that_is_no_object_is_named(save: Save) -> None:
    assert "node_2" in refusal(save(nodes=tiny() | {"node_2": "gone"}))


def test_a_wrong_vector_is_named_with_its_node(save: Save) -> None:
    problem = refusal(save(embeddings={"is here": [0, 0]}))
    assert problem.startswith("node_1: payload.vector: ")


def test_a_wrong_setting_is_named_with_its_file(save: Save) -> None:
    problem = refusal(save(scratch=SCRATCH | {"recency_decay": 2}))
    assert problem.startswith("scratch.json: payload.recency_decay: ")
