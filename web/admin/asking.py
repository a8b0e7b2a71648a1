"""What the admin's pages ask of workers: never longer than a page may wait."""

from __future__ import annotations

from collections.abc import Callable

from jiyi.protocol.retrieval import Answer, RetrievalRequest
from jiyi.protocol.wire.calls import NOBODY, retrieval_queue
from jiyi.settings import get_settings
from models.db.bounded_reads import source
from web.calls import caller

#: Seconds that a page waits for a retrieval: a worker that is there answers in milliseconds, one that begins to load an
#: agent in a second or two.
RETRIEVAL_PATIENCE = 4.0
#: The worker is told to give up a little earlier, so that the reason is its own.
RETRIEVAL_TIMEOUT = 3.5


def retrieving(request: RetrievalRequest) -> Callable[[], Answer]:
    """Ask a retrieval worker now; the answer is fetched by calling what is returned."""
    queue = retrieval_queue(request.group_id, request.agent_id, get_settings().retrieval_shards)

    def ask() -> Answer:
        return Answer.model_validate_json(caller().call_for_json("retrieval.retrieve", queue, request, RETRIEVAL_TIMEOUT, actor=NOBODY))

    return source("retrieval worker").begin(ask, RETRIEVAL_PATIENCE)
