"""Erasure and the tiers: what somebody said in a workflow, and what was made of it, is nowhere afterwards."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from jiyi.protocol.erasure import Erasure
from jiyi.protocol.knowledge import EditKnowledge, PromoteBody
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.db.valkey import valkey
from models.erasure import matching
from models.tiers import actions
from tests.integration.erasure.test_erasure import alone as alone  # noqa: PLC0414 - a fixture
from tests.integration.erasure.test_erasure import erase, places
from tests.integration.memory.test_inbox import rows, save
from tests.integration.tiers.outputs import TEXTS, ask, embed, hot, job, output, say, screen

pytestmark = pytest.mark.usefixtures("alone", "nothing_owed")

ALSO = "Everybody who was there agreed that the second firing is what ruined them, all forty cups."


def promote(group: str, *entries: UUID, **fields: Any) -> list[UUID]:
    done = actions.promote.perform(Actor(group, "Lin"), PromoteBody(entry_ids=list(entries), **fields))
    return [piece.knowledge_id for piece in done.pieces if piece.knowledge_id is not None]


def contents(group: str, table: str) -> set[str]:
    return {str(row["content"]) for row in rows(f"SELECT content FROM {table} WHERE group_id = :g", g=group)}


def test_a_person_goes_from_every_tier_with_what_was_made_of_their_words(group: str) -> None:
    name, elsewhere = f"Maria Quill{uuid4().hex[:8]}", f"other-{uuid4().hex[:8]}"
    words = f"{name} said that the second firing would ruin every cup in the kiln, and she was right."
    said, other = say(group, words, TEXTS[0], session_id="s1")
    say(elsewhere, words)  # what another group has is its own
    promote(group, said)
    promote(group, said, text=ALSO)  # names nobody, but rests on what she said
    (edited,) = promote(group, text=f"{name} asked for blue glaze. {TEXTS[3]}")
    request = EditKnowledge(id=edited, content="Somebody asked for blue glaze.")
    anonymous = actions.edit.perform(Actor(group, "Lin"), request).knowledge_id
    promote(group, other)
    embed()
    job("digest", group)
    with unit_of_work() as connection:
        counts = matching.preview(connection, group, Erasure(person=name)).counts
    assert (counts["outputs"], counts["knowledge"]) == (1, 4)
    report = erase(group, person=name)
    assert report["erased"]["quarantine_logs"] == 1
    assert report["erased"]["knowledge"] == 4
    assert {"quarantine_logs", "knowledge", "knowledge_history", "digests", "digest_items"} <= set(
        report["looked_through"]["tables"]
    )
    assert contents(group, "quarantine_logs") == {TEXTS[0]}
    assert contents(group, "knowledge") == {TEXTS[0]}
    assert anonymous not in {
        row["knowledge_id"] for row in rows("SELECT knowledge_id FROM knowledge_history")
    }
    assert places(name, group=group) == [f"jiyi:wm:entries:{elsewhere}"]
    found = ask(group, "the second firing", relevance_threshold=-1)
    assert [item.content for item in found.results] == [TEXTS[0]]
    assert [entry.content for entry in hot(group)] == [TEXTS[0]]  # made anew from what is left
    valkey().flushdb()
    assert [item.content for item in ask(elsewhere, "x").results] == [words]


def test_an_agent_that_only_spoke_in_workflows_goes_with_what_is_known_to_it_and_what_is_owed(group):
    events = [output(group, TEXTS[0], agent_id="Ada"), output(group, TEXTS[1], agent_id="Bob")]
    save(*events)
    screen()
    promote(group, events[0].event_id)
    promote(group, text=TEXTS[3], agent_id="Ada")
    promote(group, events[1].event_id)
    erase(group, agent_id="Ada")
    assert contents(group, "quarantine_logs") == contents(group, "knowledge") == {TEXTS[1]}
    save(events[0])  # delivered again
    screen()
    assert contents(group, "quarantine_logs") == {TEXTS[1]}
    name = f"Quill{uuid4().hex[:8]}"
    embed()
    save(output(group, f"{name} wants a second firing of all the cups that came out of the kiln today."))
    erase(group, person=name)
    assert rows("SELECT kind FROM pending_work WHERE group_id = :g", g=group) == []
    assert places(name, group=group) == []
