"""Items: what counts of a text, one vector for it, and how they are ranked, also as the original does."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from engine.providers.embedders import HashingEmbedder
from engine.stores import devall
from engine.stores.items import (
    Search,
    StoreCorpus,
    best,
    combine,
    embed,
    key_content,
    model_name,
    pieces,
    score,
    summary_of,
    without_headers,
    without_labels,
)
from jiyi.protocol.stores import Hit, MemoryItem
from jiyi.stores.manager import rank
from jiyi.stores.types import EmbeddingParams
from jiyi.text.words import tokens

NOW = datetime(2026, 3, 9, tzinfo=UTC)
EMBEDDER = HashingEmbedder(256)
#: Of three files.
CHUNKS = [
    ["The kiln reached 1,240 degrees on Monday.", "Tomas feared for the glaze.", "Harriet opened it."],
    ["The tomatoes need water every day.", "林岚在院子里种了两棵橘子树。"],
    ["A glaze of ash and feldspar.", "It ran at the foot of the bowl."],
]
TEXTS = [text for chunks in CHUNKS for text in chunks]


def corpus(days: tuple[float, ...] = (0, 0, 0)) -> StoreCorpus:
    numbers = [number for number, chunks in enumerate(CHUNKS) for _ in chunks]
    words = [" ".join(tokens(text)) for text in TEXTS]
    return StoreCorpus.of(EMBEDDER.passages(TEXTS), words, [days[number] for number in numbers], numbers)


def ranked(
    question: str,
    search: Search = "hybrid",
    top_k: int = 3,
    threshold: float = -1,
    chunks: StoreCorpus | None = None,
) -> list[str]:
    chunks = chunks or corpus()
    scores = score(chunks, question, EMBEDDER.query(question), EMBEDDER.query, NOW, search)
    return [TEXTS[row] for row in best(chunks, scores, top_k, threshold)]


@pytest.mark.parametrize("search", ["hybrid", "dense", "lexical"])
@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("How hot did the kiln get, how many degrees?", TEXTS[0]),
        ("橘子树种在哪里？", TEXTS[4]),
        ("ash and feldspar", TEXTS[5]),
    ],
)
def test_the_chunk_that_answers_is_first(question: str, answer: str, search: Search) -> None:
    assert ranked(question, search)[0] == answer


def test_dense_is_the_cosine_alone_on_which_the_threshold_is() -> None:
    question = "Tomas feared for the glaze."
    cosine = EMBEDDER.passages(TEXTS) @ EMBEDDER.query(question)
    assert ranked(question, "dense", top_k=7) == [TEXTS[row] for row in np.argsort(-cosine, kind="stable")]
    assert ranked(question, threshold=0.99) == [question]
    assert ranked("zebra", threshold=0.9) == []
    empty = StoreCorpus.of(np.zeros((0, 256), np.float32), [], [], [])
    assert best(empty, score(empty, "kiln", EMBEDDER.query("kiln"), EMBEDDER.query, NOW), 3, -1).size == 0


def test_a_chunk_whose_vector_is_owed_is_found_by_its_words() -> None:
    chunks = corpus()
    chunks.corpus.vectors[5] = 0
    chunks.corpus.lengths[5] = 0
    assert ranked("ash and feldspar", chunks=chunks)[0] == TEXTS[5]
    scores = score(corpus(), "feldspar", None, None, NOW, "dense")  # the question has no vector
    assert scores.cosine is None
    assert TEXTS[best(corpus(), scores, 1, 0.5)[0]] == TEXTS[5]


def test_a_file_of_the_day_that_is_named_comes_first() -> None:
    days = tuple(datetime(2026, 3, day, tzinfo=UTC).timestamp() for day in (2, 3, 4))
    scores = score(corpus(days), "What happened on 3 March 2026?", None, None, NOW)
    assert set(best(corpus(days), scores, 2, -1)) == {3, 4}


def test_an_item_of_no_file_is_found_by_its_vector_or_its_words() -> None:
    vectors = EMBEDDER.passages(TEXTS)
    vectors[:3] = 0
    words = [" ".join(tokens(text)) for text in TEXTS]
    items = StoreCorpus.of(vectors, words, [NOW.timestamp()] * len(TEXTS))
    scores = score(items, "the glaze of ash", EMBEDDER.query("the glaze of ash"), None, NOW)
    assert set(best(items, scores, 10, -1)) == {1, 3, 4, 5, 6}  # two of those without a vector share no word
    assert set(best(items, scores, 10, 0.9)) == {1}


def test_the_originals_score_by_hand() -> None:
    like = devall.word_similarity("abcd efgh", "abcd ijkl")
    assert asdict(like) == pytest.approx({"jaccard": 1 / 3, "lcs": 5 / 9, "keyword": 0.5, "length": 1})
    assert like.total == pytest.approx(0.4 / 3 + 0.3 * 5 / 9 + 0.2 * 0.5 + 0.1)
    assert devall.score(0.8, like) == pytest.approx(0.7 * 0.8 + 0.3 * like.total)
    assert devall.score(None, like) == pytest.approx(0.7 * 0.5 + 0.3 * like.total)
    unspaced = devall.word_similarity("会议改到周几", "会议改到周三下午")
    assert unspaced.jaccard == 0  # white space alone ends a word
    for chars, factor in ((5, 1.0), (20, 1.0), (2, 0.4), (40, 0.5), (1_000, 0.1)):
        assert devall.word_similarity("a" * 10, "b" * chars).length == pytest.approx(factor)


def hit(text: str, *, score: float | None = None, hours: float = 0.0) -> Hit:
    at = NOW.timestamp() - hours * 3_600
    return Hit(item=MemoryItem(id=text[:9], content_summary=text, timestamp=at), score=score)


def test_the_order_across_stores_by_hand() -> None:
    fresh, old = hit("a text of some twenty-five", score=0.9), hit("another text of that length", hours=1_000)
    first, second = rank({"notes": [fresh], "board": [old]}, "nothing alike", NOW)
    assert first.score == pytest.approx(0.7 * 0.9 + 0.3 * 0.7)
    assert second.score == pytest.approx(0.7 * 0.1)
    assert (first.store, second.store) == ("notes", "board")
    long, short = rank({"a": [hit("blue teapot")], "b": [hit("teapot " * 40)]}, "blue teapot", NOW)
    assert short.score == pytest.approx(0.7 * 0.5 + 0.3)
    assert long.score == pytest.approx(0.7 * 0.8 + 0.3 * 0.5)
    # The store's score counts, but in the original.
    good = hit("the answer that fits really well", score=0.9, hours=300)
    bad = hit("something new beside the point", score=0.1)
    assert rank({"a": [good, bad]}, "question", NOW)[0].hit is good
    assert rank({"a": [good, bad]}, "question", NOW, fidelity="devall")[0].hit is bad


def test_a_short_text_counts_as_it_is_and_instructions_are_left_out_at_the_beginning_only() -> None:
    assert key_content("  Where does\n Mia live? ") == "Where does Mia live?"
    assert devall.query_text("Where?") == "Query: Where?"
    asked = (
        "write about the harbour at night. The boats come home late. They bring herrings and stories along."
    )
    assert key_content(f"You are a patient poet, {asked}") == asked
    chinese = "你是一位耐心的诗人，请写夜里的港口。" + "船很晚才回来，带来鲱鱼和故事。" * 8
    assert key_content(chinese).startswith("请写夜里的港口。")
    text = "The meeting is moved. You are invited to bring the blue teapot, the one with the crack, and all"
    text += " cups that are left of the fair."
    assert "the blue teapot" in key_content(text)
    assert "the blue teapot" not in devall.key_content(text)


def test_sentences_stay_whole_and_short_ones_stay_but_in_the_original() -> None:
    content = key_content("Mia won. " + "The judges talked for very long about glazes and kilns. " * 12)
    assert content.startswith("Mia won. The judges")
    assert content.endswith("kilns.")
    assert len(content) <= 500
    chinese = "他赢了。" + "评委们讨论了很久关于釉料和窑炉的问题以及明年的比赛安排。" * 6
    assert "他赢了" in key_content(chinese)
    assert "他赢了" not in devall.key_content(chinese)


def test_labels_are_in_the_summary_and_not_compared() -> None:
    assert summary_of("Where?", "In Porto.") == "Input: Where?\nOutput: In Porto."
    assert without_labels("Input: Where?\nOutput: In Porto.") == "Where?\nIn Porto."
    assert without_labels("Input: \nOutput: In Porto.") == "In Porto."
    headed = "=== INPUT FROM research (user) ===\nFind cups.\n\n=== INPUT FROM plan (assistant) ==="
    assert without_headers(headed) == "Find cups."


@pytest.mark.parametrize(
    ("params", "lengths"),
    [
        ({}, [100]),
        ({"use_chunking": True}, [50] * 5),
        ({"use_chunking": True, "chunk_strategy": "first"}, [50]),
    ],
)
def test_long_texts_are_cut_or_embedded_in_pieces(params: dict[str, Any], lengths: list[int]) -> None:
    cuts = EmbeddingParams(max_length=100, **params)
    assert pieces("a" * 250, cuts) == ["a" * length for length in lengths]
    assert (model_name("m", EmbeddingParams(**params)) == "m") == (not params), "other cuts, another model"


def test_joined_vectors_by_hand_and_of_length_one() -> None:
    vectors = np.array([[1, 0], [0, 1]], dtype=np.float32)
    assert combine(vectors, "first") == pytest.approx([1, 0])
    assert combine(vectors, "average") == pytest.approx([0.5**0.5, 0.5**0.5])
    weighted = combine(vectors, "weighted")
    assert weighted[0] / weighted[1] == pytest.approx(2)
    assert float(np.linalg.norm(weighted)) == pytest.approx(1)


def test_all_pieces_are_embedded_in_one_call() -> None:
    calls: list[list[str]] = []

    def passages(texts: list[str]) -> np.ndarray:
        calls.append(list(texts))
        return np.stack([np.array([1, len(text)], dtype=np.float32) for text in texts])

    vectors = embed(["a" * 300, "b!"], EmbeddingParams(max_length=200, use_chunking=True), passages)  # type: ignore[arg-type]
    assert calls == [["a" * 100] * 3 + ["b!"]]  # punctuation stays
    made = np.array([[1, 100], [1, 2]])
    assert vectors == pytest.approx(made / np.linalg.norm(made, axis=1, keepdims=True))
