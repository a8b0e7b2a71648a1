"""engine.retrieval.query: what the messages of a dialogue count, and what is looked for by them together."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.retrieval import query
from engine.retrieval.query import ASSISTANT_SHARE as SHARE
from engine.retrieval.query import DECAY
from jiyi.protocol.limits import EMBEDDED_QUESTION_CHARS
from jiyi.protocol.retrieval import DialogueMessage

ROLES = st.sampled_from(["user", "assistant"])


def said(*messages: str) -> list[DialogueMessage]:
    """Messages as "role: text", or "role (name): text"."""
    parts = (re.fullmatch(r"(\w+)(?: \((\w+)\))?: (.*)", message, re.DOTALL) for message in messages)
    return [
        DialogueMessage.model_validate({"role": one[1], "name": one[2], "content": one[3]})
        for one in parts
        if one
    ]


@pytest.mark.parametrize(
    ("messages", "weights"),
    [
        (
            ["user: first", "assistant: advice", "user: second", "assistant: more advice", "user: third"],
            {"third": 1, "second": DECAY, "first": DECAY**2, "more advice": SHARE, "advice": DECAY * SHARE},
        ),
        (["user: tea", "assistant: coffee"], {"tea": 1, "coffee": SHARE}),  # the assistant has the last word
        (["user: tea", "assistant: tea", "user: tea"], {"tea": 1}),  # what is said twice counts once
        (["user (小林): 猫呢？"], {"小林: 猫呢？": 1}),  # a name is part of what is said
    ],
)
def test_the_latest_message_of_the_user_leads_and_earlier_ones_count_less(
    messages: list[str], weights: dict[str, float]
) -> None:
    parts = query.parts_of(said(*messages))
    assert [part.text for part in parts] == list(weights)
    assert {part.text: part.weight for part in parts} == pytest.approx(weights)


@given(st.lists(ROLES, max_size=32))
def test_few_messages_count_however_long_the_dialogue_is(spoken: list[str]) -> None:
    messages = said(*(f"{role}: {place}" for place, role in enumerate(spoken)))
    parts = query.parts_of(messages)
    assert sum(messages[int(part.text)].role == "user" for part in parts) <= 4
    assert all(query.LEAST_WEIGHT <= part.weight <= 1 for part in parts)
    of_user = [str(place) for place, role in enumerate(spoken) if role == "user"]
    assert not of_user or (parts[0].text, parts[0].weight) == (of_user[-1], 1.0)


def test_the_leading_message_and_the_dialogue_as_one_text_are_embedded() -> None:
    texts = query.texts_of(said("user: tea", "assistant: black?", "user: green"))
    assert texts == ("green", "tea\nAssistant: black?\ngreen")
    named = query.texts_of(said("user (小林): 猫呢？", "assistant (小助): 在家。"))
    assert named == ("小林: 猫呢？", "小林: 猫呢？\n小助: 在家。")


@given(st.lists(st.builds("{}: {}".format, ROLES, st.text("茶a", min_size=1, max_size=700)), max_size=8))
def test_of_a_long_dialogue_the_latest_messages_are_embedded(spoken: list[str]) -> None:
    leading, whole = query.texts_of(said(*spoken, "user: the last"))
    assert leading == "the last"
    assert whole.endswith("the last")
    assert len(whole) <= EMBEDDED_QUESTION_CHARS


def test_the_vector_is_the_mean_of_directions_whatever_the_vectors_lengths() -> None:
    vectors = {"a": np.array([8, 6], dtype=np.float32), "b": np.array([0.08, -0.06], dtype=np.float32)}
    found = query.vector_of(["a", "b"], vectors)
    assert found.dtype == np.float32
    assert found.tolist() == pytest.approx([1, 0], abs=1e-6)
    assert query.vector_of(["a"], vectors).tolist() == pytest.approx([0.8, 0.6])


def test_a_word_counts_as_much_as_the_weightiest_message_that_has_it() -> None:
    messages = [query.WeightedMessage("kiln glaze", 1.0), query.WeightedMessage("glaze harbour", 0.5)]
    assert query.words_of(messages) == {"kiln": 1.0, "glaze": 1.0, "harbour": 0.5}
