"""A graph's stores with a running service: from the file to what a node is given, over broker, command line
and admin.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from jiyi import Client
from jiyi.polling import poll
from jiyi.stores.graph import Graph
from models.db.connection import unit_of_work
from models.db.scope import for_groups
from models.stores import actions, reads
from tests.integration.conftest import SignIn
from tests.integration.stores.kept import BOARD, SIMPLE, Kept, embed

GRAPH = """
graph:
  memory:
    - {name: notes, type: simple, config: {memory_path: notes.json}}
    - {name: board, type: blackboard, config: {memory_path: auto}}
    - {name: past, type: memory, config: {agent_id: potter}}
  nodes:
    - id: writer
      config:
        memories: [{name: notes}, {name: board}]
    - id: critic
      config:
        memories: [{name: notes, retrieve_stage: [critique]}, {name: board, write: false}, {name: past, retrieve_stage: [gen]}]
"""
TEAPOT = "The blue teapot broke on Tuesday evening."


def test_nodes_share_the_graphs_stores_and_runs_the_groups(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "pottery.yaml"
    file.write_text(GRAPH, encoding="utf-8")
    first = Graph.from_file(client, file, run_id="r1")
    done = first.manager("writer").update("writer", "What broke?", TEAPOT)
    assert {name: one.item_id is not None for name, one in done.written.items()} == {
        "notes": True,
        "board": True,
    }
    client.observe("potter", "The potter fired the blue teapot in spring.", wait=True)
    found = first.manager("critic").retrieve("critic", "the blue teapot", "gen")
    assert found.failed == {}
    assert {one.store for one in found.items} == {"board", "past"}
    assert TEAPOT in (found.text or "")
    later = Graph.from_file(client, file, run_id="r2")
    assert {
        one.store for one in later.manager("writer").retrieve("writer", "the blue teapot", "gen").items
    } == {"notes"}
    with for_groups(client.group), unit_of_work() as connection:
        log = reads.operations(connection, client.group, 10)
    assert [(one["operation_type"], one["node_id"], one["run_id"]) for one in log] == [
        ("RETRIEVE", "writer", "r2"),
        ("RETRIEVE", "critic", "r1"),
        ("UPDATE", "writer", "r1"),
    ]
    poll(
        lambda: client.stores.show(name="notes"),
        lambda state: state.pending == 0,
        80,
        lambda _: "no vector was made",
    )
    [hit] = client.stores.retrieve(name="notes", query="what about the blue teapot?").hits
    assert hit.cosine is not None


def test_the_command_line(client: Client, jiyi: Callable[..., str], tmp_path: Path) -> None:
    file = tmp_path / "pottery.yaml"
    file.write_text(GRAPH, encoding="utf-8")
    made = json.loads(jiyi("stores", "apply", file, "--json"))["stores"]
    assert [one["change"] for one in made] == ["made", "of_each_run", "of_the_program"]
    client.stores.update(name="notes", role="writer", output_snapshot={"text": TEAPOT})
    assert "notes" in jiyi("stores", "list")
    assert TEAPOT in jiyi("stores", "items", "notes")
    assert "teapot" in jiyi("stores", "retrieve", "notes", "the blue teapot")
    assert "$schema" in jiyi("stores", "schema")
    assert jiyi("stores", "delete", "notes", "--yes") == "1\n"


@pytest.mark.usefixtures("database", "nothing_owed")
def test_the_pages(group: str, sign_in: SignIn, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept(group)
    kept.apply(
        SIMPLE, BOARD, nodes=({"id": "writer", "memories": [{"name": "notes", "retrieve_stage": ["gen"]}]},)
    )
    kept.say(TEAPOT)
    embed()
    browser = sign_in("viewer", groups=[group])
    page = browser.get("/stores", query_string={"group": group})
    assert page.status_code == 200
    for shown in ("notes", "board", "writer", "gen"):
        assert shown in page.text
    found = kept.ask("the teapot")
    monkeypatch.setattr(
        "web.admin.stores.perform", lambda action, _request: found if action is actions.retrieve else None
    )
    one = browser.get("/stores/notes", query_string={"group": group, "query": "the teapot"})
    assert one.status_code == 200
    assert one.text.count(TEAPOT) == 2
    assert "notes.json" in one.text
    assert browser.get("/stores/nothing", query_string={"group": group}).status_code == 404
    assert browser.get("/stores.json", query_string={"group": group}).json["stores"][0]["type"] in (
        "simple",
        "blackboard",
    )
