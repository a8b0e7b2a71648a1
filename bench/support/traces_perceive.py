"""The recorded ticks of the original's ``perceive``, replayed: the same memories, counters and keyword
strengths?

Each tick's sight goes through :mod:`jiyi.client.perceive`, the intake's own ``store`` and the tasks, in a
database of its own, with a scripted LLM that gives the recorded replies. It runs twice: with
``stanford=True`` every text must be the original's; with Jiyi's own rules the texts that the original garbles
(Q5) are listed as what is not copied.

The memory that the recording starts from is not among the data. What the recording says of it is put in its
place: the number of nodes and of events (from the first new node), the counters (from the first tick) and the
strengths that the ticks cannot have brought. Which triples were its latest is not known, so that the first
tick stores all it sees, as recorded, shows nothing about them. From the second tick on all that is compared
with was stored in the replay.
"""

from __future__ import annotations

import importlib
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID, uuid4

from sqlalchemy import text

from engine.providers.questions import Poignancy, Poignant, Question
from jiyi.client.perceive import Seen, observations
from jiyi.protocol import events as wire
from models.db.connection import unit_of_work
from models.db.scope import whole_service
from models.memory.inbox import store
from models.memory.work import ACCUMULATE, APPRAISE, STRENGTHEN
from tasks import appraisal
from tasks.appraisal import appraise_memories
from tasks.framework.work import run_until_idle
from tasks.memory import accumulate, strengthen
from workers import ephemeral

TRACE = "trace_perceive.json"
AGENT = "Klaus Mueller"
#: The persona stands here, in this arena; other arenas' events are out of its sight (the recording names
#: those).
POSITION, ARENA = (0, 0), "room"
MUTILATED = (
    "Q5: a description with brackets is cut to three words and what follows the last one, less a character"
)
CHAT_FIRST = (
    "no defect: a chat is stored before its event, and asked about before it; the original asks the other way"
    " round"
)

Scenario = tuple[str, bool, str | None]


class Recorded:
    """The recorded replies to the questions about importance; notes what is asked.

    A question that was not recorded (a text that is not garbled) gets the reply of the next one of its kind
    that was.
    """

    model = "recorded"

    def __init__(self, step: Mapping[str, Any]) -> None:
        self.open = poignancy_calls(step)
        self.asked: list[tuple[str, str]] = []

    def ask(self, question: Question[Any]) -> Any:
        assert isinstance(question, Poignancy)
        kind = f"{question.kind}_poignancy"
        self.asked.append((kind, question.text))
        same_kind = [call for call in self.open if call[0] == kind]
        call = next((call for call in same_kind if call[1] == question.text), next(iter(same_kind), None))
        if call is None:  # one too many: the comparison will say so
            return Poignant(poignancy=1)
        self.open.remove(call)
        return Poignant(poignancy=int(json.loads(call[2])["output"]))


def poignancy_calls(step: Mapping[str, Any]) -> list[list[str]]:
    return [call for call in step["calls"] if call[0].endswith("_poignancy")]


def sight(step: Mapping[str, Any]) -> Iterator[Seen]:
    """What the persona can see: its own arena, at Euclidean distances."""
    for tile in step["tiles"]:
        if tile.get("arena", ARENA) == ARENA:
            for subject, predicate, object_, description in tile["events"]:
                yield Seen(subject, predicate, object_, description, math.dist(tile["xy"], POSITION))


def perceive_scenarios(folder: Path) -> list[Scenario]:
    """(name, whether all is as recorded, the named defect that is not copied or None) of each tick, by both
    rules.
    """
    with ephemeral.folder("jiyi-trace-") as home, ephemeral.database(home, embedder="hashing"):
        importlib.import_module("workers.app")  # reads the settings, so not before they are there
        with whole_service():
            return replay(folder)


def replay(folder: Path) -> list[Scenario]:
    """The same in the database that the settings name."""
    trace = json.loads((folder / TRACE).read_text(encoding="utf-8"))
    return [*_replay(trace, stanford=True), *_replay(trace, stanford=False)]


def _replay(trace: Mapping[str, Any], *, stanford: bool) -> Iterator[Scenario]:
    rules = "stanford" if stanford else "own rules"
    group = f"trace-{uuid4().hex[:8]}"
    _put_start(group, trace)
    for number, step in enumerate(trace["steps"], start=1):
        recorded = Recorded(step)
        one_by_one = ephemeral.environment(llm_questions="1")  # so asked in order
        with one_by_one, patch.multiple(appraisal, llm=lambda recorded=recorded: recorded):
            returned = _tick(group, trace, step, stanford=stanford)
        differing = set(_differences(group, step, returned, recorded.asked))
        name = f"perceive, tick {number} ({rules})"
        yield _verdict(name, step, differing, stanford=stanford)
    yield f"perceive, keyword strengths ({rules})", _strengths(group) == trace["kw_strength_event"], None


def _verdict(name: str, step: Mapping[str, Any], differing: set[str], *, stanford: bool) -> Scenario:
    brackets = any("(" in (seen.description or "") for seen in sight(step))
    if differing == {"order of calls"} and any(node["type"] == "chat" for node in step["new_nodes"]):
        return name, False, CHAT_FIRST
    if not stanford and brackets and differing and differing <= {"texts", "calls"}:
        return name, False, MUTILATED
    return name, not differing, None


def _tick(group: str, trace: Mapping[str, Any], step: Mapping[str, Any], *, stanford: bool) -> list[UUID]:
    """The ids that the original would return: of the new events."""
    made = observations(
        AGENT,
        sight(step),
        utterances=[(speaker, said) for speaker, said in trace["chat"]],
        bandwidth=trace["att_bandwidth"],
        retention=trace["retention"],
        stanford=stanford,
    )
    at = datetime.fromisoformat(step["time"]).replace(tzinfo=UTC)
    observed = []
    for item in made:
        payload = {name: value for name, value in item.items() if name not in ("agent_id", "event_id")}
        observed.append(
            wire.build(
                {
                    "type": "memory.observed",
                    "group_id": group,
                    "agent_id": AGENT,
                    "event_id": item["event_id"],
                    "occurred_at": at,
                    "payload": payload,
                }
            )
        )
    with unit_of_work() as connection:
        store(connection, observed)
    run_until_idle(APPRAISE, appraise_memories)
    run_until_idle(STRENGTHEN, strengthen)
    run_until_idle(ACCUMULATE, accumulate)
    stored = {node["node_id"] for node in _nodes(group, step)}
    return [
        UUID(str(item["event_id"]))
        for item in made
        if item["event_id"] in stored and item.get("node_type") != "chat"
    ]


def _differences(
    group: str, step: Mapping[str, Any], returned: list[UUID], asked: list[tuple[str, str]]
) -> Iterator[str]:
    nodes = _nodes(group, step)
    names = {node["node_id"]: f"node_{node['node_count']}" for node in nodes}
    if [names[node_id] for node_id in returned] != step["returned"] or len(nodes) != len(step["new_nodes"]):
        yield "returned"
        return
    for node, expected in zip(nodes, step["new_nodes"], strict=True):
        if any(node[key] != expected[key] for key in ("description", "embedding_key")):
            yield "texts"
        elif node["poignancy"] != expected["poignancy"]:
            yield "poignancy"
        same = ("node_count", "type_count", "type", "depth", "subject", "predicate", "object")
        times = (
            node["created_at"] == node["last_accessed"],
            node["created_at"].strftime("%Y-%m-%d %H:%M:%S"),
        )
        filling = [names.get(UUID(part), part) if isinstance(part, str) else part for part in node["filling"]]
        if (
            any(node[key] != expected[key] for key in same)
            or times != (True, expected["created"])
            or node["expires_at"]
            or sorted(node["keywords"]) != expected["keywords"]
            or filling != expected["filling"]
        ):
            yield "nodes"
    calls = [tuple(call[:2]) for call in poignancy_calls(step)]
    if Counter(asked) != Counter(calls):
        yield "calls"
    elif asked != calls:
        yield "order of calls"
    agent = _rows(
        "SELECT importance_trigger_curr, importance_ele_n FROM agents WHERE group_id = :g", g=group
    )[0]
    if any(agent[name] != step[name] for name in ("importance_trigger_curr", "importance_ele_n")):
        yield "counters"


def _put_start(group: str, trace: Mapping[str, Any]) -> None:
    """An agent that stands where the recording begins: numbering, counters and strengths, without the
    memories themselves.
    """
    first = trace["steps"][0]
    node = first["new_nodes"][0]
    spent = sum(new["poignancy"] for new in first["new_nodes"] if new["type"] == "event")
    counters = {
        "importance_trigger_curr": first["importance_trigger_curr"] + spent,
        "importance_ele_n": (
            first["importance_ele_n"] - sum(new["type"] == "event" for new in first["new_nodes"])
        ),
    }
    events = node["type_count"] - 1
    numbers = {"event": events, "thought": node["node_count"] - 1 - events}
    with unit_of_work() as connection:
        configured = {
            "type": "agent.configured",
            "group_id": group,
            "agent_id": AGENT,
            "payload": {"counters": counters},
        }
        store(connection, [wire.build(configured)])
        connection.execute(
            text("UPDATE agents SET node_count = :count, type_counts = :types WHERE group_id = :group"),
            {"count": node["node_count"] - 1, "types": json.dumps(numbers), "group": group},
        )
        for keyword, strength in _strengths_before(trace).items():
            connection.execute(
                text("INSERT INTO kw_strength VALUES (:g, :a, 'event', :k, :s)"),
                {"g": group, "a": AGENT, "k": keyword, "s": strength},
            )


def _strengths_before(trace: Mapping[str, Any]) -> Counter[str]:
    """The strengths at the end, less one for each keyword of each recorded event that is not idle."""
    brought = Counter(
        keyword.lower()
        for step in trace["steps"]
        for node in step["new_nodes"]
        if node["type"] == "event" and f"{node['predicate']} {node['object']}" != "is idle"
        for keyword in node["keywords"]
    )
    return Counter(trace["kw_strength_event"]) - brought


def _nodes(group: str, step: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the tick stored."""
    at = datetime.fromisoformat(step["time"]).replace(tzinfo=UTC)
    return _rows(
        "SELECT n.*, a.last_accessed FROM memory_nodes n JOIN node_access a USING (node_id) "
        "WHERE n.group_id = :g AND n.created_at = :at ORDER BY n.node_count",
        g=group,
        at=at,
    )


def _strengths(group: str) -> dict[str, int]:
    found = _rows(
        "SELECT keyword, strength FROM kw_strength WHERE group_id = :g AND memory_type = 'event'", g=group
    )
    return {row["keyword"]: row["strength"] for row in found}


def _rows(sql: str, **parameters: Any) -> list[dict[str, Any]]:
    with unit_of_work() as connection:
        return [dict(row) for row in connection.execute(text(sql), parameters).mappings()]
