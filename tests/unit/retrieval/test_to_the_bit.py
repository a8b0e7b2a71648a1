"""What was made faster gives what its plain form gives, to the bit: numpy's own figures, rows taken in at
once, topics known before.
"""

from __future__ import annotations

from uuid import UUID

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.retrieval import ordering, ranking
from engine.retrieval.ordering import MemoryView
from engine.retrieval.ranking import MIN_NORM
from engine.text.statements import is_of, narrowest, topics_of

SAID = [
    "Anna lives in Rome.",
    "Anna moved to Oslo, not Rome any more.",
    "Ben pays 900 for the flat.",
    "房租涨到1200了。",
    "ok",
    "My code is 4711.",
]
QUESTIONS = [
    "Where does Anna live now?",
    "How much is the rent?",
    "房租多少？",
    "What is my door code?",
    "Who came?",
]


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=40))
def test_means_deviations_and_lengths(values: list[float]) -> None:
    known = np.array(values)
    assert ranking.mean(known) == known.mean()
    assert ranking.deviation(known - known.mean()) == known.std()
    for vector in (known, known.astype(np.float32)):
        assert ranking.length_of(vector) == np.linalg.norm(vector)


@given(st.lists(st.tuples(st.floats(-100, 100), st.sampled_from([0.0, MIN_NORM, 0.3, 7.0])), max_size=20))
def test_quotients(values: list[tuple[float, float]]) -> None:
    products, scale = (np.array([value[place] for value in values]) for place in (0, 1))
    assert ranking.quotient(products, scale).tolist() == [
        above / below if below > MIN_NORM else 0 for above, below in values
    ]


@given(st.sampled_from(QUESTIONS), st.lists(st.sampled_from(SAID), max_size=6), st.integers(0, 10_000))
def test_nothing_is_said_anew_where_it_cannot_be(question: str, texts: list[str], seed: int) -> None:
    chance = np.random.default_rng(seed)
    times = chance.integers(0, 4_000, len(texts)).tolist()
    shown = [
        MemoryView(UUID(int=place + 1), text, float(times[place]), None) for place, text in enumerate(texts)
    ]
    likely = np.ones((len(texts), len(texts)))
    if not ordering.may_be_renewed(question, shown):
        assert not ordering.replaces(shown, likely, np.ones(len(texts))).any()


@given(
    st.sampled_from([*SAID, "I used to rent a flat, now my phone is a Pixel.", "以前住杭州，现在住北京。"])
)
def test_topics_are_those_of_the_text(text: str) -> None:
    shown = MemoryView(UUID(int=1), text, 0.0, None)
    assert narrowest(shown.topics) == topics_of(text)
    for name in shown.topics | shown.topics_now:
        assert is_of(text, name)
