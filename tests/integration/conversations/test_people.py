"""One agent, many people: what one of them says in private no other is told, supersedes nothing of theirs,
and no read gives it away.
"""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel
from sqlalchemy import text

from jiyi.errors import InvalidRequest, NotFound
from jiyi.protocol import events as wire
from jiyi.protocol.actions import TABLE
from jiyi.protocol.appointments import CreateSchedule
from jiyi.protocol.base import ForUser
from jiyi.protocol.conversation_commands import JudgeTurn
from jiyi.protocol.conversations import ContextRequest, ProfileSignals
from jiyi.protocol.erasure import Erasure
from jiyi.protocol.memory import Memory
from jiyi.protocol.recall import ReinstateMemory, UpdateMemory
from jiyi.protocol.retrieval import Answer, RetrievalRequest
from jiyi.protocol.wire.calls import open_reply
from models.appointments.schedule_actions import create_schedule
from models.conversations import injections
from models.conversations.actions import judge_turn
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.db.scope import for_groups
from models.erasure import matching
from models.growth.work import AGGREGATE
from models.memory.archive import archive_chosen, reinstate_memory, update_memory
from models.memory.reads import node
from tasks import reflection as reflect
from tasks.conversations.injection import build
from tasks.framework.work import run_until_idle
from tasks.growth.evolution import aggregate
from tasks.retrieval.retrieve import retrieve
from tests.integration.actions.calling import called, register_tasks, service
from tests.integration.conversations.talk import START, end_session, nodes, run, save, say
from tests.integration.growth.growing import experienced
from tests.integration.programs import Program
from tests.services import done_within
from web.api import OPERATIONS

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")

SECRET = "Heilwasserquelle"


def remember(group: str, description: str, user_id: str | None = None, **fields: Any) -> UUID:
    event = observed(group, description, user_id, **fields)
    save([event])
    return event.event_id


def observed(group: str, description: str, user_id: str | None = None, **fields: Any) -> Any:
    payload = {"description": description, "user_id": user_id, **fields}
    return wire.made("memory.observed", (group, "helper"), START, payload)


def told(group: str, user_id: str | None, question: str = "What do you know?", **fields: Any) -> set[str]:
    """What the agent tells a user, by words: nothing is embedded here."""
    request = RetrievalRequest(
        group_id=group, agent_id="helper", user_id=user_id, queries=[question], touch=False, **fields
    )
    with for_groups(group, user=user_id):
        answer = retrieve(request)
    assert isinstance(answer, Answer)
    return {memory.description for memory in answer.retrieved_nodes}


def in_force(group: str) -> set[tuple[str, str]]:
    current = (row for row in nodes(group, "preference", "knowledge") if row["superseded_at"] is None)
    return {(row["user_id"], row["description"]) for row in current}


@pytest.mark.parametrize(
    ("zoe", "ben", "moved"),
    [
        ("I live in Oslo.", "I live in Rome.", "I moved, I live in Paris now."),
        ("我住在奥斯陆。", "我住在罗马。", "我搬家了，现在住在巴黎。"),
    ],
)
def test_nobody_supersedes_what_another_said_even_in_a_session_of_the_same_name(
    group: str, zoe: str, ben: str, moved: str
) -> None:
    say(group, zoe, user_id="zoe")
    say(group, ben, user_id="ben", start=START + timedelta(hours=1))
    end_session(group)
    assert run() == 1
    before = in_force(group)
    assert {user for user, _ in before} == {"zoe", "ben"}
    say(group, moved, user_id="ben", start=START + timedelta(days=1), session_id="s2")
    end_session(group, "s2")
    run()
    after = in_force(group)
    assert {fact for fact in after if fact[0] == "zoe"} == {fact for fact in before if fact[0] == "zoe"}
    assert {fact for fact in after if fact[0] == "ben"}.isdisjoint(before), "ben's own is superseded"


def test_the_same_words_of_two_people_are_two_memories(group: str) -> None:
    for user in ("zoe", "ben", None):
        say(group, "I live in Oslo.", user_id=user)
    end_session(group)
    run()
    assert sorted(str(row["user_id"]) for row in nodes(group, "knowledge")) == ["None", "ben", "zoe"]


def test_a_user_is_told_theirs_and_what_is_shared_and_nobody_in_particular_only_that(group: str) -> None:
    remember(group, "The alarm code is 4711.", "zoe")
    remember(group, "The party is on Friday.", "zoe", visibility="agent")
    remember(group, "The office is in Oslo.")
    remember(f"{group}-b", "The alarm code is 8080.", "zoe")  # somebody else of the same name
    shared = {"The party is on Friday.", "The office is in Oslo."}
    assert told(group, "zoe") == shared | {"The alarm code is 4711."}
    assert told(f"{group}-b", "zoe") == {"The alarm code is 8080."}
    assert told(group, "ben") == told(group, None) == told(group, "nobody we know") == shared
    remember(group, "Ben has a dog.", "ben")  # the indexes follow, each for whom it is
    assert told(group, "ben") == shared | {"Ben has a dog."}
    assert told(group, "zoe") == shared | {"The alarm code is 4711."}


def test_each_of_thousands_of_people_of_one_agent_is_told_theirs(group: str) -> None:
    people = [f"user-{number}" for number in range(2_000)]
    save([observed(group, f"The locker of {user} is open.", user) for user in people])
    asked = "Which locker is open?"
    assert told(group, "user-1777", asked) == {"The locker of user-1777 is open."}
    assert told(group, "user-2000", asked) == told(group, None, asked) == set()


def test_who_is_told_nothing_learns_that_from_the_answer(group: str) -> None:
    remember(group, "The alarm code is 4711.", "zoe")
    asked = {"group_id": group, "agent_id": "helper", "user_id": "ben", "queries": ["code"], "touch": False}
    answer = retrieve(RetrievalRequest.model_validate(asked))
    assert isinstance(answer, Answer)
    assert answer.status == "no_candidates"
    assert answer.message == "no candidate memories for this agent that are visible to the user 'ben'"


def test_profile_and_injection_are_the_user_s(group: str) -> None:
    say(group, "I work as a nurse.", "I live in Oslo.", user_id="zoe")
    say(group, "I work as a teacher.", "I live in Rome.", user_id="ben", session_id="s2")
    end_session(group)
    run()
    with unit_of_work() as connection:
        name = (group, "helper")
        profiles = [injections.find_profile(connection, name, user) for user in ("zoe", "ben", None)]
    assert [profile and profile.role for profile in profiles] == ["nurse", "teacher", None]

    def context(user_id: str | None) -> str:
        asked = {"agent_id": "helper", "query": "Do you remember who I am and where I live?"}
        with for_groups(group, user=user_id):
            return build(Actor(group), ContextRequest(**asked, user_id=user_id)).context

    assert "Oslo" in context("zoe") and "Rome" not in context("zoe")
    assert "Rome" in context("ben") and "Oslo" not in context("ben")
    assert "Oslo" not in context(None) and "Rome" not in context(None)


def test_thoughts_are_told_whom_their_evidence_is_told_and_mix_no_two_people() -> None:
    ids = [UUID(int=number) for number in range(3)]
    users = {ids[0]: "zoe", ids[1]: "ben"}

    def thought(*evidence: UUID) -> Any:
        fact = {"description": "x", "subject": "a", "predicate": "is", "object": "b"}
        return reflect.Thought(**fact, poignancy=3, evidence=list(evidence), prompt="insights@1")

    made = reflect.reflection.visible_thoughts(
        [thought(ids[0], ids[2]), thought(ids[2]), thought(ids[0], ids[1])], users
    )
    assert [one.user_id for one in made] == ["zoe", None]


def test_an_experience_that_merges_is_shared_only_as_long_as_all_of_it_is(group: str) -> None:
    def tell(step: str, visibility: str | None = None) -> None:
        told = f"the printer jams | Steps: 1. {step} | Outcome: success"
        where = {"kind": "experience", "uri": "agent://helper/experience/printer"}
        remember(group, told, "zoe", **where, visibility=visibility)

    tell("open the tray", "agent")
    tell("pull the sheet", "agent")
    [shared] = told(group, "ben", "the printer jams")
    assert "open the tray" in shared
    assert "pull the sheet" in shared
    tell("call Maria")
    assert told(group, "ben", "the printer jams") == set()
    assert len(told(group, "zoe", "the printer jams")) == 1


def test_another_s_memory_is_neither_updated_nor_shared(group: str) -> None:
    secret = remember(group, "The alarm code is 4711.", "zoe")
    party = remember(group, "The party is on Friday.", "zoe", visibility="agent")

    def update(node_id: UUID, user_id: str | None, **fields: Any) -> Memory:
        request = UpdateMemory(id=node_id, user_id=user_id, **fields)
        newer = update_memory.perform(Actor(group), request).node_id
        with unit_of_work() as connection:
            found = node(connection, group, newer)
        assert found is not None
        return found

    with pytest.raises(NotFound):
        update(secret, "ben", visibility="agent")
    with pytest.raises(InvalidRequest, match="does not come from 'ben'"):
        update(party, "ben", visibility="user")
    shared = update(secret, "zoe", visibility="agent")
    assert (shared.user_id, shared.visibility) == ("zoe", "agent")
    assert "The alarm code is 4711." in told(group, "ben")


def test_what_names_no_user_is_refused(group: str) -> None:
    for fields, problem in (
        ({"visibility": "agent"}, "give user_id with it"),
        ({"user_id": " "}, "user_id"),
        ({"user_id": "x" * 201}, "user_id"),
        ({"user_id": "zoe", "visibility": "group"}, "visibility"),
    ):
        with pytest.raises(wire.InvalidEvent, match=problem):
            remember(group, "x", **fields)


def test_a_person_s_erasure_finds_what_they_said_and_what_others_said_of_them(group: str) -> None:
    said = remember(group, "The alarm code is 4711.", "Zoe")
    of_them = remember(group, "Zoe has a dog.", "ben")
    other = remember(group, "Ben has a cat.", "ben")
    with unit_of_work() as connection:
        examples = matching.preview(connection, group, Erasure(person="zoe")).examples
    found = {memory.node_id for memory in examples}
    assert found == {said, of_them} and other not in found


class Other:
    """A user with one of everything that a read for another user could give away."""

    def __init__(self, group: str) -> None:
        fact: dict[str, Any] = {"kind": "knowledge", "uri": f"agent://helper/knowledge/{SECRET}"}
        fact |= {"subject": SECRET, "keywords": [SECRET.lower()]}
        node_id = remember(group, f"It is about the {SECRET}.", "zoe", **fact)
        remember(group, f"She sees the {SECRET}.", "zoe", keywords=[SECRET.lower()])
        faded = remember(group, f"Once it was about the {SECRET}.", "zoe")
        told = {"kind": "experience", "uri": "agent://helper/experience/told"}
        experience = remember(group, f"The {SECRET} is dry | Outcome: failed", "zoe", **told)
        said = say(group, f"Where is the {SECRET}?", user_id="zoe")
        remember(group, f"A thought on the {SECRET}.", "zoe", node_type="thought", evidence=[node_id, *said])
        uri = "agent://helper/knowledge"
        wrongly, by = (
            remember(group, f"The {SECRET} is {how}.", "zoe", kind="knowledge", uri=f"{uri}/{how}")
            for how in ("open", "shut")
        )
        with unit_of_work() as connection:
            connection.execute(_SUPERSEDE, {"group": group, "id": wrongly, "by": by})
            me, whose = Actor(group, "test"), {"agent_id": "helper", "user_id": "zoe"}
            done_within(connection, reinstate_memory, me, ReinstateMemory(id=wrongly, user_id="zoe"))
            archive_chosen(connection, group, [faded])
            daily = CreateSchedule(**whose, kind="cron", cron="0 9 * * *", task=f"look at the {SECRET}")
            done_within(connection, create_schedule, me, daily)
            connection.execute(_RETRIEVAL, {"group": group, "asked": SECRET})
            done_within(connection, judge_turn, me, JudgeTurn(id=said[0], lasting=True))
            signals = ProfileSignals(industry=SECRET)
            injections.update_profile(connection, (group, "helper"), signals, START, "zoe")
        experienced(group, f"the {SECRET} is dry again", agent_id="helper", user_id="zoe")
        run_until_idle(AGGREGATE, aggregate)
        #: Field → what it names.
        self.named: dict[str, Any] = {
            "experience": str(experience),
            "problem": SECRET,
            "agent_id": "helper",
            "node_id": str(node_id),
            "id": str(node_id),
            "query": SECRET,
            "queries": [SECRET],
            "uri": f"agent://helper/knowledge/{SECRET}",
            "scope": "agent://helper",
            "pattern": "(?i)quelle",
            "subject": SECRET,
        }

    def request(self, model: type[BaseModel], user_id: str) -> dict[str, Any]:
        known = {name: value for name, value in self.named.items() if name in model.model_fields}
        if model is TABLE["resources.list"].request:
            known["uri"] = "agent://helper/knowledge"
        if model is TABLE["experiences.get"].request:
            known["id"] = self.named["experience"]
        return {**known, **({"depth": 3} if "depth" in model.model_fields else {}), "user_id": user_id}


READS = sorted(name for name, row in TABLE.items() if issubclass(row.request, ForUser) and not row.mutates)
TASKS: dict[str, tuple[str, type[BaseModel]]] = {
    **{name: (f"rpc.{name}", TABLE[name].request) for name in READS},
    "retrieve": ("retrieval.retrieve", RetrievalRequest),
}


def test_no_read_for_a_user_gives_away_what_another_said(group: str) -> None:
    register_tasks()
    other = Other(group)
    hidden, given_away = [], []
    for name, (task, model) in TASKS.items():

        def answer(user_id: str, task: str = task, model: type[BaseModel] = model) -> str:
            body = {"group_id": group, **other.request(model, user_id)}
            try:
                return json.dumps(open_reply(called(task, body, service())), ensure_ascii=False, default=str)
            except NotFound as error:
                return str(error)

        asked = json.dumps(other.request(model, ""), ensure_ascii=False)
        if SECRET.lower() not in answer("zoe").replace(asked, "").lower():  # keywords have no capitals
            hidden.append(name)
        mine = answer("ben")
        for echoed in (f'"query": "{SECRET}"', f'"original": "{SECRET}"', "user 'ben'"):
            mine = mine.replace(echoed, "")
        if SECRET.lower() in mine.lower():
            given_away.append(name)
    assert given_away == []
    assert hidden == [], "it is there, for her"


QUERIES = [one for one in OPERATIONS if one.query is not None and issubclass(one.query, ForUser)]


def test_no_list_over_rest_does(group: str, api: Program) -> None:
    other = Other(group)

    def tells(operation: Any, user_id: str) -> bool:
        path = re.sub(r"<\w+:(\w+)>", lambda part: other.named[part[1]], operation.path)
        response = api.ask("GET", path, query_string=other.request(operation.query, user_id))
        assert response.status_code in (200, 404), response.text
        return SECRET.lower() in response.text.lower()

    told = {operation.id: (tells(operation, "zoe"), tells(operation, "ben")) for operation in QUERIES}
    assert told == dict.fromkeys(told, (True, False))


def test_row_level_security_hides_it_whatever_a_query_asks_for(group: str) -> None:
    Other(group)
    tables = {"memory_nodes": "description", "events": "payload::text", "user_profiles": "industry"}
    for table, column in tables.items():
        told = []
        for user in ("zoe", "ben", None):  # nobody in particular is an operator, who sees all
            with for_groups(group, user=user):
                told.append(_count(table, column) > 0)
        assert told == [True, False, True], table
    with for_groups(group, user="ben"):
        assert _changed() == 0


_SUPERSEDE = text("""
    UPDATE memory_nodes SET superseded_by = :by, superseded_at = now() WHERE group_id = :group
    AND node_id = :id
""")
_RETRIEVAL = text("""
    INSERT INTO retrievals
    VALUES (gen_random_uuid(), :group, 'helper', now(), 'test', ARRAY[:asked], '{"user_id": "zoe"}', 1,
    '{0}', '{}', '{}')
""")


def _count(table: str, column: str) -> int:
    counted = text(f"SELECT count(*) FROM {table} WHERE {column} LIKE '%{SECRET}%'")
    with unit_of_work() as connection:
        return int(connection.execute(counted).scalar_one())


def _changed() -> int:
    change = text("UPDATE memory_nodes SET visibility = 'agent' WHERE user_id = 'zoe'")
    with unit_of_work() as connection:
        return connection.execute(change).rowcount
