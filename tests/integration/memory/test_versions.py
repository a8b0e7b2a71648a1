"""A corrected memory keeps what it was: its time, triple, keywords, evidence and the thoughts that rest on
it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest

from jiyi.protocol.base import ByIdForUser
from jiyi.protocol.recall import UpdateMemory
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.memory import archive
from models.memory.questions import get_memory
from models.reflection.actions import why_thought
from tests.integration.conftest import SignIn
from tests.integration.erasure.test_erasure import erase
from tests.integration.fields import check_fields
from tests.integration.memory.test_inbox import observed, rows, save
from tests.integration.programs import Program
from tests.services import done_within

pytestmark = pytest.mark.usefixtures("database")

MARCH = datetime(2026, 3, 2, 8, 30, tzinfo=UTC)
SEEN = datetime(2026, 4, 1, 12, tzinfo=UTC)
TYPO = "Zoe is alergic to shrimp, says Ben"
MENDED = "Zoe is allergic to shrimp, says Ben"


def corrected(group: str, node_id: UUID, **given: Any) -> UUID:
    return archive.update_memory.perform(Actor(group, "test"), UpdateMemory(id=node_id, **given)).node_id


def detail(group: str, node_id: UUID) -> Any:
    with unit_of_work() as connection:
        return done_within(connection, get_memory, Actor(group, "test"), ByIdForUser(id=node_id))


def filling(group: str, node_id: UUID) -> list[str]:
    return rows(
        "SELECT filling FROM memory_nodes WHERE group_id = :g AND node_id = :id", g=group, id=node_id
    )[0]["filling"]  # type: ignore[return-value]


@pytest.fixture
def said(group: str) -> UUID:
    event = observed(
        group,
        TYPO,
        subject="Zoe",
        predicate="is allergic to",
        object="shrimp",
        keywords=["shrimp", "alergic", "health"],
        occurred_at=MARCH,
        session_id="s1",
        provenance={"source": "diary"},
    )
    save(event)
    with unit_of_work() as connection:
        connection.exec_driver_sql(
            "UPDATE node_access SET last_accessed = %s, access_count = 4 WHERE node_id = %s",
            (SEEN, event.event_id),
        )
    return event.event_id


def test_a_mended_typo_keeps_time_triple_keywords_and_accesses(group: str, said: UUID) -> None:
    new = detail(group, corrected(group, said, description=MENDED))
    assert new.description == MENDED
    assert new.created_at == MARCH
    assert (new.subject, new.predicate, new.object) == ("Zoe", "is allergic to", "shrimp")
    assert new.keywords == ["shrimp", "health"]  # the misspelt one is no longer said
    assert (new.session_id, new.poignancy, new.provenance["source"]) == ("s1", 3, "diary")
    assert (new.last_accessed, new.access_count) == (SEEN, 4)
    assert new.embedding_key == MENDED


def test_what_the_new_description_no_longer_says_is_dropped_from_the_triple(group: str, said: UUID) -> None:
    new = detail(group, corrected(group, said, description="Zoe is allergic to peanuts, says Ben"))
    assert (new.subject, new.predicate, new.object) == ("Zoe", "is allergic to", None)
    assert new.keywords == ["health"]
    again = detail(group, corrected(group, new.node_id, object="peanuts"))
    assert (again.object, again.description, again.created_at) == ("peanuts", new.description, MARCH)


def test_a_change_may_say_since_when_it_is_so_and_derived_keywords_are_derived_anew(
    group: str, said: UUID
) -> None:
    new = corrected(group, said, description=MENDED, occurred_at=SEEN)
    assert detail(group, new).created_at == SEEN
    assert detail(group, said).superseded_at == SEEN
    event = observed(group, "Klaus reads about kilns", occurred_at=MARCH)
    save(event)
    assert "kilns" in detail(group, event.event_id).keywords
    assert (
        "glazes"
        in detail(group, corrected(group, event.event_id, description="Klaus reads about glazes")).keywords
    )


def test_thoughts_rest_on_the_new_version_and_both_say_which_replaces_which(group: str, said: UUID) -> None:
    other = observed(group, "Zoe was in hospital")
    save(other)
    thought = observed(group, "No shrimp for Zoe", node_type="thought", evidence=[said, other.event_id])
    save(thought)
    new = corrected(group, said, description=MENDED)
    assert filling(group, thought.event_id) == [str(new), str(other.event_id)]
    with unit_of_work() as connection:
        assert why_thought(connection, group, thought.event_id, 2, 10).nodes[thought.event_id].evidence == [
            new,
            other.event_id,
        ]
    check_fields(detail(group, said), superseded_by=new, supersedes=[])
    assert detail(group, new).supersedes == [said]
    newest = corrected(group, new, poignancy=9)
    assert filling(group, thought.event_id) == [str(newest), str(other.event_id)]
    assert detail(group, newest).supersedes == [new]


def test_a_corrected_thought_keeps_its_evidence_and_never_rests_on_itself(group: str, said: UUID) -> None:
    thought = observed(group, "No shrmp for Zoe", node_type="thought", evidence=[said])
    save(thought)
    new = corrected(group, thought.event_id, description="No shrimp for Zoe")
    assert filling(group, new) == [str(said)]
    assert detail(group, new).depth == 1
    corrected(group, said, description="No shrimp for Zoe")
    assert str(new) not in filling(group, new)


def test_erasing_either_version_erases_the_thought(group: str, said: UUID) -> None:
    other = observed(group, "Zoe is alergic to nuts")
    save(other)
    for fact in (said, other.event_id):
        save(observed(group, "Nothing of that for Zoe", node_type="thought", evidence=[fact]))
    kept = corrected(group, said, description=MENDED)
    newer = corrected(group, other.event_id, description="Zoe is allergic to nuts")
    erase(group, node_ids=[said, newer])
    left = {row["node_id"] for row in rows("SELECT node_id FROM memory_nodes WHERE group_id = :g", g=group)}
    assert left == {kept, other.event_id}


def test_correct_in_the_admin_and_both_pages(sign_in: SignIn, group: str, said: UUID) -> None:
    browser = sign_in("operator")
    answer = browser.post(f"/nodes/{group}/{said}/correct", data={"description": MENDED})
    new = UUID(answer.location.partition("?")[0].rpartition("/")[2])
    page = browser.get(f"/nodes/{group}/{new}").text
    assert f"/nodes/{group}/{said}" in page[page.index('id="replaces"') :].partition('class="beside"')[0]
    assert "<mark>" in page[page.index('class="versions"') :], "what is other in each version is marked"
    page = browser.get(f"/nodes/{group}/{said}").text
    assert f"/nodes/{group}/{new}" in page[page.index('id="replaced-by"') :].partition('class="beside"')[0]
    found = browser.get(f"/nodes/{group}/{new}.json").json
    assert (found["node"]["created_at"], [one["node_id"] for one in found["replaces"]]) == (
        "2026-03-02T08:30:00Z",
        [str(said)],
    )
    listed = browser.get(f"/memories.json?group={group}&q=shrimp").json["nodes"]
    assert [node["node_id"] for node in listed] == [str(new)], "a search shows the version in force"
    assert len(browser.get(f"/memories.json?group={group}&superseded=1").json["nodes"]) == 2
    found = browser.get(f"/nodes/{group}/{said}.json").json
    assert (found["replaced_by"]["node_id"], found["replaces"]) == (str(new), [])


def test_update_over_http(api: Program, said: UUID) -> None:
    event_id = str(uuid4())
    done = api.ask("PATCH", f"/nodes/{said}", json={"description": MENDED, "event_id": event_id}).json
    assert (done["node_id"], done["supersedes"]) == (event_id, str(said))
    new = api.get(f"/nodes/{event_id}")
    check_fields(new, created_at="2026-03-02T08:30:00Z", object="shrimp", supersedes=[str(said)])
