"""The memory-retrieval node over REST, for workflow engines in any language."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from jiyi.protocol.base import JsonObject
from jiyi.tiers.retrieval_node import EventName, NodeProperties

MAX_NODE_ID_CHARS = 128


def _finite(value: JsonObject) -> JsonObject:
    """Other numbers could not go back as JSON."""
    waiting: list[Any] = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, float) and not math.isfinite(item):
            raise ValueError("every number in it must be finite")
        if isinstance(item, dict | list):
            waiting.extend(item.values() if isinstance(item, dict) else item)
    return value


class NodeBody(BaseModel):
    """A run of the node: what a workflow engine has in its hands when it comes to it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    inputs: Annotated[dict[str, Any], AfterValidator(_finite)] = Field(
        description="The state of the workflow. The question is the first text that is not blank of `topic`, `content` and "
        "`document`; `session_id` may name the session. Everything comes back unchanged."
    )
    properties: NodeProperties = Field(NodeProperties(), description="The node's settings: see describe_memory_node.")
    node_id: Annotated[str, Field(max_length=MAX_NODE_ID_CHARS)] = Field("", description="The node's id, for the events.")


class NodeRunEvent(BaseModel):
    """What the node has to tell: as on the callback of the Python library."""

    event: EventName
    timestamp: datetime
    node_id: str = ""
    data: dict[str, Any]


class NodeRun(BaseModel):
    """`outputs`: the inputs and `history_context`, markdown, which is empty where there is no history."""

    outputs: dict[str, Any]
    events: list[NodeRunEvent]


class NodeDescription(BaseModel):
    """What an editor of workflows needs to offer the node."""

    type: str
    label: str
    icon: str
    colour: str
    shape: str
    inputs: list[str]
    outputs: list[str]
    properties: dict[str, Any] = Field(description="JSON schema of its settings.")


class NodeDescriptionParameters(BaseModel):
    model_config = ConfigDict(extra="forbid")

    language: Literal["zh", "en"] = Field("en", description="Of the label.")
