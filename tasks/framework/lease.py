"""An LLM whose answers may take longer than the lease of the work that waits for them."""

from __future__ import annotations

import time
from threading import Lock

from jiyi.providers.llms import LLM, RULES
from jiyi.providers.llms.questions import A, Question
from jiyi.settings import get_settings
from tasks.framework.work import Batch

#: Seconds within which the claim need not be extended again: long beside a quick answer.
EXTEND_SECONDS = 10.0
#: … and the share of a lease that this may be at most.
EXTEND_SHARE = 0.25
#: What the slowest question takes, in time-outs of one request: all its tries, a last one that began just in time, and
#: one to see whether others are answered.
SLOWEST_QUESTION = 4


class LeaseRenewingLLM:
    """An LLM that extends the claims on batches before it asks. Thread-safe.

    The claim lasts longer than any one question, else a slow LLM's answers would all come after somebody else has
    begun anew, and be thrown away.
    """

    def __init__(self, llm: LLM, *batches: Batch) -> None:
        self.model, self._llm, self._batches = llm.model, llm, batches
        settings = get_settings()
        self._seconds = usual = settings.work_lease_seconds
        self._pause = min(EXTEND_SECONDS, usual * EXTEND_SHARE)
        if settings.llm != RULES:
            self._seconds = max(usual, SLOWEST_QUESTION * settings.llm_timeout + self._pause)
        self._lock = Lock()
        # It was claimed a moment ago, for the usual time.
        self._next = time.monotonic() + (self._pause if self._seconds == usual else 0.0)

    def ask(self, question: Question[A]) -> A:
        with self._lock:
            if time.monotonic() >= self._next:
                for batch in self._batches:
                    batch.extend(self._seconds)
                self._next = time.monotonic() + self._pause
        return self._llm.ask(question)
