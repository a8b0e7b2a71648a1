"""The guard and the fact check where outputs come in: flags are set, cleared, and shown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jiyi.protocol.knowledge import CheckBody
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.db.scope import for_groups
from models.tiers import actions, quarantine
from models.tiers.quarantine import RunningAway
from tests.integration.conftest import SignIn
from tests.integration.fields import check_fields
from tests.integration.memory.test_inbox import save
from tests.integration.tiers.outputs import TEXTS, entry, hot, output, say, screen

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")

LOOP = "The plan is to fire the kiln again tomorrow, and then to fire the kiln again the day after that."
CLAIM = "Sales of glazed cups rose by [Specific Metric] in the spring, as the guild has told everybody."


def running_away(group: str) -> list[RunningAway]:
    with unit_of_work() as connection, for_groups(group):
        return quarantine.running_away(connection, group, datetime.now(UTC))


def said(
    group: str, *texts: str, session: str = "s", apart: timedelta = timedelta(minutes=1), **fields: Any
) -> list[dict[str, Any]]:
    """Rows of outputs of one session, screened together."""
    begin = datetime.now(UTC) - timedelta(
        minutes=50
    )  # not when this module was imported: what is an hour old counts no more
    events = [
        output(group, text, session_id=session, occurred_at=begin + number * apart, **fields)
        for number, text in enumerate(texts)
    ]
    save(*events)
    screen()
    return [entry(event.event_id) for event in events]


def test_a_session_that_repeats_itself_is_flagged_until_it_says_something_else(group: str) -> None:
    rows = said(group, *[LOOP] * 5)
    assert [("runaway" in row["flags"], "repetition" in row["flags"]) for row in rows] == [
        (False, False)
    ] * 3 + [(True, True)] * 2
    assert [row["rejected_reason"] for row in rows] == [None] + ["duplicate"] * 4
    (found,) = running_away(group)
    check_fields(found, session_id="s", sign="repetition", outputs=2, entry_id=rows[4]["entry_id"])
    (other,) = said(group, TEXTS[1], session="another")
    assert "runaway" not in other["flags"]

    (calm,) = say(group, TEXTS[0], session_id="s")
    assert "runaway" not in entry(calm)["flags"]  # cleared: nothing stays shut
    assert entry(calm)["rejected_reason"] is None
    assert running_away(group) == []


def test_each_sign_keeps_an_output_out(group: str) -> None:
    for text, fields, sign in (
        (TEXTS[0], {"depth": 11}, "recursion"),
        ("again and again, " * 40, {}, "low_entropy"),
    ):
        (row,) = said(group, text, session=sign, **fields)
        assert (row["rejected_reason"], {"runaway", sign} <= set(row["flags"])) == ("runaway", True)
    (row,) = said(group, CLAIM)
    assert (row["rejected_reason"], "verify_pending" in row["flags"]) == ("claim_pending", True)
    words = " ".join(f"{name}{number}" for number in range(900) for name in ("clay", "glaze", "kiln"))
    flood = said(
        group, *(f"{number} {words}" for number in range(3)), session="flood", apart=timedelta(seconds=1)
    )
    assert ["token_rate" in row["flags"] for row in flood] == [False, True, True]  # one long output is none
    assert [found.session_id for found in hot(group)] == ["flood"]


def test_without_a_session_an_agents_own_outputs_follow_each_other(group: str) -> None:
    for number in range(4):
        one, other = say(group, LOOP, agent_id="a"), say(group, f"{TEXTS[0]} {number}", agent_id="b")
    assert "repetition" in entry(one[0])["flags"]
    assert "runaway" not in entry(other[0])["flags"]
    assert [found.agent_id for found in running_away(group)] == ["a"]


def test_a_check_clears_the_flags_and_the_filters_look_again(group: str) -> None:
    claimed, looped = said(group, CLAIM)[0], said(group, TEXTS[0], depth=11, session="t")[0]
    ids = [claimed["entry_id"], looped["entry_id"]]
    check = CheckBody(entry_ids=ids, verdict="true", reason="the guild's book")
    assert set(actions.check.perform(Actor(group, "Lin"), check).rows) == set(ids)
    assert actions.check.perform(Actor(group, "Lin"), check).rows == []  # said again, it changes nothing
    screen()
    for row in map(entry, ids):
        assert row["rejected_reason"] is None
        assert "checked" in row["flags"]
        assert not {"verify_pending", "runaway", "recursion"} & set(row["flags"])
    assert {found.entry_id for found in hot(group)} == set(ids)
    assert running_away(group) == []

    actions.check.perform(Actor(group, "Lin"), CheckBody(entry_ids=ids[:1], verdict="refuted"))
    screen()
    assert entry(ids[0])["rejected_reason"] == "claim_refuted"
    assert [found.entry_id for found in hot(group)] == ids[1:]
    with unit_of_work() as connection:  # also when the list is made anew
        assert [found.entry_id for found in quarantine.stored_working_memory(connection, group)] == ids[1:]


def test_the_admin_shows_loops_flags_and_takes_what_a_check_came_to(group: str, sign_in: SignIn) -> None:
    looped = said(group, *[LOOP] * 4)[-1]
    browser = sign_in("admin", groups=[group])
    where = {"query_string": {"group": group}}
    html = browser.get("/tiers", **where).text
    assert "Runaway loops" in html
    assert "says the same again and again" in html
    page = browser.get(f"/quarantine/{looped['entry_id']}", **where).text
    assert "from a runaway loop" in page
    assert "It is refuted" in page
    done = browser.post(f"/quarantine/{looped['entry_id']}/check", data={"verdict": "true"}, **where)
    assert done.status_code == 303
    screen()
    assert "Runaway loops" not in browser.get("/tiers", **where).text
    assert "checked and found true" in browser.get(f"/quarantine/{looped['entry_id']}", **where).text
    assert (
        browser.post(f"/quarantine/{looped['entry_id']}/check", data={"verdict": "x"}, **where).status_code
        == 400
    )
