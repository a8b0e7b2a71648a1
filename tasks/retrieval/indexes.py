"""Agent indexes are kept ready in the retrieval workers; agents too large for that are served from the
database's own.
"""

from __future__ import annotations

from celery import current_app
from uuid6 import uuid7

from jiyi.protocol.retrieval import RetrievalRequest
from jiyi.protocol.wire.calls import NOBODY, retrieval_queue
from jiyi.settings import get_settings
from models.db.connection import unit_of_work
from models.memory.work import ENLARGE
from models.queue.wakeups import service_headers
from models.retrieval import enlargement, records
from tasks.framework.jobs import Run, job
from tasks.framework.work import Batch, work_task

#: Agents whose indexes are kept ready.
WARM_AGENTS = 20
#: Its text has no meaning: its purpose is the update of the index.
QUESTION = "warm"
#: Seconds; a worker that is so far behind has better things to do.
EXPIRES = 30
#: Agents that become large in one run.
ENLARGING_BATCH = 16
#: Nodes marked in one transaction: each is rewritten, so that many would block others for long.
MARKING_BATCH = 5_000


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


@work_task(ENLARGE, batch=ENLARGING_BATCH, time_limit=110, alone=True)
def enlarge(batch: Batch) -> None:
    """Make agents served from the database's own indexes: they are too large for a worker's memory.

    Takes minutes for the first. Safe to repeat because every step is.
    """
    for agent_key in batch.subject_ids:
        with unit_of_work() as connection:
            agent = enlargement.begin(connection, agent_key)
        if agent is not None:
            _enlarge(agent)
    with batch.finish():
        pass


def _enlarge(agent: enlargement.EnlargedAgent) -> None:
    for first in range(0, agent.large_from + 1, MARKING_BATCH):  # later ones come marked
        with unit_of_work() as connection:
            last = min(first + MARKING_BATCH, agent.large_from + 1)
            enlargement.mark(connection, agent, range(first, last))
    with unit_of_work() as connection:
        enlargement.count_terms(connection, agent)
        models = enlargement.models_of(connection, agent)
    for model, dimensions in models:
        enlargement.build_index(model, dimensions)
    with unit_of_work() as connection:
        enlargement.finish(connection, agent)
