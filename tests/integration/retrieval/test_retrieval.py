"""tasks.retrieval.retrieve as a function on stored vectors: who is a candidate, which score it gets, what it
leaves behind.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from engine.providers.embedders import embedder
from jiyi.errors import ModelMismatch
from jiyi.protocol.retrieval import Answer, FocalAnswer, RetrievalRequest, ScoredMemory
from jiyi.protocol.wire.calls import reply_of
from models.db import valkey_keys
from models.db.valkey import valkey
from models.memory import access
from tasks import memory as memory_tasks
from tasks.retrieval import retrieve as retrieval
from tests.integration.fields import check_fields
from tests.integration.memory.test_inbox import configured, execute, observed, rows, save
from tests.integration.retrieval.asking import answered
from workers.ephemeral import environment

T0 = datetime(2026, 3, 1, 8, tzinfo=UTC)
NOW = T0 + timedelta(hours=10)
MODEL = "two-dimensions"
EAST = [1.0, 0.0]
pytestmark = pytest.mark.usefixtures("own_valkey")


class Sent(list[tuple[str, dict[str, Any]]]):
    """Stands in for the Celery app: what was sent."""

    def send_task(self, name: str, **options: Any) -> None:
        self.append((name, options))


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    made = Sent()
    monkeypatch.setattr(memory_tasks, "current_app", made)
    return made


def remember(
    group: str, description: str, vector: list[float] | None = None, *, hours: float = 0, **fields: Any
) -> UUID:
    fields.setdefault("occurred_at", T0 + timedelta(hours=hours))
    fields.setdefault("embedding_model", MODEL)
    event = observed(group, description, vector=vector or EAST, **fields)
    save(event)
    return event.event_id


def three(group: str) -> list[UUID]:
    """The example that the expectations below are computed for, by hand."""
    return [
        remember(group, "a", [1, 0], hours=0, poignancy=2),
        remember(group, "b", [0, 1], hours=4, poignancy=8),
        remember(group, "c", [0.6, 0.8], hours=8, poignancy=5),
    ]


def retrieve(request: RetrievalRequest) -> Answer:
    answer: Answer = retrieval.retrieve(request)
    return answer


def ask_all(group: str, *focal: list[float], **options: Any) -> Answer:
    vectors = focal or (EAST,)
    # By score alone: what comes before what beside the scores is tested in test_hybrid.py.
    options = {"now": NOW, "vectors": vectors, "embedding_model": MODEL, "newer_first": False, **options}
    texts = [f"focal {i}" for i in range(len(vectors))]
    # Dense: cosines can be worked out by hand. What else relevance is made of is tested in test_hybrid.py.
    asked = RetrievalRequest(
        **{"relevance": "dense", "group_id": group, "agent_id": "klaus", "queries": texts, **options}
    )
    return Answer.model_validate(answered(asked))


def ask(group: str, vector: list[float] | None = None, **options: Any) -> FocalAnswer:
    return ask_all(group, vector or EAST, **options).groups[0]


def descriptions(group: str, **options: Any) -> list[str]:
    return sorted(node.description for node in ask(group, **options).retrieved_nodes)


def by_description(answer: FocalAnswer) -> dict[str, ScoredMemory]:
    return {node.description: node for node in answer.retrieved_nodes}


# Scores

#: Standard deviation of the relevances 1, 0 and 0.6, times their gain: the unit of the nudges.
UNIT = 3 * (1.36 / 3 - (1.6 / 3) ** 2) ** 0.5
#: Weights of recency and importance: their reach, times what there is between the least and the greatest.
RECENT = (UNIT * 0.25 * (1 / 2 - 1 / 8), UNIT * 0.5 * 0.6)
ELAPSED = (UNIT * 0.25 * (2**-2 - 2**-10), UNIT * 0.5 * 0.6)
STANFORD = (0.5, 2.0)
#: Half a point for recency, so that decay 0.5 gives round numbers. Per memory: recency raw, normalised;
#: score.
EXPECTED = {
    "recent": {
        "a": (1 / 8, 0, 3.0),
        "c": (1 / 2, 1, RECENT[0] + 1.8 + RECENT[1] / 2),
        "b": (1 / 4, 1 / 3, RECENT[0] / 3 + RECENT[1]),
    },
    "elapsed": {
        "a": (2**-10, 0, 3.0),
        "c": (2**-2, 1, ELAPSED[0] + 1.8 + ELAPSED[1] / 2),
        "b": (2**-6, 1 / 17, ELAPSED[0] / 17 + ELAPSED[1]),
    },
    "stanford": {"a": (1 / 2, 1, 3.5), "c": (1 / 8, 0, 2.8), "b": (1 / 4, 1 / 3, 2 + 1 / 6)},
}


@pytest.mark.parametrize("mode", EXPECTED)
def test_order_scores_and_every_component_equal_those_computed_by_hand(group: str, mode: str) -> None:
    three(group)
    answer = ask(group, mode=mode, recency_decay=0.5)
    assert [node.description for node in answer.retrieved_nodes] == list(EXPECTED[mode])
    recency_weight, importance_weight = {"recent": RECENT, "elapsed": ELAPSED, "stanford": STANFORD}[mode]
    relevance = {"a": (1, 1), "b": (0, 0), "c": (0.6, 0.6)}
    importance = {"a": (2, 0), "b": (8, 1), "c": (5, 0.5)}
    for name, node in by_description(answer).items():
        raw, normalised, score = EXPECTED[mode][name]
        recency = (raw, normalised)
        for component, expected, weight in (
            (node.recency, recency, recency_weight),
            (node.relevance, relevance[name], 3),
            (node.importance, importance[name], importance_weight),
        ):
            assert (component.raw, component.normalised) == pytest.approx(expected, abs=1e-6)
            assert component.weight == pytest.approx(weight, abs=1e-6)
            assert component.contribution == pytest.approx(expected[1] * weight, abs=1e-6)
        assert node.score == pytest.approx(score, abs=1e-6)


def test_debug_figures_are_over_all_candidates_not_only_those_returned(group: str) -> None:
    three(group)
    answer = ask(group, mode="recent", recency_decay=0.5, top_k=1)
    assert [node.description for node in answer.retrieved_nodes] == ["a"]
    debug = answer.debug
    assert (debug.total_candidates, debug.retrieved_count, debug.without_comparable_vector) == (3, 1, 0)
    assert (debug.max_score, debug.min_score) == pytest.approx((3.0, RECENT[0] / 3 + RECENT[1]), abs=1e-6)
    assert (debug.mode, debug.embedding_model) == ("recent", MODEL)


def test_one_candidate_scores_two_and_three_quarters(group: str) -> None:
    remember(group, "alone", poignancy=9)
    (node,) = ask(group).retrieved_nodes
    assert (node.recency.normalised, node.relevance.normalised, node.importance.normalised) == (0.5, 0.5, 0.5)
    assert node.score == pytest.approx(2.75)


def test_unknown_poignancy_counts_as_zero_and_stays_unknown_in_the_answer(group: str) -> None:
    remember(group, "unknown", poignancy=None)
    remember(group, "mundane", poignancy=1)
    node = by_description(ask(group))["unknown"]
    assert (node.poignancy, node.importance.raw, node.importance.normalised) == (None, 0, 0)


# Settings


def test_the_request_comes_before_the_agent_and_the_agent_before_the_deployment(group: str) -> None:
    three(group)
    save(configured(group, mode="stanford", recency_w=2, relevance_w=2, recency_decay=0.25))
    deployment = "mode=elapsed, recency_w=3, relevance_w=3, importance_w=3, recency_decay=0.125"

    def settings(**options: Any) -> tuple[str, list[float], float]:
        answer = ask(group, touch=False, **options)
        node = by_description(answer)["a"]
        return (
            answer.debug.mode,
            [node.recency.weight, node.relevance.weight, node.importance.weight],
            node.recency.raw,
        )

    with environment(agent_defaults=deployment):
        assert settings() == ("stanford", [2 * 0.5, 2 * 3.0, 3 * 2.0], 0.25)
        # 0 is a value like any other.
        given = settings(mode="recent", recency_w=0, importance_w=1, recency_decay=0.5)
        assert given == ("recent", [0, 2 * 3.0, pytest.approx(RECENT[1], abs=1e-6)], 1 / 8)


# Candidates


def test_chats_are_candidates_only_when_asked_for(group: str) -> None:
    remember(group, "event")
    remember(group, "thought", node_type="thought")
    remember(group, "chat", node_type="chat", utterances=[["Klaus", "hello"], ["林岚", "你好"]])
    assert descriptions(group) == descriptions(group, mode="stanford") == ["event", "thought"]
    assert descriptions(group, filters={"types": ["chat", "event"]}) == ["chat", "event"]
    (node,) = ask(group, filters={"types": ["chat"]}).retrieved_nodes
    assert node.filling == [["Klaus", "hello"], ["林岚", "你好"]]


def test_idle_memories_are_left_out_by_meaning_and_in_stanford_mode_by_substring(group: str) -> None:
    for description in ("the horse is bridled", "the bed is Idle", "the bed is idle", "Klaus reads"):
        remember(group, description)
    remember(group, "desk", subject="desk", predicate="is", object="idle")
    remember(group, "keyed", embedding_key="sidled up")
    assert descriptions(group) == ["Klaus reads", "keyed", "the horse is bridled"]
    assert descriptions(group, mode="stanford") == ["Klaus reads", "desk", "the bed is Idle"]


def test_archived_memories_are_left_out_unless_asked_for(group: str) -> None:
    remember(group, "kept")
    archived = remember(group, "archived")
    execute("UPDATE memory_nodes SET archived_at = now() WHERE node_id = :id", id=archived)
    for mode in ("recent", "stanford"):
        assert descriptions(group, mode=mode) == ["kept"]
        assert descriptions(group, mode=mode, filters={"include_archived": True}) == ["archived", "kept"]


def test_expired_memories_are_left_out_unless_asked_for_or_in_stanford_mode(group: str) -> None:
    remember(group, "over", expires_at=NOW)
    remember(group, "nearly over", expires_at=NOW + timedelta(seconds=1))
    remember(group, "for ever")
    remember(group, "thought", node_type="thought")
    everything = ["for ever", "nearly over", "over", "thought"]
    assert descriptions(group) == ["for ever", "nearly over", "thought"]
    assert descriptions(group, filters={"include_expired": True}) == everything
    assert descriptions(group, mode="stanford") == everything
    assert descriptions(group, now=NOW - timedelta(seconds=1)) == everything
    assert descriptions(group, now=T0 + timedelta(days=31)) == ["for ever"]  # thoughts last thirty days


def test_14_a_time_window_begins_at_created_after_and_ends_before_created_before(group: str) -> None:
    three(group)
    moment = timedelta(microseconds=1)
    at = [T0, T0 + timedelta(hours=4), T0 + timedelta(hours=8)]
    assert descriptions(group, filters={"created_after": at[1]}) == ["b", "c"]
    assert descriptions(group, filters={"created_after": at[1] + moment}) == ["c"]
    assert descriptions(group, filters={"created_before": at[1]}) == ["a"]
    assert descriptions(group, filters={"created_before": at[1] + moment}) == ["a", "b"]
    assert descriptions(group, filters={"created_after": at[1], "created_before": at[1] + moment}) == ["b"]


def test_all_filters_have_to_hold(group: str) -> None:
    remember(group, "both", session_id="s", keywords=["k"])
    remember(group, "one", session_id="s", keywords=["other"])
    remember(group, "neither", session_id="s-2")
    assert descriptions(group, filters={"session_id": "s"}) == ["both", "one"]
    assert descriptions(group, filters={"session_id": "s", "keywords": ["k"]}) == ["both"]


def test_keywords_keep_what_has_any_of_them_whatever_the_case(group: str) -> None:
    remember(group, "english", keywords=["Klaus", "Book"])
    remember(group, "chinese", keywords=["林岚", "书店"])
    remember(group, "neither", keywords=["tea"])
    assert descriptions(group, filters={"keywords": ["BOOK"]}) == ["english"]
    assert descriptions(group, filters={"keywords": ["书店"]}) == ["chinese"]
    assert descriptions(group, filters={"keywords": ["klaus", "林岚"]}) == ["chinese", "english"]
    assert descriptions(group, filters={"keywords": ["boo"]}) == []


def test_minimum_similarity_drops_what_is_less_similar_before_the_scoring(group: str) -> None:
    three(group)
    answer = ask(group, filters={"min_similarity": 0.5}, recency_decay=0.5)
    assert [node.description for node in answer.retrieved_nodes] == ["a", "c"]
    assert by_description(answer)["c"].relevance.normalised == 0  # the least similar of those left
    assert answer.debug.total_candidates == 2
    nothing = ask(group, [-1, 0], filters={"min_similarity": 0.5})
    assert (nothing.status, nothing.retrieved_nodes, nothing.accessed_ids) == ("no_candidates", [], [])
    assert "similar" in nothing.message


def test_15_a_negative_weight_turns_the_originals_order_around_and_no_other(group: str) -> None:
    three(group)
    options: dict[str, Any] = {"recency_w": 0, "importance_w": 0, "touch": False}
    before = {mode: ask(group, mode=mode, **options) for mode in ("stanford", "recent")}
    save(configured(group, relevance_w=-1))
    after = {mode: ask(group, mode=mode, **options) for mode in ("stanford", "recent")}
    assert after["stanford"].accessed_ids == before["stanford"].accessed_ids[::-1]
    assert after["recent"].accessed_ids == before["recent"].accessed_ids
    assert [node.relevance.weight for node in after["stanford"].retrieved_nodes] == [-3] * 3  # times its gain


# Nothing to find, nothing to compare


def test_16_an_agent_or_a_group_that_does_not_exist_is_said_to_be_unknown(group: str) -> None:
    elsewhere = {"group_id": f"{group}-nobody's"}
    embedded_here: dict[str, Any] = {"vectors": None, "embedding_model": None}
    remember(group, "klaus's own")
    for options in (
        {"agent_id": "nobody"},
        {"agent_id": "nobody", **embedded_here},
        elsewhere,
        {**elsewhere, **embedded_here},
    ):
        answer = ask_all(group, [1, 0, 0], [1, 0], **options)  # of two sizes: no vector is looked at
        assert answer.status == "unknown_agent"
        named = "no group" if "group_id" in options else "no agent 'nobody' in the group"
        assert answer.message.startswith(named)
        for one in answer.groups:
            check_fields(
                one, status="unknown_agent", message=answer.message, retrieved_nodes=[], accessed_ids=[]
            )
            assert (one.debug.total_candidates, one.debug.mode) == (0, "recent")
    assert valkey().zcard(valkey_keys.ACCESS) == 0


def test_without_candidates_the_answer_says_so_whatever_the_vectors_are(group: str) -> None:
    remember(group, "only a chat", node_type="chat")
    save(observed(group, "desk is idle"))
    for options in ({}, {"vectors": None, "embedding_model": None}):
        answer = ask_all(group, [1, 0, 0], [1, 0], **options)  # of two sizes, and not the memories'
        left_out = "1 of the type chat (types), 1 that say that something is idle"
        check_fields(
            answer,
            status="no_candidates",
            message=f"no candidate memories for this agent; left out: {left_out}",
        )
        assert len(answer.groups) == 2
        for one in answer.groups:
            check_fields(
                one, status="no_candidates", message=answer.message, retrieved_nodes=[], accessed_ids=[]
            )
            assert (one.debug.total_candidates, one.debug.min_score, one.debug.max_score) == (0, None, None)
    assert valkey().zcard(valkey_keys.ACCESS) == 0


def test_vectors_of_another_model_only_or_another_size_are_an_error_that_names_both(group: str) -> None:
    remember(group, "a", embedding_model="model-one")
    remember(group, "b", embedding_model="model-two")
    with pytest.raises(ModelMismatch, match=r"model-one.*model-two.*model-three"):
        ask(group, embedding_model="model-three")
    with pytest.raises(ModelMismatch, match=f"model-one.*{embedder().model}"):
        ask(group, vectors=None, embedding_model=None)
    remember(group, "c")
    with pytest.raises(ModelMismatch, match=r"2\b.*\b3\b"):
        ask(group, [1, 0, 0])


@pytest.mark.parametrize("mode", ["recent", "stanford"])
def test_memories_of_another_model_are_counted_and_rank_without_relevance(group: str, mode: str) -> None:
    remember(group, "ours", [0.6, 0.8])
    remember(group, "wider", [1, 0, 0], embedding_model="another")
    remember(group, "the same size", [1, 0], embedding_model="a third")
    answer = ask(group, mode=mode)
    assert answer.debug.without_comparable_vector == 2
    assert {n.description: n.relevance.raw for n in answer.retrieved_nodes} == pytest.approx(
        {"ours": 0.6, "wider": 0, "the same size": 0}
    )


def test_focal_texts_without_vectors_are_embedded_by_the_deployments_model(group: str) -> None:
    first = remember(
        group, "tea", embedder().passages(["Klaus drinks tea"])[0].tolist(), embedding_model=embedder().model
    )
    remember(
        group,
        "book",
        embedder().passages(["a book on gentrification"])[0].tolist(),
        embedding_model=embedder().model,
    )
    request = RetrievalRequest(
        group_id=group,
        agent_id="klaus",
        queries=["Klaus drinks tea"],
        recency_w=0,
        now=NOW,
        relevance="dense",
    )
    answer = retrieve(request)
    assert answer.accessed_ids[0] == first
    assert answer.debug.embedding_model == embedder().model


# What a retrieval leaves behind


def test_what_was_returned_counts_as_accessed_once_a_request_at_its_time(group: str, sent: Sent) -> None:
    a, b, c = three(group)
    answer = ask_all(group, [1, 0], [0, 1], recency_decay=0.5, top_k=1)
    assert [one.accessed_ids for one in answer.groups] == [[a], [b]]
    access.flush()
    found = rows("SELECT * FROM node_access WHERE node_id = ANY(:ids)", ids=[a, b, c])
    expected = {a: (NOW, 1), b: (NOW, 1), c: (T0 + timedelta(hours=8), 0)}
    assert {row["node_id"]: (row["last_accessed"], row["access_count"]) for row in found} == expected
    first, *_ = ask(group).retrieved_nodes
    assert first.last_accessed == NOW
    assert sent[0][0] == "access.flush"


def test_one_flush_is_queued_for_many_retrievals_within_an_interval_and_none_with_touch_off(
    group: str, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    three(group)
    assert len(ask_all(group, [1, 0], [0, 1], touch=False, mode="stanford").accessed_ids) == 3
    assert (valkey().keys("jiyi:access*"), sent) == ([], [])
    monkeypatch.setattr(access, "DUE_SECONDS", 60.0)
    for _ in range(3):
        ask(group)
    assert sent == [("access.flush", {"queue": "upkeep", "countdown": 60.0})]


def test_a_retrieval_in_the_agents_past_moves_no_access_back(group: str) -> None:
    (_, _, newest) = three(group)
    ask(group, now=T0 - timedelta(days=1))
    access.flush()
    (row,) = rows("SELECT * FROM node_access WHERE node_id = :id", id=newest)
    assert (row["last_accessed"], row["access_count"]) == (T0 + timedelta(hours=8), 1)


def test_a_node_comes_with_all_its_fields_and_without_its_vector(group: str) -> None:
    fields: dict[str, Any] = {
        "session_id": "s-1",
        "expires_at": T0 + timedelta(days=400),
        "subject": "Klaus",
        "predicate": "likes",
        "object": "书",
        "embedding_key": "likes books",
        "poignancy": 6.0,
        "keywords": ["Klaus", "书"],
        "provenance": {"source": "test"},
    }
    evidence, at = uuid4(), T0 + timedelta(hours=1)
    thought = remember(
        group,
        "Klaus likes 书",
        [0.25, 0.5],
        node_type="thought",
        evidence=[evidence],
        occurred_at=at,
        **fields,
    )
    request = RetrievalRequest(
        group_id=group, agent_id="klaus", queries=["x"], vectors=[EAST], embedding_model=MODEL, now=NOW
    )
    answered = retrieval.answer(request)
    answer = Answer.model_validate(answered)
    on_the_wire = json.loads(reply_of(answered))["value"]
    assert (
        on_the_wire
        == Answer.model_validate(on_the_wire).model_dump(mode="json")
        == answer.model_dump(mode="json")
    )
    plain = on_the_wire["groups"][0]["retrieved_nodes"][0]
    assert plain.keys() == ScoredMemory.model_fields.keys()
    assert not {"embedding", "vector", "vectors"} & plain.keys()
    scores = {"score", "recency", "relevance", "importance", "relevance_parts", "probability", "reranked"}
    assert ScoredMemory.model_validate(plain).model_dump(exclude=scores) == fields | {
        **dict.fromkeys(
            [
                "kind",
                "uri",
                "superseded_at",
                "superseded_by",
                "replaced_by",
                "user_id",
                "visibility",
                "abstract",
                "overview",
            ]
        ),
        **dict.fromkeys(["archived_at", "archived_reason", "access_count", "dimensions", "recent"]),
        "supersedes": [],
        "type_count": 1,
        "is_idle": False,
        "embedding_model": MODEL,
        "stored_at": answer.retrieved_nodes[0].stored_at,
        "origin": "user",
        "trust": 0.8,
        "node_id": thought,
        "agent_id": "klaus",
        "type": "thought",
        "node_count": 1,
        "depth": 1,
        "created_at": at,
        "last_accessed": at,
        "description": "Klaus likes 书",
        "filling": [str(evidence)],
    }
