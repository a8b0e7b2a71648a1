"""Vectors of questions: each text is embedded once, however many ask for it, and begun before it is needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from threading import Event

import numpy as np
import pytest

from engine.operations import deadline
from engine.providers import embedders
from engine.providers.embedders import HashingEmbedder, forget_questions, query_vectors
from jiyi.errors import EmbeddingUnavailable, NoAnswer
from jiyi.protocol.agents import AgentSettings
from jiyi.protocol.retrieval import RetrievalRequest
from jiyi.protocol.wire.vectors import Float32
from models.memory.agents import AgentRecord
from models.operations.embedding_models import ActiveModel
from tasks.retrieval import question

SIZE = 16


class Slow(HashingEmbedder):
    """Embeds when it may, or fails."""

    def __init__(self) -> None:
        super().__init__(SIZE)
        self.asked: list[list[str]] = []
        self.begun, self.may = Event(), Event()
        self.failures: list[Exception] = []

    def queries(self, texts: Sequence[str]) -> Float32:
        self.asked.append(list(texts))
        self.begun.set()
        assert self.may.wait(60)
        if self.failures:
            raise self.failures.pop()
        return super().queries(texts)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    monkeypatch.setattr(embedders, "WAIT_SLICE_SECONDS", 0.01)
    forget_questions()
    yield Slow()
    forget_questions()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def begin(pool: ThreadPoolExecutor, slow: Slow, texts: Sequence[str]) -> Future[dict[str, Float32]]:
    begun = pool.submit(query_vectors, slow, texts)
    assert slow.begun.wait(60)
    return begun


def test_a_text_that_is_being_embedded_is_waited_for(slow: Slow, threads: ThreadPoolExecutor) -> None:
    first = begin(threads, slow, ["tea"])
    second = threads.submit(query_vectors, slow, ["honey", "tea", "honey"])
    slow.may.set()
    found = second.result(60)
    assert list(found) == ["honey", "tea"]
    assert np.array_equal(found["tea"], first.result(60)["tea"])
    assert slow.asked == [["tea"], ["honey"]]
    assert query_vectors(slow, ["tea", "honey"]).keys() == {"tea", "honey"}
    assert len(slow.asked) == 2


def test_who_waits_hears_that_the_embedder_is_away(slow: Slow, threads: ThreadPoolExecutor) -> None:
    slow.failures = [EmbeddingUnavailable("it is away")]
    first = begin(threads, slow, ["tea"])
    second = threads.submit(query_vectors, slow, ["tea"])
    slow.may.set()
    for asked in (first, second):
        with pytest.raises(EmbeddingUnavailable, match="it is away"):
            asked.result(60)
    assert query_vectors(slow, ["tea"])["tea"].shape == (SIZE,)  # nothing of it is kept


def test_what_somebody_gave_up_is_embedded_by_who_waits(slow: Slow, threads: ThreadPoolExecutor) -> None:
    slow.failures = [NoAnswer("its time was over")]
    first = begin(threads, slow, ["tea"])
    second = threads.submit(query_vectors, slow, ["tea"])
    slow.may.set()
    with pytest.raises(NoAnswer):
        first.result(60)
    assert second.result(60)["tea"].shape == (SIZE,)


def test_nobody_waits_longer_than_they_may(slow: Slow, threads: ThreadPoolExecutor) -> None:
    first = begin(threads, slow, ["tea"])
    with pytest.raises(NoAnswer), deadline(0.0):
        query_vectors(slow, ["tea"])
    slow.may.set()
    assert first.result(60).keys() == {"tea"}


def test_a_question_is_embedded_while_its_agent_is_read() -> None:
    used = ActiveModel(f"hashing-{SIZE}", f"hashing:{SIZE}", datetime(2026, 3, 5, tzinfo=UTC), SIZE)
    question.parse(_asked("Where does Klaus live?"), AgentRecord(AgentSettings(), embedding=used))
    asked = _asked("What does Klaus drink? Where?")
    begun = question.embed_ahead(asked)
    assert begun is not None
    begun.result(60)
    assert question.parse(asked, AgentRecord(AgentSettings(), embedding=used)).missing == ()
    assert question.embed_ahead(asked) is None


def _asked(text: str) -> RetrievalRequest:
    return RetrievalRequest(group_id="g", agent_id="klaus", focal_texts=[text])
