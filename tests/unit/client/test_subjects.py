"""``jiyi SUBJECT VERB`` without a service: the same words in every interface, and how answers are shown."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from pydantic import BaseModel
from typer.main import get_command

from jiyi.cli.app import ACTIONS, Commands, SubjectCommands, app, of_action
from jiyi.cli.views import view
from jiyi.protocol.actions import ALIASES, TABLE
from jiyi.protocol.base import Count, Made, Rows

ROOT: Any = get_command(app)


def test_the_subjects_and_verbs_of_the_command_line_are_those_of_the_actions() -> None:
    """REST has each at ``/actions/subject.verb``, and the client as ``command("subject.verb")``."""
    subjects = {name: one for name, one in ROOT.commands.items() if isinstance(one, SubjectCommands)}
    listed = {f"{subject}.{verb}" for subject, found in subjects.items() for verb in found.commands}
    assert listed == set(TABLE)
    assert {name for name in ALIASES if ROOT.get_command(None, name) is None} == set()


@pytest.mark.parametrize("name", [name for name in TABLE if name not in ACTIONS])
def test_a_command_takes_the_fields_of_its_request_by_their_names(name: str) -> None:
    shared = {"as_json", "timeout", "yes"}
    taken = {parameter.name.rstrip("_") for parameter in of_action(name).params} - shared
    assert taken == set(TABLE[name].request.model_fields)


def test_the_help_loads_no_command() -> None:
    code = "import sys; from jiyi.cli.app import app; app(['--help'], standalone_mode=False); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pains" in done.stdout
    heavy = {"jiyi.protocol.actions", "jiyi.client.client", "jiyi.cli.transfer"}
    assert heavy.isdisjoint(done.stdout.split())


class Part(BaseModel):
    state: str
    seconds: float | None = None


class Row(BaseModel):
    id: str
    text: str
    part: Part | None = None
    count: int = 0


def test_rows_are_a_table_of_the_columns_that_fit_with_the_command_for_the_next_page(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        Row(id="a", text="word " * 12, part=Part(state="done"), count=1_200),
        Row(id="b", text="y", part=Part(state="\x1b[2Jfailed")),
    ]
    monkeypatch.setenv("COLUMNS", "120")
    view(Rows[Row](rows=rows, next="abc"), ("memory", "list", "a b", "--cursor", "old", "--limit", "2"))
    shown = capsys.readouterr()
    assert shown.out.splitlines()[0].split() == ["id", "text", "part", "state", "count"]
    assert "1,200" in shown.out
    assert "\x1b" not in shown.out
    assert shown.err == "more: jiyi memory list 'a b' --limit 2 --cursor abc\n"
    monkeypatch.setenv("COLUMNS", "40")
    view(Rows[Row](rows=rows, next=None))
    shown = capsys.readouterr()
    assert shown.out.splitlines()[0].split()[:2] == ["id", "text"]
    assert "columns in a wider terminal" in shown.err
    view(Rows[Row](rows=[], next=None))
    assert capsys.readouterr().err == "nothing here\n"


def test_one_thing_is_lines_and_a_single_value_is_itself(capsys: pytest.CaptureFixture[str]) -> None:
    view({"name": "notes", "empty": None, "inside": {"a": {"b": 1}}, "rows of": [Row(id="a", text="x")]})
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[:5] == ["name: notes", "inside:", "  a:", "    b: 1", ""]
    assert lines[-1].split() == ["a", "x", "0"]
    view(Count(count=1_200))
    view(Made(id="01a20035-2f03-73d2-9c51-b4d066f789da"))  # type: ignore[arg-type]
    view(None)
    shown = capsys.readouterr()
    assert shown.out == "1,200\n01a20035-2f03-73d2-9c51-b4d066f789da\n"
    assert shown.err == "nothing\n"


def test_a_prompt_is_its_text_and_the_rest_are_notices(capsys: pytest.CaptureFixture[str]) -> None:
    view({"text": "Be kind.\nRemember tea.", "tokens": 7, "cut": []})
    assert capsys.readouterr() == ("Be kind.\nRemember tea.\n", "tokens: 7\n")


def test_a_hyphen_stands_for_an_underscore() -> None:
    assert isinstance(ROOT, Commands)
    assert ROOT.get_command(None, "dead-letters") is ROOT.commands["dead_letters"]  # type: ignore[arg-type]
    assert ROOT.get_command(None, "nonsense") is None  # type: ignore[arg-type]
