"""The examples do what they say."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml
from flask import Flask

from examples import graph, plain_python, prompt
from jiyi import Client
from jiyi.text.prompting import quoted
from jiyi.tiers.middleware import MemoryMiddleware
from jiyi.tiers.retrieval_node import MemoryRetrievalNode
from tests.integration.tiers.outputs import long_ago
from tests.integration.web.test_api import until

ROOT = Path(__file__).resolve().parents[3]
#: Seconds until a service of its own has started, on a busy machine, and the debate is over.
DEBATE_SECONDS = 400


@pytest.mark.long  # its parts are tried with the service that runs here
@pytest.mark.timeout(DEBATE_SECONDS + 10)
def test_the_debate_starts_a_service_of_its_own_and_all_its_claims_are_true() -> None:
    with tempfile.TemporaryDirectory(prefix="jd-", dir="/tmp") as folder:  # short, for unix sockets
        debate(Path(folder))


def debate(folder: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JIYI_")}
    environment |= {
        "JIYI_HOME": str(folder),
        "TMPDIR": str(folder),
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "160",
    }
    done = subprocess.run(
        [sys.executable, "-m", "examples.debate"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=DEBATE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "✗" not in done.stdout
    assert done.stdout.count("✓") > 10
    assert "## 历史上下文" in done.stdout
    assert "another group finds nothing" in done.stdout
    assert [path.name for path in folder.glob("jiyi-example-*")] == []  # what it started is gone


def test_a_workflow_in_plain_python_knows_what_was_said_before(service: str) -> None:
    with Client(service) as client, MemoryMiddleware(client) as memory:
        history = MemoryRetrievalNode({"language": "en"}, retriever=client)
        state = {"topic": "Why does the glaze crack?", "group_id": service, "session_id": "monday"}
        steps = [("research", plain_python.research), ("review", plain_python.review)]
        said = count(1)

        def between() -> None:
            number = next(said)
            until(lambda: len(client.working_memory.show().rows) == number)

        done = plain_python.run(steps, state, history, memory, between)
    assert "1 earlier statement" in done["review"]
    assert done["research"] in done["history_context"]


def test_prompts_have_what_the_group_knows_and_keep_their_budgets(service: str) -> None:
    with Client(service) as client:
        prompt.known(client)
        for persona in prompt.PERSONAS.values():
            whole, short = prompt.prompts(client, persona)
            expected = (prompt.SYSTEM, persona, prompt.QUESTION, *prompt.KNOWN)
            assert all(text in whole.text for text in expected)
            assert not whole.cut
            assert short.tokens <= short.budget < whole.tokens
            assert persona in short.text
            assert prompt.QUESTION in short.text
            assert any("do not fit into what the budget leaves" in sentence for sentence in short.cut)


def test_langgraph_runs_the_nodes(service: str) -> None:
    pytest.importorskip("langgraph", reason="LangGraph is no dependency: pip install langgraph")
    from examples import langgraph_node

    with Client(service) as client, MemoryMiddleware(client) as memory:
        graph = langgraph_node.build(client, memory)
        state = {"topic": "Why does the glaze crack?", "group_id": service, "session_id": "monday"}
        first = graph.invoke(state)
        assert first["history_context"] == ""
        assert memory.flush(30)
        until(lambda: client.working_memory.show().rows)
        events: list[Any] = []
        state["topic"] = "The glaze cracks: why?"
        for mode, chunk in graph.stream(state, stream_mode=["custom", "values"]):
            if mode == "custom":
                events.append(chunk["event"])
    assert events[0] == "node_state_change"
    assert "memory_retrieved" in events
    assert first["answer"] in chunk["history_context"]


# Dify

WORKFLOW = ROOT / "examples" / "dify_workflow.yml"
_REFERENCE = re.compile(r"\{\{#(\w+)\.(\w+)#\}\}")


class Dify:
    """As much of Dify as the workflow needs: start, code, template-transform, http-request, end; in the order
    of the edges.
    """

    def __init__(self, text: str, client: Any, key: str) -> None:
        self.workflow, self.client = yaml.safe_load(text)["workflow"], client
        given = self.workflow["environment_variables"]
        self.variables: dict[tuple[str, str], Any] = {("env", one["name"]): one["value"] for one in given}
        self.variables["env", "JIYI_KEY"] = key

    def run(self, **inputs: Any) -> dict[str, Any]:
        nodes = {node["id"]: node["data"] for node in self.workflow["graph"]["nodes"]}
        after = {edge["source"]: edge["target"] for edge in self.workflow["graph"]["edges"]}
        here = next(name for name, data in nodes.items() if data["type"] == "start")
        while nodes[here]["type"] != "end":
            for name, value in self.outputs(nodes[here], inputs).items():
                self.variables[here, name] = value
            here = after[here]
        outputs = nodes[here]["outputs"]
        return {one["variable"]: self.variables[tuple(one["value_selector"])] for one in outputs}

    def outputs(self, data: dict[str, Any], inputs: dict[str, Any]) -> dict[str, Any]:
        given = {  # what a node did not put out is None, such as error_message
            one["variable"]: self.variables.get(tuple(one["value_selector"]))
            for one in data.get("variables", ())
            if "value_selector" in one
        }
        match data["type"]:
            case "start":
                return {one["variable"]: inputs.get(one["variable"], "") for one in data["variables"]}
            case "code":
                names: dict[str, Any] = {}
                exec(data["code"], names)
                made = names["main"](**given)
                assert made.keys() == data["outputs"].keys()
                return dict(made)
            case "template-transform":
                return {"output": jinja2.Template(data["template"]).render(**given)}
            case "http-request":
                return self.request(data)
        raise AssertionError(data["type"])

    def request(self, data: dict[str, Any]) -> dict[str, Any]:
        assert data["error_strategy"] == "default-value"
        body = json.loads(self.filled(data["body"]["data"][0]["value"]), strict=False)
        assert data["authorization"]["config"]["type"] == "bearer"
        headers = {"Authorization": f"Bearer {self.filled(data['authorization']['config']['api_key'])}"}
        url = self.filled(data["url"])
        path = url.removeprefix(self.variables["env", "JIYI_URL"])
        answer = self.client.open(path, method=data["method"].upper(), json=body, headers=headers)
        assert answer.status_code < 300, answer.text
        return {"body": answer.text, "status_code": answer.status_code}

    def filled(self, text: str) -> str:
        return _REFERENCE.sub(lambda found: str(self.variables[found[1], found[2]]), text)


def test_the_workflow_for_dify_remembers(service: str, web_app: Flask, api_key: Callable[..., str]) -> None:
    text = WORKFLOW.read_text(encoding="utf-8")
    key = api_key(service, "publish", "read")
    topic = 'Why does the "glaze" crack?\n釉面为什么会裂？'
    first = Dify(text, web_app.test_client(), key).run(topic=topic, session_id="")
    assert first["history_context"] == ""
    with Client(service) as client:
        until(lambda: client.working_memory.show().rows)
    second = Dify(text, web_app.test_client(), key).run(topic=topic, session_id="tuesday")
    assert quoted(first["answer"]) in second["history_context"]
    assert second["history_context"].startswith("## 历史上下文")


def test_the_workflow_for_dify_finds_what_was_promoted_last_year(
    service: str, web_app: Flask, api_key: Callable[..., str]
) -> None:
    text = WORKFLOW.read_text(encoding="utf-8")
    topic = "The glaze cracks when the kiln cools too fast, so the door stays shut until the morning."
    with Client(service) as client:
        client.knowledge.promote(text=topic)
        until(lambda: client.query_memory(topic).results)
    long_ago(service)
    dify = Dify(text, web_app.test_client(), api_key(service, "publish", "read"))
    found = dify.run(topic=topic, session_id="today")
    assert topic in found["history_context"]


def test_without_jiyi_the_workflow_for_dify_has_an_empty_history() -> None:
    """What Dify puts in the place of an answer that did not come is what the next node can read."""
    workflow = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["workflow"]
    nodes = {node["id"]: node["data"] for node in workflow["graph"]["nodes"]}
    default = {one["key"]: one["value"] for one in nodes["load_history"]["default_value"]}
    names: dict[str, Any] = {}
    exec(nodes["history"]["code"], names)
    assert names["main"](default["body"]) == {"history_context": "", "message": ""}
    refused = names["main"](default["body"], "Connection refused")
    assert refused == {"history_context": "", "message": "Connection refused"}


def test_retrieval_as_a_workflow_for_dify_gives_nodes_ids_status_and_debug(
    service: str, web_app: Flask, api_key: Callable[..., str]
) -> None:
    text = (ROOT / "examples" / "dify_retrieval.yml").read_text(encoding="utf-8")
    with Client(service) as client:
        client.observe("klaus", 'Klaus reads a book about "gentrification".', wait=True)
        client.observe("klaus", "克劳斯喝茶。", wait=True)
    dify = Dify(text, web_app.test_client(), api_key(service, "read"))
    asked = {"persona_name": "klaus", "focal_text": 'What does "Klaus" read?\n读什么？'}
    found = dify.run(**asked, top_k=1, recency_decay=0.9)
    [read_of] = found["retrieved_nodes"]
    assert found["accessed_ids"] == [read_of["node_id"]]
    assert "gentrification" in read_of["description"]
    assert (found["status"], found["debug"]["total_candidates"]) == ("ok", 2)
    nobody = dify.run(persona_name="nobody", focal_text="?")
    assert (nobody["retrieved_nodes"], nobody["status"]) == ([], "unknown_agent")
    read: dict[str, Any] = {}
    exec(next(node["data"]["code"] for node in dify.workflow["graph"]["nodes"] if node["id"] == "read"), read)
    assert read["main"]("{}")["status"] == "error"


@pytest.mark.timeout(600)
def test_three_agents_have_what_their_stores_are_declared_to_give(client: Client) -> None:
    told = graph.play(client)
    assert list(told) == ["researcher", "writer", "critic"]
    [research] = told["researcher"]
    assert {one["store"] for one in research["given"]} == {"project_docs"}
    assert set(research["written"]) == {"board"}
    [wrote] = told["writer"]
    assert "board" in {one["store"] for one in wrote["given"]}
    assert all(one["item"] for one in wrote["written"].values())
    assert [row["stage"] for row in told["critic"]] == ["gen", "post_gen_thinking"]
    assert set(told["critic"][-1]["written"]) == {"shared_notes"}
    assert all(len(row["given"]) == len(row["scores"]) for rows in told.values() for row in rows)
