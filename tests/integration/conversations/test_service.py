"""The loop with a running service, and without one."""

from __future__ import annotations

import json
import time

import pytest

from examples import companion
from jiyi import Client
from jiyi.chat.loop import ConversationLoop
from jiyi.errors import InvalidRequest
from jiyi.settings import get_settings


def test_the_companion_remembers_what_only_its_first_session_told_learns_and_keeps_to_its_budget(
    client: Client,
) -> None:
    told = json.loads(json.dumps(companion.report(client)))
    learned = told.pop("learned")
    assert set(told) == {"zh", "en", "people"}
    for shown in told.values():
        assert [one["question"] for one in shown if not one["answered"] or not one["private"]] == []
        assert all(one["tokens"] <= 2_100 for one in shown)
    assert learned["in_prompt"]
    assert learned["trust_after"] > learned["trust_before"]
    assert learned["tokens_max"] <= learned["budget"]
    assert learned["cache_share"] > 0.5
    assert [reply.split(":")[0] for reply in learned["reminders"]] == ["Noted", "Moved", "Cancelled"]
    assert learned["reminders_left"] == 0


def test_the_loop_neither_raises_nor_waits_when_nobody_answers(group: str) -> None:
    settings = get_settings().model_copy(
        update={
            "broker_url": "redis://127.0.0.1:1/0",
            "redis_url": "redis://127.0.0.1:1/0",
            "request_timeout": 0.4,
        }
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
    assert listed.model_dump()["rows"][0]["name"] == "knowledge"
    with pytest.raises(InvalidRequest, match="unknown action"):
        client.command("viking_fly")
