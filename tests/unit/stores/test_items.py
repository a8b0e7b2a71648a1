"""What counts of a text, by Jiyi's rules and by the original's; summaries; one vector for a text of any length."""

from __future__ import annotations

import numpy as np
import pytest

from engine.stores import devall
from engine.stores.items import combine, embed, key_content, model_name, pieces, summary_of, without_headers, without_labels
from jiyi.stores.types import EmbeddingParams


def test_a_short_text_counts_as_it_is() -> None:
    assert key_content("  Where does\n Mia live? ") == "Where does Mia live?"
    assert devall.query_text("Where?") == "Query: Where?"


def test_instructions_are_left_out_at_the_beginning_only() -> None:
    text = "You are a patient poet, write about the harbour at night. The boats come home late. They bring herrings and stories along."
    assert key_content(text) == "write about the harbour at night. The boats come home late. They bring herrings and stories along."
    chinese = "你是一位耐心的诗人，请写夜里的港口。" + "船很晚才回来，带来鲱鱼和故事。" * 8
    assert key_content(chinese).startswith("请写夜里的港口。")
    text = "The meeting is moved. You are invited to bring the blue teapot, the one with the crack, and all cups that are left of the fair."
    assert "the blue teapot" in key_content(text)
    assert "the blue teapot" not in devall.key_content(text)


def test_sentences_stay_whole_and_short_ones_stay_but_in_the_original() -> None:
    content = key_content("Mia won. " + "The judges talked for a very long time about glazes and kilns. " * 12)
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
    assert without_headers("=== INPUT FROM research (user) ===\nFind cups.\n\n=== INPUT FROM plan (assistant) ===") == "Find cups."


def test_long_texts_are_cut_or_embedded_in_pieces() -> None:
    text = "a" * 250
    assert pieces(text, EmbeddingParams(max_length=100)) == ["a" * 100]
    assert [len(piece) for piece in pieces(text, EmbeddingParams(max_length=100, use_chunking=True))] == [50] * 5
    assert pieces(text, EmbeddingParams(max_length=100, use_chunking=True, chunk_strategy="first")) == ["a" * 50]
    assert model_name("m", EmbeddingParams()) == "m" != model_name("m", EmbeddingParams(use_chunking=True)), "other cuts, another model"


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
    assert vectors == pytest.approx(np.array([[1, 100], [1, 2]]) / np.linalg.norm([[1, 100], [1, 2]], axis=1, keepdims=True))
