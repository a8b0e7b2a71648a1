"""The recorded reflections of the original: replayed by our code, all the same but for the defects that are
not copied.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.support.script import Differs
from bench.traces import differences, reflect_scenarios, replay

ROOT = Path(__file__).resolve().parents[3]
SHARED = Path(os.environ.get("JIYI_SHARED_DATA") or ROOT.parent / "shared" / "data")
TRACE = SHARED / "stanford" / "trace_reflect.json"

pytestmark = pytest.mark.skipif(not TRACE.is_file(), reason="the recorded traces are not part of the project")

NOT_COPIED = {
    "Q6": "focal_json_list_falls_back poignancy_int_json",
    "Q7": "triple_fail",
    "Q9": "insight_no_because insight_out_of_range",
    "Q11": "chat_end_missed_tick chat_end_no_chat_node",
    "Q12": "insight_inner_period insight_duplicate_text",
    "Q14": "poignancy_zero poignancy_junk",
}


@pytest.fixture(scope="module")
def recorded() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(TRACE.read_text(encoding="utf-8"))
    return found


def test_every_scenario_is_the_same_or_a_named_exception() -> None:
    report = reflect_scenarios(TRACE)
    assert report.failed == {}
    expected = {f"reflect:{name}": defect for defect, names in NOT_COPIED.items() for name in names.split()}
    assert {name: defect.partition(":")[0] for name, defect in report.exceptions.items()} == expected
    assert (report.scenarios, len(report.matched)) == (19, 8)


def swap_first_calls(scenario: dict[str, Any]) -> None:
    calls = scenario["calls"]
    calls[5], calls[6] = calls[6], calls[5]


#: Each a small change of the recording that our code must not be able to follow: so that a match means
#: something.
CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "a statement": lambda s: s["calls"][0][1].__setitem__(0, "something else"),
    "the order of calls": swap_first_calls,
    "a call less": lambda s: s["calls"].pop(6),
    "an expiry": lambda s: s["new_nodes"][0].__setitem__("expiration", "2023-03-16 15:20:00"),
    "evidence": lambda s: s["new_nodes"][0]["filling"].append("node_1"),
    "a thought more": lambda s: s["new_nodes"].append(s["new_nodes"][0]),
    "a counter": lambda s: s["scratch_after"].__setitem__(1, 3),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_recording_that_is_changed_does_not_match(recorded: list[dict[str, Any]], change: str) -> None:
    scenario = copy.deepcopy(next(one for one in recorded if one["tag"] == "trigger_0_yes"))
    CHANGES[change](scenario)
    try:
        problems = differences(scenario, replay(scenario, recorded, strict=True))
    except Differs as error:
        problems = [str(error)]
    assert problems
