"""What people find in their assistant's memory after they took something back, kept it to themselves, or were
somebody else for a while.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from engine.conversations.marks import marks_of, visible_text
from engine.heads.judgements import ENDED, Heads
from engine.heads.model import NEVER
from jiyi.errors import Conflict, NotFound
from jiyi.protocol.recall import ForgetWhatWasSaid, ReinstateMemory
from jiyi.text.kept import NOT_KEPT
from models.db.actions import Actor
from models.erasure.progress import ERASE
from models.memory.archive import reinstate_memory
from tasks.conversations.commands import forget
from tasks.erasure import erase
from tasks.framework.work import run_until_idle
from tests.integration.conversations.talk import START, facts, hurry, nodes, run, say

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")

CALLED = "Hello there.", "Nice weather.", "Well then."
LATER = START + timedelta(days=30)


def told(group: str, *said: str, start: datetime = START, **fields: Any) -> list[UUID]:
    """Messages that are looked through at once; the ids of those that say something."""
    ids = say(group, *CALLED, *said, start=start, **fields)
    hurry()
    run()
    return ids[len(CALLED) :]


def ended(group: str, node_id: UUID) -> list[str]:
    """The parts of a turn that have ended."""
    [row] = [row for row in nodes(group, "session") if row["node_id"] == node_id]
    return [
        row["description"][mark.start : mark.end]
        for mark in marks_of(row["provenance"])
        if mark.why in ("ended", "corrected")
    ]


def said(group: str) -> str:
    return " ".join(row["description"] for row in nodes(group))


def test_a_part_that_ends_leaves_the_rest_of_its_sentence(group: str) -> None:
    [turn] = told(group, "I'm allergic to walnuts and latex.")
    told(
        group,
        "I'm not allergic to latex after all, the test came back negative.",
        start=LATER,
        session_id="s2",
    )
    assert ended(group, turn) == ["latex"]
    assert any("walnuts" in fact for fact in facts(group))


def test_what_only_may_have_ended_stays_in_force_and_is_shown_as_earlier(
    group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The surer a judge has to be, the less is superseded: here it never is sure."""
    least = Heads.least

    def never_sure(heads: Heads, name: str, label: str, precision: float = 0.0) -> float:
        return NEVER if label == ENDED else least(heads, name, label, precision)

    monkeypatch.setattr(Heads, "least", never_sure)
    [turn] = told(group, "I take piano lessons with Osk.")
    told(group, "No more piano lessons with Osk.", start=LATER, session_id="s2")
    assert ended(group, turn) == []
    old = next(row for row in nodes(group, "knowledge", "preference") if "piano" in row["description"])
    assert [mark.why for mark in marks_of(old["provenance"])] == ["earlier"]
    assert old["superseded_at"] is None
    now = LATER + timedelta(days=1)
    [part] = visible_text(old["description"], old["created_at"], old["provenance"], now).ended
    assert ("piano" in part.text, part.sure) == (True, False)
    reinstate_memory.perform(Actor(group, "test"), ReinstateMemory(id=old["node_id"], reason="a pause"))
    [kept] = [row for row in nodes(group, "knowledge", "preference") if row["node_id"] == old["node_id"]]
    assert marks_of(kept["provenance"]) == []


def test_news_of_others_ends_nothing(group: str) -> None:
    [turn] = told(group, "I work as a nurse at St Mary's.")
    told(group, "My colleague Clara changed her team last week.", start=LATER, session_id="s2")
    assert ended(group, turn) == []
    assert any("nurse" in fact for fact in facts(group))


def test_what_is_not_to_be_saved_is_nowhere(group: str) -> None:
    told(group, "Don't save this, but I was diagnosed with shingles last month.")
    assert "shingles" not in said(group)
    assert NOT_KEPT["en"] in said(group)


def test_what_is_to_be_forgotten_goes_and_what_stood_beside_it_stays(group: str) -> None:
    told(group, "My phone number is 415-555-0199. And Olga waters my plants on Sundays.")
    told(group, "Please forget my phone number.", start=LATER, session_id="s2")
    run_until_idle(ERASE, erase)
    assert "0199" not in said(group)
    assert "phone" not in said(group)
    assert "Olga waters my plants" in said(group)


def test_a_program_forgets_by_words_and_is_asked_back_where_several_things_fit(group: str) -> None:
    told(
        group,
        "My phone number at work is 415-555-0111.",
        "My phone number at home is 415-555-0222.",
        "I like green tea.",
    )
    asked = forget(Actor(group, "test"), ForgetWhatWasSaid(agent_id="helper", text="my phone number"))
    assert asked.erasure_id is None
    assert len(asked.asks) == 2
    done = forget(
        Actor(group, "test"), ForgetWhatWasSaid(agent_id="helper", text="my phone number", every=True)
    )
    assert done.erasure_id is not None
    run_until_idle(ERASE, erase)
    assert "555" not in said(group)
    assert "green tea" in said(group)
    nothing = forget(Actor(group, "test"), ForgetWhatWasSaid(agent_id="helper", text="my tax number"))
    assert (nothing.erasure_id, nothing.forgotten) == (None, [])
    with pytest.raises(NotFound, match="stranger"):
        forget(Actor(group, "test"), ForgetWhatWasSaid(agent_id="stranger", text="my phone number"))


def test_a_wrong_supersession_is_taken_back_with_the_turn(group: str) -> None:
    [turn] = told(group, "I live in Porto.")
    told(group, "I live in Lisbon now.", start=LATER, session_id="s2")
    [old] = [row for row in nodes(group, "knowledge", "preference") if "Porto" in row["description"]]
    assert old["superseded_at"] is not None
    assert ended(group, turn) == ["I live in Porto"]
    reinstate_memory.perform(Actor(group, "test"), ReinstateMemory(id=old["node_id"], reason="two homes"))
    assert ended(group, turn) == []
    assert any("Porto" in fact for fact in facts(group))
    with pytest.raises(Conflict, match="is current"):
        reinstate_memory.perform(Actor(group, "test"), ReinstateMemory(id=old["node_id"]))
    with pytest.raises(NotFound):
        reinstate_memory.perform(Actor(f"{group}-other", "test"), ReinstateMemory(id=old["node_id"]))


def test_a_sample_does_not_replace_the_users_own_name(group: str) -> None:
    told(group, "My name is Ana.")
    told(
        group,
        "For example, a user could write 'My name is Bob and I live in Paris'.",
        start=LATER,
        session_id="s2",
    )
    assert any("Ana" in fact for fact in facts(group))
    assert not any("Bob" in fact for fact in facts(group))
