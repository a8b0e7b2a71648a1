"""What publishes the outputs of a workflow's nodes: quarantine and working memory are fed from here.

    memory = MemoryMiddleware(client)
    output = memory.after_node("proponent", output, group_id="council", session_id=session)
    memory.close()

It never disturbs the workflow: outputs are put into a queue and published by a thread of its own, which tries
again while the broker is away. What cannot be published is counted and logged. The original aborts the node.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Self, TypeVar

from pydantic import ValidationError
from pydantic_core import to_json

from jiyi.client.outbox import CLOSE_SECONDS, Outbox, OutboxCounts, Publisher
from jiyi.errors import InvalidEvent, problems_of, unknown_option
from jiyi.protocol.base import JsonObject, small_enough, unstorable
from jiyi.protocol.events import MAX_OUTPUT_CHARS, Execution, NodeExecuted
from jiyi.text.words import storable

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Characters of what says why metadata are missing.
MAX_REASON_CHARS = 200
#: Names that a confidence goes by in an output's metadata.
_CONFIDENCE = ("confidence", "confidence_score")


class MemoryMiddleware:
    """After-node middleware. Thread-safe.

    Args:
        publisher: who publishes.
        on_failure: called with a sentence for each output that is refused or lost.
    """

    def __init__(self, publisher: Publisher, *, on_failure: Callable[[str], object] | None = None) -> None:
        self._outbox = Outbox(publisher, "an output", "outputs", on_failure=on_failure)

    @property
    def counts(self) -> OutboxCounts:
        """What became of the outputs."""
        return self._outbox.counts

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def after_node(
        self,
        node_id: str,
        output: T,
        *,
        group_id: str,
        session_id: str | None = None,
        agent_id: str | None = None,
        **fields: Any,
    ) -> T:
        """Record a node's output, and return it unchanged. Never raises, never waits.

        Args:
            node_id: which node.
            output: a text, or a mapping with a text ``content`` and perhaps ``metadata``; others are skipped.
            group_id: the group.
            session_id: the run of the workflow.
            agent_id: who spoke; the metadata's ``agent_id``, else the node, unless given.
            fields: other fields of :class:`jiyi.protocol.events.Execution` (``node_type``, ``confidence``,
            ``flags``, …).
        """
        whose: dict[str, Any] = {"group_id": group_id, "session_id": session_id, "agent_id": agent_id}
        try:
            event = event_of(node_id, output, **whose, **fields)
        except Exception as error:
            ours = isinstance(error, InvalidEvent)
            if not ours:
                log.exception("the output of a node was not stored")
            why = str(error) if ours else type(error).__name__
            self._outbox.fail("refused", 1, f"the output of node {node_id!r} is not remembered: {why}")
            return output
        if event is None:
            self._outbox.count("skipped")
        else:
            self._outbox.put(event)
        return output

    def flush(self, seconds: float = CLOSE_SECONDS) -> bool:
        """Wait until everything is published; False if it is not, after so many seconds."""
        return self._outbox.flush(seconds)

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Publish what is still waiting, and end; what is not published by then is lost."""
        self._outbox.close(seconds)


def event_of(
    node_id: str,
    output: Any,
    *,
    group_id: str,
    session_id: str | None = None,
    agent_id: str | None = None,
    **fields: Any,
) -> JsonObject | None:
    """The ``node.executed`` event of an output; None if it has no text.

    The node's id is in the event itself: the original adds it to the metadata after they are written. A text
    is not lost for what comes with it: metadata that cannot be kept are left out, and it says so.

    Raises:
        InvalidEvent: with a sentence per wrong field.
    """
    content = output.get("content") if isinstance(output, Mapping) else output
    text = storable(content) if isinstance(content, str) else ""
    if not text.strip():
        return None
    unknown = fields.keys() - Execution.model_fields.keys()
    if unknown:
        raise InvalidEvent([unknown_option(name, Execution.model_fields) for name in sorted(unknown)])
    raw_metadata = output.get("metadata") if isinstance(output, Mapping) else None
    metadata = (dict(raw_metadata) if isinstance(raw_metadata, Mapping) else {}) | fields.pop("metadata", {})
    payload = {
        "confidence": _confidence(metadata),
        **fields,
        "node_id": node_id,
        "output": text[:MAX_OUTPUT_CHARS],
    }
    if metadata.pop("verify_pending", False):
        payload["flags"] = [*fields.get("flags", ()), "verify_pending"]
    speaker = agent_id or metadata.pop("agent_id", None) or fields.get("node_name") or node_id
    if len(text) > MAX_OUTPUT_CHARS:
        metadata["truncated_from"] = len(text)
    payload["metadata"] = _kept(metadata)
    try:
        event = NodeExecuted.model_validate(
            {"group_id": group_id, "agent_id": speaker, "session_id": session_id, "payload": payload}
        )
    except ValidationError as error:
        raise InvalidEvent(problems_of(error)) from None
    if problems := list(unstorable(event.model_dump())):
        raise InvalidEvent(problems)
    return event.model_dump(mode="json", exclude_none=True)


def _confidence(metadata: JsonObject) -> float | None:
    """Taken out of the metadata if it is one; 85 for 85 % stays there, and the output counts as unscored."""
    for name in _CONFIDENCE:
        value = metadata.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1:
            del metadata[name]
            return float(value)
    return None


def _kept(metadata: JsonObject) -> JsonObject:
    try:
        metadata = small_enough(metadata)
        to_json(metadata)
    except (ValueError, TypeError, RecursionError) as error:
        return {"left_out": f"metadata: {error}"[:MAX_REASON_CHARS]}
    return {"left_out": "metadata: unstorable text"} if any(unstorable(metadata)) else metadata
