"""What must not come back: events about what is being erased, and thoughts that rest on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypedDict
from uuid import UUID

from sqlalchemy import Connection, text

from engine.erasure import Names
from jiyi.protocol.erasure import Erasure
from jiyi.protocol.events import Event, EventKey, MemoryObserved
from models.erasure.progress import ErasureTarget
from models.memory.event_types import refuses_events

#: Any number that no other advisory lock of ours uses. Held by all who store; alone by an erasure, for a
#: moment.
STORING = 7_461_904


class _UnderWay(TypedDict):
    """An erasure that goes on, as ``_LOOK`` gives it."""

    group_id: str
    what: ErasureTarget
    agents: list[str]


@refuses_events
def refused(connection: Connection, events: Sequence[Event]) -> set[EventKey]:
    """Keys of the events to be kept as erased: about whom is being erased, or resting on erased evidence.

    An erasure waits for the caller's transaction before it looks for what there is.
    """
    connection.execute(_STORING, {"key": STORING})
    evidence = {key for event in events for key in _evidence(event)}
    ids, whose = [erasure[0] for erasure in evidence], [erasure[1] for erasure in evidence]
    groups = sorted({event.group_id for event in events})
    # After the lock, in a statement of its own: it sees every erasure that did not wait for this transaction.
    row = connection.execute(_LOOK, {"groups": groups, "evidence": ids, "whose": whose}).one()
    if not row.under_way and not row.gone:
        return set()
    about = [_about(erasure) for erasure in row.under_way or []]
    gone = {(UUID(erasure["id"]), erasure["group_id"]) for erasure in row.gone or []}
    refused_keys: set[EventKey] = set()
    for event in events:
        rests_on_gone = not (gone | refused_keys).isdisjoint(_evidence(event))
        if rests_on_gone or any(erasure(event) for erasure in about):
            refused_keys.add(event.key)
    return refused_keys


def _evidence(event: Event) -> list[EventKey]:
    evidence = event.payload.evidence if isinstance(event, MemoryObserved) else []
    return [(node_id, event.group_id) for node_id in evidence]


def _about(row: _UnderWay) -> Callable[[Event], bool]:
    """A function that checks whether an event is about what this erasure erases."""
    what = Erasure.model_validate(row["what"]["asked"]) if "asked" in row["what"] else None
    agents = {*row["agents"], *([what.agent_id] if what is not None and what.agent_id is not None else [])}
    names = Names(what.names) if what is not None and what.kind == "person" else None
    group = row["group_id"]

    def is_about(event: Event) -> bool:
        if event.group_id != group:
            return False
        if event.agent_id in agents or names is None:
            return event.agent_id in agents
        return names.found_in(event.model_dump_json(exclude={"group_id": True, "payload": {"vector"}}))

    return is_about


def wait_for_storing(connection: Connection) -> None:
    """Return when every transaction that may not have seen an erasure has ended."""
    connection.execute(_WAIT, {"key": STORING})


_STORING = text("SELECT pg_advisory_xact_lock_shared(:key)")
_WAIT = text("SELECT pg_advisory_xact_lock(:key)")
_LOOK = text("""
    SELECT (
        SELECT jsonb_agg(jsonb_build_object(
            'group_id', group_id, 'what', what, 'agents', coalesce(place -> 'agents', '[]'::jsonb)
        )) FROM erasures WHERE group_id = ANY(:groups) AND state <> 'done'
    ) AS under_way, (
        SELECT jsonb_agg(e) FROM unnest(CAST(:evidence AS uuid[]), CAST(:whose AS text[])) AS e(id, group_id)
        WHERE EXISTS (SELECT FROM events o WHERE o.event_id = e.id AND o.group_id = e.group_id
        AND o.outcome = 'erased')
           OR EXISTS (SELECT FROM erasing_ids o WHERE o.subject_id = e.id AND o.group_id = e.group_id)
    ) AS gone
""")
