"""One count of a group, whoever asks: the API, the command line's question, the overview."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from jiyi.protocol.base import Request
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.operations import actions
from models.queue import dead_letters
from tests.integration.memory.test_inbox import observed, save

pytestmark = pytest.mark.usefixtures("database")


def test_everybody_counts_alike_and_what_was_erased_does_not_count(group, web_app, api_key, sign_in):
    kept, erased = observed(group, "stays"), observed(group, "goes")
    save(kept, erased)
    with unit_of_work() as connection:
        connection.execute(
            text("UPDATE events SET outcome = 'erased', node_id = NULL WHERE event_id = :id"),
            {"id": erased.event_id},
        )
        connection.execute(text("DELETE FROM memory_nodes WHERE node_id = :id"), {"id": erased.event_id})
        dead_letters.add_message(connection, "{}", "why", None, group)
    counted = actions.show_stats.perform(Actor(group), Request()).counts.model_dump()
    assert [
        counted[name] for name in ("agents", "events", "nodes", "event_nodes", "not_embedded", "dead_letters")
    ] == [1] * 6
    headers = {"Authorization": f"Bearer {api_key(group, 'read')}"}
    answer = web_app.test_client().get("/api/v1/stats", headers=headers).json
    assert answer["counts"] == counted  # type: ignore[index]
    overview = sign_in("viewer", groups=[group]).get("/overview.json").json
    assert overview["totals"] == {"agents": counted["agents"], "nodes": counted["nodes"]}
    assert overview["open_dead_letters"] == counted["dead_letters"]
    assert overview["work_owed"] == answer["work_owed"]  # type: ignore[index]
