"""What a newcomer reads: commands that exist, installations that work, addresses that are there."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.main import get_command

from jiyi import extras
from jiyi.cli.app import app
from jiyi.protocol.actions import ALIASES, TABLE
from tests.integration.programs import Program
from web.api import registry

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "README.zh.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*.md"))]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
COMMANDS: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]
page = pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)


@page
def test_what_is_to_be_installed_is_there(page: Path) -> None:
    """``jiyi`` is on no index: extras are of the wheel's file, which the README says how to make, or of the checkout."""
    text = page.read_text(encoding="utf-8")
    assert "'jiyi[" not in text
    for place, extra in re.findall(r"pip install (?:-e )?'([^'\[]+)\[([^\]]+)\]'", text):
        assert place in (".", f"dist/jiyi-{PROJECT['version']}-py3-none-any.whl")
        assert set(extra.split(",")) <= PROJECT["optional-dependencies"].keys()


@page
def test_commands_that_are_named_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    in_shells = "".join(re.findall(r"^```(?:sh|bash|console)?\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    named = re.findall(r"`jiyi (?!signed )([a-z][a-z-]*)\b", text)  # "jiyi signed calls" is the text of a signature
    named += re.findall(r"^(?:\$ )?(?:\.venv/bin/)?jiyi ([a-z][a-z-]*)\b", in_shells, re.MULTILINE)
    assert set(named) <= COMMANDS.keys() | {"hook"}  # answered without the other commands, within a second
    actions = set(re.findall(r"jiyi command ([a-z_]+(?:\.[a-z_]+)?)", text))
    assert actions <= TABLE.keys() | ALIASES.keys()


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        ('{"url": "file:///tmp/d%20b/jiyi-0.1.0-py3-none-any.whl"}', "pip install '/tmp/d b/jiyi-0.1.0-py3-none-any.whl[mcp]'"),
        ('{"url": "file:///src/jiyi", "dir_info": {"editable": true}}', "pip install -e '/src/jiyi[mcp]'"),
        ('{"url": "https://files.example/jiyi.whl"}', "pip install 'jiyi[mcp] @ https://files.example/jiyi.whl'"),
        (None, "pip install 'jiyi[mcp]'"),
    ],
)
def test_a_missing_extra_is_told_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, origin: str | None, command: str
) -> None:
    """From where this installation came, not from an index on which somebody else may have the name."""
    monkeypatch.setattr(extras, "distribution", lambda _name: SimpleNamespace(read_text=lambda _file: origin))
    assert extras.install_command("mcp") == command


def test_a_checkout_that_is_only_on_the_path_is_told_by_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(extras, "distribution", nobody)
    assert extras.install_command("otel") == f"pip install -e '{ROOT}[otel]'"


def test_a_chat_can_be_built_over_rest(api: Program) -> None:
    """Every action of conversations is at ``POST /conversations/<verb>``, as the table of addresses says."""
    addresses = {operation.path for operation in registry.OPERATIONS}
    verbs = [name.removeprefix("conversations.") for name in TABLE if name.startswith("conversations.")]
    assert {"inject", "record"} <= set(verbs)
    assert {f"/conversations/{verb}" for verb in verbs} <= addresses
    body = {"agent_id": "a", "user_id": "mia", "session_id": "s", "messages": [{"role": "user", "text": "I live in Porto."}]}
    assert api.post("/conversations/record", body, status=200)["new"] == 1
    assert api.post("/actions/conversations.record", body, status=200)["new"] == 0, "each message is stored once"
