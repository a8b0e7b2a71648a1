"""``client.service``: state and counts of the service."""

from __future__ import annotations

from collections.abc import Sequence

from jiyi.client.calls import Calls, Id, checked
from jiyi.protocol.operations import LLMsRequest, RecallRequest, Retried, RetryWork, ServiceStats, StatsRequest
from jiyi.protocol.providers import LLMReport, RecallReport

#: Seconds that a check of an agent's search may take: all of its memories are read for the comparison.
CHECK_SECONDS = 60.0


class Service:
    """The service's counts, its LLM, its pending work."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def stats(self) -> ServiceStats:
        """Counts of the group; pending work, counters and agent indexes of the whole service."""
        return ServiceStats.model_validate(self._calls.ask("stats.show", StatsRequest()))

    def llms(self, days: int = 30) -> LLMReport:
        """The LLM in use, the vendors there are, and what the group has used in the last ``days``."""
        return LLMReport.model_validate(self._calls.ask("llms.show", checked(LLMsRequest, days=days)))

    def retry(self, kind: str, subject_ids: Sequence[Id] = (), *, all_groups: bool = False) -> int:
        """Make pending work of a kind due now: of the subjects named, or up to 10,000 of them. Returns how many."""
        request = checked(RetryWork, kind=kind, subject_ids=list(subject_ids), all_groups=all_groups)
        return Retried.model_validate(self._calls.act("pending_work.retry", request)).retried

    def check_recall(self, agent_id: str, *, questions: int = 20, top_k: int = 10, timeout: float = CHECK_SECONDS) -> RecallReport:
        """How much of the exact answer the search in a large agent's memories finds."""
        request = checked(RecallRequest, agent_id=agent_id, questions=questions, top_k=top_k)
        return RecallReport.model_validate(self._calls.ask("retrieval.check_recall", request, timeout))
