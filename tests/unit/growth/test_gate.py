"""The gate: what a candidate must be, and that neither it nor an agent's file gives orders to a model."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from engine.growth.skills import GateReport, KnownArtifact, SkillCandidate, inspect_candidate
from jiyi.protocol.actions import TABLE
from jiyi.protocol.identity import override_in, problems_of
from jiyi.protocol.proposals import SkillProposal, Status
from models.growth.proposals import possible
from tests.unit.text.labelled import labelled

BODY = """# Free the printer

## Steps

1. Open the second tray.
2. Pull the sheet out slowly.
3. Close the tray and print a test page."""


def report(*known: KnownArtifact, heading: bool = True, **fields: Any) -> GateReport:
    good = {"name": "Free the printer", "triggers": ["printer jams"], "body": BODY, "confidence": 0.9}
    candidate = SkillCandidate.model_validate({**good, **fields})
    return inspect_candidate(candidate, known, near_duplicate=0.9, heading=heading)


def other(**fields: Any) -> KnownArtifact:
    return KnownArtifact(artifact_id=uuid4(), name="Other", **fields)


@pytest.mark.parametrize(
    ("fields", "issue"),
    [
        ({"name": " "}, "name: missing"),
        ({"body": "# T\n" + "x" * 96}, ""),
        ({"body": "# T\n" + "x" * 95}, "fewer than 100"),
        ({"confidence": 0.7}, ""),
        ({"confidence": 0.69}, "0.69 is below 0.70"),
    ],
)
def test_what_a_candidate_needs(fields: dict[str, Any], issue: str) -> None:
    found = report(**fields)
    assert found.passed == (not issue)
    assert issue in "".join(found.issues)


def test_a_good_one_passes_and_of_others_every_issue_is_told_at_once() -> None:
    good = report()
    assert (good.passed, good.issues, good.confidence) == (True, [], 0.9)
    assert report(confidence=7).confidence == 1.0
    assert len(report(name="", body="short", confidence=0.1).issues) == 4
    for body in ("x" * 200, "#no space " + "x" * 200, "text # not at the start " + "x" * 200):
        assert "heading" in report(body=body).issues[0]
        assert report(body=body, heading=False).passed


def test_what_another_says_is_refused_by_likeness_words_and_trigger() -> None:
    assert not report(other(similarity=0.9)).passed
    assert report(other(similarity=0.89)).passed
    assert not report(other(body=BODY.upper())).passed
    taken = report(other(triggers=["Printer  JAMS"]))
    assert taken.issues == ["triggers: 'printer jams' is a trigger of 'Other' already"]


@labelled
def test_orders_to_the_model_are_refused(order: str) -> None:
    assert "orders" in report(body=f"{BODY}\n4. {order}").issues[0]
    assert "orders" in report(triggers=[order]).issues[0]
    of_a_file = problems_of(f"Be polite. {order}", 1_000)
    assert any("override instructions" in problem for problem in of_a_file)


@labelled
def test_each_status_has_its_decisions(status: Status, enabled: bool, verbs: list[str]) -> None:
    assert possible(SkillProposal.model_construct(status=status, enabled=enabled)) == verbs


@labelled
def test_what_only_speaks_of_it_is_no_order(said: str) -> None:
    assert override_in(said) is None


def test_a_skill_of_100_kb_has_no_way_in() -> None:
    body = "# T\n" + "x" * 100_000
    with pytest.raises(ValueError, match="body"):
        report(body=body)
    doors = [action for action in TABLE.values() if action.name.partition(".")[0] == "proposals"]
    assert doors
    for door in doors:
        with pytest.raises(ValueError, match=r"body\n +Extra inputs are not permitted"):
            door.request.model_validate({"id": str(uuid4()), "agent_id": "helper", "body": body})
