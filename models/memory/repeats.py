"""Ids for events of senders that cannot keep one, such as LLMs: what says the same within some seconds is the
same event.

The id is made of what the event says and of when: time is cut into slots of those seconds, and an event takes
the id of its own slot, or of the slot before if that is stored. So several processes make the same id.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import Connection, text
from uuid6 import uuid7

from jiyi.protocol.event_bodies import content_of, digest
from jiyi.protocol.events import Event

#: A version-7 id: 48 bits of milliseconds, then the version, 12 bits, the variant, 62 bits.
RANDOM_BITS, VERSION_7, VARIANT = 80, 0x7 << 76, 0b10 << 62
KEPT_BITS = ((1 << RANDOM_BITS) - 1) & ~(0xF << 76) & ~(0b11 << 62)


def with_ids(
    connection: Connection,
    events: Sequence[Event],
    field_names: Sequence[Collection[str]],
    seconds: int,
    now: datetime,
) -> list[Event]:
    """The events, those without a sender's ``event_id`` with the one that what they say has now.

    Args:
        connection: in the scope of the events' group.
        events: of one group.
        field_names: the fields of the envelope that the sender gave, event by event.
        seconds: how long what says the same is the same.
        now: what time it is.
    """
    slot = int(now.timestamp()) // seconds
    ids = {
        place: [_id(event, "occurred_at" in fields, at, seconds) for at in (slot, slot - 1)]
        for place, (event, fields) in enumerate(zip(events, field_names, strict=True))
        if "event_id" not in fields
    }
    candidates = [event_id for both in ids.values() for event_id in both]
    rows = connection.execute(
        _STORED, {"ids": candidates, "group": events[0].group_id, "since": now - timedelta(seconds=seconds)}
    )
    #: Whether it is still current: what was erased or corrected meanwhile is to be stored again.
    is_current: dict[UUID, bool] = {row.event_id: row.holds for row in rows}

    def chosen(both: Sequence[UUID]) -> UUID:
        if (existing := next((event_id for event_id in both if is_current.get(event_id)), None)) is not None:
            return existing
        return uuid7() if both[0] in is_current else both[0]

    return [
        event.model_copy(update={"event_id": chosen(ids[place])}) if place in ids else event
        for place, event in enumerate(events)
    ]


def _id(event: Event, dated: bool, slot: int, seconds: int) -> UUID:
    content = "|".join(
        [
            event.group_id,
            digest(content_of(event)),
            event.occurred_at.isoformat() if dated else "",
            str(slot),
            str(seconds),
        ]
    )
    bits = int.from_bytes(hashlib.blake2b(content.encode(), digest_size=RANDOM_BITS // 8).digest())
    return UUID(int=(slot * seconds * 1_000 << RANDOM_BITS) | (bits & KEPT_BITS) | VERSION_7 | VARIANT)


_STORED = text("""
    SELECT e.event_id,
        e.received_at >= :since AND e.outcome <> 'erased' AND (
            e.node_id IS NULL OR EXISTS (
                SELECT FROM memory_nodes n WHERE n.node_id = e.node_id AND n.group_id = e.group_id
                AND n.superseded_at IS NULL AND n.archived_at IS NULL
            ) AND NOT EXISTS (
                SELECT FROM erasures r WHERE r.group_id = e.group_id AND r.state <> 'done'
                AND r.kind = 'nodes'
                AND r.what #> '{asked,node_ids}' @> to_jsonb(e.node_id::text)
            )
        ) AS holds
    FROM events e WHERE e.event_id = ANY(CAST(:ids AS uuid[])) AND e.group_id = :group
""")
