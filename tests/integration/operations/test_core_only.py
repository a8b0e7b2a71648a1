"""With ``JIYI_SUBJECTS=none`` the core works by itself, and what is switched off says so.

Promised: events are stored and retrieved; actions, calls, events and paths of subjects that are off are
refused with the sentence that says how to switch them on; the API's document and the menu lack them; an
erasure reaches their tables nevertheless.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from engine import subjects
from jiyi.protocol.appointments import CreateSchedule
from jiyi.protocol.items import ItemWrite, PutItems
from jiyi.protocol.openapi.document import PREFIX
from models.appointments.schedule_actions import create_schedule
from models.db.actions import Actor
from models.items.actions import put_items
from tests.integration.erasure.test_erasure import alone as alone  # noqa: PLC0414 - a fixture
from tests.integration.erasure.test_erasure import places
from tests.integration.memory.test_inbox import observed, save
from tests.integration.stores.kept import SIMPLE, Kept
from tests.integration.tiers.outputs import output

ROOT = Path(__file__).resolve().parents[3]
#: Tables of subjects in which the person stands before.
TABLES = {"items", "schedules", "store_items", "quarantine_logs"}
SWITCHED_OFF = (
    "is switched off in this deployment: add it to JIYI_SUBJECTS and restart the service"
    " (docs/configuration.md)"
)


@pytest.mark.long
@pytest.mark.usefixtures("alone", "nothing_owed")
def test_the_core_works_by_itself_and_what_is_off_says_so(group: str) -> None:
    person = f"Mia Quill{uuid4().hex[:8]}"
    put_items.perform(
        Actor(group), PutItems(items=[ItemWrite(namespace=["people"], key="one", value={"name": person})])
    )
    request = CreateSchedule(
        agent_id="klaus", kind="interval", every_seconds=3_600, task=f"Write to {person}"
    )
    save(
        observed(group),
        output(group, f"The first kiln of the spring was opened by {person}, and no cup had cracked."),
    )
    create_schedule.perform(Actor(group), request)
    stores = Kept(group)
    stores.apply(SIMPLE)
    stores.say(f"The cups are for {person}.")
    assert set(places(person)) >= TABLES

    told = of_core(group, person)

    assert (told["stored"], told["found"]) == (202, "Klaus planted nine apricot trees")
    for answer in ("items", "skills", "tiers"):
        assert told[answer].startswith("switched_off: the subject ")
        assert told[answer].endswith(SWITCHED_OFF)
    for answer, status in (("by_name", 404), ("path", 404), ("event", 422)):
        assert (told[answer][0], told[answer][1]["code"]) == (status, "switched_off"), told[answer]
        assert told[answer][1]["detail"].endswith(SWITCHED_OFF)
    assert told["no_path"][0] == 404
    assert "code" not in told["no_path"][1]
    document = told["document"]
    assert {subject.name for subject in subjects.ALL.values()}.isdisjoint(
        tag["name"] for tag in document["tags"]
    )
    assert f"{PREFIX}/events" in document["paths"]
    assert [
        path
        for path in document["paths"]
        if any(re.match(PREFIX + subject.paths, path) for subject in subjects.ALL.values())
    ] == []
    assert [
        address
        for address in ("/growth", "/stores", "/tiers", "/heartbeats")
        if f'href="{address}"' in told["menu"]
    ] == []
    assert told["agent"] == 200
    assert told["pages"] == {
        "/memories": 200,
        "/growth": 404,
        "/stores": 404,
        "/tiers": 404,
        "/heartbeats": 404,
    }
    assert (told["erased"], told["left"]) == ("done", 0)
    assert places(person) == []


def of_core(group: str, person: str) -> dict[str, Any]:
    """What a process of the core alone tells."""
    command = [sys.executable, "-m", "tests.integration.operations.core_only", group, person]
    environment = os.environ | {"JIYI_SUBJECTS": "none"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=280
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told
