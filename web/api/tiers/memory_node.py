"""The memory-retrieval node for workflow engines in other languages (CN-01…CN-15).

``/nodes/memory-retrieval`` stands beside ``/nodes/<uuid:node_id>``, a memory: the two cannot be taken for each other, since
``memory-retrieval`` is no UUID, and the route's converter takes nothing else.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from jiyi.protocol.rest import FOREIGN_GROUP, FieldProblem
from jiyi.protocol.tiers.memory_node import NodeBody, NodeDescription, NodeDescriptionParameters, NodeRun
from jiyi.tiers import memory_node
from jiyi.tiers.memory_node import CONTEXT_FIELD, MemoryRetrievalNode, NodeEvent
from models.queue import stream
from models.queue.stream import News
from web.api.problems import Refused
from web.api.registry import operation
from web.api.running import Asker
from web.api.tiers.asking import Retriever

PATH = "/nodes/memory-retrieval"


@operation("POST", PATH, id="run_memory_node", scope="read", tag="tiers", body=NodeBody, answer=NodeRun)
def run_memory_node(asker: Asker, body: NodeBody) -> dict[str, Any]:
    """Run the memory-retrieval node.

    Looks for what the group knows about the topic (else the content, else the document) of the inputs, and gives the
    inputs back with history_context, markdown for an agent's prompt. It never fails for the memory's sake: if that is
    away the history is empty, and an event memory_retrieval_error says so. Counts of what was found also go over the live
    stream.
    """
    if _name(body.inputs.get("group_id")) not in ("", asker.group_id):
        problem = FieldProblem(field="inputs.group_id", message=FOREIGN_GROUP.partition(": ")[2])
        raise Refused(422, f"inputs.{FOREIGN_GROUP}", [problem])
    told: list[NodeEvent] = []
    node = MemoryRetrievalNode(body.properties, retriever=Retriever(), node_id=body.node_id)
    done = node.process({**body.inputs, "group_id": asker.group_id}, told.append)
    stream.publish_all(_news(asker.group_id, body.node_id, told))
    return {"outputs": {**body.inputs, CONTEXT_FIELD: done[CONTEXT_FIELD]}, "events": told}


@operation("GET", PATH, id="describe_memory_node", scope="read", tag="tiers", query=NodeDescriptionParameters, answer=NodeDescription)
def describe_memory_node(_asker: Asker, query: NodeDescriptionParameters) -> dict[str, Any]:
    """Describe the memory-retrieval node.

    Label, icon, colour, inputs and outputs, and a JSON schema of its properties: what an editor of workflows needs to
    offer it.
    """
    return memory_node.description(query.language)


def _news(group_id: str, node_id: str, events: list[NodeEvent]) -> list[News]:
    """Counts and names of tiers only: what an error says may quote what was asked."""
    found: list[News] = []
    for event in events:
        data = event["data"]
        if event["event"] == "memory_retrieved":
            found.append((group_id, "memory.retrieved", {"node": node_id, **data}))
        elif event["event"] == "memory_retrieval_error":
            found.append((group_id, "memory.retrieval_error", {"node": node_id, "tier": data.get("tier")}))
    return found


def _name(value: Any) -> str:
    return str(value).strip() if isinstance(value, str | UUID) else ""
