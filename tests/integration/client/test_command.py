"""``jiyi command`` with a running service: any action by its name, or by an alias."""

from __future__ import annotations

import json
from typing import Protocol

import pytest
from typer.testing import CliRunner, Result

from jiyi.cli.app import app
from jiyi.protocol.actions import TABLE


class Run(Protocol):
    """Runs ``jiyi command …``, which has to end with an exit status."""

    def __call__(self, *words: str, code: int = 0) -> Result: ...


@pytest.fixture
def jiyi(service: str) -> Run:
    """Runs ``jiyi command …`` in the test's group."""

    def run(*words: str, code: int = 0) -> Result:
        result = CliRunner().invoke(app, ["--group", service, "command", *words])
        assert result.exit_code == code, result.output
        return result

    return run


def test_without_a_name_all_are_listed_with_what_they_take(jiyi: Run) -> None:
    listed = json.loads(jiyi("--json").stdout)
    assert [each["name"] for each in listed] == list(TABLE)
    assert next(each["aliases"] for each in listed if each["name"] == "resources.list") == ["viking_ls"]
    assert next(each["takes"] for each in listed if each["name"] == "appointments.create").startswith("agent_id [")
    assert "appointments.create" in jiyi().stdout


def test_fields_are_given_as_pairs_or_as_a_document(jiyi: Run) -> None:
    made = json.loads(jiyi("appointments.create", "agent_id=小伴", "text=每天早上8点提醒我喝水", "--json").stdout)
    assert made["schedule"]["cron"] == "0 8 * * *"
    listed = json.loads(jiyi("appointments.list", '{"agent_id": "小伴", "limit": 5}', "--json").stdout)
    assert [one["id"] for one in listed["rows"]] == [made["schedule"]["id"]]
    assert json.loads(jiyi("memory_init", "--json").stdout) == {"done": True}, "an alias"


def test_a_value_is_a_text_where_the_field_is_one_and_json_elsewhere(jiyi: Run) -> None:
    """The text ``123`` stays a text; a number is one."""
    assert json.loads(jiyi("appointments.parse", "text=123", "--json").stdout)["certainty"] == "none"
    read = json.loads(jiyi("appointments.parse", "text=remind me every day at 8am to a=b", "runs=2", "tz=Asia/Shanghai", "--json").stdout)
    assert read["readings"][0]["next_runs"][1] > read["readings"][0]["next_runs"][0]
    assert len(read["readings"][0]["next_runs"]) == 2


def test_people_get_fields_with_values_one_inside_the_other(jiyi: Run) -> None:
    jiyi("appointments.create", "agent_id=klaus", "text=remind me every day at 8am to drink water")
    lines = jiyi("appointments.list", "agent_id=klaus").stdout.splitlines()
    assert lines[0] == "rows:"
    assert lines[1].startswith("  - id: ")
    assert "    cron: 0 8 * * *" in lines
    assert not any(line.rstrip().endswith(("None", "null")) for line in lines)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["appointments.creat"], "unknown command 'appointments.creat': did you mean appointments.create?"),
        (["appointments.create", "agent_id=klaus", "tetx=x"], "unknown option 'tetx': did you mean text?"),
        (["appointments.create", "agent_id"], "'agent_id' is neither field=value nor a JSON object"),
        (["appointments.create", "{"], "request: no JSON"),
        (["appointments.create", "[1]"], "request: must be a JSON object"),
        (["appointments.create"], "agent_id: required, but missing"),
    ],
)
def test_what_is_wrong_is_named(jiyi: Run, words: list[str], said: str) -> None:
    assert said in jiyi(*words, code=1).output
