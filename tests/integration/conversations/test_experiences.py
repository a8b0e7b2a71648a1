"""Experiences, however they came, are one for each problem: told, found, used again, changed, erased."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest
from pydantic import ValidationError

from jiyi.errors import InvalidRequest, NotFound
from jiyi.protocol.base import ById, OfAgents, encode_cursor
from jiyi.protocol.conversation_commands import (
    ImportMemories,
    MemoryEntryInput,
    PersistentMemory,
    SearchOptions,
)
from jiyi.protocol.conversations import ContextRequest
from jiyi.protocol.experiences import Experience, ListExperiences, TellExperience, UpdateExperience
from jiyi.protocol.recall import UpdateMemory
from models.conversations import actions, experiences
from models.db.actions import Actor
from models.memory import archive
from models.operations import worker_liveness
from tasks.conversations import injection
from tasks.conversations.commands import find_experiences_like
from tests.integration.conftest import SignIn
from tests.integration.conversations.talk import nodes
from tests.integration.erasure.test_erasure import erase
from tests.integration.growth.growing import AGENT, STEPS, experienced
from tests.integration.growth.growing import run as grow
from tests.integration.memory.test_inbox import observed, save

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")

JAM, GLAZE = "the printer jams on the second tray", "釉面总是开裂"


def me(group: str) -> Actor:
    return Actor(group, "test")


def tell(group: str, problem: str = JAM, **fields: Any) -> Experience:
    told = {"agent_id": AGENT, "pain_pattern": problem, "solution_steps": STEPS, "outcome": "success"}
    return experiences.store_experience.perform(me(group), TellExperience.model_validate(told | fields))


def update(group: str, experience_id: UUID, **fields: Any) -> Experience:
    asked = UpdateExperience(id=experience_id, **fields)
    return experiences.update_experience.perform(me(group), asked)


def listed(group: str, **filters: Any) -> list[Experience]:
    return experiences.list_experiences.perform(me(group), ListExperiences(agent_id=AGENT, **filters)).rows


def in_force(group: str) -> list[UUID]:
    return [row["node_id"] for row in nodes(group) if row["superseded_at"] is None]


@pytest.fixture
def _no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """An erasure does not wait for workers that other tests have killed."""
    monkeypatch.setattr(worker_liveness, "COUNTS_SECONDS", 0.0)


@pytest.mark.usefixtures("_no_workers")
def test_an_experience_is_told_listed_changed_and_erased(group: str) -> None:
    first, second = tell(group), tell(group, GLAZE, solution_steps=["慢慢降温"], outcome="partial")
    ended = [(row.pain_pattern, row.outcome) for row in listed(group)]
    assert ended == [(GLAZE, "partial"), (JAM, "success")]
    page = experiences.list_experiences.perform(me(group), ListExperiences(agent_id=AGENT, limit=1))
    assert [row.id for row in listed(group, cursor=page.next)] == [first.id]
    assert [row.id for row in listed(group, words="开裂")] == [second.id]
    assert [row.id for row in listed(group, outcome="success")] == [first.id]
    changed = update(group, second.id, outcome="success", tools_used=["kiln"])
    assert (changed.outcome, changed.created_at) == ("success", second.created_at)
    assert (changed.solution_steps, changed.tools_used) == (["慢慢降温"], ["kiln"])
    assert changed.id in in_force(group)
    assert second.id not in in_force(group)
    assert experiences.delete_experience.perform(me(group), ById(id=changed.id)).count == 2
    erase(group, node_ids=[changed.id, second.id])
    assert [row.id for row in listed(group)] == [first.id]
    with pytest.raises(NotFound, match="no current experience"):
        experiences.get_experience.perform(me(group), ById(id=changed.id))


def test_the_same_problem_is_one_however_it_came(group: str) -> None:
    experienced(group, times=1)
    content = {"agent_id": AGENT, "memory_type": "experience"}
    about = {"solution_steps": ["call a technician"], "outcome": "failed"}
    actions.store_memory.perform(me(group), MemoryEntryInput(content=JAM, metadata=about, **content))
    uri = f"agent://{AGENT}/experience/printer"
    resource = MemoryEntryInput(uri=uri, content=f"{JAM} | Steps: 1. dust it")
    actions.add_resource.perform(me(group), resource)
    save(observed(group, JAM.upper(), agent_id=AGENT, kind="experience", uri=f"agent://{AGENT}/experience/x"))
    [row] = listed(group)
    assert row.solution_steps == [*STEPS, "call a technician", "dust it"]
    assert (row.outcome, row.reuse_count) == ("success", 3)
    assert in_force(group) == [row.id]
    assert grow() > 0, "what is used again may make a pattern"


def test_what_only_a_program_stored_is_found_by_its_problem_and_counted(group: str) -> None:
    about = {"solution_steps": ["加索引"], "outcome": "success", "reuse_count": 99}
    entry = {"agent_id": AGENT, "memory_type": "experience", "content": "导出报表很慢", "metadata": about}
    actions.store_memory.perform(me(group), MemoryEntryInput(**entry))
    [row] = listed(group)
    assert (row.solution_steps, row.outcome, row.reuse_count) == (["加索引"], "success", 0)
    injection.build(me(group), ContextRequest(agent_id=AGENT, query="报表导出太慢了怎么办"))
    [found] = find_experiences_like(me(group), SearchOptions(agent_id=AGENT, query="导出报表太慢")).rows
    assert (found.id, found.reuse_count) == (row.id, 1)


def test_a_correction_replaces_what_the_experience_said(group: str) -> None:
    experienced(group, times=3)
    [before] = listed(group)
    text = "the printer jams on the third tray | Steps: 1. open it | Outcome: partial"
    done = archive.update_memory.perform(me(group), UpdateMemory(id=before.id, description=text))
    [after] = listed(group)
    assert (after.id, after.pain_pattern) == (done.node_id, "the printer jams on the third tray")
    assert (after.solution_steps, after.outcome, after.reuse_count) == (["open it"], "partial", 2)
    assert (after.created_at, after.confidence) == (before.created_at, before.confidence)


def test_an_export_brings_experiences_back(group: str) -> None:
    tell(group)
    page = actions.export.perform(me(group), OfAgents(agent_id=AGENT))
    wanted = [PersistentMemory.model_validate(memory.model_dump(exclude={"node_id"})) for memory in page.rows]
    other = f"{group}-other"
    assert actions.import_memories.perform(me(other), ImportMemories(memories=wanted)).count == 1
    assert [row.solution_steps for row in listed(other)] == [STEPS]


@pytest.mark.usefixtures("_no_workers")
def test_erasing_what_a_merged_experience_came_of_erases_it(group: str) -> None:
    first = observed(group, JAM, agent_id=AGENT, kind="experience", uri=f"agent://{AGENT}/experience/x")
    save(first)
    tell(group)
    erase(group, node_ids=[first.event_id])
    assert listed(group) == []
    assert nodes(group) == []


def test_people_see_how_it_ended_and_how_often_it_was_used(sign_in: SignIn, group: str) -> None:
    experienced(group, times=3)
    page = sign_in("viewer").get(f"/conversations/{group}/{AGENT}").text
    assert "it worked" in page
    assert "used 2 times since" in page


def test_bad_input_is_refused_with_its_field(group: str) -> None:
    first = tell(group)
    tell(group, GLAZE)
    with pytest.raises(InvalidRequest, match=f"pain_pattern: is the problem of the experience {first.id}"):
        update(group, listed(group, words="开裂")[0].id, pain_pattern=JAM)
    with pytest.raises(InvalidRequest, match="cursor"):
        listed(group, cursor=encode_cursor(uuid4()))
    assert experiences.delete_experience.perform(me(group), ById(id=uuid4())).count == 0
    stranger = me(f"{group}-other")
    with pytest.raises(NotFound):
        experiences.get_experience.perform(stranger, ById(id=first.id))
    with pytest.raises(ValidationError, match="give what is to change"):
        UpdateExperience(id=first.id)
    with pytest.raises(ValidationError, match="outcome"):
        TellExperience.model_validate({"agent_id": AGENT, "pain_pattern": JAM, "outcome": "great"})
    with pytest.raises(ValidationError, match="solution_steps"):
        TellExperience(agent_id=AGENT, pain_pattern=JAM, outcome="success", solution_steps=["x"] * 21)
