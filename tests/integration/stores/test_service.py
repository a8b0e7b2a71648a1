"""A graph's stores with a running service: from the file to what a node is given, over broker, command line
and admin.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from jiyi import Client
from jiyi.cli.app import app
from jiyi.errors import ConfigError
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


def test_what_is_wrong_is_named_by_its_path_over_the_broker(client: Client) -> None:
    with pytest.raises(ConfigError, match=r"memory\[0\].config.max_items"):
        client.stores.apply(
            graph="team", memory=[{"name": "a", "type": "simple", "config": {"max_items": 0}}]
        )


def test_the_command_line(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "pottery.yaml"
    file.write_text(GRAPH, encoding="utf-8")

    group = ["--group", client.group]

    def asked(*arguments: str) -> str:
        done = CliRunner().invoke(app, [*group, "stores", *arguments], env={"COLUMNS": "200"})
        assert done.exit_code == 0, done.output
        return done.stdout

    assert [one["change"] for one in json.loads(asked("apply", str(file), "--json"))["stores"]] == [
        "made",
        "of_each_run",
        "of_the_program",
    ]
    client.stores.update(name="notes", role="writer", output_snapshot={"text": TEAPOT})
    assert "notes" in asked("list")
    assert TEAPOT in asked("items", "notes")
    assert "teapot" in asked("retrieve", "notes", "the blue teapot")
    assert "$schema" in asked("schema")
    assert asked("delete", "notes", "--yes") == "1\n"


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
