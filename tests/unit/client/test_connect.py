"""``jiyi connect``: what a host's files become, and that they are as before after ``--remove``."""

from __future__ import annotations

import ast
import json
import tomllib
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from jiyi.cli.app import app
from jiyi.integrations.plug_ins import PlugInMemory
from jiyi.protocol.wire.signatures import new_key
from jiyi.settings import get_settings

Run = Callable[..., str]
KEY = str(new_key())


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    given = {"HOME": str(tmp_path), "JIYI_KEY": KEY, "JIYI_URL": "http://memory.example:8765"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    for name in ("XDG_CONFIG_HOME", "CODEX_HOME", "HERMES_HOME"):
        monkeypatch.delenv(name, raising=False)
    get_settings.cache_clear()
    return tmp_path


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["connect", *arguments], input="n\n")
    assert result.exit_code == code, result.output
    return result.output


def contents(home: Path) -> dict[str, bytes]:
    return {str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*") if path.is_file()}


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def test_claude_code_gets_hooks_and_a_server_once_and_has_its_files_back(home: Path) -> None:
    theirs = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say 完成"}]}]}, "model": "opus"}
    settings = put(home / ".claude" / "settings.json", json.dumps(theirs, ensure_ascii=False))
    before = contents(home)
    shown = run("claude-code", "--yes")
    assert "+" in shown
    assert '+    "UserPromptSubmit"' in shown
    assert KEY not in shown
    written = json.loads(settings.read_text())
    assert written["model"] == "opus"
    assert written["hooks"]["Stop"][0] == theirs["hooks"]["Stop"][0]  # type: ignore[index]
    assert {"UserPromptSubmit", "SessionStart", "Stop", "PreCompact"} == written["hooks"].keys()
    assert json.loads((home / ".claude.json").read_text())["mcpServers"]["jiyi"]["env"]["JIYI_KEY"] == KEY
    assert (home / ".config/jiyi/hook.json").stat().st_mode & 0o077 == 0
    after = contents(home)
    assert "nothing to change" in run("claude-code", "--yes")
    assert contents(home) == after
    run("claude-code", "--remove", "--yes")
    assert contents(home) == before


def test_what_was_changed_meanwhile_stays(home: Path) -> None:
    settings = put(home / ".cursor" / "mcp.json", '{"mcpServers": {}}')
    run("cursor", "--yes")
    changed = json.loads(settings.read_text())
    changed["mcpServers"]["other"] = {"command": "x"}
    settings.write_text(json.dumps(changed))
    run("cursor", "--remove", "--yes")
    assert json.loads(settings.read_text()) == {"mcpServers": {"other": {"command": "x"}}}


def test_codex_keeps_its_comments(home: Path) -> None:
    theirs = '# mine\nmodel = "o4"\n'
    config = put(home / ".codex" / "config.toml", theirs)
    run("codex", "--yes")
    assert config.read_text().startswith(theirs)
    server = tomllib.loads(config.read_text())["mcp_servers"]["jiyi"]
    assert server["args"] == ["-m", "jiyi", "mcp", "--agent", "assistant"]
    run("codex", "--remove", "--yes")
    assert config.read_text() == theirs
    assert contents(home).keys() == {".codex/config.toml"}


@pytest.mark.parametrize(
    ("host", "file", "broken"),
    [
        ("claude-code", ".claude.json", "{"),
        ("cursor", ".cursor/mcp.json", "[]"),
        ("codex", ".codex/config.toml", "["),
        ("codex", ".codex/config.toml", '[mcp_servers.jiyi]\ncommand = "mine"'),
    ],
)
def test_a_broken_file_is_refused_and_nothing_is_touched(
    home: Path, host: str, file: str, broken: str
) -> None:
    put(home / file, broken)
    before = contents(home)
    assert file.rpartition("/")[2] in run(host, "--yes", code=1)
    assert contents(home) == before


def test_hermes_gets_a_plug_in_that_needs_nothing_installed(home: Path) -> None:
    assert KEY not in run("hermes", "--yes")
    folder = home / ".hermes/plugins/jiyi"
    assert {path.name for path in folder.iterdir()} == {"__init__.py", "plugin.yaml", "jiyi.json"}
    assert "jiyi" not in imports_of((folder / "__init__.py").read_text())
    assert json.loads((folder / "jiyi.json").read_text())["key"] == KEY
    assert (folder / "jiyi.json").stat().st_mode & 0o077 == 0
    assert "nothing to change" in run("hermes", "--yes")
    run("hermes", "--remove", "--yes")
    assert contents(home) == {}


def imports_of(source: str) -> set[str]:
    nodes = list(ast.walk(ast.parse(source)))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.partition(".")[0] for name in names}


def test_nothing_is_written_without_a_yes_and_whose_days_are_meant_can_be_said(home: Path) -> None:
    run("cursor", code=1)
    assert contents(home) == {}
    run("cursor", "--yes", "--tz", "Asia/Shanghai")
    server = json.loads((home / ".cursor" / "mcp.json").read_text())["mcpServers"]["jiyi"]
    assert server["env"]["JIYI_TZ"] == "Asia/Shanghai"
    refused = CliRunner().invoke(app, ["connect", "cursor", "--yes", "--tz", "Nowhere"])
    assert refused.exit_code != 0
    assert "tz: no time zone 'Nowhere'" in refused.output


def test_a_plug_in_sends_its_users_zone_or_the_offset_of_its_clock() -> None:
    config = {"url": "http://localhost", "key": KEY, "agent": "mia"}
    turn = ("turn.recorded", {"role": "user", "text": "早"})
    event = PlugInMemory(lambda: {**config, "tz": "Asia/Shanghai"}).event(*turn)
    assert event["tz"] == "Asia/Shanghai"
    assert datetime.fromisoformat(event["occurred_at"]).utcoffset() == timedelta(0)
    here = PlugInMemory(lambda: config).event(*turn)
    assert "tz" not in here
    assert datetime.fromisoformat(here["occurred_at"]).utcoffset() == datetime.now().astimezone().utcoffset()
