"""What the benchmarks read: identifiers, times and texts of both data sets."""

import json
from datetime import UTC, datetime

import pytest

from bench import locomo, memdaily
from bench.support import quality
from bench.support.quality import Memory, Question, observation

KILN = {"blip_caption": "a photo of a kiln", "query": "kiln"}
CONVERSATION = {
    "sample_id": "conv-1",
    "conversation": {
        "speaker_a": "Ann",
        "speaker_b": "Bo",
        "session_10_date_time": "12:05 am on 1 February, 2023",
        "session_10": [{"speaker": "Ann", "dia_id": "D10:1", "text": "Night."}],
        "session_2_date_time": "1:56 pm on 8 May, 2022",
        "session_2": [
            {"speaker": "Bo", "dia_id": "D2:1", "text": "Hi!"},
            {"speaker": "Ann", "dia_id": "D2:2", "text": "Look.", **KILN},
        ],
        "session_3_date_time": "1:00 pm on 9 May, 2022",  # a session without turns is only announced
    },
    "qa": [
        {"question": "one?", "answer": 1, "evidence": ["D2:1; D10:01", "D:2:2"], "category": 1},
        {"question": "none there?", "evidence": ["D9:9"], "category": 5},
        {"question": "nothing named?", "evidence": [], "category": 3},
        {"question": "half of it?", "evidence": ["D2:2", "D", "D99:1"], "category": 4},
    ],
}

TRAJECTORY = {
    "kind": "simple",
    "source": "01_simple_events",
    "tid": 7,
    "messages": [
        {"mid": 0, "message": "我要去喝茶。", "time": "2024年04月01日 周一 08:30", "place": "浙江杭州"},
        {"mid": 1, "message": "茶馆在湖边。", "time": "2024年4月2日 周二 9:05", "place": "浙江杭州"},
    ],
    "questions": [{"question": "茶馆在哪？", "answer": "湖边", "target_step_id": [1]}],
}


@pytest.fixture
def agent(tmp_path):
    path = tmp_path / "locomo.json"
    path.write_text(json.dumps([CONVERSATION]))
    (agent,) = locomo.read(path)
    return agent


@pytest.fixture
def agents(tmp_path):
    path = tmp_path / "memdaily.json"
    messages = [{**m, "message": f"别人：{m['message']}"} for m in TRAJECTORY["messages"]]
    path.write_text(json.dumps([TRAJECTORY, TRAJECTORY | {"tid": 8, "messages": messages}]))
    return memdaily.read(path)


def test_evidence_is_read_however_it_is_written():
    several = {"D8:6; D9:17": ["D8:6", "D9:17"], "D9:1 D4:4": ["D9:1", "D4:4"]}
    for text, ids in (several | {"D:11:26": ["D11:26"], "D30:05": ["D30:5"], "D": []}).items():
        assert locomo.turn_ids(text) == ids


def test_a_conversation_is_an_agent_whose_turns_come_in_order_a_minute_apart(agent):
    assert [(m.key, m.session_id, m.subject, m.text) for m in agent.memories] == [
        ("D2:1", "session_2", "Bo", "Bo: Hi!"),
        ("D2:2", "session_2", "Ann", "Ann: Look. [shares a photo of a kiln]"),
        ("D10:1", "session_10", "Ann", "Ann: Night."),
    ]
    assert [f"{m.occurred_at:%Y-%m-%d %H:%M%z}" for m in agent.memories] == [
        "2022-05-08 13:56+0000",
        "2022-05-08 13:57+0000",
        "2023-02-01 00:05+0000",
    ]
    # without those that have no evidence
    assert [(q.text, q.kind, set(q.evidence)) for q in agent.questions] == [
        ("one?", "multi", {"D2:1", "D10:1", "D2:2"}),
        ("half of it?", "single", {"D2:2"}),
    ]
    memory = Memory("k", "text", datetime(2024, 1, 1, tzinfo=UTC))
    known = {"agent_id", "description", "occurred_at", "provenance"}
    assert observation("a", memory).keys() == known  # no more than is known


def test_overall_is_a_mean_over_questions_macro_one_over_kinds():
    def answers(one, other):
        right, wrong = (Question("?", {"a"}, one), ["a"]), (Question("?", {"a"}, other), ["b"])
        return [right, right, wrong]

    kinds = list(locomo.CATEGORIES.values())
    result = quality.by_kind(answers("single", "multi"), locomo.RECALLS, locomo.NDCGS, kinds)
    assert list(result) == ["overall", "multi", "single"]
    assert result["overall"]["recall@5"] == 0.6667
    assert list(result["overall"]) == ["recall@5", "recall@10", "recall@20", "recall@30", "ndcg@10"]
    assert memdaily.summary(answers("simple", "noisy")) == {"macro": 0.5, "simple": 1, "noisy": 0}


def test_a_trajectory_is_an_agent(agents):
    agent = agents[0]
    assert [m.text for m in agent.memories] == ["我要去喝茶。", "茶馆在湖边。"]
    assert agent.memories[1].occurred_at == datetime(2024, 4, 2, 9, 5, tzinfo=UTC)
    assert agent.memories[0].provenance == {"place": "浙江杭州"}
    assert [q.evidence for q in agent.questions] == [{agent.memories[1].key}]
    assert agent.questions[0].now is None
    with pytest.raises(ValueError, match="no time"):
        memdaily.moment("昨天")


def test_noise_comes_from_others_in_order_of_time_and_is_always_the_same(agents):
    mixed = memdaily.with_noise(agents, 1)
    assert mixed == memdaily.with_noise(agents, 1)
    for before, after in zip(agents, mixed, strict=True):
        assert len(after.memories) == 3
        assert all(memory in after.memories for memory in before.memories)
        assert list(after.memories) == sorted(after.memories, key=lambda m: m.occurred_at)
        assert after.questions == before.questions
    assert len(memdaily.with_noise(agents, 99)[0].memories) == 4
