"""A past retrieval asked again: of what was known when it was asked, and of what is known now."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from jiyi.protocol.recall import AgainRequest, AskedAgain, RetrievalRecord
from jiyi.protocol.retrieval import Answer, RetrievalRequest
from jiyi.text.words import language_of
from models.db.actions import Actor
from models.db.connection import reading
from models.retrieval import records
from tasks.framework.rpc import implements
from tasks.retrieval.context import within
from tasks.retrieval.retrieve import retrieve

#: Options of a record that are no fields of a request as they stand there.
_NO_FIELDS = {"messages", "embedding_model", "max_tokens"}


@implements(records.ask_again)
def ask_again(actor: Actor, request: AgainRequest) -> AskedAgain:
    """Safe to repeat because it changes nothing."""
    with reading() as connection:
        record = records.recorded(connection, actor.group_id, request.retrieval_id)
    then = _ask(actor.group_id, record, record.asked_at - timedelta(milliseconds=record.ms))
    returned = [[memory.node_id for memory in result if memory.description is not None] for result in record.results]
    kept = [[node.node_id for node in group.retrieved_nodes[: records.RESULTS]] for group in then.groups]
    now = _ask(actor.group_id, record, None)
    return AskedAgain(record=record, then=then, now=now, same=list(map(set, returned)) == list(map(set, kept)), notes=list(_notes(record)))


def _ask(group_id: str, record: RetrievalRecord, as_of: datetime | None) -> Answer:
    """The record's question. One that asked about a time itself keeps to that."""
    options: dict[str, Any] = {name: value for name, value in record.options.items() if name not in _NO_FIELDS}
    asked = {"group_id": group_id, "agent_id": record.agent_id, "focal_texts": record.focal_texts, "touch": False}
    answer = retrieve(RetrievalRequest(**({"as_of": as_of} | options | asked)))
    assert isinstance(answer, Answer)  # nothing is touched
    if (budget := record.options.get("max_tokens")) is not None:  # it was for a prompt
        [group] = answer.groups
        fits = {memory.node_id for memory in within(group.retrieved_nodes, budget, language_of(group.focal_text)).memories}
        group.retrieved_nodes = [node for node in group.retrieved_nodes if node.node_id in fits]
        group.accessed_ids = [node.node_id for node in group.retrieved_nodes]
    return answer


def _notes(record: RetrievalRecord) -> Iterator[str]:
    if "messages" in record.options:
        yield "it was a dialogue, of which only the leading message is kept"
    if "embedding_model" in record.options:
        yield "it brought its own vectors, which are not kept: asked by its text"
    if any(len(text) == records.CHARACTERS for text in record.focal_texts):
        yield f"of its text only the first {records.CHARACTERS:,} characters are kept"
