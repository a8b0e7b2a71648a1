"""engine.stores.files.scoring: chunks ranked by meaning and words, and by what their file says."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest

from engine.providers.embedders import HashingEmbedder
from engine.stores.files.scoring import FileCorpus, Search, best, score
from jiyi.text.tokens import tokens

NOW = datetime(2026, 3, 9, tzinfo=UTC)
EMBEDDER = HashingEmbedder(256)
FILES = {
    "kiln.md": ["The kiln reached 1,240 degrees on Monday.", "Tomas feared for the glaze.", "Harriet opened the door at noon."],
    "garden.md": ["The tomatoes need water every day.", "林岚在院子里种了两棵橘子树。"],
    "glaze.md": ["A glaze of ash and feldspar.", "It ran at the foot of the bowl."],
}
TEXTS = [text for chunks in FILES.values() for text in chunks]


def corpus(days: tuple[float, ...] = (0, 0, 0)) -> FileCorpus:
    numbers = [number for number, chunks in enumerate(FILES.values()) for _ in chunks]
    words = [" ".join(tokens(text)) for text in TEXTS]
    return FileCorpus.of(EMBEDDER.passages(TEXTS), words, numbers, [days[number] for number in numbers])


def ranked(question: str, search: Search = "hybrid", top_k: int = 3, threshold: float = -1, chunks: FileCorpus | None = None) -> list[str]:
    found = score(chunks or corpus(), question, EMBEDDER.query(question), EMBEDDER.query, NOW, search)
    return [TEXTS[row] for row in best(found, top_k, threshold)]


@pytest.mark.parametrize("search", ["hybrid", "dense", "lexical"])
@pytest.mark.parametrize(
    ("question", "answer"),
    [("How hot did the kiln get, how many degrees?", TEXTS[0]), ("橘子树种在哪里？", TEXTS[4]), ("ash and feldspar", TEXTS[5])],
)
def test_the_chunk_that_answers_is_first(question: str, answer: str, search: Search) -> None:
    assert ranked(question, search)[0] == answer


def test_dense_is_the_cosine_alone() -> None:
    question = "the glaze"
    cosine = EMBEDDER.passages(TEXTS) @ EMBEDDER.query(question)
    assert ranked(question, "dense", top_k=7) == [TEXTS[row] for row in np.argsort(-cosine, kind="stable")]


def test_the_threshold_is_on_the_cosine() -> None:
    question = "Tomas feared for the glaze."
    assert ranked(question, threshold=0.99) == [question]
    assert ranked("zebra", threshold=0.9) == []


def test_without_a_vector_words_are_enough() -> None:
    found = score(corpus(), "feldspar", None, None, NOW, "dense")
    assert found.cosine is None
    assert TEXTS[best(found, 1, 0.5)[0]] == TEXTS[5]


def test_a_chunk_whose_vector_is_owed_is_found_by_its_words() -> None:
    chunks = corpus()
    chunks.corpus.vectors[5] = 0
    chunks.corpus.lengths[5] = 0
    assert ranked("ash and feldspar", chunks=chunks)[0] == TEXTS[5]


def test_a_file_of_the_day_that_is_named_comes_first() -> None:
    days = tuple(datetime(2026, 3, day, tzinfo=UTC).timestamp() for day in (2, 3, 4))
    found = score(corpus(days), "What happened on 3 March 2026?", None, None, NOW)
    assert set(best(found, 2, -1)) == {3, 4}


def test_an_empty_store_has_no_hits() -> None:
    empty = FileCorpus.of(np.zeros((0, 256), np.float32), [], [], [])
    assert best(score(empty, "kiln", EMBEDDER.query("kiln"), EMBEDDER.query, NOW), 3, -1).size == 0
