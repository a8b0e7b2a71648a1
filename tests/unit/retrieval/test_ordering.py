"""engine.retrieval.ordering: the newer before the older; thoughts behind their evidence."""

from __future__ import annotations

from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.retrieval import ordering
from engine.retrieval.ordering import order
from engine.text.statements import is_of, narrowest, topics_of
from tests.unit.text.labelled import labelled

DAY = 86_400.0


def shown(
    place: int,
    text: str = "text",
    *,
    day: float = 0,
    subject: str | None = "Anna",
    rests_on: tuple[int, ...] = (),
) -> ordering.MemoryView:
    others = frozenset(UUID(int=other) for other in rests_on)
    return ordering.MemoryView(UUID(int=place), text, day * DAY, subject, others)


def order_of(
    memories: list[ordering.MemoryView], cosine: float = 0.6, relevance: tuple[float, ...] = ()
) -> tuple[list[int], dict[int, int]]:
    """All as alike as ``cosine`` says; equally relevant unless told otherwise."""
    size = len(memories)
    alike = np.full((size, size), cosine) + (1 - cosine) * np.eye(size)
    replaced = ordering.replaces(memories, alike, np.array(relevance or [1.0] * size))
    order, by = ordering.in_order(memories, replaced)
    return order.tolist(), by


def test_the_newer_comes_directly_before_the_older_that_it_replaces() -> None:
    memories = [
        shown(1),
        shown(2, "she lives in Leith"),
        shown(3),
        shown(4, "she lives in Hobart now", day=9),
    ]
    alike = np.eye(4)
    alike[1, 3] = alike[3, 1] = 0.7
    order, by = ordering.in_order(memories, ordering.replaces(memories, alike, np.ones(4)))
    assert order.tolist() == [0, 3, 1, 2]
    assert by == {1: 3}


def test_of_several_the_newest_comes_first() -> None:
    memories = [shown(1, "162", day=1), shown(2, "now 138", day=2), shown(3, "134 now", day=3)]
    order, by = order_of(memories)
    assert order == [2, 1, 0]
    assert by == {0: 2, 1: 2}
    # One that stands behind already is marked.
    assert order_of([shown(1, "now", day=1), shown(2)]) == ([0, 1], {1: 0})
    # More relevant than the older is no more than as relevant.
    green = [shown(1, "it is red"), shown(2, "it is green", day=1)]
    assert order_of(green, ordering.SAYS_NOTHING - 1.1, (1.0, 9.0))[1] == {}


@pytest.mark.parametrize(
    ("text", "enough"),
    [
        *(("it is green now", ordering.SAYS_SO), ("密码改成7730了", ordering.SAYS_SO)),
        # Changes of state.
        *(("the rent went up to 2,900", ordering.MAY_SAY_SO), ("空腹血糖6.8了", ordering.MAY_SAY_SO)),
        ("it is green", ordering.SAYS_NOTHING),
        (" ".join(f"word{i}" for i in range(40)) + " now", ordering.SAYS_NOTHING),  # one thing of many
    ],
)
def test_without_a_word_of_change_they_have_to_be_more_alike_and_more_relevant(
    text: str, enough: float
) -> None:
    memories = [shown(1, "it is red"), shown(2, text, day=1)]
    for cosine, share in ((enough - 0.6, 0.6), (enough - 0.75, 0.75), (enough - 1, 1.0)):
        if ordering.LEAST_SIMILARITY <= cosine < 0.99:
            assert order_of(memories, cosine + 1e-4, (1, share + 1e-4))[0] == [1, 0]
            assert order_of(memories, cosine - 1e-3, (1, share))[0] == [0, 1]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (shown(1), shown(2, "now", day=ordering.APART / DAY - 0.001)),  # of one conversation
        (shown(1), shown(2, "now", day=1, subject="Ben")),  # of another subject
        (shown(1), shown(2, "now", day=1, rests_on=(1,))),  # a thought is no news
        (shown(1, rests_on=(7,)), shown(2, "now", day=1)),  # nor is one replaced by what was told
    ],
)
def test_who_replaces_nothing(old: ordering.MemoryView, new: ordering.MemoryView) -> None:
    assert order_of([old, new], 0.9) == ([0, 1], {})


def test_what_hardly_answers_or_is_about_something_else_is_not_lifted() -> None:
    memories = [shown(1), shown(2, "now", day=1)]
    assert order_of(memories, 0.95, (1.0, ordering.LEAST_RELEVANT + 0.01))[0] == [1, 0]
    assert order_of(memories, 0.95, (1.0, ordering.LEAST_RELEVANT - 0.01))[0] == [0, 1]
    assert order_of(memories, ordering.LEAST_SIMILARITY - 0.01)[0] == [0, 1]
    assert not ordering.replaces(
        memories, np.zeros((2, 2)), np.ones(2)
    ).any()  # without vectors: like nothing


def test_the_ordinary_is_what_those_have_that_are_not_looked_at() -> None:
    relevance = np.array([1.0, 0.6, *[0.2] * 995])
    assert ordering.above_ordinary(relevance, np.arange(2)) == pytest.approx([0.8, 0.4], abs=0.01)
    # The least relevant of three may well be the news: nothing is known of what is ordinary.
    assert ordering.above_ordinary(np.array([1.0, 0.4, 0.0]), np.arange(3)) == pytest.approx(
        [1.475, 0.875, 0.475]
    )


@labelled
def test_words_of_change(text: str, *, changes: bool) -> None:
    assert (ordering.needed(text) == ordering.SAYS_SO) == changes


@given(st.lists(st.lists(st.integers(0, 9), max_size=3), max_size=10))
def test_each_thought_comes_as_soon_as_the_last_of_its_evidence(evidence: list[list[int]]) -> None:
    """After each memory the earliest that waited only for it, then what waited for that."""
    memories = [shown(place, rests_on=tuple(rests_on)) for place, rests_on in enumerate(evidence)]
    there = set(range(len(evidence)))
    expected: list[int] = []
    waiting: list[int] = []

    def may_come(place: int) -> bool:
        rests_on = set(evidence[place])
        return not rests_on or (bool(rests_on & there) and rests_on & there <= set(expected))

    for place in range(len(evidence)):
        if not may_come(place):
            waiting.append(place)
            continue
        expected.append(place)
        while (ready := next((late for late in waiting if may_come(late)), None)) is not None:
            expected.append(ready)
            waiting.remove(ready)
    assert ordering.behind_evidence(memories).tolist() == [*expected, *waiting]


def test_many_thoughts_on_many_memories_are_ordered_at_once() -> None:
    """Hundreds of thoughts, each on all memories before it: looked at once, not each again for each."""
    count = 300
    memories = [shown(count - place, rests_on=tuple(range(1, count - place))) for place in range(count)]
    assert ordering.behind_evidence(memories).tolist() == list(range(count))[::-1]


def by(
    question: str, *texts: str, alike: float = 0.25, relevance: tuple[float, ...] = (), apart: float = DAY
) -> dict[int, int]:
    """What is said anew of texts told one after the other, all as alike and as relevant."""
    shown = [
        ordering.MemoryView(UUID(int=place + 1), f"Yue: {text}", place * apart, "Yue")
        for place, text in enumerate(texts)
    ]
    size = len(texts)
    likeness = np.full((size, size), alike) + (1 - alike) * np.eye(size)
    return ordering.in_order(
        shown, ordering.renewed(question, shown, likeness, np.array(relevance or [0.6] * size))
    )[1]


@labelled
def test_a_statement_of_the_topic_asked_about_renews_another_without_a_word_in_common(
    question: str, old: str, new: str, *, renews: bool
) -> None:
    assert by(question, old, new) == ({0: 1} if renews else {})
    if renews:
        assert by(question, new, old, apart=-DAY) == {1: 0}


def test_it_takes_some_likeness_some_relevance_and_some_time() -> None:
    asked = ("Which phone do I use?", "My Galaxy is dying on me.", "I've got an iPhone now.")
    assert by(*asked) == {0: 1}
    assert by(*asked, alike=ordering.TOPIC_SIMILARITY - 0.01) == {}
    assert by(*asked, relevance=(0.6, ordering.TOPIC_RELEVANT - 0.01)) == {}
    assert by(*asked, apart=ordering.APART - 1) == {}
    plain = ("Which phone do I use?", "My phone is a Galaxy.", "My phone is an iPhone.")
    assert by(*plain, alike=ordering.ENOUGH - 0.25 + 0.01) == {0: 1}
    assert by(*plain, alike=ordering.ENOUGH - 0.25 - 0.01) == {}
    # Of several it is the newest.
    coffees = "Three americanos a day.", "I quit coffee.", "One flat white a day now."
    assert by("How much coffee do I drink?", *coffees) == {0: 2, 1: 2}
    assert by("Which phone do I use?") == {}


@labelled
def test_a_word_of_change_makes_up_for_what_answers_less(
    question: str, old: str, new: str, *, renews: bool
) -> None:
    less = 0.6 * ordering.LEAST_SHARE - 0.01
    assert by(question, old, new, alike=0.4, relevance=(0.6, less)) == ({0: 1} if renews else {})


@labelled
def test_without_a_model_it_takes_one_attribute_and_a_word_of_change(
    older: str, newer: str, *, is_so: bool
) -> None:
    assert ordering.said_so([(older, newer)]) == [is_so]


@pytest.mark.parametrize(
    ("probability", "expected"),
    [(None, [1, 0]), (ordering.LEAST_PROBABILITY, [1, 0]), (ordering.LEAST_PROBABILITY / 2, [0, 1])],
)
def test_what_does_not_answer_at_all_is_not_lifted(probability: float | None, expected: list[int]) -> None:
    memories = [shown(1, "I live in Rome."), shown(2, "I moved to Oslo.", day=9)]
    likely = None if probability is None else np.array([0.5, probability])
    alike, relevance = np.full((2, 2), 0.9), np.ones(2)
    asked = "Where do I live?"
    positions, marked = order(asked, memories, lambda: alike, lambda: relevance, lambda: None, likely)
    assert positions.tolist() == expected
    assert marked == ({0: 1} if expected == [1, 0] else {})


SAID = ["Anna lives in Rome.", "Anna moved to Oslo, not Rome any more.", "Ben pays 900 for the flat."]
SAID += ["房租涨到1200了。", "ok", "My code is 4711."]
QUESTIONS = [
    "Where does Anna live now?",
    "How much is the rent?",
    "房租多少？",
    "What is my door code?",
    "Who came?",
]


@given(st.sampled_from(QUESTIONS), st.lists(st.sampled_from(SAID), max_size=6), st.integers(0, 10_000))
def test_nothing_is_said_anew_where_it_cannot_be(question: str, texts: list[str], seed: int) -> None:
    times = np.random.default_rng(seed).integers(0, 4_000, len(texts)) / DAY
    memories = [shown(place + 1, text, day=times[place], subject=None) for place, text in enumerate(texts)]
    likely = np.ones((len(texts), len(texts)))
    if not ordering.may_be_renewed(question, memories):
        assert not ordering.replaces(memories, likely, np.ones(len(texts))).any()


@given(
    st.sampled_from([*SAID, "I used to rent a flat, now my phone is a Pixel.", "以前住杭州，现在住北京。"])
)
def test_topics_are_those_of_the_text(text: str) -> None:
    memory = shown(1, text)
    assert narrowest(memory.topics) == topics_of(text)
    assert all(is_of(text, name) for name in memory.topics | memory.topics_now)
