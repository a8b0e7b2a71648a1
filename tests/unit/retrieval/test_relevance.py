"""engine.retrieval.relevance: each part by hand, and the whole against a plain rewriting of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from engine.retrieval import query as sentences
from engine.retrieval import relevance
from engine.retrieval.corpus import (
    FIRST_HOUR,
    NEIGHBOUR_SHARES,
    Corpus,
    centre_of,
    dense,
    language_sums,
    with_hours,
)
from engine.retrieval.lexicon import Lexicon
from engine.retrieval.query import WeightedMessage, describes, marked_sentences, sentences_of
from engine.retrieval.ranking import Floats
from engine.retrieval.relevance import hybrid
from jiyi.protocol.wire.vectors import Float32
from jiyi.text.words import tokens
from tests.unit.text.labelled import labelled

#: A Wednesday.
NOW = datetime(2026, 3, 11, 15, 30, tzinfo=UTC)
DAY = 86_400.0


def corpus_of(
    texts: Sequence[str],
    vectors: Sequence[Sequence[float]] | None = None,
    *,
    sessions: Sequence[int] | None = None,
    created: Sequence[float] | None = None,
    subjects: Sequence[str | None] | None = None,
    languages: Sequence[int] | None = None,
) -> Corpus:
    """Without sessions there are no neighbours; by default all was said a day apart."""
    size = len(texts)
    lexicon = Lexicon()
    lexicon.extend(" ".join(tokens(text)) for text in texts)
    return Corpus.of(
        np.array(vectors, dtype=np.float32) if vectors else np.zeros((size, 0), dtype=np.float32),
        lexicon,
        languages=languages or [0] * size,
        sessions=sessions if sessions is not None else [-1] * size,
        created=created if created is not None else [NOW.timestamp() - DAY * (size - i) for i in range(size)],
        subjects=subjects or [None] * size,
    )


def vector(*values: float) -> Float32:
    return np.array(values, dtype=np.float32)


WORDS = "kiln clay glaze tea harbour ferry 陶瓷 喝茶".split()


def random_corpus(
    seed: int, size: int = 14, order: Sequence[int] | None = None
) -> tuple[Corpus, str, Float32]:
    """A memory with everything in it, its rows in this order, and a question with its vector."""
    random = np.random.default_rng(seed)
    texts = [" ".join(random.choice(WORDS, size=random.integers(1, 6))) for _ in range(size)]
    vectors = random.standard_normal((size, 6)) + 1
    vectors[random.integers(size)] = 0
    sessions, created = random.integers(0, 3, size), NOW.timestamp() - random.uniform(0, 5_000, size)
    subjects = random.choice(["Anna", "Ben", ""], size)
    rows = np.arange(size) if order is None else np.array(order)
    columns = {"sessions": sessions, "created": created, "subjects": subjects}
    fields: dict[str, Any] = {name: column[rows].tolist() for name, column in columns.items()}
    question = "Did Anna fire the glaze? Where was tea with the ferry yesterday?"
    corpus = corpus_of([texts[row] for row in rows], vectors[rows].tolist(), **fields)
    return corpus, question, vector(*random.standard_normal(6) + 1)


def find(
    corpus: Corpus,
    question: str,
    query: Float32 | None = None,
    embed: Callable[[str], Float32] | None = None,
    *,
    now: datetime = NOW,
    **options: Any,
) -> Any:
    return hybrid(corpus, question, query, embed, now, **options)


def embed_by_text(text: str) -> Float32:
    return np.random.default_rng(len(text)).standard_normal(6).astype(np.float32)


def test_dense_is_the_cosine_and_nothing_where_there_is_no_vector_or_no_direction() -> None:
    corpus = corpus_of(["a", "b", "c", "d"], [[1, 0], [3, 4], [0, 0], [-2, 0]])
    assert dense(corpus, vector(2, 0)) == pytest.approx([1, 0.6, 0, -1])
    assert dense(corpus, vector(0, 0)).tolist() == [0, 0, 0, 0]
    assert dense(corpus_of(["a", "b"]), vector(1, 0)).tolist() == [0, 0]


def test_the_centre_is_the_mean_trusted_the_more_the_more_memories_there_are() -> None:
    unit = np.array([[1, 0], [0, 1]], dtype=np.float32)
    sums = language_sums(2 * unit, np.array([2.0, 2.0]), np.arange(2), np.array([0, 1], dtype=np.int8))
    assert sums.tolist() == unit.tolist()  # each row made one long, by its language
    assert centre_of(sums, 2) == pytest.approx(np.array([0.5, 0.5]) * 2 / 27)
    for count, expected in ((25, 0.25), (50_000, 0.5)):  # 25 memories: half
        found = centre_of((unit * count / 2).astype(np.float32), count)
        assert found == pytest.approx([expected, expected], abs=1e-3)
    assert centre_of(np.zeros((2, 2), np.float32), 0).tolist() == [0, 0]


#: As many telling words as a full neighbour has.
TELLING = "kiln clay glaze tea"
#: Shares of the turn before or after, and of the one beyond it.
NEXT, SECOND = NEIGHBOUR_SHARES


@pytest.mark.parametrize(
    ("sessions", "created", "score", "gained"),
    [
        # They fade with the time between. The fourth is too far away, in places if not in time.
        ([0] * 4, [0, 900, 1800, 1800], [1, 0, 0, 0], [0, NEXT * math.exp(-1), SECOND * math.exp(-2), 0]),
        # They add up, and none takes away.
        ([0] * 3, [0, 0, 0], [4, 0, 2], [2 * SECOND, 6 * NEXT, 4 * SECOND]),
        ([0] * 3, [0, 0, 0], [4, 0, -2], [0, 4 * NEXT, 4 * SECOND]),
        # They are of the same session.
        ([0, 1, 0], [0, 1, 2], [0, 8, 1], [NEXT * math.exp(-2 / 900), 0, 0]),
        (None, [0, 3_600, 7_200], [1, 1, 1], [0, 0, 0]),
    ],
)
def test_neighbours_share(
    sessions: list[int] | None, created: list[float], score: list[float], gained: list[float]
) -> None:
    corpus = corpus_of([TELLING] * len(score), sessions=sessions, created=created)
    assert relevance.neighbours(corpus, np.array(score, dtype=float)) == pytest.approx(gained)


def test_what_people_say_in_one_hour_without_a_session_is_one_conversation_but_records_are_none() -> None:
    said, times = [TELLING] * 3, [7_200, 7_260, 7_320]
    without = corpus_of(said, created=times, subjects=["Mira", "Tomas", "Mira"])
    within = corpus_of(said, sessions=[0, 0, 0], created=times)
    score = np.array([8.0, 0, 1])
    assert relevance.neighbours(without, score).tolist() == relevance.neighbours(within, score).tolist()
    assert corpus_of(said, created=times).shares.sum() == 0
    one_within = corpus_of(said[:2], sessions=[0, -1], created=[0, 1], subjects=["Mira", "Mira"])
    assert one_within.shares.sum() == 0
    of_any_time = with_hours(np.array([-1, -1], np.int32), np.array([-1.0, 4e10]), np.zeros(2, np.int32))
    assert of_any_time.max() <= FIRST_HOUR


def test_the_second_hop_does_not_go_on_to_what_says_the_same() -> None:
    texts = ["the kiln in the shed is from Anna", "Anna lives in Leith", "coffee is cheap there"]
    texts += ["rain again in the shed", "the cat sleeps"]
    vectors = [[1, 0, 0.1], [0.7, 0.7, 0.1], [0, 1, 0.1], [0.1, 0, 1], [0, 0.2, 1]]
    corpora = corpus_of(texts, vectors), corpus_of([*texts, texts[0]], [*vectors, vectors[0]])
    once, twice = (find(corpus, "Who is the kiln from?", vector(1, 0, 0)) for corpus in corpora)
    assert np.argmax(twice.second_hop[1:5]) == np.argmax(once.second_hop[1:5])
    assert twice.second_hop[5] == twice.second_hop.max()
    assert twice.second_hop[0] == pytest.approx(twice.second_hop[5])


@pytest.mark.parametrize("nothing", ["ok ok", "haha nice", "嗯嗯", "Thank you!", "哈哈哈哈哈哈", "早上好！"])
def test_a_turn_without_content_neither_gains_nor_gives_and_one_with_little_little(nothing: str) -> None:
    corpus = corpus_of([TELLING, nothing, TELLING], sessions=[0, 0, 0], created=[0, 0, 0])
    assert relevance.neighbours(corpus, np.array([4.0, 8, 0])) == pytest.approx([0, 0, 4 * SECOND])
    corpus = corpus_of(["the kiln again", TELLING], sessions=[0, 0], created=[0, 0])  # one word of four
    assert relevance.neighbours(corpus, np.array([4.0, 8])) == pytest.approx([8 * NEXT / 4, 4 * NEXT / 4])


def test_an_answer_is_found_by_the_question_before_it() -> None:
    texts = ["Ben: which glaze did you choose?", "Anna: the green one from Leith"]
    texts += ["Anna: rain again in Hobart", "Ben: yes"]
    times = [NOW.timestamp() + 60 * i for i in range(4)]
    corpus = corpus_of(texts, sessions=[0, 0, 1, 1], created=times)
    assert np.argsort(-find(corpus, "glaze").total)[:2].tolist() == [0, 1]
    apart = find(corpus_of(texts, sessions=[0, 1, 2, 3], created=times), "glaze")
    left_out = find(corpus, "glaze", with_neighbours=False)
    assert apart.neighbours.tolist() == left_out.neighbours.tolist() == [0, 0, 0, 0]


@labelled
def test_memories_whose_subject_the_question_names(question: str, expected: list[int]) -> None:
    corpus = corpus_of(["a", "b", "c", "d"], subjects=["Anna", "Mary Ann Evans", "王小明", None])
    assert (find(corpus, question).named / relevance.SUBJECT_BONUS).tolist() == expected


@labelled
def test_memories_from_the_day_that_the_question_names(
    question: str, expected: list[int], of_each: int
) -> None:
    second = datetime(2026, 3, 2, tzinfo=UTC)
    moments = [(second + timedelta(seconds=seconds)).timestamp() for seconds in (-1, 0, 86_399, 86_400)]
    corpus = corpus_of(["a", "b", "c", "d"], created=moments, subjects=["Anna", "Ben", "Cleo", "Dan"])
    told = math.log((len(expected) + 1) / (of_each + 1))  # what all memories are of tells nothing
    of_ben = relevance.SUBJECT_BONUS * np.array([0, 1, 0, 0])
    named = find(corpus, f"Ben {question}").named
    assert named.tolist() == (relevance.DAY_WEIGHT * told * np.array(expected) + of_ben).tolist()
    beijing = timezone(timedelta(hours=8))  # a day is one in the time zone of now
    assert relevance.names_day(corpus, "3月3日", NOW.astimezone(beijing)).tolist() == [0, 0, 1, 1]


def test_a_day_tells_more_than_the_month_it_is_of() -> None:
    first = datetime(2026, 3, 1, tzinfo=UTC)
    moments = [(first + timedelta(days=day)).timestamp() for day in range(-59, 61)]
    corpus = corpus_of([f"memory {number}" for number in range(len(moments))], created=moments)
    named = ("on 8 March 2026", "in March 2026", "in March 2026, on 8 March 2026")
    later = NOW + timedelta(days=60)
    day, month, both = (find(corpus, f"what was {one}?", now=later).named for one in named)
    assert np.count_nonzero(day) == 1
    assert np.count_nonzero(month) == 31
    assert day.max() > month.max() > 1
    assert both.tolist() == np.maximum(day, month).tolist()


@labelled
def test_what_a_day_tells(question: str, tells: str) -> None:
    nats = {"little": relevance.MOST_OF_TODAY, "much": math.log(401 / 2)}[tells]
    moments = [(NOW - timedelta(days=day)).timestamp() for day in range(400)]
    corpus = corpus_of([f"memory {number}" for number in range(400)], created=moments)
    assert find(corpus, question).named.max() == relevance.DAY_WEIGHT * nats


@labelled
def test_the_second_hop_finds_what_shares_a_name_with_the_best(question: str, texts: list[str]) -> None:
    found = find(corpus_of(texts), question)
    assert np.argsort(-found.total)[0] == 0
    assert found.total[2] > max(found.total[[3, 4]])
    without = found.total - found.second_hop
    assert without[2] <= max(without[[3, 4]])


def hop_by_hand(
    corpus: Corpus, first: Floats, asked: Sequence[str], pool: Sequence[int], shares: tuple[float, float]
) -> Floats:
    """The second hop with nothing saved. Nothing goes on from itself, nor, by vectors, from its like."""

    def same(row: int, start: int) -> bool:
        one, other = set(corpus.lexicon.text(row)), set(corpus.lexicon.text(start))
        like = (
            shares[0] > 0
            and rows[row] @ rows[start] >= relevance.NEAR
            and len(one & other) >= relevance.SAME * max(len(one), len(other))
        )
        return row == start or bool(like)

    def standard(values: Floats, start: int) -> Floats:
        others = [value for row, value in zip(pool, values, strict=True) if not same(row, start)]
        scores = iter(relevance.standard(np.array(others)).tolist())
        found = [next(scores) if not same(row, start) else -math.inf for row in pool]
        return np.array([max([0.0, *found]) if value == -math.inf else value for value in found])

    rows = centred_rows(corpus)
    likeness = np.zeros(len(pool))
    for place, start in enumerate(highest(corpus, first)[: relevance.HOP_FROM]):
        said = corpus.lexicon.text(start)
        added = corpus.lexicon.bm25([token for token in said if token not in asked])
        left = corpus.lexicon.bm25([token for token in asked if token not in said])
        vectors, words = (rows @ rows[start])[pool], (added + left + 2 * np.minimum(added, left))[pool]
        alike = shares[0] * standard(vectors, start) + shares[1] * standard(words, start)
        answered = corpus.lexicon.bm25(asked)[start] / corpus.lexicon.information(asked)
        likeness += standard(alike, start) * max(0, 1 - answered) / (place + 1)
    hop = np.zeros(len(corpus))
    hop[pool] = likeness
    return hop


def centred_rows(corpus: Corpus) -> Floats:
    """Vectors of length one without what all have in common; nothing where there is none."""
    lengths = np.maximum(corpus.lengths, 1e-9)[:, None]
    rows = np.where(corpus.lengths[:, None] > 0, corpus.vectors / lengths - corpus.centre, 0)
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1), 1e-9)[:, None])


def highest(corpus: Corpus, score: Floats) -> list[int]:
    """Rows, those with the highest score first; of equal ones what happened earlier."""
    return sorted(range(len(corpus)), key=lambda row: (-score[row], corpus.created[row]))


@labelled
def test_the_sentences_of_a_question_and_which_of_them_ask(question: str, expected: dict[str, bool]) -> None:
    assert {sentence.text: sentence.asks for sentence in marked_sentences(question)} == expected
    assert sentences_of(question) == list(expected)
    of_many = "Who fired green kilns? " * (sentences.MAX_SENTENCES + 1)
    assert sentences_of(of_many) == [], "a text of many is looked for as a whole"


def kiln_or_ferry(text: str) -> Float32:
    return vector(1, 0) if "kiln" in text else vector(0, 1)


def test_a_sentence_that_only_tells_counts_less_than_one_that_asks() -> None:
    texts = ["The green kiln is broken", "The ferry left Leith harbour", "Ben drank tea", "So cold"]
    corpus = corpus_of(texts, [[1, 0], [0, 1], [-1, 0], [-1, -1]])
    told = "The green kiln broke today! Which ferry left Leith?"
    questions = told, told.replace("!", "?")
    first, second = (find(corpus, one, vector(1, 1), kiln_or_ferry).total for one in questions)
    assert first[1] - first[0] > second[1] - second[0] + 1  # in standard scores


def test_whom_a_sentence_names_counts_for_that_sentence() -> None:
    """As much as for a question of this sentence alone, beside what else the sentences add."""
    texts = ["The kiln is green", "The kiln is red", "The ferry left Leith harbour", "So cold"]
    names = ["Anna", "Ben", "Cleo", "Dan"]
    vectors = [[1, 0], [1, 0], [0, 1], [-1, -1]]
    question = "Which kiln does Ben have at home? Which ferry left Leith harbour?"
    found, bare = (
        find(corpus_of(texts, vectors, subjects=whose), question, vector(1, 1), kiln_or_ferry).total
        for whose in (names, None)
    )
    gained = found - bare
    weights = sentences.weights_of(marked_sentences(question))
    assert gained[[0, 2, 3]] == pytest.approx(0, abs=1e-6)
    assert gained[1] == pytest.approx(relevance.SUBJECT_BONUS * (1 + relevance.SENTENCE_WEIGHT * weights[0]))


@labelled
def test_a_question_that_describes_whom_it_means(question: str, described: bool) -> None:
    assert describes(question) is described


def test_the_second_hop_counts_more_for_who_is_described() -> None:
    corpus, _, query = random_corpus(4)
    named, described = "Which clay has Anna with glaze", "Which clay has the man who is with glaze"
    asked = (named, described)
    hops = [find(corpus, question, query, embed_by_text).second_hop for question in asked]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(relevance, "DESCRIBED_GAIN", 1.0)
        plain = [find(corpus, question, query, embed_by_text).second_hop for question in asked]
    assert hops[0] == pytest.approx(plain[0])
    assert hops[1] == pytest.approx(3 * plain[1])


def test_what_says_a_part_of_a_dialogue_says_enough() -> None:
    texts = ["Anna fired the green kiln", "The ferry left", *(f"filler{number} said" for number in range(40))]
    corpus = corpus_of(texts)
    short, long = ["green", "kiln"], ["green", "kiln", *(f"word{number}" for number in range(400))]
    assert relevance.information(corpus, short) == corpus.lexicon.information(short)
    assert relevance.information(corpus, long) == relevance.MOST_INFORMATION
    assert corpus.lexicon.information(long) > relevance.MOST_INFORMATION


def test_a_memory_counts_with_its_best_sentence() -> None:
    corpus, _, query = random_corpus(3)
    corpus.shares[:] = 0
    question = "Which kiln has clay with glaze? Which harbour ferry has tea?"
    texts = [question, *sentences_of(question)]
    focal = [query, *map(embed_by_text, texts[1:])]
    less = relevance.penalty(corpus, question)
    whole, *parts = (find(corpus, text, one).total + less for text, one in zip(texts, focal, strict=True))
    assert len(parts) == 2
    found = find(corpus, question, query, embed_by_text).total
    assert found == pytest.approx(whole - less + relevance.SENTENCE_WEIGHT * (np.maximum(*parts) - less))


def test_within_one_language_scores_are_as_over_all_and_all_equal_says_nothing() -> None:
    values = np.array([1.0, 2, 4, 9])
    for code in (0, 1):
        codes = np.full(4, code, dtype=np.int8)
        assert relevance.standard_within(values, codes).tolist() == relevance.standard(values).tolist()
    assert relevance.standard_within(values[:0], np.zeros(0, dtype=np.int8)).size == 0
    assert relevance.standard_within(np.ones(4), np.array([0, 0, 1, 1], dtype=np.int8)).tolist() == [0] * 4


def test_the_best_of_each_language_stand_out_however_far_apart_the_languages_are() -> None:
    few, many = np.array([0.9, 0.8] * 50 + [0.97]), np.array([0.3, 0.2] * 50 + [0.37])
    codes = np.array([1] * 101 + [0] * 101, dtype=np.int8)
    found = relevance.standard_within(np.concatenate([few, many]), codes)
    assert sorted(np.argsort(-found)[:2].tolist()) == [100, 201]
    assert relevance.standard(np.concatenate([few, many]))[201] < 0
    # By itself a single one would be exactly average, whatever it says: shrunk, most of its difference is
    # left.
    alone = relevance.standard_within(np.array([*range(9), 30.0]), np.array([0] * 9 + [1], dtype=np.int8))
    assert alone.argmax() == 9


def test_in_another_language_the_vector_speaks_for_the_words_too() -> None:
    """Two memories stand out as much among those of their language; neither has a word of the question."""
    texts = ["kiln glaze"] * 9 + ["harbour ferry"] + ["陶瓷喝茶"] * 9 + ["轮渡晚点"]
    vectors = [[0.2, 1, 0]] * 9 + [[1, 0.5, 0]] + [[0.1, 0, 1]] * 9 + [[0.9, 0, 0.5]]
    corpus = corpus_of(texts, vectors, languages=[0] * 10 + [1] * 10)
    for question, best in (("Was the boat delayed?", 19), ("船误点了吗", 9)):
        assert find(corpus, question, vector(1, 0, 0)).total.argmax() == best


def test_what_an_assistant_replied_counts_less_unless_it_is_asked_for() -> None:
    corpus = corpus_of([TELLING] * 4, subjects=["Anna", "assistant", "助手", None])
    asked = {
        "Where is the kiln?": 1,
        "窑在哪里？": 1,
        "Which kiln did you recommend?": 0,
        "你推荐哪个窑？": 0,
    }
    for question, less in asked.items():
        assert relevance.penalty(corpus, question).tolist() == [0, less, less, 0]


def test_without_a_vector_only_words_count() -> None:
    corpus, question, _ = random_corpus(2)

    def never(text: str) -> Float32:
        raise AssertionError(text)

    measured = find(corpus, question, None, never)
    assert measured.dense is None
    assert measured.lexical == pytest.approx(corpus.lexicon.bm25(tokens(question)))
    corpus.vectors = corpus.vectors[::-1].copy()
    assert np.array_equal(find(corpus, question, None, never).total, measured.total)


@given(st.integers(0, 10_000), st.integers(1, 20))
def test_a_question_of_one_sentence_is_the_sum_of_its_parts(seed: int, size: int) -> None:
    corpus, _, query = random_corpus(seed)
    question, asked = "Did Anna fire the glaze yesterday", tokens("Anna fire glaze yesterday")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(relevance, "HOP_POOL", size)
        measured, by_words = (find(corpus, question, one, embed_by_text) for one in (query, None))
    most = corpus.lexicon.information(asked)
    meaning, has = relevance.COSINE_OF_WORDS * np.sqrt(measured.lexical / most), corpus.has_vector
    focal = query / np.linalg.norm(query) - corpus.centre
    meaning[has] = relevance.standard((centred_rows(corpus) @ focal)[has])
    told = relevance.LEXICAL_SCALE * measured.lexical / most
    first = (1 - relevance.LEXICAL_SHARE) * meaning + relevance.LEXICAL_SHARE * told
    hops = (measured.second_hop, first, (0.25, 0.75)), (by_words.second_hop, told, (0, 1))
    for hop, score, shares in hops:
        onward = hop_by_hand(corpus, score, asked, sorted(highest(corpus, score)[:size]), shares)
        assert hop == pytest.approx(relevance.HOP_WEIGHT * onward, abs=1e-4)
    assert measured.neighbours == pytest.approx(relevance.neighbours(corpus, first), abs=1e-5)
    expected = first + measured.second_hop + measured.neighbours + measured.named
    expected -= relevance.penalty(corpus, "")
    assert measured.total == pytest.approx(expected, abs=1e-5)


def test_one_rare_word_found_by_chance_does_not_outweigh_the_meaning() -> None:
    """In standard scores the only memory with a word of the question would be worth √n."""
    texts = [f"note number{i}" for i in range(99)] + ["a strange moment"]
    random = np.random.default_rng(1)
    vectors = random.standard_normal((100, 16)) * 0.1 + np.eye(16)[1]
    vectors[0] = np.eye(16)[0]
    question, focal = "Which lesson does Xiaoman take at the moment?", np.eye(16, dtype=np.float32)[0]
    found = find(corpus_of(texts, vectors.tolist()), question, focal)
    assert found.total.argmax() == 0


@given(st.integers(0, 10_000))
def test_the_order_of_the_rows_does_not_matter(seed: int) -> None:
    corpus, question, query = random_corpus(seed)
    order = np.random.default_rng(seed).permutation(len(corpus)).tolist()
    moved, _, _ = random_corpus(seed, order=order)
    expected = find(corpus, question, query, embed_by_text).total[order]
    assert find(moved, question, query, embed_by_text).total == pytest.approx(expected, abs=1e-3)


def test_a_single_memory_counts_with_what_it_says_and_no_memory_with_nothing() -> None:
    corpus = corpus_of(["kiln"], [[1, 0]], sessions=[0], subjects=["Anna"])
    less = relevance.penalty(corpus, "")[0]
    assert find(corpus, "tea", vector(0, 1)).total.tolist() == [-less]
    said = relevance.LEXICAL_SCALE * relevance.LEXICAL_SHARE - less
    assert find(corpus, "the kiln", vector(0, 1)).total == pytest.approx([said], rel=0.2)
    of_two = "Who fired the kiln? Which ferry left Leith?"
    assert find(corpus_of([]), of_two).total.shape == (0,)


@given(st.integers(0, 10_000))
@settings(max_examples=5, deadline=None)
def test_the_order_in_which_memories_arrived_does_not_show(seed: int) -> None:
    """Of thousands that are nearly the same, single precision would let it decide which are found."""
    random, size, width = np.random.default_rng(seed), 3_000, 64
    texts = [f"{random.choice(WORDS)} {random.choice(WORDS)} was {number % 50}" for number in range(size)]
    noise = 0.01 * random.standard_normal((size, width))
    vectors = (random.standard_normal(width) + noise).astype(np.float32)
    created = NOW.timestamp() - 60.0 * np.arange(size)
    query = vectors[7] + np.float32(0.1)

    def found(order: NDArray[np.intp]) -> Floats:
        said, times = [texts[i] for i in order], created[order].tolist()
        corpus = corpus_of(said, vectors[order].tolist(), created=times)
        total = np.zeros(size)
        total[order] = find(corpus, "Was the kiln 7?", query).total
        return total

    in_order = found(np.arange(size))
    assert found(random.permutation(size)) == pytest.approx(in_order, abs=1e-9)


def test_an_earlier_message_adds_its_words_names_and_days_by_its_weight() -> None:
    corpus = corpus_of(["glaze cracked", "ferry left", "tea was cold"], subjects=["Anna", "Ben", None])
    parts = [WeightedMessage("tell me about the ferry", 1.0), WeightedMessage("Anna and her glaze", 0.5)]
    found = find(corpus, parts[0].text, dialogue=parts)
    alone = find(corpus, parts[0].text)
    assert alone.lexical[0] == 0 < found.lexical[0] < found.lexical[1]
    assert found.named.tolist() == [0.5 * relevance.SUBJECT_BONUS, 0, 0]
    assert np.argsort(-found.total).tolist() == [1, 0, 2]
    corpus, text, query = random_corpus(1)

    def refuse(sentence: str) -> Float32:
        raise AssertionError(sentence)  # a dialogue is not looked for sentence by sentence

    whole = find(corpus, text, query, refuse, dialogue=[WeightedMessage(text, 1.0)])
    assert np.isfinite(whole.total).all()
