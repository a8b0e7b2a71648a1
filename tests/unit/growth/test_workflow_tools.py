"""Enabled workflows as tools of a model: schemas, calls, and what is refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from jiyi.chat.workflows import WorkflowTools
from jiyi.errors import InvalidRequest
from jiyi.protocol.proposals import SkillProposal

NOW = datetime(2026, 5, 1, tzinfo=UTC)
BODY = """name: 发票
steps:
- {tool: search, inputs: {query: invoice}}
- {tool: mail, inputs: {text: $previous}}
"""


def state(body: str = BODY, tools: tuple[str, ...] = ("search", "mail"), **fields: Any) -> SkillProposal:
    whose = {"id": uuid4(), "kind": "pipeline", "agent_id": "a", "made_by": "growth", "status": "approved"}
    says = {"name": "search → mail", "triggers": ['发票"\n## x'], "body": body, "tools": list(tools)}
    found = {
        "confidence": 0.9,
        "issues": [],
        "enabled": True,
        "evidence": [],
        "evidence_count": 3,
        "votes": 0,
    }
    nothing = dict.fromkeys(("user_id", "decided_by", "decided_at", "trust_score", "recommendation"))
    blank = dict.fromkeys(("reason", "note", "description"), "")
    at = {"created_at": NOW, "updated_at": NOW}
    return SkillProposal.model_validate({**whose, **says, **found, **nothing, **blank, **at, **fields})


def search(query: str) -> str:
    return f"one for {query}"


def mail(to: str, text: str, copies: int = 1) -> str:
    if "@" not in to:
        raise ValueError("no address")
    return f"{copies} to {to}: {text}"


@pytest.fixture
def votes() -> list[Any]:
    return []


def tools(votes: list[Any], *states: SkillProposal) -> WorkflowTools:
    return WorkflowTools(lambda _agent: states, {"search": search, "mail": mail}, votes.append, "g")


def test_a_workflow_is_a_function_whose_arguments_are_what_its_steps_still_need(votes: list[Any]) -> None:
    unknown = state("name: x\nsteps:\n- {tool: fly}\n", ("fly",))
    [schema] = tools(votes, state(), state(enabled=False), unknown).schemas("a")
    function = schema["function"]
    assert function["name"].startswith("search_mail_")
    assert "\n" not in function["description"]
    assert "发票" in function["description"]
    assert function["parameters"]["required"] == ["mail"]
    assert function["parameters"]["properties"]["mail"] == {
        "type": "object",
        "properties": {"to": {"type": "string"}, "text": {"type": "string"}, "copies": {"type": "integer"}},
        "required": ["to"],
    }
    assert function["parameters"]["properties"]["search"]["required"] == []


@pytest.mark.parametrize("as_text", [True, False])
def test_a_call_runs_it_and_its_end_is_a_vote(votes: list[Any], *, as_text: bool) -> None:
    known = state()
    offered = tools(votes, known)
    [schema] = offered.schemas("a")
    name = schema["function"]["name"]
    given: Any = {"mail": {"to": "mia@x"}}
    done = offered.call("a", name, json.dumps(given) if as_text else given)
    assert (done["completed"], done["output"]) == (True, "1 to mia@x: one for invoice")
    failed = offered.call("a", name, {"mail": {"to": "mia"}})
    assert (failed["completed"], failed["error"]) == (False, "mail: ValueError: no address")
    assert "mail" in offered.call("a", name, "{}")["error"]
    assert [vote["payload"]["sentiment"] for vote in votes] == ["positive", "negative", "negative"]
    assert {vote["payload"]["artifact_id"] for vote in votes} == {str(known.id)}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("{", "arguments: no JSON"),
        ("[1]", "arguments: list is no object"),
        ('{"fly": {}}', "arguments.fly: no tool of this workflow; its tools are mail, search"),
        ('{"mail": 1}', "arguments.mail: no object"),
        ("x" * 200_000, "arguments: 200,000 characters are more than 100,000"),
    ],
)
def test_wrong_arguments_are_named_and_nothing_runs(votes: list[Any], arguments: str, problem: str) -> None:
    offered = tools(votes, state())
    [schema] = offered.schemas("a")
    with pytest.raises(InvalidRequest, match=problem):
        offered.call("a", schema["function"]["name"], arguments)
    with pytest.raises(InvalidRequest, match="no enabled workflow of 'a'; there are: search_mail_"):
        offered.call("a", "fly", arguments)
    assert votes == []
