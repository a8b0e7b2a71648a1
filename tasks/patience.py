"""An LLM whose answers may take longer than the lease of the work that waits for them."""

from __future__ import annotations

import time
from threading import Lock

from jiyi.llms import LLM
from jiyi.llms.questions import A, Question
from tasks.work import Batch

#: Seconds within which the claim need not be extended again: short beside a lease, long beside a quick answer.
EXTEND_SECONDS = 10.0


class Patient:
    """An LLM that extends the claim on a batch before it asks. Thread-safe."""

    def __init__(self, llm: LLM, batch: Batch) -> None:
        self.model, self._llm, self._batch = llm.model, llm, batch
        self._lock, self._extended = Lock(), time.monotonic()

    def ask(self, question: Question[A]) -> A:
        with self._lock:
            if time.monotonic() - self._extended > EXTEND_SECONDS:
                self._batch.extend()
                self._extended = time.monotonic()
        return self._llm.ask(question)
