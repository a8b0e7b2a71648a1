"""The tiers over REST only, and the memory-retrieval node for workflow engines."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field

from jiyi.protocol import limits
from jiyi.protocol.base import JsonObject, plain_json
from jiyi.protocol.retrieval import MAX_TIMEOUT
from jiyi.protocol.tier_questions import MemoryQuestion
from jiyi.tiers.retrieval_node import NodeEvent, NodeProperties

#: Seconds that workers get for an answer by default. A web process that then answers instead takes up to
#: three more, so that both stay below the original's ten.
QUERY_SECONDS = 5.0
#: Seconds that a text's sender waits for the filters by default.
SCREEN_SECONDS = 5.0

Wait = Annotated[float, Field(gt=0, le=MAX_TIMEOUT, allow_inf_nan=False)]
Words = Annotated[str, Field(max_length=200, description="Only texts with all of these words.")]


class QueryBody(MemoryQuestion):
    """What do the group's working and long-term memory know about this?"""

    timeout: Wait = Field(
        QUERY_SECONDS,
        description="Seconds that the workers get; after that the web answers without them, by words only.",
    )


MAX_NODE_ID_CHARS = 128


def _finite(value: JsonObject) -> JsonObject:
    """Other numbers could not go back as JSON."""
    plain_json(value, limits.MAX_DEPTH)
    return value


class NodeBody(BaseModel, frozen=True, extra="forbid", use_attribute_docstrings=True):
    """A run of the node: what a workflow engine has in its hands when it comes to it."""

    inputs: Annotated[dict[str, Any], AfterValidator(_finite)]
    """The state of the workflow. The question is the first text that is not blank of `topic`, `content`
    and `document`; `session_id` may name the session. Everything comes back unchanged."""
    properties: NodeProperties = NodeProperties()
    """The node's settings: see describe_memory_node."""
    node_id: Annotated[str, Field(max_length=MAX_NODE_ID_CHARS)] = ""
    """The node's id, for the events."""


class NodeRun(BaseModel):
    """`outputs`: the inputs and `history_context`, markdown, which is empty where there is no history."""

    outputs: dict[str, Any]
    events: list[NodeEvent]


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


class NodeDescriptionParameters(BaseModel, extra="forbid"):
    language: Literal["zh", "en"] = Field("en", description="Of the label.")
