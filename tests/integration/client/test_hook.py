"""``jiyi hook``: what a host's hooks print and tell, against a real service, and their silence without
one.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from jiyi import Client
from jiyi.cli import hook
from jiyi.polling import poll

pytestmark = [pytest.mark.usefixtures("service"), pytest.mark.xdist_group("hook")]

KeyMaker = Callable[..., str]
PATIENCE = 60.0


@pytest.fixture
def address(unlimited_web: int, _workers: None) -> str:
    return f"http://127.0.0.1:{unlimited_web}"


@pytest.fixture
def connected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("SECONDS", "PUBLISH_SECONDS"):
        monkeypatch.setattr(hook, name, 20.0)  # a busy machine

    def connect(url: str, key: str) -> None:
        hook.config_path().parent.mkdir(exist_ok=True)
        hook.config_path().write_text(json.dumps({"url": url, "key": key, "agent": "coder"}))

    return connect


def run(event: str, **given: Any) -> str:
    printed = io.StringIO()
    asked = io.StringIO(json.dumps({"hook_event_name": event, "session_id": "s", **given}))
    assert hook.main([event], asked, printed) == 0
    return printed.getvalue()


def entry(role: str, content: Any, **more: Any) -> dict[str, Any]:
    known = {"type": role, "uuid": str(uuid4()), "timestamp": "2026-11-20T10:00:00.000Z"}
    return {**known, "message": {"role": role, "content": content}, **more}


def test_what_was_said_is_told_once_and_recalled_in_the_next_session(
    address: str, connected: Callable[[str, str], None], api_key: KeyMaker, group: str, tmp_path: Path
) -> None:
    connected(address, api_key(group, "publish", "read"))
    transcript = tmp_path / "t.jsonl"
    lines = [
        entry("user", "我们用 pnpm，不用 npm。"),
        entry(
            "assistant",
            [
                {"type": "text", "text": "Noted: pnpm."},
                {"type": "tool_use", "id": "t", "name": "Bash", "input": {}},
            ],
        ),
        entry("user", [{"type": "tool_result", "tool_use_id": "t", "content": "ok"}]),
        entry("user", "<command-name>/clear</command-name>"),
        entry("user", "of a helper", isSidechain=True),
        {"type": "summary", "summary": "x"},
    ]
    transcript.write_text("cut line}\n" + "\n".join(json.dumps(line, ensure_ascii=False) for line in lines))
    for _ in range(2):
        assert run("Stop", transcript_path=str(transcript)) == ""
    run("PreCompact", transcript_path=str(transcript), trigger="auto")
    with Client(group) as client:
        nodes = poll(
            lambda: list(client.list("coder", kinds=["session"])), lambda found: len(found) >= 2, PATIENCE
        )
        assert {node.description for node in nodes} == {"我们用 pnpm，不用 npm。", "Noted: pnpm."}
    told = poll(
        lambda: run("UserPromptSubmit", prompt="我们用哪个包管理器？", session_id="later"),
        lambda text: "pnpm" in text,
        PATIENCE,
    )
    assert json.loads(told)["hookSpecificOutput"]["hookEventName"] == "UserPromptSubmit"
    run("SessionStart", source="startup")


def test_without_a_service_or_with_anything_else_wrong_a_hook_is_silent(
    connected: Callable[[str, str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("UserPromptSubmit", prompt="hello") == ""  # nothing is connected
    connected("http://127.0.0.1:9", "jiyi_x")
    assert run("UserPromptSubmit", prompt="hello") == run("SessionStart") == run("Nothing") == ""
    assert run("Stop", transcript_path="/nowhere") == ""
    assert hook.main([], io.StringIO("no JSON")) == 0

    assert capsys.readouterr() == ("", "")
