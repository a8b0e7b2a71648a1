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


MODEL = {"embedding_model": "m"}


@pytest.mark.parametrize(
    ("fields", "path", "words"),
    [
        ({"top_k": 0}, "top_k", "1"),
        ({"top_k": 1_001}, "top_k", "less than or equal to 1000"),
        ({"recency_w": float("nan")}, "recency_w", "finite"),
        ({"mode": "newest"}, "mode", "recent"),
        ({"queries": []}, "queries", "1"),
        ({"queries": ["tea", " \n"]}, "queries.1", ""),
        ({"agent_id": "a\0"}, "agent_id", "NUL"),
        ({"queries": ["x" * 8_001]}, "queries.0", "8,000"),
        ({"queries": ["tea"] * 33}, "queries", "32"),
        ({"agent_id": "x" * 201}, "agent_id", "200"),
        ({"now": NAIVE}, "now", "timezone"),
        ({"vectors": [[1, 2]]}, "vectors", "embedding_model"),
        ({"vectors": [[1], [2]], **MODEL}, "vectors", "2 given for 1"),
        ({"vectors": [[0, 0]], **MODEL}, "vectors.0", "zero"),
        ({"colour": "red"}, "colour", "not permitted"),
        ({"filters": {"types": []}}, "filters.types", "1"),
        ({"filters": {"created_after": NAIVE}}, "filters.created_after", "timezone"),
        ({"filters": {"min_similarity": 1.5}}, "filters.min_similarity", "1"),
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
        {"vectors": [[1, 2.5]], **MODEL},
        {"filters": {"types": ["chat"], "min_similarity": -1}, "now": "2026-03-02T07:15:00+08:00"},
    ],
)
def test_what_is_just_within_the_limits_is_accepted_and_survives_json(fields: dict[str, Any]) -> None:
    asked = request(**fields)
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


def test_a_body_has_one_text_or_several_or_a_dialogue() -> None:
    one, several, dialogue = {"query": "x"}, {"queries": ["y"]}, {"messages": [USER]}
    for texts in ({}, one | dialogue, several | dialogue, one | several):
        with pytest.raises(ValidationError, match="quer"):
            RetrieveBody.model_validate({"agent_id": "klaus", **texts})
    body = RetrieveBody.model_validate({"agent_id": "klaus", "query": None, "queries": [], **dialogue})
    assert (body.queries, body.texts) == ([], ["tea?"])


def test_an_answer_without_groups_is_for_one_focal_text() -> None:
    assert RetrieveBody.model_validate({"agent_id": "klaus", "query": "tea", "flat": True}).flat
    with pytest.raises(ValidationError, match="flat: is for one focal text, but 2 are given"):
        RetrieveBody.model_validate({"agent_id": "klaus", "queries": ["tea", "茶"], "flat": True})
