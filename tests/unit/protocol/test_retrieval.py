"""jiyi.protocol.retrieval: which questions are refused, and how that is said."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from pydantic import ValidationError

from jiyi.errors import problems_of
from jiyi.protocol.retrieval import Answer, Debug, FocalAnswer, RetrievalRequest, RetrieveBody

NAIVE = datetime(2026, 3, 2, 7, 15)


def request(**fields: Any) -> RetrievalRequest:
    return RetrievalRequest(**{"group_id": "g", "agent_id": "klaus", "queries": ["tea"], **fields})


def test_defaults() -> None:
    asked = request()
    assert asked.top_k == 30
    assert asked.filters.types == ["event", "thought"]
    assert asked.touch is True
    assert (asked.mode, asked.recency_w, asked.relevance_w, asked.importance_w, asked.recency_decay) == (
        None,
    ) * 5


@pytest.mark.parametrize(
    ("fields", "path", "words"),
    [
        pytest.param({"top_k": 0}, "top_k", "1", id="top_k 0"),
        pytest.param({"top_k": 1_001}, "top_k", "less than or equal to 1000", id="top_k too large"),
        pytest.param({"recency_w": float("nan")}, "recency_w", "finite", id="NaN weight"),
        pytest.param({"mode": "newest"}, "mode", "recent", id="unknown mode"),
        pytest.param({"queries": []}, "queries", "1", id="no focal text"),
        pytest.param({"queries": ["tea", " \n"]}, "queries.1", "", id="blank focal text"),
        pytest.param({"agent_id": "a\0"}, "agent_id", "NUL", id="NUL in agent_id"),
        pytest.param({"queries": ["x" * 8_001]}, "queries.0", "8,000", id="focal text too long"),
        pytest.param({"queries": ["tea"] * 33}, "queries", "32", id="too many focal texts"),
        pytest.param({"agent_id": "x" * 201}, "agent_id", "200", id="agent too long"),
        pytest.param({"now": NAIVE}, "now", "timezone", id="naive now"),
        pytest.param({"vectors": [[1, 2]]}, "vectors", "embedding_model", id="vectors without a model"),
        pytest.param(
            {"vectors": [[1], [2]], "embedding_model": "m"},
            "vectors",
            "2 given for 1",
            id="a vector too many",
        ),
        pytest.param({"vectors": [[0, 0]], "embedding_model": "m"}, "vectors.0", "zero", id="zero vector"),
        pytest.param({"colour": "red"}, "colour", "not permitted", id="unknown field"),
        pytest.param({"filters": {"types": []}}, "filters.types", "1", id="no types"),
        pytest.param(
            {"filters": {"created_after": NAIVE}},
            "filters.created_after",
            "timezone",
            id="naive created_after",
        ),
        pytest.param(
            {"filters": {"min_similarity": 1.5}}, "filters.min_similarity", "1", id="similarity above 1"
        ),
    ],
)
def test_a_wrong_request_is_refused_with_the_field_and_the_reason(
    fields: dict[str, Any], path: str, words: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        request(**fields)
    (problem,) = problems_of(caught.value)
    assert problem.startswith(f"{path}: "), problem
    assert words in problem


@pytest.mark.parametrize(
    "fields",
    [
        {"top_k": 1, "recency_decay": 1, "recency_w": 0, "mode": "stanford"},
        {"top_k": 1_000, "relevance_w": 100, "mode": "elapsed"},
        {"queries": ["tea"] * 32},
        {"queries": ["记" * 8_000]},
        {"vectors": [[1, 2]], "embedding_model": "m"},
        {"filters": {"types": ["chat"], "min_similarity": -1}, "now": "2026-03-02T07:15:00+08:00"},
    ],
)
def test_what_is_just_within_the_limits_is_accepted(fields: dict[str, Any]) -> None:
    assert request(**fields)


def test_a_request_survives_json() -> None:
    asked = request(
        vectors=[[1, 2.5]],
        embedding_model="m",
        now="2026-03-02T07:15:00+08:00",
        filters={"keywords": ["茶"]},
        mode="elapsed",
    )
    assert RetrievalRequest.model_validate(asked.model_dump(mode="json", exclude_none=True)) == asked


def test_an_answer_shows_the_first_focal_texts_memories() -> None:
    groups = [
        FocalAnswer(query="tea", status="no_candidates", debug=Debug(mode="recent")),
        FocalAnswer(query="cup", status="ok", debug=Debug(mode="other")),
    ]
    answer = Answer(status="ok", groups=groups)
    assert answer.retrieved_nodes == answer.accessed_ids == []
    assert answer.debug.mode == "recent"


def test_a_failure_has_all_five_fields_too() -> None:
    group = FocalAnswer(query="tea", status="no_candidates", message="none").model_dump()
    assert group.keys() == {"query", "status", "message", "retrieved_nodes", "accessed_ids", "debug"}


def dialogue(*messages: dict[str, Any], **fields: Any) -> RetrievalRequest:
    return RetrievalRequest(group_id="g", agent_id="klaus", messages=[*messages], **fields)


USER = {"role": "user", "content": "tea?"}


def test_a_dialogue_is_one_text_whose_latest_message_of_the_user_leads() -> None:
    asked = dialogue({"role": "user", "content": "hello"}, USER, {"role": "assistant", "content": "coffee"})
    assert asked.texts == ["tea?"]
    assert RetrievalRequest.model_validate(asked.model_dump(mode="json", exclude_none=True)) == asked
    assert dialogue({**USER, "name": "林岚"}, vectors=[[1, 2]], embedding_model="m").texts == ["林岚: tea?"]


@pytest.mark.parametrize(
    ("messages", "fields", "path", "words"),
    [
        ([], {}, "queries", "messages"),
        ([USER], {"queries": ["tea"]}, "messages", "either"),
        ([{"role": "assistant", "content": "x"}], {}, "messages", "role user"),
        ([{"role": "system", "content": "x"}, USER], {}, "messages.0.role", "assistant"),
        ([{**USER, "colour": "red"}], {}, "messages.0.colour", "not permitted"),
        ([{"role": "user", "content": "a\0"}], {}, "messages.0.content", "NUL"),
        ([{"role": "user", "content": "x" * 8_001}], {}, "messages.0.content", "8,000"),
        ([{"role": "user", "content": "x" * 8_000}] * 3, {}, "messages", "16,000"),
        ([USER] * 33, {}, "messages", "32"),
        ([USER, USER], {"vectors": [[1], [2]], "embedding_model": "m"}, "vectors", "give one"),
    ],
)
def test_a_wrong_dialogue_is_refused(
    messages: list[dict[str, Any]], fields: dict[str, Any], path: str, words: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        dialogue(*messages, **fields)
    (problem,) = problems_of(caught.value)
    assert problem.startswith(f"{path}: "), problem
    assert words in problem


@pytest.mark.parametrize(
    "texts",
    [
        {},
        {"query": "x", "messages": [USER]},
        {"queries": ["x"], "messages": [USER]},
        {"query": "x", "queries": ["y"]},
    ],
)
def test_a_body_has_one_text_or_several_or_a_dialogue(texts: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="quer"):
        RetrieveBody(agent_id="klaus", **texts)
    body = RetrieveBody.model_validate(
        {"agent_id": "klaus", "query": None, "queries": [], "messages": [USER]}
    )
    assert (body.queries, body.texts) == ([], ["tea?"])


def test_an_answer_without_groups_is_for_one_focal_text() -> None:
    assert RetrieveBody.model_validate({"agent_id": "klaus", "query": "tea", "flat": True}).flat
    with pytest.raises(ValidationError, match="flat: is for one focal text, but 2 are given"):
        RetrieveBody.model_validate({"agent_id": "klaus", "queries": ["tea", "茶"], "flat": True})
