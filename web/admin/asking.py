"""What the admin's pages ask of workers, and what they change: never longer than a page may wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from jiyi.protocol.calls import retrieval_queue
from jiyi.protocol.retrieval import Answer, RetrievalRequest
from jiyi.settings import get_settings
from web.calls import caller
from web.sources import source

T = TypeVar("T")

#: Seconds that a page waits for a retrieval: a worker that is there answers in milliseconds, one that begins to load an
#: agent in a second or two.
RETRIEVAL_PATIENCE = 4.0
#: The worker is told to give up a little earlier, so that the reason is its own.
RETRIEVAL_TIMEOUT = 3.5
#: Seconds for a change; the database is asked nothing that takes long.
CHANGE_PATIENCE = 10.0


def retrieving(request: RetrievalRequest) -> Callable[[], Answer]:
    """Ask a retrieval worker now; the answer is fetched by calling what is returned."""
    queue = retrieval_queue(request.group_id, request.agent_id, get_settings().retrieval_shards)

    def ask() -> Answer:
        return Answer.model_validate(caller().call("retrieval.retrieve", queue, request, RETRIEVAL_TIMEOUT))

    return source("retrieval worker").begin(ask, RETRIEVAL_PATIENCE)


def changing(change: Callable[[], T]) -> T:
    """The change, made where a database that hangs holds up no other page."""
    return source("database").begin(change, CHANGE_PATIENCE)()
