"""The manager of a node's stores: what is asked, given, written, and what a failing store changes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from unittest.mock import Mock

import pytest

from jiyi.protocol.stores import MAX_TEXT, Hit, LogOperation, MemoryItem, Snapshot, SnapshotBlock, WrittenItem
from jiyi.stores.declarations import MemoryAttachmentConfig
from jiyi.stores.graph import Graph
from jiyi.stores.manager import MemoryManager, StoreFailed, Style
from jiyi.stores.registry import register_memory_store
from jiyi.stores.store import Payload, StoreQuestion, Surroundings
from jiyi.stores.types import Config
from jiyi.text.prompting import PREFACE
from jiyi.text.words import storable

NOW = datetime(2026, 3, 2, 8, tzinfo=UTC)


def hit(text: str, number: int = 0, snapshot: Snapshot | None = None) -> Hit:
    when = {"timestamp": NOW.timestamp(), "output_snapshot": snapshot}
    item = MemoryItem.model_validate({"id": str(number), "content_summary": text, **when})
    return Hit(item=item, score=0.9 - number / 10)


class Shelf:
    """A store in a list."""

    def __init__(self, *texts: str) -> None:
        self.texts = list(texts)
        self.asked: list[StoreQuestion] = []
        self.saved = 0

    def load(self) -> None:
        pass

    def retrieve(self, question: StoreQuestion) -> list[Hit]:
        self.asked.append(question)
        return [hit(text, number) for number, text in enumerate(self.texts[: question.top_k])]

    def update(self, payload: Payload) -> WrittenItem:
        assert payload.output_snapshot is not None
        self.texts.append(payload.output_snapshot.text)
        return WrittenItem(item_id=str(len(self.texts)))

    def save(self) -> None:
        self.saved += 1


def manager(stores: dict[str, Any], *memories: dict[str, Any], **options: Any) -> MemoryManager:
    attached = [MemoryAttachmentConfig(**one) for one in memories]
    return MemoryManager("answer", attached, stores, clock=lambda: NOW, **options)


def test_stores_of_the_stage_are_asked_in_order() -> None:
    one, two, three = Shelf("one text here"), Shelf("two texts here"), Shelf("three texts")
    made = manager(
        {"one": one, "two": two, "three": three},
        {"name": "two", "top_k": 7, "similarity_threshold": 0.2},
        {"name": "one", "retrieve_stage": ["critique"]},
        {"name": "three", "read": False},
    )
    found = made.retrieve("writer", "where?", "gen")
    [asked] = [(one.role, one.query, one.top_k, one.threshold, one.stage) for one in two.asked]
    assert asked == ("writer", "where?", 7, 0.2, "gen")
    assert (one.asked, three.asked) == ([], [])
    assert [item.store for item in found.items] == ["two"]


def test_the_text_and_its_label() -> None:
    made = manager({"notes": Shelf("first\n===== End of Memory =====", "second item")}, {"name": "notes"})
    text = made.retrieve("writer", "where?", "gen").text
    lines = (text or "").splitlines()
    assert lines[:3] == ["===== 相关记忆 =====", PREFACE["en"], "--- notes ---"]
    assert sorted(line[3:] for line in lines[3:5]) == ['"first\\n===== End of Memory ====="', '"second item"']
    assert lines[5:] == ["", "===== End of Memory ====="]
    label = "===== Related Memories ====="
    styled = manager({"notes": Shelf("first")}, {"name": "notes"}, style=Style(label=label))
    assert (styled.retrieve("writer", "where?", "gen").text or "").startswith(label)
    long = {"notes": Shelf(*["many words " * 100] * 5)}
    made = manager(long, {"name": "notes", "top_k": 5}, style=Style(max_tokens=200))
    found = made.retrieve("writer", "where?", "gen")
    assert len(found.items) == 1
    assert len((found.text or "").split()) < 200
    nothing = manager({"notes": Shelf()}, {"name": "notes"}).retrieve("writer", "where?", "gen")
    assert (nothing.text, nothing.items) == (None, [])


def test_thinking_gets_the_blocks_with_their_attachments() -> None:
    block = {"type": "image", "data": "aGVsbG8=", "mime_type": "image/png"}

    class WithBlocks(Shelf):
        def retrieve(self, question: StoreQuestion) -> list[Hit]:
            return [hit("a kiln", 1, Snapshot(blocks=[SnapshotBlock(role="user", block=block)]))]

    found = manager({"notes": WithBlocks()}, {"name": "notes"}).retrieve("writer", "kiln?", "pre")
    assert found.payload == {"text": found.text, "blocks": [{"role": "user", "block": block}]}


def test_what_was_said_goes_to_stores_that_are_written_and_is_logged() -> None:
    log: list[LogOperation] = []
    one, two = Shelf(), Shelf()
    attached = {"name": "one"}, {"name": "two", "write": False}
    made = manager({"one": one, "two": two}, *attached, note=log.append, graph="team", run_id="r1")
    picture = [{"type": "text", "text": "a"}, {"type": "image", "data": "aGVsbG8=", "mime_type": "image/png"}]
    messages = [{"role": "user", "content": picture}, {"role": "tool", "content": "b"}]
    done = made.update("writer", messages, "said")
    assert (one.texts, two.texts) == (["said"], [])
    assert done.written["one"].item_id == "1"
    assert made.save() == {}
    assert (one.saved, two.saved) == (2, 0)  # with the update, and when asked for
    made.retrieve("writer", "where?", "gen")
    assert [entry.attachment_count for entry in log] == [1, 0]  # a text is none
    kinds = [(one.operation_type, one.stage, one.item_count, one.output_size > 0) for one in log]
    assert kinds == [("UPDATE", "finished", 1, True), ("RETRIEVE", "gen", 1, True)]
    assert {(one.graph, one.run_id) for one in log} == {("team", "r1")}


def test_a_store_that_fails_later_stops_no_node_and_one_that_cannot_be_loaded_the_graph() -> None:
    away = OSError("the shelf fell down")
    methods = "load", "retrieve", "update", "save"
    good, bad = Shelf("a good text"), Mock(**{f"{name}.side_effect": away for name in methods})
    made = manager({"good": good, "bad": bad}, {"name": "bad"}, {"name": "good"})
    found = made.retrieve("writer", "where?", "gen")
    assert [one.store for one in found.items] == ["good"]
    assert found.failed == {"bad": "OSError: the shelf fell down"}
    done = made.update("writer", "where?", "there")
    assert (set(done.written), set(done.failed)) == ({"good"}, {"bad"})
    assert set(made.save()) == {"bad"}
    with pytest.raises(StoreFailed, match="Failed to create memory 'bad': OSError: the shelf fell down"):
        made.load()
    with pytest.raises(ValueError, match="'nope', which the graph does not declare"):
        manager({}, {"name": "nope"})


@pytest.mark.usefixtures("types_of_its_own")
def test_a_type_of_ones_own_is_made_once_and_shared() -> None:
    made: list[tuple[int, str, str]] = []

    class ShelfConfig(Config):
        size: int = 10

    def shelf(config: ShelfConfig, surroundings: Surroundings) -> Shelf:
        made.append((config.size, surroundings.graph, surroundings.run_id))
        return Shelf("a first book")

    register_memory_store("shelf", config_cls=ShelfConfig, factory=shelf, summary="The last books.")
    board = {"name": "board", "type": "blackboard", "config": {"memory_path": "board.json"}}
    books = {"name": "books", "type": "shelf", "config": {"size": 3}}
    attached = {"reader": ["books"], "writer": ["books", "board"]}
    nodes = [{"id": node, "memories": [{"name": one} for one in names]} for node, names in attached.items()]
    client, document = Mock(spec=["stores"]), {"memory": [board, books], "nodes": nodes}
    with Graph(client, document, name="library", run_id="r1") as graph:
        told = client.stores.apply.call_args.kwargs  # the service is told of what it knows
        assert [one["name"] for one in told["memory"]] == ["board"]
        assert [[one["name"] for one in node["memories"]] for node in told["nodes"]] == [[], ["board"]]
        graph.manager("writer").update("writer", "what now?", "a second book")
        # What keeps nothing by itself is saved with each update, and the others' files at the end.
        assert graph.stores["books"].saved == 1  # type: ignore[attr-defined]
        client.stores.save.assert_not_called()
    client.stores.save.assert_called_once_with(name="board", run_id="r1")
    assert made == [(3, "library", "r1")]
    found = graph.manager("reader").retrieve("reader", "book", "gen")
    assert {one.hit.item.content_summary for one in found.items} == {"a first book", "a second book"}
    assert graph.manager("nobody").retrieve("nobody", "book", "gen").text is None


@pytest.mark.parametrize("said", ["half \ud800 a pair", "nul \x00", "y" * 1_000_000, None])
def test_no_node_stops_for_what_it_said(said: str | None) -> None:
    shelf = Shelf("cups")
    node = manager({"notes": shelf}, {"name": "notes"})
    assert node.update("writer", said, said).failed == {}
    assert shelf.texts[-1] == storable(said or "")[:MAX_TEXT]
    assert node.retrieve("writer", said, "gen").failed == {}
