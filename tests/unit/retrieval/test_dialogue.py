"""engine.retrieval.query: what the messages of a dialogue count, and what is looked for by them together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.retrieval.query import ASSISTANT_SHARE, DECAY, LEAST_WEIGHT, Part, parts_of, vector_of, words_of
from jiyi.protocol.retrieval import DialogueMessage

roles = st.lists(st.sampled_from(["user", "assistant"]), max_size=32)


def said(*messages: tuple[str, str]) -> list[DialogueMessage]:
    return [DialogueMessage.model_validate({"role": role, "content": content}) for role, content in messages]


def test_the_latest_message_of_the_user_leads_and_earlier_ones_count_less() -> None:
    parts = parts_of(said(("user", "first"), ("assistant", "advice"), ("user", "second"), ("assistant", "more advice"), ("user", "third")))
    assert [part.text for part in parts] == ["third", "second", "first", "more advice", "advice"]
    assert [part.weight for part in parts] == pytest.approx([1, DECAY, DECAY**2, ASSISTANT_SHARE, DECAY * ASSISTANT_SHARE])
    # Also where the assistant has the last word; what is said twice counts once, and a name is part of what is said.
    assert parts_of(said(("user", "tea"), ("assistant", "coffee"))) == (Part("tea", 1.0), Part("coffee", ASSISTANT_SHARE))
    assert parts_of(said(("user", "tea"), ("assistant", "tea"), ("user", "tea"))) == (Part("tea", 1.0),)
    assert parts_of([DialogueMessage(role="user", name="小林", content="猫呢？")]) == (Part("小林: 猫呢？", 1.0),)


@given(roles)
def test_few_messages_count_however_long_the_dialogue_is(spoken: list[str]) -> None:
    messages = said(*((role, str(place)) for place, role in enumerate(spoken)))
    parts = parts_of(messages)
    assert sum(messages[int(part.text)].role == "user" for part in parts) <= 4
    assert all(LEAST_WEIGHT <= part.weight <= 1 for part in parts)
    if "user" in spoken:
        assert parts[0] == Part(str(max(place for place, role in enumerate(spoken) if role == "user")), 1.0)


def test_the_vector_is_the_weighted_mean_of_directions_whatever_the_vectors_lengths() -> None:
    vectors = {"a": np.array([10, 0], dtype=np.float32), "b": np.array([0, 0.1], dtype=np.float32)}
    found = vector_of([Part("a", 1.0), Part("b", 0.75)], vectors)
    assert found.dtype == np.float32
    assert found.tolist() == pytest.approx([0.8, 0.6])
    assert vector_of([Part("a", 1.0)], vectors).tolist() == pytest.approx([1, 0])


def test_a_word_counts_as_much_as_the_weightiest_message_that_has_it() -> None:
    assert words_of([Part("kiln glaze", 1.0), Part("glaze harbour", 0.5)]) == {"kiln": 1.0, "glaze": 1.0, "harbour": 0.5}
