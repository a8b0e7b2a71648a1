"""engine.retrieval.query: what the messages of a dialogue count, and what is looked for by them together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.retrieval import query
from jiyi.protocol.limits import EMBEDDED_QUESTION_CHARS
from jiyi.protocol.retrieval import DialogueMessage

roles = st.lists(st.sampled_from(["user", "assistant"]), max_size=32)


def said(*messages: tuple[str, str]) -> list[DialogueMessage]:
    return [DialogueMessage.model_validate({"role": role, "content": content}) for role, content in messages]


def test_the_latest_message_of_the_user_leads_and_earlier_ones_count_less() -> None:
    parts = query.parts_of(
        said(
            ("user", "first"),
            ("assistant", "advice"),
            ("user", "second"),
            ("assistant", "more advice"),
            ("user", "third"),
        )
    )
    assert [part.text for part in parts] == ["third", "second", "first", "more advice", "advice"]
    assert [part.weight for part in parts] == pytest.approx(
        [1, query.DECAY, query.DECAY**2, query.ASSISTANT_SHARE, query.DECAY * query.ASSISTANT_SHARE]
    )
    # Also where the assistant has the last word; what is said twice counts once, and a name is part of what
    # is said.
    assert query.parts_of(said(("user", "tea"), ("assistant", "coffee"))) == (
        query.WeightedMessage("tea", 1.0),
        query.WeightedMessage("coffee", query.ASSISTANT_SHARE),
    )
    assert query.parts_of(said(("user", "tea"), ("assistant", "tea"), ("user", "tea"))) == (
        query.WeightedMessage("tea", 1.0),
    )
    assert query.parts_of([DialogueMessage(role="user", name="小林", content="猫呢？")]) == (
        query.WeightedMessage("小林: 猫呢？", 1.0),
    )


@given(roles)
def test_few_messages_count_however_long_the_dialogue_is(spoken: list[str]) -> None:
    messages = said(*((role, str(place)) for place, role in enumerate(spoken)))
    parts = query.parts_of(messages)
    assert sum(messages[int(part.text)].role == "user" for part in parts) <= 4
    assert all(query.LEAST_WEIGHT <= part.weight <= 1 for part in parts)
    if "user" in spoken:
        assert parts[0] == query.WeightedMessage(
            str(max(place for place, role in enumerate(spoken) if role == "user")), 1.0
        )


def test_the_leading_message_and_the_dialogue_as_one_text_are_embedded() -> None:
    assert query.texts_of(said(("user", "tea"), ("assistant", "black?"), ("user", "green"))) == (
        "green",
        "tea\nAssistant: black?\ngreen",
    )
    named = [
        DialogueMessage(role="user", name="小林", content="猫呢？"),
        DialogueMessage(role="assistant", name="小助", content="在家。"),
    ]
    assert query.texts_of(named) == ("小林: 猫呢？", "小林: 猫呢？\n小助: 在家。")


@given(
    st.lists(
        st.tuples(st.sampled_from(["user", "assistant"]), st.text("茶a", min_size=1, max_size=700)),
        max_size=8,
    )
)
def test_of_a_long_dialogue_the_latest_messages_are_embedded(spoken: list[tuple[str, str]]) -> None:
    messages = said(*spoken, ("user", "the last"))
    leading, whole = query.texts_of(messages)
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
    assert query.words_of(
        [query.WeightedMessage("kiln glaze", 1.0), query.WeightedMessage("glaze harbour", 0.5)]
    ) == {"kiln": 1.0, "glaze": 1.0, "harbour": 0.5}
