"""Asking the three tiers: the workers, who have the embedder; without them the web by itself, which has only words.

The queue is in Valkey, as working memory is. Where one or the other is away the rest still answers, and says so.
"""

from __future__ import annotations

import logging
from typing import Any

from pydantic import ValidationError

from jiyi.errors import BrokerUnavailable, InvalidRequest, JiyiError, NoAnswer, ServiceError, problems_of
from jiyi.protocol.retrieval import MAX_TIMEOUT
from jiyi.protocol.tiers.query import MemoryAnswer, MemoryQuery
from jiyi.protocol.tiers.rest import QUERY_SECONDS
from jiyi.protocol.wire.calls import retrieval_queue
from jiyi.settings import get_settings
from models.tiers import query as memory
from web.accounts.identity import who
from web.calls import caller

log = logging.getLogger("jiyi.web")

TASK = "retrieval.memory"
#: Seconds that the tiers get when the web asks them by itself.
DIRECT_SECONDS = 3.0


def ask(query: MemoryQuery, seconds: float) -> MemoryAnswer:
    """What the tiers know, with the state of each. Web searches of who names no session count as the key's.

    Raises as :meth:`jiyi.Client.query_memory` does, but for who is away.
    """
    if query.web_results and query.asking_session is None and query.session_id is None:
        query = query.model_copy(update={"asking_session": who().actor})
    queue = retrieval_queue(query.group_id, "", get_settings().retrieval_shards)
    try:
        return MemoryAnswer.model_validate_json(caller().call_for_json(TASK, queue, query, seconds))
    except (BrokerUnavailable, NoAnswer) as error:
        log.warning("the web asks the tiers by itself: %s", error)
    memory.throttle(query.group_id)
    return memory.query_memory(query, None, DIRECT_SECONDS)


class Retriever:
    """For :class:`jiyi.tiers.retrieval_node.MemoryRetrievalNode`, in a request's scope."""

    def query_memory(self, query: str, *, group_id: str, timeout: float | None = None, **options: Any) -> MemoryAnswer:
        try:
            asked = MemoryQuery(query=query, group_id=group_id, **options)
        except ValidationError as error:
            raise InvalidRequest(problems_of(error, MemoryQuery)) from None
        try:
            return ask(asked, QUERY_SECONDS if timeout is None else min(timeout, MAX_TIMEOUT))
        except JiyiError:
            raise
        except Exception as error:  # its words are not for whoever asks
            log.exception("the tiers could not be asked")
            raise ServiceError("the memory could not be asked; the log of the process `web` has the details") from error
