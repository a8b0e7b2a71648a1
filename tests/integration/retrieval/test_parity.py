"""Stanford's saved memories: the same nodes in the same order with the same scores as the original's own
code.

A subset of what ``bench.parity`` does through the whole pipeline, here by functions and in seconds.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bench.parity import find, load, made_up_vector, normalised_cases
from jiyi.cli import stanford
from jiyi.cli.stanford import SavedMemory
from jiyi.protocol.retrieval import Answer, RetrievalRequest
from models.memory.work import DEPTH, STRENGTHEN
from tasks.framework.work import Batch, run_until_idle
from tasks.memory import settle_depth, strengthen
from tasks.retrieval.retrieve import retrieve
from tests.integration.memory.test_inbox import rows, save
from tests.integration.waiting import until

_CHECKOUT = Path(__file__).resolve().parents[3]
# Read at import: the settings of the machine are put away before the first test.
STANFORD = Path(os.environ.get("JIYI_SHARED_DATA") or _CHECKOUT.parent / "shared" / "data") / "stanford"

#: Memories made by hand, and what the original answered for them: in every checkout.
RECORDED = Path(__file__).parent / "stanford"

pytestmark = pytest.mark.usefixtures("database")
needs_saved = pytest.mark.skipif(
    not STANFORD.is_dir(), reason=f"no saved memories in {STANFORD} (JIYI_SHARED_DATA)"
)

SAVED = ("klaus_step_3_9", "isabella_step_3_8", "klaus_step_1_12")
#: But the one of 10,000 nodes, which the benchmark sees to.
HAND_MADE = ("one_node", "identical_key_and_poignancy", "idle_substring", "chat_only_newest", "decay_one")
EDGE = "cases_edge.json"
AGENT = "persona"
MESSAGE = 500


def remember(group: str, name: str, *, made_up: bool = False) -> SavedMemory:
    memory = load(find(RECORDED if made_up else STANFORD, name), made_up=made_up)
    events = stanford.events(memory, group, AGENT)
    for start in range(0, len(events), MESSAGE):
        save(*events[start : start + MESSAGE])
    return memory


def cases_of(file: str, name: str) -> list[dict[str, Any]]:
    cases = [
        case
        for case in normalised_cases((RECORDED if file == EDGE else STANFORD) / file)
        if case["memory"] == name
    ]
    assert cases, f"{file} has no case of {name}"
    return cases


def check(group: str, memory: SavedMemory, case: dict[str, Any]) -> None:
    request = RetrievalRequest(
        group_id=group,
        agent_id=AGENT,
        queries=case["focal_texts"],
        top_k=case["n"],
        mode="stanford",
        touch=False,
        now=memory.now or datetime.now(UTC),
        embedding_model=stanford.ORIGINAL_MODEL,
        vectors=[
            made_up_vector(text) if case["made_up"] else memory.vectors[text] for text in case["focal_texts"]
        ],
    )
    answer = retrieve(request)
    assert isinstance(answer, Answer)  # nothing is touched
    groups = answer.groups
    assert len(groups) == len(case["expected"])
    for got, expected in zip(groups, case["expected"], strict=True):
        ranked = [(node.provenance["node_id"], node.score) for node in got.retrieved_nodes]
        assert [node_id for node_id, _ in ranked] == [node_id for node_id, _ in expected]
        assert [score for _, score in ranked] == pytest.approx([score for _, score in expected], abs=1e-4)


def work(group: str, kind: str, handler: Callable[[Batch], None]) -> None:
    """Until nothing of the kind is owed to the group: running workers may have a part of it in hand."""

    def done() -> bool:
        run_until_idle(kind, handler)
        return not rows(
            "SELECT subject_id FROM pending_work WHERE group_id = :g AND kind = :k", g=group, k=kind
        )

    until(done, what=f"{kind} is still owed")


@needs_saved
@pytest.mark.parametrize("name", SAVED)
def test_questions_and_sequences_of_them_are_answered_as_by_the_original(group: str, name: str) -> None:
    memory = remember(group, name)
    sequences = cases_of("cases_sequence.json", name)  # in which each question touches
    assert all(len(case["focal_texts"]) > 1 for case in sequences)
    for case in cases_of("cases_single.json", name) + sequences:
        check(group, memory, case)


@pytest.mark.parametrize("name", HAND_MADE)
def test_edge_cases_are_answered_as_by_the_original(group: str, name: str) -> None:
    memory = remember(group, name, made_up=True)
    for case in cases_of(EDGE, name):
        check(group, memory, case)


@needs_saved
@pytest.mark.parametrize("name", SAVED)
def test_strengths_depths_numbers_and_counters_equal_those_saved(group: str, name: str) -> None:
    memory = remember(group, name)
    work(group, STRENGTHEN, strengthen)
    work(group, DEPTH, settle_depth)
    strengths: dict[str, dict[str, int]] = {"kw_strength_event": {}, "kw_strength_thought": {}}
    for row in rows("SELECT memory_type, keyword, strength FROM kw_strength WHERE group_id = :g", g=group):
        strengths[f"kw_strength_{row['memory_type']}"][str(row["keyword"])] = int(str(row["strength"]))
    assert strengths == {half: memory.kw_strength[half] for half in strengths}
    numbers = ("type", "depth", "node_count", "type_count")
    found = rows("SELECT * FROM memory_nodes WHERE group_id = :g", g=group)
    stored = {row["provenance"]["node_id"]: {name: row[name] for name in numbers} for row in found}
    assert stored == {node["node_id"]: {name: node[name] for name in numbers} for node in memory.nodes}
    (agent,) = rows("SELECT * FROM agents WHERE group_id = :g", g=group)
    for counter in ("importance_trigger_curr", "importance_ele_n"):
        assert agent[counter] == memory.scratch[counter]


@needs_saved
def test_a_second_import_changes_nothing(group: str) -> None:
    memory = remember(group, SAVED[2])
    remember(group, SAVED[2])
    (agent,) = rows("SELECT * FROM agents WHERE group_id = :g", g=group)
    assert agent["node_count"] == len(memory.nodes)
    check(group, memory, cases_of("cases_single.json", SAVED[2])[0])
