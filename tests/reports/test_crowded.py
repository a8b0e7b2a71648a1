"""Very much at once: a message as long as there may be one, a person who cannot decide, two conversations at
the same time.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from jiyi.protocol.conversations import MAX_MEMORIES
from jiyi.protocol.recall import ForgetWhatWasSaid
from models.db.actions import Actor
from tasks.conversations.commands import forget
from tests.integration.conversations.talk import START, facts, hurry, nodes, run, say
from tests.integration.erasure.test_erasure import alone, carry_on
from tests.integration.threads import Threads
from tests.reports.talks import CALLED, talk

__all__ = ["alone"]

pytestmark = pytest.mark.usefixtures("database", "alone", "nothing_owed")

#: Each begins with what no other one has.
FACTS = [
    f"My friend Nr{number:03} lives in Village{number:03} and keeps {number + 2} goats there."
    for number in range(300)
]
UNDECIDED = 200


def test_one_of_three_hundred_facts_is_deleted_from_a_message_of_20000_characters(group: str) -> None:
    long = " ".join(FACTS)[:20_000]
    talk(group, long)
    found = nodes(group, "knowledge", "preference")
    assert 0 < len(found) <= MAX_MEMORIES
    [turn] = [row for row in nodes(group, "session") if "Village000" in row["description"]]
    assert turn["description"] == long
    done = forget(Actor(group, "test"), ForgetWhatWasSaid(agent_id="helper", text="Nr007 in Village007"))
    assert [part.description for part in done.forgotten] == [FACTS[7].removesuffix(".")]
    carry_on()
    [turn] = [row for row in nodes(group, "session") if "Village000" in row["description"]]
    assert "Village007" not in " ".join(row["description"] for row in nodes(group))
    assert "Village250" in turn["description"]


@pytest.mark.long
def test_two_hundred_contradictions_leave_the_last_and_what_nobody_contradicted(group: str) -> None:
    said = [f"I moved to Town{number:03}." for number in range(UNDECIDED)]
    say(
        group,
        *CALLED,
        "I'm allergic to walnuts.",
        *said[:100],
        "My sister Nora plays the cello.",
        *said[100:],
    )
    for _ in range(10):
        hurry()
        if not run():
            break
    in_force = [
        row["description"] for row in nodes(group, "knowledge", "preference") if not row["superseded_at"]
    ]
    assert [one for one in in_force if "Town" in one] == [f"User: {said[-1]}"]
    assert any("walnuts" in one for one in in_force)
    assert any("cello" in one for one in in_force)
    assert sum("Town" in row["description"] for row in nodes(group, "session")) == UNDECIDED, (
        "what was said is there to be found"
    )


def test_two_sessions_of_one_person_at_once_lose_nothing_and_mix_nothing(group: str) -> None:
    def talks(number: int) -> None:
        for turn in range(10):
            at = START + timedelta(minutes=2 * turn + number)
            text = f"My friend Pal{number}{turn} lives in Ville{number}{turn}."
            say(group, text, start=at, session_id=f"s{number}", user_id="mia")

    with Threads(2) as pool:
        list(pool.map(talks, range(2)))
        hurry()
        list(pool.map(lambda _number: run(), range(2)))
    hurry()
    run()
    expected = {
        f"My friend Pal{number}{turn} lives in Ville{number}{turn}."
        for number in range(2)
        for turn in range(10)
    }
    assert {row["description"] for row in nodes(group, "session")} == expected
    assert {row["session_id"] for row in nodes(group, "session") if "Pal0" in row["description"]} == {"s0"}
    told = [one.removeprefix("User: ") for one in facts(group)]
    assert sorted(told) == sorted(expected), "each once"
