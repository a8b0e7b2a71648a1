"""The page with the graph of an agent's memory: joints, people, turns on request, its own group and agent
only.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest
from flask.testing import FlaskClient

from jiyi.protocol.conversations import Kind
from models.db.connection import unit_of_work
from tests.integration.memory.test_admin_memories import AGENT, EVIL, archive, data, observe, page

pytestmark = pytest.mark.usefixtures("database")


def stored(group: str, description: str, *, evidence: list[UUID] | None = None, **fields: Any) -> UUID:
    """A memory with what a door for it would have set."""
    kind: Kind | None = fields.pop("kind", None)
    node = observe(
        group,
        description=description,
        **{"evidence": [*map(str, evidence)], "node_type": "thought"} if evidence else {},
    )
    given = {"kind": kind, "uri": None if kind is None else f"agent://{AGENT}/{kind}/{uuid4()}", **fields}
    with unit_of_work() as connection:
        for name, value in given.items():
            connection.exec_driver_sql(
                f"UPDATE memory_nodes SET {name} = %s WHERE node_id = %s", (value, node)
            )
    return node


def graph(browser: FlaskClient, group: str, **query: Any) -> Any:
    return data(browser, f"/agents/{group}/{AGENT}/graph.json", group=group, **query)["graph"]


def test_it_has_evidence_supersession_and_people_but_turns_only_if_asked(
    signed_in: FlaskClient, group: str
) -> None:
    turn = stored(group, "I moved to Oslo", kind="session", user_id="lin")
    new = stored(group, "lives in Oslo", kind="knowledge", user_id="lin", filling=f'["{turn}"]')
    old = stored(
        group,
        "lives in Bergen",
        kind="knowledge",
        user_id="lin",
        superseded_by=new,
        superseded_at="2026-05-01T00:00Z",
    )
    seen = stored(group, "it rains", subject="desk")
    thought = stored(group, "rain makes people move", evidence=[seen, new])
    put_away = stored(group, "was long ago")
    archive(group, put_away)
    found = graph(signed_in, group)
    by_id = {UUID(memory["node_id"]): memory for memory in found["memories"]}
    assert by_id.keys() == {new, old, seen, thought}
    assert by_id[thought]["evidence"] == [str(seen), str(new)]
    assert (by_id[old]["superseded_by"], by_id[new]["evidence"], by_id[seen]["person"]) == (
        str(new),
        [],
        None,
    )
    assert (found["people"], found["left_out"]) == ({"lin": 2}, 0)
    with_turns = graph(signed_in, group, turns="1")
    assert {memory["node_id"] for memory in with_turns["memories"]} == {str(node) for node in (*by_id, turn)}
    assert [memory["evidence"] for memory in with_turns["memories"] if memory["node_id"] == str(new)] == [
        [str(turn)]
    ]
    assert {memory["node_id"] for memory in graph(signed_in, group, person="lin")["memories"]} == {
        str(new),
        str(old),
    }
    html = page(signed_in, f"/agents/{group}/{AGENT}/graph", group=group)
    assert html.count("data-node=") == 4


def test_it_is_of_its_own_agent_and_group_and_escapes_what_others_wrote(
    signed_in: FlaskClient, group: str
) -> None:
    other = observe(f"{group}-other", description="of another group")
    observe(group, "somebody else", description="of another agent")
    stored(group, EVIL, evidence=[other], user_id=EVIL)
    assert [memory["evidence"] for memory in graph(signed_in, group)["memories"]] == [[]]
    html = page(signed_in, f"/agents/{group}/{AGENT}/graph", group=group)
    assert "<script>alert" not in html
    assert "of another" not in html
    missing = signed_in.get(f"/agents/{group}/nobody/graph", query_string={"group": group})
    assert missing.status_code == 404
    assert "nobody" in missing.text
