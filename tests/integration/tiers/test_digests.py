"""Digests of quarantine: weekly for every group, on request, of what is worth promoting."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from jiyi.errors import BadReply, LLMUnavailable
from jiyi.protocol.knowledge import DigestBody, DigestState, PromoteBody
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.db.scope import for_groups
from models.queue import stream
from models.tiers import actions, digests
from tests.integration.memory.test_inbox import execute, rows
from tests.integration.tiers.outputs import TEXTS, job, say, tasks

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")

KILN = [
    "The kiln reached twelve hundred degrees, and the glaze of the cups in the kiln did not crack at all.",
    "At twelve hundred degrees in the kiln the glaze of the cups does not crack, the second firing shows.",
]


def latest(group: str) -> list[DigestState]:
    with for_groups(group), unit_of_work() as connection:
        return digests.listed(connection, group, limit=10)


def test_each_group_has_its_digest_once_a_week(group: str) -> None:
    ids = [say(group, one, session_id=session)[0] for one, session in zip(KILN, ("s1", "s2"), strict=True)]
    say(group, "ok", TEXTS[1], TEXTS[3])
    assert job("digest", group)["groups"] == 1
    assert job("digest", group) == {}  # this week's is there
    (made,) = latest(group)
    assert (made.entries, made.older, made.left_out, made.created_by) == (4, 0, 0, "job:digest")
    item, *others = (
        made.items
    )  # what most sessions say comes first; what was refused as too short is not there
    assert sorted(item.entry_ids) == sorted(ids)
    assert [len(one.entry_ids) for one in others] == [1, 1]
    assert (item.sessions, item.promoted) == (2, 0)
    assert "kiln" in f"{item.topic} {item.summary}".lower()
    assert set(item.evidence) <= set(ids)
    (told,) = [one for one in stream.read(group, "0") if one.kind == "digest.ready"]
    assert str(made.digest_id) in told.data
    week = datetime.now(UTC) + timedelta(days=5)
    assert job("digest", group, now=week)["groups"] == 1
    assert [one.since < one.until for one in latest(group)] == [True, True]


def test_the_job_sees_to_all_groups_and_goes_on_where_it_stopped(group: str) -> None:
    groups = sorted([group, f"{group}-b", f"{group}-c"])
    for name in groups:
        say(name, KILN[0])
    jobs = tasks("framework.jobs")
    run = jobs.Run("digest", datetime.now(UTC), place=groups[0])
    with run.scope():
        tasks("tiers").digest_quarantine(run)
    assert [len(latest(name)) for name in groups] == [0, 1, 1]
    stopped = jobs.Run("digest", datetime.now(UTC), deadline=0, place=groups[0][:-1])
    with stopped.scope():
        tasks("tiers").digest_quarantine(stopped)
    assert stopped.summary["more"] <= groups[0]


def test_on_request_it_looks_at_the_days_asked_for_and_promotion_shows(group: str) -> None:
    old, new = say(group, *KILN)
    execute(
        "UPDATE quarantine_logs SET received_at = :at WHERE entry_id = :id",
        at=datetime.now(UTC) - timedelta(days=30),
        id=old,
    )
    make, asker, asked = tasks("tiers").make_now, Actor(group, "user:Lin"), DigestBody(days=7)
    with for_groups(group):
        first = make(asker, asked)
        assert [item.entry_ids for item in first.items] == [[new]]
        assert first.created_by == "user:Lin"
        (told,) = rows(
            "SELECT actor, details FROM audit_log WHERE group_id = :g AND action = 'digests.make'", g=group
        )
        assert (told["actor"], told["details"]) == ("user:Lin", {"digest": str(first.digest_id), "items": 1})
        longer = make(asker, DigestBody(days=60))
        assert sorted(one for item in longer.items for one in item.entry_ids) == sorted([old, new])
        item = first.items[0]
        actions.promote.perform(Actor(group, "Lin"), PromoteBody(entry_ids=item.entry_ids, text=item.summary))
        assert make(asker, asked).items == []  # what was promoted is settled
        with unit_of_work() as connection:
            assert digests.listed(connection, group, first.digest_id)[0].items[0].promoted == 1


@pytest.mark.parametrize("error", [LLMUnavailable("away"), BadReply("nonsense")])
def test_without_its_llm_a_digest_is_summed_up_by_the_rules(
    group: str, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    class Away:
        model = "away"

        def ask(self, _question: object) -> None:
            raise error

    monkeypatch.setattr(tasks("tiers"), "llm", Away)
    say(group, KILN[0], TEXTS[2])
    job("digest", group)
    (made,) = latest(group)
    assert {item.llm for item in made.items} == {"rules-2"}
    assert len(made.items) == 2
