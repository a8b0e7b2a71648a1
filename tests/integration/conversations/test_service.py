"""The loop with a running service, and extraction by a worker that is killed in the middle."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from examples import companion
from jiyi import Client
from jiyi.chat.loop import ConversationLoop
from jiyi.errors import InvalidRequest
from jiyi.settings import get_settings
from tests.integration.conversations.talk import hurry, nodes, owed, run, say

CHECKOUT = Path(__file__).resolve().parents[3]
SMALL_TALK = ["Hello there.", "Nice weather.", "Well then."]

KILLED = """
import os, signal, sys
from models.conversations import store_extraction
from models.db.scope import whole_service

original = store_extraction.store_extracted

def keep(*arguments):
    original(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)

store_extraction.store_extracted = keep
import workers.app
from tasks.conversations.extraction import extract
from tasks.framework.work import run_until_idle
run_until_idle("extract", extract)
"""


@pytest.mark.usefixtures("database", "nothing_owed")
def test_a_worker_killed_in_extraction_loses_and_doubles_nothing(group: str) -> None:
    say(group, *SMALL_TALK, "I live in Porto.")
    done = subprocess.run([sys.executable, "-c", KILLED], cwd=CHECKOUT, check=False, timeout=240, capture_output=True)
    assert done.returncode == -9, done.stderr
    assert nodes(group, "knowledge") == []
    [waiting] = owed()
    assert waiting["attempts"] == 1
    hurry()
    run()
    assert len(nodes(group, "knowledge")) == 1
    assert owed() == []


def test_the_companion_remembers_what_only_its_first_session_told(client: Client) -> None:
    found = companion.run(client)
    assert set(found) == {"zh", "en"}
    for shown in found.values():
        assert [one.question for one in shown if not one.answered] == []
        assert all(one.tokens <= 2_100 for one in shown)


def test_the_loop_neither_raises_nor_waits_when_nobody_answers(group: str) -> None:
    settings = get_settings().model_copy(
        update={"broker_url": "redis://127.0.0.1:1/0", "redis_url": "redis://127.0.0.1:1/0", "publish_timeout": 0.2}
    )
    with Client(group, settings=settings) as away, ConversationLoop(away, seconds=0.3) as loop:
        begun = time.monotonic()
        assert loop.before_completion("helper", "Be kind.", "What do I like?") == "Be kind."
        loop.after_completion("helper", [{"role": "user", "content": "hello"}], "s1")
        assert time.monotonic() - begun < companion.SETTLE_SECONDS
        loop.close(0)
    assert loop.counts.published == 0


def test_commands_through_the_client(client: Client) -> None:
    done = client.command("resources.add", uri="agent://小伴/knowledge/allergy", content="用户对花生过敏。")
    assert done.model_dump()["new"]
    listed = client.command("resources.list", uri="agent://小伴")
    assert listed.model_dump()["resources"][0]["name"] == "knowledge"
    with pytest.raises(InvalidRequest, match="unknown action"):
        client.command("viking_fly")
