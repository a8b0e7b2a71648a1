"""A turn of a conversation as a memory: a node of kind ``session`` whose subject is its speaker."""

from __future__ import annotations

from engine.providers.llms.questions import Poignancy
from engine.providers.llms.rules import poignancy
from jiyi.protocol.conversations.uris import uri_of
from jiyi.protocol.events import MemoryObserved, Observation, TurnRecorded


def memory_of(event: MemoryObserved | TurnRecorded) -> MemoryObserved:
    """The memory that the event becomes. A turn does not bring a reflection nearer; what is extracted from it will."""
    if isinstance(event, MemoryObserved):
        return event
    turn = event.payload
    payload = Observation.model_construct(
        description=f"{turn.name}: {turn.text}" if turn.name else turn.text,
        subject=turn.name or turn.role,
        keywords=[],
        poignancy=float(poignancy.weigh(Poignancy.model_construct(agent_id=event.agent_id, text=turn.text)).poignancy),
        historic=True,
        kind="session",
        uri=uri_of(event.agent_id, "session", event.session_id or ""),
        provenance={**turn.provenance, "role": turn.role},
    )
    envelope = {name: getattr(event, name) for name in type(event).model_fields if name not in ("type", "payload")}
    return MemoryObserved.model_construct(**envelope, payload=payload)
