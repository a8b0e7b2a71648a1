"""Agent indexes are kept ready in the retrieval workers; and whether a large agent's search still finds what
an exact one would.
"""

from __future__ import annotations

from typing import TypeVar

from celery import current_app
from uuid6 import uuid7

from jiyi.protocol.retrieval import RetrievalRequest
from jiyi.protocol.wire.calls import NOBODY, retrieval_queue
from jiyi.settings import get_settings
from models.queue.wakeups import service_headers
from models.retrieval import records
from tasks.framework.jobs import Run, job

T = TypeVar("T")
#: Agents whose indexes are kept ready.
WARM_AGENTS = 20
#: Its text has no meaning: its purpose is the update of the index.
QUESTION = "warm"
#: Seconds; a worker that is so far behind has better things to do.
EXPIRES = 30


@job("warm")
def warm(run: Run) -> None:
    """Have a retrieval worker update the indexes of the agents that were accessed last.

    Safe to repeat because nothing counts as accessed.
    """
    agents = records.asked_lately(WARM_AGENTS)
    run.summary["agents"] = len(agents)
    # The latest last: indexes make room for others in order of their use.
    for group_id, agent_id in reversed(agents):
        request = RetrievalRequest(
            group_id=group_id,
            agent_id=agent_id,
            queries=[QUESTION],
            top_k=1,
            mode="recent",
            relevance="lexical",
            touch=False,
        )
        options = {"actor": NOBODY}
        args = [str(uuid7()), request.model_dump(mode="json", exclude_none=True)]
        current_app.send_task(
            "retrieval.retrieve",
            args=args,
            kwargs=options,
            queue=retrieval_queue(group_id, agent_id, get_settings().retrieval_shards),
            expires=EXPIRES,
            retry=False,
            headers=service_headers("retrieval.retrieve", args, options),
        )
