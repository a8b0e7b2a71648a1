"""Hermes' memory provider as ``jiyi connect hermes`` leaves it: what was said is recalled in the next
session, also after an outage.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from jiyi import Client
from jiyi.cli.app import app
from jiyi.polling import poll
from jiyi.settings import get_settings

pytestmark = pytest.mark.long

PACKAGE = "hermes-agent==0.19.0"
#: In place of the real package: the provider's methods are called as Hermes calls them.
STAND_IN = "class MemoryProvider:\n    pass\n"
PATIENCE = 60.0


@pytest.fixture(
    params=["stand-in", pytest.param("package", marks=[pytest.mark.long, pytest.mark.timeout(600)])]
)
def provider(
    request: pytest.FixtureRequest,
    service: str,
    unlimited_web: int,
    api_key: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Any]:
    packages = tmp_path / "packages"
    if request.param == "package":
        pip = "-m pip --quiet --disable-pip-version-check install --no-deps --target".split()
        subprocess.run([sys.executable, *pip, str(packages), PACKAGE], check=True, timeout=500)
    else:
        (packages / "agent").mkdir(parents=True)
        (packages / "agent/memory_provider.py").write_text(STAND_IN)
    monkeypatch.syspath_prepend(str(packages))
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "hermes"))
    monkeypatch.setenv("JIYI_KEY", api_key(service, "publish", "read"))
    get_settings.cache_clear()
    address = f"http://127.0.0.1:{unlimited_web}"
    command = [*"connect hermes --yes --agent helper --url".split(), address]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    monkeypatch.delenv("JIYI_KEY")
    get_settings.cache_clear()
    spec = importlib.util.spec_from_file_location("hermes_jiyi", tmp_path / "hermes/plugins/jiyi/__init__.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.RECALL_SECONDS = 20.0  # type: ignore[attr-defined]  # a busy machine
    there: list[Any] = []

    class Context:
        register_memory_provider = staticmethod(there.append)

    module.register(Context())
    made = there.pop()
    yield made
    made.shutdown()
    for name in [name for name in sys.modules if name.partition(".")[0] == "agent"]:
        del sys.modules[name]


def recalled(provider: Any, word: str) -> str:
    """What is recalled, once the word is in it."""
    ask = lambda: provider.prefetch("What am I allergic to?")
    return poll(ask, lambda found: word in found, PATIENCE, str)


def test_what_was_said_is_recalled_in_the_next_session(provider: Any, client: Client) -> None:
    assert provider.name == "jiyi"
    assert provider.is_available()
    provider.initialize("s-1", hermes_home="x", platform="cli", user_id="mia")
    provider.sync_turn("I am allergic to peanuts.", "I will keep that in mind.", session_id="s-1")
    provider.on_session_end([{"role": "user", "content": "I am allergic to peanuts."}])
    provider.initialize("s-2", hermes_home="x", platform="cli", user_id="mia")
    assert recalled(provider, "peanuts")
    provider.initialize("s-3", user_id="tom")
    assert "peanuts" not in provider.prefetch("What am I allergic to?")


def test_a_model_remembers_and_recalls_by_tools_and_is_told_what_is_wrong(
    provider: Any, client: Client
) -> None:
    provider.initialize("s-1")
    call = provider.handle_tool_call
    assert json.loads(call("jiyi_remember", {"text": "The office closes at six."})) == {"remembered": True}
    asked = {"query": "When does the office close?"}
    found = poll(lambda: call("jiyi_recall", asked), lambda found: "six" in found, PATIENCE, str)
    assert "six" in json.loads(found)["memories"]
    assert {tool["name"] for tool in provider.get_tool_schemas()} == {"jiyi_recall", "jiyi_remember"}
    assert "query" in json.loads(call("jiyi_recall", {}))["error"]
    assert "jiyi_recall" in json.loads(call("forget", {}))["error"]


def test_while_the_service_is_away_answers_go_on_and_turns_wait(provider: Any, client: Client) -> None:
    file = provider.file
    config = json.loads(file.read_text())
    file.write_text(json.dumps({**config, "url": "http://127.0.0.1:1"}))
    provider.initialize("s-1")
    provider.sync_turn("I am allergic to walnuts.", "Noted.", session_id="s-1")
    assert provider.prefetch("What am I allergic to?") == ""
    assert "error" in json.loads(provider.handle_tool_call("jiyi_recall", {"query": "walnuts"}))
    provider.on_session_end([{"role": "user", "content": "I am allergic to walnuts."}])
    file.write_text(json.dumps(config))
    provider.initialize("s-2")
    assert recalled(provider, "walnuts")


def test_a_turn_that_is_refused_holds_up_no_other_and_a_provider_begins_again(
    provider: Any, client: Client
) -> None:
    provider.initialize("s-1")
    provider.shutdown()
    provider.initialize("s-1")
    provider.sync_turn(
        "I am allergic to \x00 nothing.", "I am allergic to hazelnuts, you said.", session_id="s-1"
    )
    provider.sync_turn("I am allergic to hazelnuts.", "Noted.", session_id="s-1")
    provider.on_session_end([{"role": "user", "content": "I am allergic to hazelnuts."}])
    assert recalled(provider, "hazelnuts")
    # The turn is found as soon as it is stored, the end of the session is published after it.
    poll(lambda: len(provider.memory.waiting), lambda waiting: not waiting, PATIENCE, str)


def test_sub_agents_are_not_recorded(provider: Any, client: Client) -> None:
    provider.initialize("s-1", agent_context="subagent")
    provider.sync_turn("Sort these files.", "Done.", session_id="s-1")
    assert not provider.memory.waiting
    assert provider.memory.thread is None
