"""``client.service``: state and counts of the service."""

from __future__ import annotations

from collections.abc import Sequence

from jiyi.client.calls import Id, Namespace, W, checked
from jiyi.client.steps import Steps, verb
from jiyi.protocol.operations import LLMsRequest, RecallRequest, Retried, RetryWork, ServiceStats, StatsRequest
from jiyi.protocol.providers import LLMReport, RecallReport

#: Seconds that a check of an agent's search may take: all of its memories are read for the comparison.
CHECK_SECONDS = 60.0


class Service(Namespace[W]):
    """The service's counts, its LLM, its pending work."""

    @verb
    def stats(self) -> Steps[ServiceStats]:
        """Counts of the group; pending work, counters and agent indexes of the whole service."""
        return self._ask("stats.show", StatsRequest(), ServiceStats)

    @verb
    def llms(self, days: int = 30) -> Steps[LLMReport]:
        """The LLM in use, the vendors there are, and what the group has used in the last ``days``."""
        return self._ask("llms.show", checked(LLMsRequest, days=days), LLMReport)

    @verb
    def retry(self, kind: str, subject_ids: Sequence[Id] = (), *, all_groups: bool = False) -> Steps[int]:
        """Make pending work of a kind due now: of the subjects named, or up to 10,000 of them. Returns how many."""
        request = checked(RetryWork, kind=kind, subject_ids=list(subject_ids), all_groups=all_groups)
        done = yield from self._act("pending_work.retry", request, Retried)
        return done.retried

    @verb
    def check_recall(self, agent_id: str, *, questions: int = 20, top_k: int = 10, timeout: float = CHECK_SECONDS) -> Steps[RecallReport]:
        """How much of the exact answer the search in a large agent's memories finds."""
        request = checked(RecallRequest, agent_id=agent_id, questions=questions, top_k=top_k)
        return self._ask("retrieval.check_recall", request, RecallReport, timeout)
