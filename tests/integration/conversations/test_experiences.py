"""Experiences, however they came, are one for each problem: told, found, used again, changed, erased."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest
from pydantic import ValidationError

from jiyi.errors import InvalidRequest, NotFound
from jiyi.protocol.base import encode_cursor
from jiyi.protocol.conversation_commands import PersistentMemory, SearchOptions
from jiyi.protocol.conversations import ContextRequest
from jiyi.protocol.experiences import Experience
from models.conversations import actions, experiences
from models.db import valkey_keys
from models.db.valkey import valkey
from models.memory import archive
from tasks.conversations import injection
from tasks.conversations.commands import find_experiences_like
from tests.integration.conftest import SignIn
from tests.integration.conversations.talk import nodes
from tests.integration.erasure.test_erasure import erase
from tests.integration.growth.growing import AGENT, STEPS, experienced
from tests.integration.growth.growing import run as grow
from tests.integration.growth.living import act, actor
from tests.integration.memory.test_inbox import observed, save

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")

JAM, GLAZE = "the printer jams on the second tray", "釉面总是开裂"
AS_EXPERIENCE = {"agent_id": AGENT, "memory_type": "experience"}


def tell(group: str, problem: str = JAM, **fields: Any) -> Experience:
    told = {"pain_pattern": problem, "solution_steps": STEPS, "outcome": "success", **fields}
    return act(group, experiences.store_experience, **told)  # type: ignore[no-any-return]


def update(group: str, experience_id: UUID, **fields: Any) -> Experience:
    return act(group, experiences.update_experience, id=experience_id, **fields)  # type: ignore[no-any-return]


def listed(group: str, **filters: Any) -> list[Experience]:
    return act(group, experiences.list_experiences, agent_id=AGENT, **filters).rows  # type: ignore[no-any-return]


def in_force(group: str) -> list[UUID]:
    return [row["node_id"] for row in nodes(group) if row["superseded_at"] is None]


@pytest.fixture
def _no_workers() -> None:
    """An erasure does not wait for workers that other tests have killed."""
    valkey().delete(valkey_keys.WORKERS)


@pytest.mark.usefixtures("_no_workers")
def test_an_experience_is_told_listed_changed_and_erased(group: str) -> None:
    first, second = tell(group), tell(group, GLAZE, solution_steps=["慢慢降温"], outcome="partial")
    assert [(row.pain_pattern, row.outcome) for row in listed(group)] == [
        (GLAZE, "partial"),
        (JAM, "success"),
    ]
    page = act(group, experiences.list_experiences, agent_id=AGENT, limit=1)
    for filters, found in (
        ({"cursor": page.next}, first),
        ({"words": "开裂"}, second),
        ({"outcome": "success"}, first),
    ):
        assert [row.id for row in listed(group, **filters)] == [found.id]
    changed = update(group, second.id, outcome="success", tools_used=["kiln"])
    assert (changed.outcome, changed.created_at) == ("success", second.created_at)
    assert (changed.solution_steps, changed.tools_used) == (["慢慢降温"], ["kiln"])
    assert changed.id in in_force(group)
    assert second.id not in in_force(group)
    assert act(group, experiences.delete_experience, id=changed.id).count == 2
    erase(group, node_ids=[changed.id, second.id])
    assert [row.id for row in listed(group)] == [first.id]
    with pytest.raises(NotFound, match="no current experience"):
        act(group, experiences.get_experience, id=changed.id)


def test_the_same_problem_is_one_however_it_came(group: str) -> None:
    experienced(group, times=1)
    about = {"solution_steps": ["call a technician"], "outcome": "failed"}
    act(group, actions.store_memory, content=JAM, metadata=about, **AS_EXPERIENCE)
    uri = f"agent://{AGENT}/experience/printer"
    act(group, actions.add_resource, uri=uri, content=f"{JAM} | Steps: 1. dust it")
    save(observed(group, JAM.upper(), agent_id=AGENT, kind="experience", uri=f"agent://{AGENT}/experience/x"))
    [row] = listed(group)
    assert row.solution_steps == [*STEPS, "call a technician", "dust it"]
    assert (row.outcome, row.reuse_count) == ("success", 3)
    assert in_force(group) == [row.id]
    assert grow() > 0, "what is used again may make a pattern"


def test_what_only_a_program_stored_is_found_by_its_problem_and_counted(group: str) -> None:
    about = {"solution_steps": ["加索引"], "outcome": "success", "reuse_count": 99}
    act(group, actions.store_memory, content="导出报表很慢", metadata=about, **AS_EXPERIENCE)
    [row] = listed(group)
    assert (row.solution_steps, row.outcome, row.reuse_count) == (["加索引"], "success", 0)
    injection.build(actor(group), ContextRequest(agent_id=AGENT, query="报表导出太慢了怎么办"))
    asked = SearchOptions(agent_id=AGENT, query="导出报表太慢")
    [found] = find_experiences_like(actor(group), asked).rows
    assert (found.id, found.reuse_count) == (row.id, 1)


def test_a_correction_replaces_what_the_experience_said(group: str) -> None:
    experienced(group, times=3)
    [before] = listed(group)
    text = "the printer jams on the third tray | Steps: 1. open it | Outcome: partial"
    done = act(group, archive.update_memory, id=before.id, description=text)
    [after] = listed(group)
    assert (after.id, after.pain_pattern) == (done.node_id, "the printer jams on the third tray")
    assert (after.solution_steps, after.outcome, after.reuse_count) == (["open it"], "partial", 2)
    assert (after.created_at, after.confidence) == (before.created_at, before.confidence)


def test_an_export_brings_experiences_back(group: str) -> None:
    tell(group)
    exported = act(group, actions.export, agent_id=AGENT).rows
    wanted = [PersistentMemory.model_validate(memory.model_dump(exclude={"node_id"})) for memory in exported]
    other = f"{group}-other"
    assert act(other, actions.import_memories, memories=wanted).count == 1
    assert [row.solution_steps for row in listed(other)] == [STEPS]


@pytest.mark.usefixtures("_no_workers")
def test_erasing_what_a_merged_experience_came_of_erases_it(group: str) -> None:
    first = observed(group, JAM, agent_id=AGENT, kind="experience", uri=f"agent://{AGENT}/experience/x")
    save(first)
    tell(group)
    erase(group, node_ids=[first.event_id])
    assert (listed(group), nodes(group)) == ([], [])


def test_people_see_how_it_ended_and_how_often_it_was_used(sign_in: SignIn, group: str) -> None:
    experienced(group, times=3)
    page = sign_in("viewer").get(f"/conversations/{group}/{AGENT}").text
    assert "it worked" in page
    assert "used 2 times since" in page


def test_bad_input_is_refused_with_its_field(group: str) -> None:
    first, second = tell(group), tell(group, GLAZE)
    told = {"problem": JAM, "outcome": "success"}
    for error, reason, bad in (
        (
            InvalidRequest,
            f"pain_pattern: is the problem of the experience {first.id}",
            lambda: update(group, second.id, pain_pattern=JAM),
        ),
        (InvalidRequest, "cursor", lambda: listed(group, cursor=encode_cursor(uuid4()))),
        (NotFound, "no current", lambda: act(f"{group}-other", experiences.get_experience, id=first.id)),
        (ValidationError, "give what is to change", lambda: update(group, first.id)),
        (ValidationError, "outcome", lambda: tell(group, **told | {"outcome": "great"})),
        (ValidationError, "solution_steps", lambda: tell(group, **told, solution_steps=["x"] * 21)),
    ):
        with pytest.raises(error, match=reason):
            bad()
    assert act(group, experiences.delete_experience, id=uuid4()).count == 0
