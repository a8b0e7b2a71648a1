"""What a newcomer and an operator find: commands that exist, installations that work, addresses that are
there, letters to be mended.
"""

from __future__ import annotations

import html
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from uuid6 import uuid7

from jiyi import extras
from jiyi.cli.app import SubjectCommands, app
from jiyi.protocol.actions import ALIASES, TABLE
from jiyi.protocol.operations import LettersRequest
from models.db.connection import unit_of_work
from models.queue import dead_letters
from tests.integration.conftest import SignIn
from tests.integration.conversations.talk import nodes
from tests.integration.programs import Program
from web.api import registry

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "README.zh.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
COMMANDS: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]


@pytest.fixture(params=PAGES, ids=lambda path: path.name)
def page(request: pytest.FixtureRequest) -> str:
    """A document's text."""
    text: str = request.param.read_text(encoding="utf-8")
    return text


def test_what_is_to_be_installed_is_there(page: str) -> None:
    """``jiyi`` is on no index: extras are of the wheel's file, which the README says how to make, or of the
    checkout.
    """
    assert "'jiyi[" not in page
    for place, extra in re.findall(r"pip install (?:-e )?'([^'\[]+)\[([^\]]+)\]'", page):
        assert place in (".", f"dist/jiyi-{PROJECT['version']}-py3-none-any.whl")
        assert set(extra.split(",")) <= PROJECT["optional-dependencies"].keys()


def test_commands_that_are_named_exist(page: str) -> None:
    in_shells = "".join(re.findall(r"^```(?:sh|bash|console)?\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    words = r"([a-z][a-z_-]*)\b(?: ([a-z_]+)\b)?"
    named = re.findall(rf"`jiyi (?!signed ){words}", page)  # "jiyi signed calls" is the text of a signature
    named += re.findall(rf"^(?:\$ )?(?:\.venv/bin/)?jiyi {words}", in_shells, re.MULTILINE)
    # The hook is answered without the other commands, within a second.
    assert {command for command, _ in named} <= COMMANDS.keys() | ALIASES.keys() | {"hook"}
    verbs = {
        command: found.commands for command, found in COMMANDS.items() if isinstance(found, SubjectCommands)
    }
    assert {f"{command}.{verb}" for command, verb in named if command in verbs and verb} <= TABLE.keys()


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (
            '{"url": "file:///tmp/d%20b/jiyi-0.1.0-py3-none-any.whl"}',
            "pip install '/tmp/d b/jiyi-0.1.0-py3-none-any.whl[mcp]'",
        ),
        (
            '{"url": "https://files.example/jiyi.whl"}',
            "pip install 'jiyi[mcp] @ https://files.example/jiyi.whl'",
        ),
        (None, "pip install 'jiyi[mcp]'"),
    ],
)
def test_a_missing_extra_is_told_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, origin: str | None, command: str
) -> None:
    """From where this installation came, not from an index on which somebody else may have the name."""
    installed = tmp_path / "jiyi-0.1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: jiyi\nVersion: 0.1.0\n")
    if origin is not None:
        (installed / "direct_url.json").write_text(origin)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(extras, "FOLDER", tmp_path)
    assert extras.install_command("mcp") == command


def test_in_a_checkout_an_extra_is_installed_from_it() -> None:
    """However it was put on the path: beside it may lie the metadata of a build, which do not say where they
    come from.
    """
    assert extras.install_command("otel") == f"pip install -e '{ROOT}[otel]'"


def test_a_chat_can_be_built_over_rest(api: Program) -> None:
    """Every action of conversations is at ``POST /conversations/<verb>``, as the table of addresses says."""
    addresses = {operation.path for operation in registry.OPERATIONS}
    verbs = [name.removeprefix("conversations.") for name in TABLE if name.startswith("conversations.")]
    assert {"context", "record"} <= set(verbs)
    assert {f"/conversations/{verb}" for verb in verbs} <= addresses
    said = [{"role": "user", "text": "I live in Porto."}]
    body = {"agent_id": "a", "user_id": "mia", "session_id": "s", "messages": said}
    assert api.post("/conversations/record", body, status=200)["new"] == 1
    again = api.post("/actions/conversations.record", body, status=200)
    assert again["new"] == 0, "each message is stored once"


def buried(group: str) -> tuple[str, dict[str, Any]]:
    """A dead letter of an event, and its message."""
    event_id, payload = uuid7(), {"description": "The kiln is hot", "poignancy": 14}
    named = {"type": "memory.observed", "event_id": str(event_id), "group_id": group, "agent_id": "a"}
    event = named | {"payload": payload}
    with unit_of_work() as connection:
        dead_letters.add_message(connection, json.dumps(event), "poignancy: at most 10", event_id, group)
    return str(event_id), event | {"payload": payload | {"poignancy": 4}}


def test_a_refused_event_is_corrected_where_it_lies(api: Program, group: str) -> None:
    """Replayed as it came, a poignancy of 14 comes back for ever."""
    event_id, corrected = buried(group)
    [letter] = api.get("/dead-letters")["rows"]
    named = {"action": "replay", "letter_ids": [letter["letter_id"]]}
    wrong = api.ask("POST", "/dead-letters/resolve", 422, json={**named, "action": "discard", "body": "{}"})
    assert "body" in wrong.json["detail"]
    done = api.post("/dead-letters/resolve", {**named, "body": json.dumps(corrected)}, status=200)
    assert done == {"resolved": 1, "refused_again": 0}
    assert api.get(f"/nodes/{event_id}")["poignancy"] == 4
    assert api.get("/dead-letters")["rows"] == []


def test_the_page_of_a_refused_event_has_its_message_to_be_corrected(sign_in: SignIn, group: str) -> None:
    event_id, corrected = buried(group)
    with unit_of_work() as connection:
        letters = dead_letters.letters(connection, group, LettersRequest())
    [letter] = [one for one in letters if str(one.subject_id) == event_id]
    browser = sign_in("admin", [group])
    page = browser.get(f"/dead/{letter.letter_id}?group={group}").text
    assert '"poignancy": 14' in html.unescape(page.partition("<textarea")[2].partition("</textarea>")[0])
    sent = {"letter": str(letter.letter_id), "action": "replay", "body": json.dumps(corrected)}
    assert browser.post(f"/dead/resolve?group={group}", data=sent).status_code == 200
    [node] = nodes(group)
    assert (str(node["node_id"]), node["poignancy"]) == (event_id, 4)
