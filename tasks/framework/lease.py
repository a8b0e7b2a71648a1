"""An LLM whose answers may take longer than a run of the work that waits for them."""

from __future__ import annotations

from engine.providers.llms import LLM, RULES
from engine.providers.questions import A, Question
from jiyi.settings import get_settings
from tasks.framework.work import Batch

#: Seconds that the rules have for a question: they answer at once.
RULES_SECONDS = 30.0
#: What the slowest question takes, in time-outs of one request: all its tries, a last one that began just in time, and
#: one to see whether others are answered.
SLOWEST_QUESTION = 4


class LeaseRenewingLLM:
    """An LLM with which the claims on batches are renewed for as long as each question may take. Thread-safe.

    A slow LLM's answers would otherwise all come after somebody else has begun anew, and be thrown away.
    """

    def __init__(self, llm: LLM, *batches: Batch) -> None:
        self.model, self._llm, self._batches = llm.model, llm, batches
        settings = get_settings()
        self._seconds = RULES_SECONDS if settings.llm == RULES else SLOWEST_QUESTION * settings.llm_timeout

    def ask(self, question: Question[A]) -> A:
        for batch in self._batches:
            batch.extend(self._seconds)
        return self._llm.ask(question)
