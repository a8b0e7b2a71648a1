"""What was made faster ranks as before, to the bit: the plain forms of before, beside those of now."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.retrieval import lexicon, ordering, ranking, relevance
from engine.retrieval.corpus import Corpus
from engine.retrieval.lexicon import Lexicon
from engine.retrieval.ordering import Shown
from engine.retrieval.ranking import MIN_NORM, Floats
from engine.retrieval.relevance import HOP_FROM, HOP_LEXICAL_SHARE, hybrid, standard
from engine.text.keywords import asked_tokens
from engine.text.topics import all_topics_of, is_of, narrowest, topics_of
from tests.unit.retrieval.test_relevance import NOW, random_corpus


def added_up(texts: Lexicon, tokens: Sequence[str]) -> Floats:
    """BM25, token by token."""
    scores = np.zeros(len(texts), dtype=np.float64)
    for positions, values, _ in texts._scored(tokens).values():
        scores[positions] += values
    return scores


def standard_of(values: Floats, others: np.ndarray) -> Floats:
    """Standard scores of the others; the rest get the highest of them, at least 0."""
    found = np.zeros_like(values)
    found[others] = standard(values[others])
    found[~others] = found.max(initial=0)
    return found


def second_hop(corpus: Corpus, first: Floats, asked: Sequence[str], said: Floats, *, with_vectors: bool) -> Floats:
    """The second hop, by masks over all rows of its pool."""
    pool = relevance._highest(first, relevance.HOP_POOL, corpus.created)
    if len(corpus) <= relevance.HOP_POOL:
        pool = np.arange(len(corpus))
    start = relevance._highest(first, HOP_FROM, corpus.created)
    onward = np.zeros(pool.size, dtype=np.float64)
    by_vector = relevance._centred_likeness(corpus, start, pool) if with_vectors else None
    for place, row in enumerate(start):
        others = pool != row
        if by_vector is not None:
            same = [relevance._says_same(corpus.lexicon, int(row), int(other)) for other in pool]
            others &= (by_vector[place] < relevance.NEAR) | ~np.array(same)
        goes_on = standard_of(relevance._goes_on(corpus.lexicon, int(row), asked, slice(None))[pool], others)
        if by_vector is not None:
            goes_on = (1 - HOP_LEXICAL_SHARE) * standard_of(by_vector[place], others) + HOP_LEXICAL_SHARE * goes_on
        onward += standard_of(goes_on, others) * max(0.0, 1 - float(said[row])) / (place + 1)
    hop = np.zeros(len(corpus), dtype=np.float64)
    hop[pool] = onward
    return hop


@given(st.integers(0, 10_000), st.integers(1, 60), st.sampled_from([5, 1_000]))
def test_relevance(seed: int, size: int, pool: int) -> None:
    corpus, question, vector = random_corpus(seed, size)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(relevance, "HOP_POOL", pool)
        now = hybrid(corpus, question, vector, lambda _: vector, NOW)
        patch.setattr(relevance, "_second_hop", second_hop)
        patch.setattr(Lexicon, "bm25", added_up)
        before = hybrid(corpus, question, vector, lambda _: vector, NOW)
    for name in ("total", "dense", "lexical", "second_hop", "neighbours", "named"):
        assert np.array_equal(getattr(now, name), getattr(before, name)), name


@given(st.integers(0, 10_000), st.sampled_from([0, 40, 10**6]))
def test_words(seed: int, at_once: int) -> None:
    corpus, question, _ = random_corpus(seed, 50)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lexicon, "ADDED_AT_ONCE", at_once)
        for tokens in (asked_tokens(question), corpus.lexicon.text(3), ["nobody", "says", "this"], []):
            assert np.array_equal(corpus.lexicon.bm25(tokens), added_up(corpus.lexicon, tokens))


@given(st.lists(st.lists(st.sampled_from(["kiln", "tea", "陶瓷", "ok"]), max_size=6), max_size=20), st.integers(0, 20))
def test_texts_taken_in_together(texts: list[list[str]], cut: int) -> None:
    """The same as one by one: counts, lengths and the order of each text's tokens."""
    together, one_by_one = Lexicon(), Lexicon()
    for part in (texts[:cut], texts[cut:]):
        together.extend([" ".join(text) for text in part])
    for text in texts:
        one_by_one.add(text)
    assert [together.text(row) for row in range(len(texts))] == [one_by_one.text(row) for row in range(len(texts))]
    for tokens in (["kiln"], ["tea", "ok"], ["陶瓷", "陶"]):
        assert np.array_equal(together.bm25(tokens), one_by_one.bm25(tokens))
    assert together.contents().tolist() == one_by_one.contents().tolist()


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=40))
def test_the_median(values: list[float]) -> None:
    assert ordering._median(np.array(values)) == np.median(values)


SAID = [
    "Anna lives in Rome.",
    "Anna moved to Oslo, not Rome any more.",
    "Ben pays 900 for the flat.",
    "房租涨到1200了。",
    "ok",
    "My code is 4711.",
]
QUESTIONS = ["Where does Anna live now?", "How much is the rent?", "房租多少？", "What is my door code?", "Who came?"]


@given(st.sampled_from(QUESTIONS), st.lists(st.sampled_from(SAID), max_size=6), st.integers(0, 10_000))
def test_what_is_said_anew(question: str, texts: list[str], seed: int) -> None:
    chance = np.random.default_rng(seed)
    size = len(texts)
    times = chance.integers(0, 20_000, size).tolist()
    shown = [Shown(UUID(int=place + 1), text, float(times[place]), None) for place, text in enumerate(texts)]
    alike, relevance = chance.random((size, size)), chance.random(size)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ordering, "_drop", lambda pairs, among, fits: pairs.__iand__(np.array([fits(one.text) for one in among])[:, None]))
        found = ordering.renewed(question, shown, alike, relevance)
    assert np.array_equal(ordering.renewed(question, shown, alike, relevance), found)


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
    assert ranking.quotient(products, scale).tolist() == [above / below if below > MIN_NORM else 0 for above, below in values]


@given(st.sampled_from(QUESTIONS), st.lists(st.sampled_from(SAID), max_size=6), st.integers(0, 10_000))
def test_nothing_is_said_anew_where_it_cannot_be(question: str, texts: list[str], seed: int) -> None:
    chance = np.random.default_rng(seed)
    times = chance.integers(0, 4_000, len(texts)).tolist()
    shown = [Shown(UUID(int=place + 1), text, float(times[place]), None) for place, text in enumerate(texts)]
    likely = np.ones((len(texts), len(texts)))
    if not ordering.may_be_renewed(question, shown):
        assert not ordering.replaces(shown, likely, np.ones(len(texts))).any()


@given(st.lists(st.sampled_from([*SAID, "I used to rent a flat, now my phone is a Pixel.", "以前住杭州，现在住北京。"])))
def test_topics_are_those_of_the_text(texts: list[str]) -> None:
    for text in texts:
        shown = Shown(UUID(int=1), text, 0.0, None)
        assert narrowest(shown.topics) == topics_of(text)
        for name in shown.topics | shown.topics_now:
            assert is_of(text, name)
        now = ordering._PAST.sub("", text)
        assert (shown.topics_now, narrowest(shown.topics_now)) == (all_topics_of(now), topics_of(now))
