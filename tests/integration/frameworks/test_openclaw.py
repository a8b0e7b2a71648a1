"""OpenClaw's plug-in as ``jiyi connect openclaw`` leaves it: another session knows what was said, also after
an outage.

OpenClaw itself, a gigabyte that wants Node 24, is not installed for it: the hooks are called as OpenClaw
2026.9.6 calls them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from typer.testing import CliRunner

from jiyi import Client
from jiyi.cli.app import app
from jiyi.polling import poll
from jiyi.settings import get_settings
from tests.integration.proxy.test_proxy import turns

pytestmark = [pytest.mark.long, pytest.mark.skipif(shutil.which("node") is None, reason="needs node")]
PATIENCE = 60.0
#: Reads steps from its standard input, a line each: a hook's name or a tool's, an event, a context; writes
#: what each answers.
HOST = """
import { createInterface } from "node:readline";
const hooks = {}, warned = [];
let tools;
const { default: plugin } = await import(process.argv[2]);
plugin.register({
  logger: { warn: (text) => warned.push(text) },
  on: (name, handler) => (hooks[name] = handler),
  registerTool: (factory, { names }) => (tools = (ctx) => Object.fromEntries(factory(ctx).map((tool, at) => [names[at], tool]))),
});
for await (const line of createInterface({ input: process.stdin })) {
  const [name, event, ctx] = JSON.parse(line);
  const answer = hooks[name] ? await hooks[name](event, ctx) : await tools(ctx)[name].execute("1", event);
  console.log(JSON.stringify({ answer, warned: warned.splice(0) }));
}
"""


@pytest.fixture
def folder(
    service: str,
    unlimited_web: int,
    api_key: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    monkeypatch.setenv("OPENCLAW_STATE_DIR", str(tmp_path))
    monkeypatch.delenv("OPENCLAW_CONFIG_PATH", raising=False)
    (tmp_path / "openclaw.json").write_text('{"agents": {}}')
    address = f"http://127.0.0.1:{unlimited_web}"
    command = [*"connect openclaw --yes --agent helper --url".split(), address]
    with patch.dict(os.environ, {"JIYI_KEY": api_key(service, "publish", "read")}):
        get_settings.cache_clear()  # now, as threads of other tests ask for settings, too
        done = CliRunner().invoke(app, command)
    get_settings.cache_clear()  # nobody else speaks with this key
    assert done.exit_code == 0, done.output
    config = json.loads((tmp_path / "openclaw.json").read_text())
    assert config == {
        "agents": {},
        "plugins": {"entries": {"jiyi": {"enabled": True, "hooks": {"allowConversationAccess": True}}}},
    }
    (tmp_path / "host.mjs").write_text(HOST)
    return tmp_path


class Host:
    def __init__(self, folder: Path) -> None:
        command = ["node", str(folder / "host.mjs"), str(folder / "extensions/jiyi/index.js")]
        environment = {"PATH": str(Path(str(shutil.which("node"))).parent), "JIYI_RECALL_MS": "20000"}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def call(self, name: str, event: dict[str, Any], **ctx: Any) -> dict[str, Any]:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps([name, event, ctx]) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def say(self, run: str, question: str, answer: str, **ctx: Any) -> dict[str, Any]:
        """A turn, with what the hooks put before it in its messages."""
        prepared = self.call(
            "before_prompt_build",
            {"prompt": question, "currentUserMessage": question, "messages": []},
            runId=run,
            **ctx,
        )
        known = (prepared.get("answer") or {}).get("prependContext", "")
        said = [
            {"role": "user", "content": f"{known}\n\n{question}"},
            {
                "role": "assistant",
                "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": answer}],
            },
        ]
        self.call("agent_end", {"success": True, "messages": said}, runId=run, **ctx)
        return prepared

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(PATIENCE)
        assert self._process.stdout
        self._process.stdout.close()


def test_another_session_knows_what_was_said(folder: Path, service: str, client: Client) -> None:
    mia = {"senderId": "mia"}
    with Host(folder) as host:
        host.say("r0", "Sort the files.", "Done.", sessionKey="agent:main:subagent:1", **mia)
        host.say("r1", "I am allergic to peanuts.", "Noted.", sessionKey="agent:main:s1", **mia)
        assert sorted(turns(service, "helper", 2)) == ["I am allergic to peanuts.", "Noted."]
        host.call(
            "session_end", {"sessionId": "s1", "sessionKey": "agent:main:s1", "reason": "restart"}, **mia
        )
        host.call("session_end", {"sessionId": "s1", "sessionKey": "agent:main:s1", "reason": "new"}, **mia)

        def asked(**ctx: Any) -> str:
            event = {"prompt": "What am I allergic to?", "messages": []}
            return str(
                (host.call("before_prompt_build", event, runId="r2", **ctx).get("answer") or {}).get(
                    "prependContext", ""
                )
            )

        assert "peanuts" in poll(lambda: asked(**mia), lambda known: "peanuts" in known, PATIENCE, str)
        assert asked(senderId="tom") == ""
        assert (
            host.call("jiyi_remember", {"text": "The office closes at six."})["answer"]["content"][0]["text"]
            == "Remembered."
        )

        def found() -> str:
            return str(
                host.call("jiyi_recall", {"query": "When does the office close?"})["answer"]["content"][0][
                    "text"
                ]
            )

        assert poll(found, lambda text: "six" in text, PATIENCE, str)


def test_while_the_service_is_away_answers_go_on_and_turns_wait(
    folder: Path, service: str, client: Client
) -> None:
    file = folder / "extensions/jiyi/jiyi.json"
    config = file.read_text()
    file.write_text(json.dumps({**json.loads(config), "url": "http://127.0.0.1:1"}))
    with Host(folder) as host:
        prepared = host.say("r1", "I am allergic to walnuts.", "Noted \0 that.", sessionKey="s1")
        assert "answer" not in prepared
        assert "nothing is recalled" in prepared["warned"][0]
        file.write_text(config)
        assert set(turns(service, "helper", 2)) == {
            "I am allergic to walnuts.",
            "Noted  that.",
        }  # without what cannot be stored
