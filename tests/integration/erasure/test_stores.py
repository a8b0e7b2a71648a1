"""Erasure and declared stores: what names a person, or was said by an erased agent, is nowhere afterwards."""

from __future__ import annotations

import base64
from uuid import uuid4

import pytest

from jiyi.protocol.stores import LogOperation, Snapshot, SnapshotBlock, UpdateStore
from models.stores import actions
from tests.integration.erasure.test_erasure import alone as alone  # noqa: PLC0414 - a fixture
from tests.integration.erasure.test_erasure import erase, places
from tests.integration.stores.kept import SIMPLE, Kept, embed

pytestmark = pytest.mark.usefixtures("alone", "nothing_owed")


def test_a_person_goes_from_stores_with_what_was_attached(group: str) -> None:
    name = f"Maria Quill{uuid4().hex[:8]}"
    kept = Kept(group)
    kept.apply(SIMPLE)
    block = {"data": base64.b64encode(b"x" * 99).decode(), "mime_type": "image/png"}
    output = Snapshot(text=f"The cups are for {name}.", blocks=[SnapshotBlock(role="user", block=block)])
    kept.perform(
        actions.update,
        UpdateStore(name="notes", role="writer", inputs_text="For whom?", output_snapshot=output),
    )
    kept.say("The cups are blue, and there are nine of them.")
    embed()
    assert len(kept.ask("cups").hits) == 2
    done = LogOperation(graph="team", node_id=f"ask {name}", operation_type="RETRIEVE", stage="gen")
    kept.perform(actions.log, done)
    report = erase(group, person=name)
    tables = report["looked_through"]["tables"]
    assert {"stores", "store_items", "store_files", "attachments", "store_nodes", "store_operations"} <= set(
        tables
    )
    assert places(name) == []
    assert [hit.item.content_summary for hit in kept.ask("cups").hits] == [
        "Input: \nOutput: The cups are blue, and there are nine of them."
    ]
    assert kept.state().attachments == 0


def test_what_an_erased_agent_said_goes(group: str) -> None:
    kept = Kept(group)
    kept.apply(SIMPLE)
    kept.say("The potter said that the kiln is hot.", role="potter")
    kept.say("The painter said that the blue is dry.", role="painter")
    erase(group, agent_id="potter")
    assert [one.metadata["agent_role"] for one in kept.items().rows] == ["painter"]
