"""Workflows: chains that worked, as YAML, run with the caller's functions."""

from __future__ import annotations

from dataclasses import replace
from threading import Event
from typing import Any
from uuid import UUID

import pytest

from engine.growth.trajectories import TrajectoryRun, chains, compress, draft_workflow, runs_of, tools_of
from jiyi.chat import pipelines
from jiyi.chat.pipelines import from_yaml
from jiyi.errors import InvalidRequest
from tests.unit.growth.steps import run as steps

TEXT = """name: two
steps:
- {tool: search, inputs: {q: x}}
- {tool: mail, inputs: {text: $previous}, on_error: %s}
"""


def ran(number: int, session: str, *tools: str, **fields: Any) -> TrajectoryRun:
    made = compress(steps(*tools, **fields), lambda _said: "neutral")
    assert made is not None
    return TrajectoryRun(UUID(int=number + 1), session, made)


def three(*tools: str) -> list[TrajectoryRun]:
    return [ran(n, f"s{n % 2}", *tools) for n in range(3)]


def test_three_runs_of_two_sessions_are_a_pattern() -> None:
    [found] = chains(three("search", "mail"))
    assert (found.title, found.total_reuse, found.sessions, found.confidence) == ("search → mail", 3, 2, 0.8)
    assert len(chains([*three("search", "mail"), *three("mail", "search")])) == 2
    assert tools_of(ran(0, "s", "a", "b", "a").trajectory) == ("a", "b", "a")


@pytest.mark.parametrize(
    "runs",
    [
        three("search", "mail")[:2],  # too few
        [ran(n, "s", "search", "mail") for n in range(3)],  # of one session
        three("search"),  # of one step
        [ran(n, f"s{n}", "search", "mail", ok=False) for n in range(3)],  # failures
    ],
)
def test_anything_less_is_none(runs: list[TrajectoryRun]) -> None:
    assert chains(runs) == []


def test_the_workflow_is_yaml_that_can_be_read_whatever_is_in_it() -> None:
    mail = "发送: 'x'"
    runs = [ran(n, f"s{n}", "search", mail, request='找出: "发票"\n# 然后') for n in range(3)]
    [pattern] = chains(runs)
    made = draft_workflow(pattern, runs_of(pattern, runs))
    read = from_yaml(made.body)
    assert [(step.tool, step.inputs, step.on_error) for step in read.steps] == [
        ("search", {"input": "with search"}, "stop"),
        (mail, {"input": f"with {mail}"}, "stop"),
    ]
    assert read.triggers == made.triggers
    assert "发票" in made.triggers[0]
    assert len(made.body) >= 100


def test_a_run_passes_on_what_the_step_before_gave() -> None:
    sent: list[str] = []
    done = pipelines.run(
        TEXT % "stop",
        {"search": lambda q: q.upper(), "mail": lambda text, to: sent.append(to + text)},
        inputs={"mail": {"to": ">"}},
    )
    assert (done.completed, [step.state for step in done.steps], sent) == (True, ["done", "done"], [">X"])


@pytest.mark.parametrize(
    ("on_error", "completed", "state", "calls"),
    [("stop", False, "failed", 1), ("skip", True, "skipped", 1), ("retry", False, "failed", 2)],
)
def test_a_step_that_fails(on_error: str, completed: bool, state: str, calls: int) -> None:
    tried: list[str] = []

    def mail(text: str) -> None:
        tried.append(text)
        raise ValueError("no network")

    done = pipelines.run(TEXT % on_error, {"search": lambda q: q, "mail": mail})
    assert (done.completed, done.steps[1].state, len(tried)) == (completed, state, calls)
    assert done.steps[1].error == "ValueError: no network"
    assert done.output == "x"


def test_a_step_that_hangs_is_left_behind() -> None:
    forever = Event()
    done = pipelines.run(
        TEXT % "retry", {"search": lambda q: forever.wait(30), "mail": lambda text: text}, step_seconds=0.05
    )
    forever.set()
    assert (done.completed, [step.state for step in done.steps]) == (False, ["timed_out"])
    for seconds in (0, 4_000):
        with pytest.raises(InvalidRequest, match="step_seconds"):
            pipelines.run("name: x\nsteps: [{tool: a}]", {"a": lambda: 1}, step_seconds=seconds)


@pytest.mark.parametrize(
    ("text", "tools", "says"),
    [
        (TEXT % "stop", {"search": len}, "tools: 'mail' is missing"),
        ("name: x\nsteps: []", {}, "steps"),
        ("steps: [{tool: a}]", {}, "name"),
        ("name: x\nsteps: [{tool: a, run: rm}]", {"a": len}, "run"),
        ("{", {}, "no YAML"),
        ("- just\n- a list", {}, "value"),
        ("x" * 200_000, {}, "shorten"),
    ],
)
def test_what_is_no_workflow_is_refused_before_anything_runs(
    text: str, tools: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidRequest, match=says):
        pipelines.run(text, tools)


def test_a_step_s_input_that_was_told_as_json_is_its_function_s_arguments() -> None:
    given = {"search": '{"query": "发票"}', "mail": "x" * 199 + "…"}
    told = [replace(one, input=given.get(one.tool or "", one.input)) for one in steps("search", "mail")]
    made = compress(told, lambda _said: "neutral")
    assert made is not None
    runs = [TrajectoryRun(UUID(int=number), f"s{number % 2}", made) for number in (1, 2, 3)]
    read = from_yaml(draft_workflow(chains(runs)[0], runs).body)
    assert [step.inputs for step in read.steps] == [{"query": "发票"}, {}]
