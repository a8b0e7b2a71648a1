"""What matters now? Asked of the retrieval workers, with a bound on how many wait for them."""

from __future__ import annotations

from jiyi.protocol.recall import RetrievalsQuery
from jiyi.protocol.retrieval import Answer, RetrievalRequest, RetrieveBody
from jiyi.protocol.wire.calls import retrieval_queue
from jiyi.settings import get_settings
from models.db.bounded_reads import ask
from models.queue import broker_queues
from models.retrieval import actions
from web.api.problems import RETRY_SECONDS, Refused
from web.api.registry import expose, operation
from web.api.running import Asker
from web.calls import caller

#: Retrievals that may wait in a queue: each more would wait longer than its caller does.
MOST_WAITING = 200


@operation(
    "POST",
    "/retrieve",
    id="retrieve_memories",
    scope="read",
    tag="retrieval",
    body=RetrieveBody,
    answer=Answer,
    errors=(504,),
    flat=("agent_id", "focal_text", "top_k", "mode", "recency_w", "relevance_w", "importance_w"),
)
def retrieve_memories(asker: Asker, body: RetrieveBody) -> bytes:
    """Recall what matters now.

    Searches an agent's memory for what matters for a focal text: a question, or what is going on. Call it before
    answering a user or deciding what to do. Memories are ranked by recency, relevance and importance; each comes with its
    description, its score and every part of it. Ask in the language of the conversation; memories in another language are
    found, too. What is returned counts as accessed, unless touch is false. An agent without memories that fit gives the status
    no_candidates, one that nothing has been stored of unknown_agent; neither is an error.
    """
    settings = get_settings()
    fields = {name: getattr(body, name) for name in RetrievalRequest.model_fields if name != "group_id"}
    request = RetrievalRequest.model_construct(group_id=asker.group_id, **fields)
    queue = retrieval_queue(asker.group_id, body.agent_id, settings.retrieval_shards)
    shed_load(queue)
    return caller().call_for_json("retrieval.retrieve", queue, request, body.timeout, actor=asker.actor)


expose(actions.list_retrievals, "GET", "/retrievals", id="list_retrievals", tag="retrieval", query=RetrievalsQuery, errors=(404,))


def shed_load(queue: str) -> None:
    """503 if more than :data:`MOST_WAITING` wait, where that is known."""
    waiting = ask("broker", lambda: broker_queues.waiting(queue))
    if waiting is not None and waiting > MOST_WAITING:
        raise Refused(503, f"{waiting:,} retrievals wait, which is more than {MOST_WAITING:,}.", Retry_After=str(RETRY_SECONDS))
