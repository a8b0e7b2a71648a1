"""The memory-retrieval node for workflow engines in other languages.

``/nodes/memory-retrieval`` stands beside ``/nodes/<uuid:node_id>``, a memory: the two cannot be taken for each other, since
``memory-retrieval`` is no UUID, and the route's converter takes nothing else.
"""

from __future__ import annotations

from typing import Any, TypedDict
from uuid import UUID

from jiyi.protocol.rest import FOREIGN_GROUP, FieldProblem
from jiyi.protocol.tiers.retrieval_node import NodeBody, NodeDescription, NodeDescriptionParameters, NodeRun
from jiyi.tiers import retrieval_node as memory_node
from jiyi.tiers.retrieval_node import CONTEXT_FIELD, MemoryRetrievalNode, NodeEvent
from models.queue import news
from web.api.problems import Refused
from web.api.registry import operation
from web.api.running import Asker
from web.api.tiers.asking import Retriever

PATH = "/nodes/memory-retrieval"


class NodeRan(TypedDict):
    """:class:`NodeRun`, with the events as the node told them."""

    outputs: dict[str, Any]
    events: list[NodeEvent]


@operation("POST", PATH, id="run_memory_node", scope="read", tag="tiers", body=NodeBody, answer=NodeRun)
def run_memory_node(asker: Asker, body: NodeBody) -> NodeRan:
    """Run the memory-retrieval node.

    Looks for what the group knows about the topic (else the content, else the document) of the inputs, and gives the
    inputs back with history_context, markdown for an agent's prompt. It never fails for the memory's sake: if that is
    away the history is empty, and an event memory_retrieval_error says so. That it runs, what it found and that it is
    done also go over the live stream, as they happen, without any text.
    """
    if _name(body.inputs.get("group_id")) not in ("", asker.group_id):
        problem = FieldProblem(field="inputs.group_id", message=FOREIGN_GROUP.partition(": ")[2])
        raise Refused(422, f"inputs.{FOREIGN_GROUP}", [problem])
    told: list[NodeEvent] = []
    session_id = _name(body.inputs.get("session_id")) or None

    def tell(event: NodeEvent) -> None:
        told.append(event)
        news.node_told(asker.group_id, event, body.node_id, session_id)

    node = MemoryRetrievalNode(body.properties, retriever=Retriever(), node_id=body.node_id)
    done = node.process({**body.inputs, "group_id": asker.group_id}, tell)
    return NodeRan(outputs={**body.inputs, CONTEXT_FIELD: done[CONTEXT_FIELD]}, events=told)


@operation("GET", PATH, id="describe_memory_node", scope="read", tag="tiers", query=NodeDescriptionParameters, answer=NodeDescription)
def describe_memory_node(_asker: Asker, query: NodeDescriptionParameters) -> NodeDescription:
    """Describe the memory-retrieval node.

    Label, icon, colour, inputs and outputs, and a JSON schema of its properties: what an editor of workflows needs to
    offer it.
    """
    return NodeDescription.model_validate(memory_node.description(query.language))


def _name(value: Any) -> str:
    return str(value).strip() if isinstance(value, str | UUID) else ""
