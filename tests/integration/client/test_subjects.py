"""``jiyi SUBJECT VERB`` with a running service: any action by its name, or by an alias."""

from __future__ import annotations

import json
from typing import Protocol

import pytest
from typer.testing import CliRunner, Result

from jiyi.cli.app import app


class Run(Protocol):
    """Runs a command, which has to end with an exit status."""

    def __call__(self, *words: str, code: int = 0) -> Result: ...


@pytest.fixture
def jiyi(service: str) -> Run:
    """Runs a command in the test's group."""

    def run(*words: str, code: int = 0) -> Result:
        result = CliRunner().invoke(app, ["--group", service, *words], env={"COLUMNS": "120"})
        assert result.exit_code == code, result.output
        return result

    return run


def test_an_action_is_asked_with_arguments_and_options(jiyi: Run) -> None:
    asked = lambda *words: json.loads(jiyi(*words, "--json").stdout)
    made = asked("appointments", "create", "小伴", "--text", "每天早上8点提醒我喝水")
    assert made["schedule"]["cron"] == "0 8 * * *"
    listed = asked("appointments", "list", "小伴", "--limit", "5")
    assert [one["id"] for one in listed["rows"]] == [made["schedule"]["id"]]
    assert "0 8 * * *" in jiyi("appointments", "list", "小伴").stdout
    assert "by_type" in asked("memory_init"), "an alias"
    assert jiyi("tokens", "estimate", "--content", "four words of text").stdout.strip().isdigit()
    said = "remind me every day at 8am to a=b"
    when = asked("appointments", "parse", said, "--runs", "2", "--tz", "Asia/Shanghai")
    assert len(when["readings"][0]["next_runs"]) == 2


def test_what_is_written_in_json_may_be_nested(jiyi: Run) -> None:
    said = '[{"role": "user", "content": "I drink tea."}]'
    assert int(jiyi("tokens", "estimate", "--messages", said).stdout) > 0
    put = '[{"namespace": ["notes"], "key": "a", "value": {"text": "tea"}}]'
    jiyi("items", "put", "--items", put)
    assert "tea" in jiyi("items", "search", "--prefix", "notes").stdout


def test_what_is_wrong_is_named(jiyi: Run) -> None:
    for words, said in (
        (["appointments", "get", "no-id"], "id: "),
        (["appointments", "list", "--limit", "0"], "limit: "),
        (["items", "put", "--items", "[{"], "is no JSON"),
        (["memory", "forget", "klaus", "x", "--yes", "--user-id", " "], "user_id: "),
    ):
        assert said in jiyi(*words, code=1).output
