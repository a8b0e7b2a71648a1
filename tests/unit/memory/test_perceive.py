"""jiyi.client.perceive: attention, texts and keywords, against values worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from jiyi.client.perceive import Seen, attend, embedding_key, observations, stanford_description, stanford_key
from jiyi.protocol import events as wire
from tests.unit.text.labelled import labelled

DESK = Seen("town:home:room:desk", "is", "used", "being used (Klaus reading a map)")


def one(*seen: Seen, agent_id: str = "Klaus", **options: Any) -> dict[str, Any]:
    (made,) = observations(agent_id, seen, **options)
    return made


def test_the_closest_come_to_attention_equally_close_ones_in_their_order() -> None:
    places = {"far": 3, "b": 1, "a": 1, "here": 0, "c": 1}
    seen = [Seen(name, distance=distance) for name, distance in places.items()]
    assert [item.subject for item in attend(seen, 3)] == ["here", "b", "a"]
    assert [item.subject for item in attend(seen)] == ["here", "b", "a"]  # the original's default


def test_the_same_thing_seen_twice_takes_one_place_at_its_first_distance() -> None:
    seen = [Seen("a", distance=2), Seen("b", distance=1.5), Seen("a", distance=1), Seen("c", distance=3)]
    assert [(item.subject, item.distance) for item in attend(seen, 3)] == [("b", 1.5), ("a", 2), ("c", 3)]
    assert len(attend([Seen("a", "is", "on"), Seen("a", "is", "off")])) == 2


def test_a_description_is_put_together_with_the_last_segment_of_the_subject() -> None:
    made = one(Seen("town:home:room:lamp", "is", "on", "switched on"))
    assert (made["description"], made["embedding_key"]) == ("lamp is switched on",) * 2
    assert (made["subject"], made["keywords"]) == ("town:home:room:lamp", ["lamp", "on"])
    assert one(Seen("书店:柜台:台灯", "是", "亮着", "正亮着"))["description"] == "台灯正亮着"


@pytest.mark.parametrize(
    ("seen", "stanford", "text"),
    [
        (Seen("w:room:bed"), True, "bed is idle"),
        (Seen("w:room:bed", "", "off", "off"), False, "bed is idle"),
        (Seen("书店:里屋:床"), False, "床空闲中"),
        (Seen("床", "is", "idle", "idle"), True, "床 is idle"),
    ],
)
def test_what_does_nothing_is_idle_and_mundane(seen: Seen, *, stanford: bool, text: str) -> None:
    made = one(seen, stanford=stanford)
    assert (made["description"], made["poignancy"]) == (text, 1)
    assert (made["predicate"], made["object"]) == ("is", "idle")


@labelled
def test_texts_with_brackets(statement: str, key: str, stanford: str, garbled: str) -> None:
    assert embedding_key(statement) == key
    assert stanford_key(statement) == stanford
    assert stanford_description(statement) == garbled


def test_the_description_stays_whole_unless_in_stanford_mode() -> None:
    assert one(DESK)["description"] == "desk is being used (Klaus reading a map)"
    assert one(DESK, stanford=True)["description"] == "desk is being Klaus reading a map"
    assert "poignancy" not in one(DESK)


def test_the_agents_own_conversation_comes_before_its_event_as_evidence() -> None:
    own = Seen("Klaus", "chat with", "Maria", "talking about maps")
    others = Seen("Maria", "chat with", "Klaus", "talking about maps", 1)
    chat, event, plain = observations("Klaus", [others, own], utterances=[("Klaus", "Hello")])
    assert (chat["node_type"], chat["description"]) == ("chat", "talking about maps")
    assert chat["utterances"] == [("Klaus", "Hello")]
    assert (event["description"], event["evidence"]) == ("Klaus is talking about maps", [chat["event_id"]])
    assert "evidence" not in plain
    assert chat["keywords"] == event["keywords"] == ["Klaus", "Maria"]
    assert {item["retention"] for item in (chat, event, plain)} == {5}


def test_all_that_is_made_is_a_valid_event() -> None:
    seen = [DESK, Seen("Klaus", "chat with", "Maria", "chatting"), Seen("w:room:bed")]
    event = {"type": "memory.observed", "group_id": "g", "agent_id": "Klaus"}
    for item in observations("Klaus", [*seen, Seen("床", "被", "使用", "在用")], bandwidth=9):
        payload = {name: value for name, value in item.items() if name not in ("agent_id", "event_id")}
        built = wire.build({**event, "payload": payload})
        assert set(payload) <= built.payload.model_fields_set
