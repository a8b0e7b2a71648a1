"""Other rows mention the ids of what is to be erased, by accident or on purpose: the erasure ends all the
same, and nothing is left.
"""

from __future__ import annotations

import json
import time
from typing import Any
from uuid import UUID, uuid4

import pytest

from models.db import valkey_keys
from models.db.connection import unit_of_work
from models.db.valkey import valkey
from models.erasure import traces
from models.erasure.matching import UUIDS
from models.operations import worker_liveness
from tests.integration.erasure.test_erasure import alone, carry_on, report_of
from tests.integration.memory.test_inbox import rows
from tests.integration.programs import Program
from tests.integration.tiers import outputs
from workers import worker_setup

__all__ = ["alone"]
GONE = "01890000-0000-4000-8000-00000000000a"
pytestmark = pytest.mark.usefixtures("alone", "nothing_owed")


def published(
    api: Program, group: str, description: str, event_id: UUID | None = None, **payload: Any
) -> UUID:
    event_id = event_id or uuid4()
    named = {name: payload.pop(name) for name in ("session_id", "correlation_id") if name in payload}
    named |= {"type": "memory.observed", "group_id": group, "agent_id": "klaus", "event_id": str(event_id)}
    api.post("/events", {**named, "payload": {"description": description, "poignancy": 3, **payload}})
    return event_id


def erased(api: Program, group: str, **what: Any) -> dict[str, Any]:
    """Ask for it over REST and have it carried on; its report, with nothing left."""
    asked = api.post("/erasures", what)
    carry_on()
    return report_of(group, UUID(asked["erasure_id"]))


def mentioned(group: str, *ids: UUID) -> list[str]:
    """Tables of the group in which one of the ids stands, but for tombstones and the erasures."""
    wanted = {str(one) for one in ids}
    found = []
    with unit_of_work() as connection:
        tables = traces.columns(connection)
    for table, columns in tables.items():
        texts = ", ".join(f'"{column.name}"::text' for column in columns)
        if table not in ("erasures", "erasing_ids"):
            told = rows(f"SELECT concat_ws(' ', {texts}) AS told FROM {table} WHERE group_id = :g", g=group)
            found += [table for row in told if wanted & set(UUIDS.findall(str(row["told"])))]
    return found


def test_a_memory_that_a_newer_version_replaces(api: Program, group: str) -> None:
    old = published(api, group, "Maria drinks tea")
    coffee = {"description": "Maria drinks coffee"}
    newer = api.ask("PATCH", f"/nodes/{old}", 200, json=coffee).json["node_id"]
    asked = api.ask("DELETE", f"/nodes/{old}", 202).json
    carry_on()
    report_of(group, UUID(asked["erasure_id"]))
    (node,) = rows("SELECT node_id, provenance FROM memory_nodes WHERE group_id = :g", g=group)
    assert (str(node["node_id"]), node["provenance"]) == (newer, {})
    assert mentioned(group, old) == []


def test_an_output_that_another_agent_repeated(api: Program, group: str) -> None:
    (first,) = outputs.say(group, outputs.TEXTS[0], agent_id="one")
    (second,) = outputs.say(group, outputs.TEXTS[0], agent_id="two")
    outputs.screen()
    assert outputs.entry(second)["rejected_details"]["entry"] == str(first)
    erased(api, group, agent_id="one")
    assert "entry" not in outputs.entry(second)["rejected_details"]


def test_ids_wherever_a_program_can_write_one(api: Program, group: str) -> None:
    """A publisher of the group who does not want a memory to be erased."""
    gone = published(api, group, "to be erased")
    holder = published(
        api,
        group,
        f"see {gone}, and again {gone}",
        keywords=[str(gone), "kept"],
        provenance={"because_of": str(gone), "list": [str(gone), {"deep": f"x{gone}x"}], str(gone): 1},
        subject=str(gone),
        predicate="mentions",
        object=str(gone),
        embedding_key=f"key {gone}",
        abstract=f"of {gone}",
        overview=f"about {gone}",
        correlation_id=str(gone),
        session_id=str(gone),
    )
    report = erased(api, group, node_ids=[str(gone)])
    assert report["scrubbed"]["memory_nodes"] == 1
    (node,) = rows("SELECT * FROM memory_nodes WHERE node_id = :id", id=holder)
    assert node["description"] == f"see {traces.NOBODY}, and again {traces.NOBODY}"
    assert node["keywords"] == [traces.NOBODY, "kept"]
    assert node["session_id"] == str(gone)  # a name that the program chose; it names a session
    assert mentioned(group, gone) == []


def test_rows_that_mention_other_ids_stay_as_they_were(api: Program, group: str) -> None:
    gone, kept = published(api, group, "to be erased"), published(api, group, "to be kept")
    holder = published(api, group, f"see {kept}", provenance={"replaces": str(kept)})
    before = rows("SELECT * FROM memory_nodes WHERE node_id = :id", id=holder)
    erased(api, group, node_ids=[str(gone)])
    after = rows("SELECT * FROM memory_nodes WHERE node_id = :id", id=holder)
    assert [{**row, "changed_xid": None} for row in after] == [{**row, "changed_xid": None} for row in before]


def test_an_erasure_waits_for_no_worker_that_was_killed(api: Program, group: str) -> None:
    """Of a killed worker what it reported of its indexes is still there, and its last heartbeat is half a
    minute old.
    """
    killed = "elsewhere:1"
    indexes = {"indexes": 1, "memories": 1, "bytes": 1, "limit_bytes": 1}
    valkey().set(valkey_keys.indexes(killed), json.dumps(indexes), ex=300)
    at = time.time() - worker_liveness.COUNTS_SECONDS - 1
    silent = {"name": "retrieval@elsewhere", "queues": [], "at": at}
    valkey().hset(valkey_keys.WORKERS, killed, json.dumps(silent))
    gone = published(api, group, "to be erased")
    erased(api, group, node_ids=[str(gone)])


def test_a_worker_that_was_out_of_reach_drops_what_it_has_before_it_says_that_it_lives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may have missed an order: erasures went on without it."""
    done: list[str] = []
    beating = worker_setup.WorkerHeartbeat("test@out-of-reach", [])
    beating._heard -= worker_liveness.COUNTS_SECONDS

    def record(_: str, name: str, *__: object) -> None:
        if name == "test@out-of-reach":  # other heartbeats of this process go on
            done.append("said so")

    monkeypatch.setattr(worker_setup, "forget_everything", lambda: done.append("forgot"))
    monkeypatch.setattr(worker_liveness, "record_heartbeat", record)
    beating.beat()
    assert done == ["forgot", "said so"]


@pytest.mark.parametrize(
    ("value", "left"),
    [
        ({"replaces": GONE, "by": "klaus"}, {"by": "klaus"}),
        ({"entry": GONE}, {}),
        ({"replaces": "another"}, {"replaces": "another"}),
        ([GONE, 1, None, {"a": [GONE]}], [traces.NOBODY, 1, None, {"a": [traces.NOBODY]}]),
        (f"a {GONE} b", f"a {traces.NOBODY} b"),
        (3.5, 3.5),
    ],
)
def test_json_without_an_id(value: Any, left: Any) -> None:
    assert traces.without(value, {GONE}) == left
