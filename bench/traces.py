"""What the original did, call by call, replayed through our code: does it ask, conclude and count the same?

    python -m bench.traces FOLDER [--json]

``FOLDER`` holds ``trace_reflect.json`` and ``trace_perceive.json``: recorded from the original with a
scripted model. A scenario matches when the questions in their order, the thoughts, their evidence and the
counters are those recorded. Where the original has a defect that we do not copy, what we do instead is
checked, and the scenario is an exception.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

from rich.console import Console
from rich.table import Table

from bench.support import traces_perceive
from bench.support.script import Call, Differs, Replay, conversation, memory_of, pools_of
from engine import reflection as reflect
from engine.reflection import MemoryStatement, Origin, ReflectionResult, events_of
from jiyi.errors import BadReply
from jiyi.protocol.events import Observation

NAMESPACE = UUID("5f6a2f6c-54c0-5d5f-9d1e-3b6f6f2f5a77")
AGENT = "Maria Lopez"
#: ``importance_trigger_max`` of the recorded persona.
MAXIMUM = 150
TIME_FORMAT = "%Y-%m-%d %H:%M:%S"


@dataclass(slots=True)
class Outcome:
    """What our code made of a scenario."""

    counters: tuple[float, int]
    reflection: ReflectionResult = field(default_factory=lambda: ReflectionResult([], []))
    conversation: list[Any] = field(default_factory=list)
    error: str = ""
    #: Statement → (number of the focal point, position among what was retrieved for it).
    places: dict[UUID, tuple[int, int]] = field(default_factory=dict)

    @property
    def thoughts(self) -> list[Any]:
        return [*self.reflection.thoughts, *self.conversation]

    @property
    def texts(self) -> list[str]:
        return [thought.description for thought in self.thoughts]


@dataclass(frozen=True, slots=True)
class Report:
    matched: list[str]
    exceptions: dict[str, str]
    failed: dict[str, str]

    @property
    def scenarios(self) -> int:
        return len(self.matched) + len(self.exceptions) + len(self.failed)


def replay(scenario: dict[str, Any], everything: list[dict[str, Any]], *, strict: bool) -> Outcome:
    """Our reflection on a recorded scenario: what was retrieved and what the model said are the recorded
    ones.

    ``strict``: every question must be the recorded one, in its turn. Otherwise each gets the reply that was
    recorded for it, wherever that is: for scenarios in which we go on where the original broke off, or the
    other way round.

    Raises:
        Differs: (``strict``) something else was asked, or not everything.
    """
    curr, ele_n = scenario["scratch_before"]
    outcome = Outcome((curr, ele_n))
    calls = [Call.of(raw) for raw in scenario["calls"]]
    llm = Replay(calls, [Call.of(raw) for other in everything for raw in other["calls"]], strict=strict)
    try:
        if reflect.is_due(curr):
            pools = pools_of(scenario, everything)
            window = reflect.window(ele_n, original=True)
            latest = [
                MemoryStatement(uuid5(NAMESPACE, f"latest {n}"), text)
                for n, text in enumerate(memory_of(everything)[-window:])
            ]
            outcome.reflection = reflect.reflect(
                AGENT, latest, llm, _retrieval(pools, llm, outcome), original=True
            )
            outcome.counters = reflect.counters_after((curr, ele_n), (curr, ele_n), MAXIMUM, original=True)
        if scenario["tag"].startswith("chat_end"):
            said = conversation(everything) if scenario["tag"] != "chat_end_no_chat_node" else []
            if said:
                chats = [uuid5(NAMESPACE, "chat")]
                outcome.conversation = reflect.reflect_on_conversation(AGENT, chats, said, llm, original=True)
    except BadReply as error:
        outcome = Outcome(
            (curr, ele_n), error=f"{type(error).__name__}: {error}"
        )  # a failed reflection keeps nothing
    if strict:
        llm.finished([thought.description for thought in outcome.thoughts])
    return outcome


def _retrieval(pools: list[list[str]], llm: Replay, outcome: Outcome) -> reflect.Retrieve:
    """The recorded memories of each focal point; each gets an id that says where it stood."""

    def look_up(points: list[str]) -> list[list[MemoryStatement]]:
        for point in points:
            llm.embedded(point)
        order = list(dict.fromkeys(points))
        found = {
            point: [MemoryStatement(uuid5(NAMESPACE, f"{n} {i}"), text) for i, text in enumerate(pools[n])]
            for n, point in enumerate(order)
        }
        for n, point in enumerate(order):
            outcome.places.update({statement.node_id: (n, i) for i, statement in enumerate(found[point])})
        return [found[point] for point in points]

    return look_up


def differences(scenario: dict[str, Any], outcome: Outcome) -> list[str]:
    """What is not as recorded: the thoughts, their evidence, their expiry, the counters."""
    found = []
    if outcome.error:
        found.append(outcome.error)
    if list(outcome.counters) != scenario["scratch_after"]:
        found.append(f"counters {outcome.counters}, recorded {scenario['scratch_after']}")
    recorded = scenario["new_nodes"]
    if len(outcome.thoughts) != len(recorded):
        return [*found, f"{len(outcome.thoughts)} thoughts, recorded {len(recorded)}"]
    if not recorded:
        return found
    now = datetime.strptime(recorded[0]["created"], TIME_FORMAT).replace(tzinfo=UTC)
    origin = Origin(group_id="g", agent_id=AGENT, now=now, reflection_id=NAMESPACE, llm="recorded")
    ids: dict[UUID, str] = {}
    for event, node in zip(events_of(outcome.thoughts, origin), recorded, strict=True):
        made = event.payload
        assert isinstance(made, Observation)
        assert made.expires_at is not None
        ours = {
            "description": made.description,
            "subject": made.subject,
            "predicate": made.predicate,
            "object": made.object,
            "poignancy": made.poignancy,
            "keywords": sorted(made.keywords or []),
            "type": made.node_type,
            "created": event.occurred_at.strftime(TIME_FORMAT),
            "expiration": made.expires_at.strftime(TIME_FORMAT),
            "embedding_key": made.embedding_key or made.description,
        }
        found += [
            f"{name} {value!r}, recorded {node[name]!r}"
            for name, value in ours.items()
            if value != node[name]
        ]
        if len(made.evidence) != len(node["filling"]):
            found.append(f"evidence {len(made.evidence)}, recorded {node['filling']}")
            continue
        # A place among what was retrieved is one memory throughout the scenario, so its recorded id must be,
        # too.
        found += [
            f"evidence {outcome.places.get(own)}: {ids[own]} before, {name} now"
            for own, name in zip(made.evidence, node["filling"], strict=True)
            if ids.setdefault(own, name) != name
        ]
    return found


def reflect_scenarios(path: Path) -> Report:
    """Every scenario of the trace: matched, an exception with the defect that is not copied, or failed."""
    everything = json.loads(path.read_text(encoding="utf-8"))
    matched, exceptions, failed = [], {}, {}
    for scenario in everything:
        tag = scenario["tag"]
        name = f"reflect:{tag}"
        if tag in EXCEPTIONS:
            defect, instead = EXCEPTIONS[tag]
            outcome = replay(scenario, everything, strict=False)
            if instead(outcome):
                exceptions[name] = defect
            else:
                failed[name] = f"{defect} not as documented: {outcome.error or outcome.texts}"
            continue
        try:
            problems = differences(scenario, replay(scenario, everything, strict=True))
        except Differs as error:
            problems = [str(error)]
        if problems:
            failed[name] = "; ".join(problems[:5])
        else:
            matched.append(name)
    return Report(matched, exceptions, failed)


def perceive_scenarios(folder: Path) -> Report:
    """Every tick of the trace of perceiving, by the original's rules and by our own
    (:mod:`bench.support.traces_perceive`).
    """
    report = Report([], {}, {})
    for name, same, defect in traces_perceive.perceive_scenarios(folder):
        if same:
            report.matched.append(name)
        elif defect:
            report.exceptions[name] = defect
        else:
            report.failed[name] = "not as recorded"
    return report


def _kept_nothing(outcome: Outcome) -> bool:
    """A reply that does not fit fails the reflection as a whole: nothing is stored, the counters stay, it is
    repeated.
    """
    return outcome.error.startswith("BadReply") and not outcome.thoughts and outcome.counters[1] != 0


def _whole(outcome: Outcome) -> bool:
    return (
        not outcome.error and outcome.counters == (MAXIMUM, 0) and len(outcome.reflection.focal_points) == 3
    )


#: Scenario → the defect (``research/generative_agents.md``, Q numbers), and what we do instead.
EXCEPTIONS: dict[str, tuple[str, Callable[[Outcome], bool]]] = {
    "focal_json_list_falls_back": (
        "Q6: an answer that is JSON as it should be is refused",
        lambda found: _whole(found) and found.reflection.focal_points == ["a", "b", "c"],
    ),
    "insight_no_because": ("Q9: 'this is blank' is stored, resting on node_1", _kept_nothing),
    "insight_out_of_range": ("Q9: 'this is blank' is stored, resting on node_1", _kept_nothing),
    "insight_inner_period": (
        "Q12: an insight is cut at an inner full stop",
        lambda found: _whole(found) and set(found.texts) == {"Dr. Smith is kind"} and _evidence(found) == {2},
    ),
    "insight_duplicate_text": (
        "Q12: of the same insight given twice only the last evidence is kept",
        lambda found: _whole(found) and found.texts == ["same"] * 3 and _evidence(found) == {2},
    ),
    "triple_fail": ("Q7: a triple that cannot be read becomes (name, name, is)", _kept_nothing),
    "poignancy_int_json": (
        "Q6: an answer that is JSON as it should be is refused",
        lambda found: _whole(found) and found.thoughts[0].poignancy == 5 and len(found.thoughts) == 9,
    ),
    "poignancy_zero": (
        "Q14: the reflection fails, and the memories keep being marked as accessed",
        _kept_nothing,
    ),
    "poignancy_junk": (
        "Q14: the reflection fails, and the memories keep being marked as accessed",
        _kept_nothing,
    ),
    "chat_end_missed_tick": (
        "Q11: a conversation whose end falls between two ticks is forgotten",
        lambda found: len(found.conversation) == 2 and found.counters == (40, 7),
    ),
    "chat_end_no_chat_node": (
        "Q11: a conversation without a chat memory is a crash",
        lambda found: not found.thoughts and not found.error and found.counters == (40, 7),
    ),
}


def _evidence(outcome: Outcome) -> set[int]:
    return {len(thought.evidence) for thought in outcome.thoughts}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    parts = [reflect_scenarios(options.folder / "trace_reflect.json"), perceive_scenarios(options.folder)]
    report = Report(
        [name for part in parts for name in part.matched],
        {name: defect for part in parts for name, defect in part.exceptions.items()},
        {name: reason for part in parts for name, reason in part.failed.items()},
    )
    if options.json:
        print(
            json.dumps(
                {
                    "scenarios": report.scenarios,
                    "matched": len(report.matched),
                    "exceptions": [f"{name} ({defect})" for name, defect in report.exceptions.items()],
                    "failed": report.failed,
                },
                ensure_ascii=False,
            )
        )
    else:
        _show(report)
    return 1 if report.failed else 0


def _show(report: Report) -> None:
    table = Table(
        "scenario",
        "",
        title=f"{len(report.matched)} of {report.scenarios} as the original",
        title_justify="left",
    )
    for name in report.matched:
        table.add_row(name, "[green]the same[/green]")
    for name, defect in report.exceptions.items():
        table.add_row(name, f"[yellow]better[/yellow]: {defect}")
    for name, reason in report.failed.items():
        table.add_row(name, f"[red]differs[/red]: {reason}")
    Console().print(table)


if __name__ == "__main__":
    raise SystemExit(main())
