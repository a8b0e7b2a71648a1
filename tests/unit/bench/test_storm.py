"""bench.storm: which faults strike together, and what several goes add up to."""

from __future__ import annotations

import json
from collections import Counter
from random import Random

from bench.storm import LAST, SUMMED, in_all, several
from bench.support.storm.lives import AGENTS, event
from engine.reflection import MAX_STATEMENTS

FAULTS = ["kill web", "pause web", "stop web", "kill beat", "pause beat", "Valkey full"]


def test_faults_that_strike_together_are_of_different_targets() -> None:
    chosen, single = Random(7), Random(7)
    for seed in range(50):
        struck = several(Random(seed), FAULTS, 4)
        assert struck and set(struck) <= set(FAULTS)
        assert len({fault.partition(" ")[2] for fault in struck}) == len(struck)
        assert several(single, FAULTS, 1) == [chosen.choice(FAULTS)]  # one at a time: the same storm as ever
    assert several(Random(7), FAULTS[:1], 4) == FAULTS[:1]


def test_goes_add_up_and_one_that_ended_early_hides_nothing() -> None:
    good = {**dict.fromkeys(SUMMED, 0), "faults": 80, "events": 9_000, "gave_up": []}
    wrong = {**good, "different": 2}
    early = {**dict.fromkeys(SUMMED, -1), "gave_up": ["a process"]}
    found = in_all("\n".join(map(json.dumps, [good, wrong, early])) + "\n")
    counts = {"goes": 3, "faults": 160, "events": 18_000, "gave_up": 1}
    assert found == {**counts, "lost": 0, "doubled": 0, "different": 2, "deaf": 0}


def test_what_comes_last_is_all_that_a_reflection_starts_from() -> None:
    for first in (0, 13_441):
        last = [event("storm", position) for position in range(first, first + LAST)]
        counted = Counter(one.agent_id for one in last if getattr(one.payload, "node_type", "") == "event")
        assert all(counted[agent] >= MAX_STATEMENTS for agent in AGENTS)
