"""What counts of a text, likeness, order across stores, vectors of long texts: hand-computed."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest

from engine.stores.headers import without_headers
from engine.stores.items import summary_of, without_labels
from engine.stores.query import key_content, query_text
from engine.stores.scoring import Likeness, combined, likenesses
from engine.stores.vectors import combine, embed, model_name, pieces
from jiyi.protocol.stores.items import Hit, MemoryItem
from jiyi.stores.config.embedding import EmbeddingParams
from jiyi.stores.ranking import rank

NOW = datetime(2026, 3, 2, 8, tzinfo=UTC)


def hit(text: str, *, score: float | None = None, hours: float = 0.0) -> Hit:
    return Hit(item=MemoryItem(id=text[:9], content_summary=text, timestamp=NOW.timestamp() - hours * 3_600), score=score)


def test_a_short_question_is_asked_as_it_is() -> None:
    assert query_text("  Where does\n Mia live? ") == "Where does Mia live?"
    assert query_text("Where?", fidelity="devall") == "Query: Where?"


def test_instructions_are_left_out_at_the_beginning_only() -> None:
    told = "You are a patient poet, write about the harbour at night. The boats come home late. They bring herrings and stories along."
    assert key_content(told) == "write about the harbour at night. The boats come home late. They bring herrings and stories along."
    chinese = "你是一位耐心的诗人，请写夜里的港口。" + "船很晚才回来，带来鲱鱼和故事。" * 8
    assert key_content(chinese).startswith("请写夜里的港口。")


def test_an_ordinary_you_are_deletes_nothing() -> None:
    """The original deletes from "You are" to the next comma, wherever it stands."""
    text = "The meeting is moved. You are invited to bring the blue teapot, the one with the crack, and all cups that are left of the fair."
    assert "the blue teapot" in key_content(text)
    assert "the blue teapot" not in key_content(text, fidelity="devall")


def test_english_is_split_and_short_sentences_stay() -> None:
    """The original knows no full stop, and drops sentences under 20 characters."""
    text = "Mia won. " + "The judges talked for a very long time about glazes and kilns. " * 12
    found = key_content(text)
    assert found.startswith("Mia won. The judges")
    assert found.endswith("kilns.")
    assert len(found) <= 500
    short = "他赢了。" + "评委们讨论了很久关于釉料和窑炉的问题以及明年的比赛安排。" * 6
    assert "他赢了" in key_content(short)
    assert "他赢了" not in key_content(short, fidelity="devall")


def test_likeness_by_hand() -> None:
    [same] = likenesses("blue teapot", ["blue teapot"])
    assert same.parts == {"jaccard": 1, "lcs": 1, "keyword": 1, "length": 1}
    assert same.total == pytest.approx(1)
    [half] = likenesses("abcd efgh", ["abcd ijkl"], "devall")
    assert half.jaccard == pytest.approx(1 / 3)
    assert half.lcs == pytest.approx(5 / 9)
    assert half.keyword == 0.5
    assert half.total == pytest.approx(0.4 / 3 + 0.3 * 5 / 9 + 0.2 * 0.5 + 0.1)


@pytest.mark.parametrize(("chars", "factor"), [(10, 1.0), (5, 1.0), (20, 1.0), (2, 0.4), (40, 0.5), (1_000, 0.1)])
def test_length_factor(chars: int, factor: float) -> None:
    [found] = likenesses("a" * 10, ["b" * chars], "devall")
    assert found.length == pytest.approx(factor)


def test_the_score_is_cosine_and_likeness() -> None:
    assert combined(0.8, Likeness(1, 0, 0.5, 1)) == pytest.approx(0.7 * 0.8 + 0.3 * (0.4 + 0.1 + 0.1))


def test_likeness_knows_chinese() -> None:
    """White space is no mark of words there: the original finds no shared token."""
    one, other = likenesses("会议改到周几", ["会议改到周三下午", "今天天气很好啊"])
    assert one.jaccard > other.jaccard == 0
    assert likenesses("会议改到周几", ["会议改到周三下午"], "devall")[0].jaccard == 0


def test_rare_words_count_more() -> None:
    found = likenesses("kiln teapot", ["kiln one", "kiln two", "teapot three"])
    assert found[2].keyword > found[0].keyword


def test_labels_are_in_the_summary_and_not_compared() -> None:
    assert summary_of("Where?", "In Porto.", 500) == "Input: Where?\nOutput: In Porto."
    assert without_labels("Input: Where?\nOutput: In Porto.") == "Where?\nIn Porto."
    assert without_labels("Input: \nOutput: In Porto.") == "In Porto."


def test_the_order_across_stores_by_hand() -> None:
    fresh, old = hit("a text of some twenty-five", score=0.9), hit("another text of that length", hours=1_000)
    first, second = rank({"notes": [fresh], "board": [old]}, "nothing alike", NOW)
    assert first.score == pytest.approx(0.7 * 0.9 + 0.3 * 0.7)
    assert second.score == pytest.approx(0.7 * 0.1)
    assert (first.store, second.store) == ("notes", "board")


def test_the_stores_score_is_not_discarded() -> None:
    """The original ranks by newness, length and shared words alone."""
    good, bad = hit("the answer that fits really well", score=0.9, hours=300), hit("something new beside the point", score=0.1)
    assert rank({"a": [good, bad]}, "question", NOW)[0].hit is good
    assert rank({"a": [good, bad]}, "question", NOW, fidelity="devall")[0].hit is bad


def test_length_and_overlap_by_hand() -> None:
    long, short = rank({"a": [hit("blue teapot"), hit("teapot " * 40)]}, "blue teapot", NOW)
    assert short.score == pytest.approx(0.7 * 0.5 + 0.3)
    assert long.score == pytest.approx(0.7 * 0.8 + 0.3 * 0.5)


def test_headers_are_left_out() -> None:
    assert without_headers("=== INPUT FROM research (user) ===\nFind cups.\n\n=== INPUT FROM plan (assistant) ===") == "Find cups."


def test_long_texts_are_cut_or_embedded_in_pieces() -> None:
    text = "a" * 250
    assert pieces(text, EmbeddingParams(max_length=100)) == ["a" * 100]
    chunked = EmbeddingParams(max_length=100, use_chunking=True)
    assert [len(one) for one in pieces(text, chunked)] == [50] * 5
    assert pieces(text, EmbeddingParams(max_length=100, use_chunking=True, chunk_strategy="first")) == ["a" * 50]


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
        return np.stack([np.array([1, len(one)], dtype=np.float32) for one in texts])

    made = embed(["a" * 300, "b!"], EmbeddingParams(max_length=200, use_chunking=True), passages)  # type: ignore[arg-type]
    assert calls == [["a" * 100] * 3 + ["b!"]]  # punctuation stays
    assert made.shape == (2, 2)


def test_texts_cut_in_other_ways_are_another_models() -> None:
    assert model_name("m", EmbeddingParams()) == "m"
    assert model_name("m", EmbeddingParams(use_chunking=True)) != "m"
