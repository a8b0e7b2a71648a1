"""What workers answer about the tiers over the broker."""

from __future__ import annotations

from importlib import import_module
from typing import Any
from uuid import uuid4

import pytest

from jiyi.errors import NotFound
from jiyi.protocol.knowledge import PromoteBody
from jiyi.protocol.wire.calls import open_reply
from models.db.actions import Actor
from models.tiers import actions
from tests.integration.actions.calling import called, service
from tests.integration.tiers.outputs import TEXTS, job, say

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")


def call(task: str, group: str, **request: Any) -> Any:
    return open_reply(called(task, {"group_id": group, **request}, service()))


def ask(action: str, group: str, **request: Any) -> Any:
    return call(f"rpc.{action}", group, **request)


def test_questions_are_answered_for_one_group(group: str) -> None:
    accepted, refused = (*say(group, TEXTS[0], session_id="s1"), *say(group, "ok"))
    say(f"other-{group}", TEXTS[1])
    piece = actions.promote.perform(Actor(group, "Lin"), PromoteBody(text=TEXTS[2])).pieces[0].knowledge_id
    job("digest", group)

    page = ask("knowledge.list", group, layer="all", limit=2)
    assert page["counts"] == {"quarantine": 1, "working": 1, "longterm": 1}
    assert (len(page["rows"]), page["next"] is None) == (2, False)
    assert [row["entry_id"] for row in ask("knowledge.list", group, rejected="too_short")["rows"]] == [
        str(refused)
    ]
    assert ask("knowledge.list", group, words="%")["rows"] == []
    assert [change["action"] for change in ask("knowledge.history", group, id=str(piece))["rows"]] == [
        "promoted"
    ]
    assert ask("quarantine.outcome", group, id=str(accepted))["accepted"] is True
    assert ask("quarantine.outcome", group, id=str(refused))["reason"] == "too_short"
    assert ask("quarantine.outcome", f"other-{group}", id=str(accepted)) is None
    state = ask("working_memory.show", group)
    assert ([row["item_id"] for row in state["rows"]], state["rejections"]) == (
        [str(accepted)],
        {"too_short": 1},
    )
    found = ask("digests.list", group, limit=1)
    assert (len(found["rows"]), found["next"]) == (1, None)


def test_a_digest_over_the_broker_says_who_asked_and_what_is_not_there_is_said(group: str) -> None:
    import_module("tasks.tiers")
    (said,) = say(group, TEXTS[0])
    made = call("rpc.digests.make", group, days=1)
    assert (made["created_by"], made["items"][0]["entry_ids"]) == ("operator", [str(said)])
    for action, field in (("knowledge.history", "id"), ("digests.list", "digest_id")):
        with pytest.raises(NotFound, match=field):
            ask(action, group, **{field: str(uuid4())})
