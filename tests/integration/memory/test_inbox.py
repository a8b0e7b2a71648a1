"""Events in tables: each once, numbered without gaps, with what they set off."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from jiyi.protocol.events import Event, build
from models.db.connection import unit_of_work
from models.db.scope import for_groups
from models.memory.inbox import CollisionError, store
from models.memory.work import ACCUMULATE, APPRAISE, EMBED, STRENGTHEN
from tests.integration.threads import Threads
from tests.integration.waiting import until

pytestmark = pytest.mark.usefixtures("database")


def observed(
    group: str, description: str = "Klaus is reading a book", agent_id: str = "klaus", **fields: object
) -> Event:
    envelope = {
        name: fields.pop(name) for name in ("event_id", "occurred_at", "session_id") if name in fields
    }
    payload = {"description": description, "poignancy": 3, **fields}
    return build(
        {"type": "memory.observed", "group_id": group, "agent_id": agent_id, **envelope, "payload": payload}
    )


def configured(group: str, agent_id: str = "klaus", **settings: object) -> Event:
    return build({"type": "agent.configured", "group_id": group, "agent_id": agent_id, "payload": settings})


def save(*events: Event) -> object:
    with for_groups(*(event.group_id for event in events)), unit_of_work() as connection:
        return store(connection, events)


def rows(sql: str, **parameters: object) -> list[dict[str, object]]:
    with unit_of_work() as connection:
        return [dict(row) for row in connection.execute(text(sql), parameters).mappings()]


def execute(sql: str, **parameters: object) -> None:
    with unit_of_work() as connection:
        connection.execute(text(sql), parameters)


def nodes(group: str) -> list[dict[str, object]]:
    return rows("SELECT * FROM memory_nodes WHERE group_id = :g ORDER BY agent_id, node_count", g=group)


def owed(group: str) -> set[tuple[str, UUID]]:
    return {
        (row["kind"], row["subject_id"])
        for row in rows("SELECT kind, subject_id FROM pending_work WHERE group_id = :g", g=group)
    }


def test_an_event_becomes_one_node_with_its_derived_fields(group: str) -> None:
    at = datetime(2026, 3, 2, 8, 30, tzinfo=UTC)
    event = observed(
        group,
        "Klaus liest 很多书",
        keywords=["Klaus", "书", "Klaus"],
        poignancy=4,
        occurred_at=at,
        session_id="s1",
    )
    stored = save(event)
    (node,) = nodes(group)
    assert (stored.events, stored.repeated) == (1, 0)
    assert node["node_id"] == event.event_id
    assert (node["node_count"], node["type_count"], node["depth"]) == (1, 1, 0)
    assert node["created_at"] == at
    assert node["keywords"] == ["Klaus", "书"]
    assert node["keywords_lower"] == ["klaus", "书"]
    assert node["embedding_key"] == "Klaus liest 很多书"
    assert node["embedding"] is None
    (access,) = rows("SELECT * FROM node_access WHERE node_id = :id", id=event.event_id)
    assert (access["last_accessed"], access["access_count"]) == (at, 0)


def test_a_second_delivery_changes_nothing(group: str) -> None:
    """Also within one batch; the same words with another id, or in another group, are another memory."""
    event = observed(group)
    assert save(event, observed(group), event, observed(f"{group}-b")).events == 3
    before = (nodes(group), owed(group))
    assert [node["node_count"] for node in before[0]] == [1, 2]
    assert [node["node_count"] for node in nodes(f"{group}-b")] == [1]
    assert (stored := save(event, event)).events == 0
    assert stored.repeated == 2
    assert (nodes(group), owed(group)) == before


def test_what_a_node_owes_depends_on_what_it_is(group: str) -> None:
    event = observed(group)
    chat = observed(group, "a talk", node_type="chat", keywords=["talk"])
    thought = observed(group, "an insight", node_type="thought", keywords=["insight"])
    idle = observed(group, "kiln is idle", subject="kiln", predicate="is", object="idle", poignancy=1)
    known = observed(group, "with a vector", vector=[0.1, 0.2], embedding_model="m", keywords=["vector"])
    historic = observed(group, "imported", historic=True, keywords=["old"], poignancy=None)
    mute = observed(group, "of unknown importance", keywords=["mute"], poignancy=None)
    save(event, chat, thought, idle, known, historic, mute)
    assert owed(group) == {
        (EMBED, event.event_id),
        (STRENGTHEN, event.event_id),
        (ACCUMULATE, event.event_id),
        (EMBED, chat.event_id),
        (EMBED, thought.event_id),
        (STRENGTHEN, thought.event_id),
        (EMBED, idle.event_id),
        (ACCUMULATE, idle.event_id),
        (STRENGTHEN, known.event_id),
        (ACCUMULATE, known.event_id),
        (EMBED, historic.event_id),
        (STRENGTHEN, historic.event_id),
        (EMBED, mute.event_id),
        (APPRAISE, mute.event_id),  # the rest when it is known how important it is
    }


def test_depth_counts_from_the_deepest_known_evidence_of_the_same_agent(group: str) -> None:
    event = observed(group)
    first = observed(group, "one", node_type="thought", evidence=[event.event_id])
    save(event, first)
    second = observed(group, "two", node_type="thought", evidence=[event.event_id, first.event_id])
    third = observed(group, "three", node_type="thought", evidence=[second.event_id])  # within the same batch
    unknown = observed(group, "of nothing known", node_type="thought", evidence=[uuid4()])
    foreign = observed(
        group, "of another's", agent_id="maria", node_type="thought", evidence=[first.event_id]
    )
    without = observed(group, "of nothing", node_type="thought")
    save(second, third, unknown, foreign, without)
    depths = {node["description"]: node["depth"] for node in nodes(group)}
    assert depths == {
        "Klaus is reading a book": 0,
        "one": 1,
        "two": 2,
        "three": 3,
        "of nothing known": 1,
        "of another's": 1,
        "of nothing": 1,
    }


def test_numbers_have_no_gap_under_concurrent_writers_of_one_agent(group: str) -> None:
    """Nor do writers of many agents, in whatever order, deadlock."""
    writers, batches, kinds = 6, 5, ("event", "thought", "chat") * 2
    agents = [f"agent-{i}" for i in range(8)]
    barrier = threading.Barrier(writers)

    def write(writer: int) -> None:
        barrier.wait()
        for batch in range(batches):
            others = [
                observed(group, f"{writer}.{batch}", agent_id=agent)
                for agent in (agents if writer % 2 else agents[::-1])
            ]
            save(
                *others[:4],
                *(observed(group, f"{writer}.{batch}.{i}", node_type=kind) for i, kind in enumerate(kinds)),
                *others[4:],
            )

    with Threads(writers) as pool:
        list(pool.map(write, range(writers)))
    stored = [node for node in nodes(group) if node["agent_id"] == "klaus"]
    assert [node["node_count"] for node in stored] == list(range(1, writers * batches * len(kinds) + 1))
    for kind in set(kinds):
        of_type = [node["type_count"] for node in stored if node["type"] == kind]
        assert of_type == list(range(1, len(of_type) + 1))
    assert len(nodes(group)) == len(stored) + writers * batches * len(agents)


def test_two_intakes_with_the_same_event_collide_and_one_repeats(group: str) -> None:
    event = observed(group)
    with unit_of_work() as first, Threads(1) as pool:
        store(first, [event])
        pid = first.execute(text("SELECT pg_backend_pid()")).scalar_one()
        second = pool.submit(save, event)
        until(
            lambda: rows("SELECT pid FROM pg_stat_activity WHERE :pid = ANY(pg_blocking_pids(pid))", pid=pid)
        )
        first.commit()
        with pytest.raises(CollisionError):
            second.result(60)
    assert save(event).events == 0


def test_dedupe_exact_keeps_equal_content_once_and_says_which(group: str) -> None:
    save(configured(group, dedupe="exact"))
    first = observed(group, "Klaus reads  ＡＢＣ")
    same_batch = observed(group, "klaus reads abc")
    save(first, same_batch)
    later = observed(group, "KLAUS reads abc")
    other_type = observed(group, "klaus reads abc", node_type="thought")
    save(later, other_type)
    assert [node["node_id"] for node in nodes(group)] == [first.event_id, other_type.event_id]
    outcomes = {
        row["event_id"]: (row["outcome"], row["node_id"])
        for row in rows("SELECT * FROM events WHERE group_id = :g", g=group)
    }
    assert outcomes[same_batch.event_id] == ("duplicate", first.event_id)
    assert outcomes[later.event_id] == ("duplicate", first.event_id)


def test_settings_of_an_agent_are_replaced_field_by_field(group: str) -> None:
    def configure(**payload: object) -> None:
        save(configured(group, **payload))

    configure(recency_w=0.5, importance_trigger_max=100)
    configure(mode="stanford", recency_w=None)
    (agent,) = rows("SELECT * FROM agents WHERE group_id = :g", g=group)
    assert agent["settings"] == {"importance_trigger_max": 100, "mode": "stanford"}
    assert agent["importance_trigger_curr"] == 100
    configure(counters={"importance_trigger_curr": 57, "importance_ele_n": 42})
    (agent,) = rows("SELECT * FROM agents WHERE group_id = :g", g=group)
    assert (agent["importance_trigger_curr"], agent["importance_ele_n"]) == (57, 42)
