"""Whose something is: a user called like the agent, a name spelt in two ways, and reads that did not ask for
whom.
"""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime
from importlib import import_module
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.exc import ProgrammingError

from engine.growth.pains import FoundPain
from jiyi.errors import NotFound
from jiyi.protocol.appointments import AskSchedules, CreateSchedule
from jiyi.protocol.base import ByIdForUser
from jiyi.protocol.conversations import ContextRequest, ProfileSignals
from jiyi.protocol.event_requests import SessionEnd
from jiyi.protocol.events import build
from jiyi.protocol.growth import ReportPain
from jiyi.protocol.memory import KeywordsQuery
from jiyi.protocol.recall import ListMemories, RecallRequest
from jiyi.protocol.reflection import WhyQuery
from jiyi.protocol.retrieval import Answer, RetrievalRequest, ScoredMemory
from models.conversations import injections
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.db.scope import for_groups
from models.growth.pains import PainReport, merge_pain
from models.memory import questions
from models.memory.agents import lock_agents
from models.memory.nodes import strengthen
from models.reflection import reflections
from models.reflection.actions import why
from tasks.retrieval.retrieve import retrieve
from tests.integration.memory.test_inbox import observed, save
from web.mem0_requests import SearchRequest

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")

AGENT = "klaus"
CAFE, DECOMPOSED = "Café", unicodedata.normalize("NFD", "Café")
NOW = datetime(2026, 3, 2, 8, tzinfo=UTC)
ROWS = {
    "schedules": """
        INSERT INTO schedules (schedule_id, group_id, agent_id, kind, tz, task_description, user_id)
        VALUES (:id, :g, 'klaus', 'cron', 'UTC', 'look', :user)
    """,
    "proposals": """
        INSERT INTO proposals (proposal_id, group_id, agent_id, kind, user_id, pattern_hash, content, made_by)
        VALUES (:id, :g, 'klaus', 'skill', :user, :hash, '{}', 'growth')
    """,
    "pain_points": """
        INSERT INTO pain_points (pain_id, group_id, agent_id, user_id, summary, first_seen, last_seen)
        VALUES (:id, :g, 'klaus', :user, 's', now(), now())
    """,
}


def remember(group: str, description: str, user_id: str | None = None, **fields: Any) -> UUID:
    event = observed(group, description, AGENT, user_id=user_id, **fields)
    save(event)
    return event.event_id


def told(group: str, user_id: str | None, question: str) -> list[ScoredMemory]:
    request = RetrievalRequest(
        group_id=group, agent_id=AGENT, user_id=user_id, queries=[question], touch=False
    )
    with for_groups(group, user=user_id):
        answer = retrieve(request)
    assert isinstance(answer, Answer)
    return answer.retrieved_nodes


@pytest.mark.parametrize("first", [None, AGENT])
def test_a_user_called_like_the_agent_and_nobody_in_particular_share_no_profile(
    group: str, first: str | None
) -> None:
    """Report: the words of ``user_id`` = the agent's id were in the prompts of requests without a user, and
    the other way round.
    """
    second = AGENT if first is None else None
    remember(group, "Klaus is there")
    with for_groups(group), unit_of_work() as connection:
        signals = ProfileSignals(role="nurse", pain_points=["the rota is slow"])
        injections.update_profile(connection, (group, AGENT), signals, NOW, first)
        assert injections.find_profile(connection, (group, AGENT), second) is None
        found = injections.find_profile(connection, (group, AGENT), first)
        assert found is not None
        assert found.role == "nurse"
        assert injections.find_profile(connection, (group, AGENT), "ben") is None


def test_their_pains_are_not_merged_either(group: str) -> None:
    remember(group, "Klaus is there")
    pain = FoundPain(turn=0, summary="The export is slow", category="slow", severity="low")
    with for_groups(group), unit_of_work() as connection:
        lock_agents(connection, [(group, AGENT)])
        reports = [
            PainReport(source_id=uuid4(), quote="slow", said_at=NOW, user_id=user)
            for user in (None, AGENT, None)
        ]
        merged = [merge_pain(connection, (group, AGENT), pain, report) for report in reports]
    assert [one.user_id for one in merged] == [None, AGENT, None]
    assert merged[0].pain_id == merged[2].pain_id != merged[1].pain_id


def payload(kind: str, **fields: Any) -> Any:
    envelope = {"type": kind, "group_id": "g", "agent_id": AGENT, "session_id": "s"}
    return build({**envelope, "payload": {"user_id": DECOMPOSED, **fields}}).payload


def test_a_user_is_the_same_however_a_system_composes_the_letters() -> None:
    """Report F075: six spellings of Café are six users. macOS sends letters and accents apart, others send
    them as one.
    """
    who: dict[str, Any] = {"agent_id": AGENT, "user_id": DECOMPOSED}
    requests: list[Any] = [
        RecallRequest(**who, query="?"),
        RetrievalRequest(**who, group_id="g", queries=["?"]),
        ContextRequest(**who, query="?"),
        ListMemories(**who),
        KeywordsQuery(**who),
        ReportPain(**who, summary="The export is slow"),
        CreateSchedule(**who, kind="cron", cron="0 9 * * *", task="look"),
        AskSchedules(**who, text="tomorrow at 9", request_id=uuid4()),
        SessionEnd(**who),
        SearchRequest(query="?", filters={"user_id": DECOMPOSED}),
        payload("memory.observed", description="tea"),
        payload("turn.recorded", role="user", text="tea"),
        payload("session.ended"),
    ]
    assert DECOMPOSED != CAFE
    assert [type(request) for request in requests if request.user_id != CAFE] == []


@pytest.mark.parametrize("body", [{}, {"user": DECOMPOSED}])
def test_the_proxy_knows_one_conversation_of_a_user_in_both_spellings(body: dict[str, Any]) -> None:
    given = [] if body else [(b"x-jiyi-user", DECOMPOSED.encode())]
    request = pytest.importorskip("starlette.requests", reason="needs the extra `proxy`").Request(
        {"type": "http", "headers": given}
    )
    app = import_module("jiyi.proxy.app")
    proxy = SimpleNamespace(_config=SimpleNamespace(agent=AGENT))
    conversation = app.Proxy.conversation_of(proxy, request, app.OpenAI(), body)
    assert conversation.user_id == CAFE


def test_what_is_told_under_one_spelling_is_found_under_the_other(group: str) -> None:
    kept = remember(group, "Likes black tea", DECOMPOSED)
    request = ByIdForUser(id=kept, user_id=CAFE)
    assert questions.get_memory.perform(Actor(group), request).user_id == CAFE
    with pytest.raises(NotFound):  # capitals tell users apart
        questions.get_memory.perform(Actor(group), ByIdForUser(id=kept, user_id=CAFE.lower()))


def test_keywords_for_a_user_are_those_of_what_the_user_is_told(group: str) -> None:
    """Report F010: keywords showed the words of another user's private memories, and took no user."""
    ids = [
        remember(group, "tea and scones", keywords=["tea", "scones"]),
        remember(group, "Zoe's tea", "zoe", keywords=["tea", "diagnosis"]),
        remember(group, "Zoe sings", "zoe", visibility="agent", keywords=["song"]),
        remember(group, "Ben's tea", "ben", keywords=["tea", "Ben"]),
    ]
    with unit_of_work() as connection:
        strengthen(connection, ids)

    def shown(user_id: str | None, **page: Any) -> list[tuple[str, int]]:
        found = questions.keywords.perform(
            Actor(group), KeywordsQuery(agent_id=AGENT, user_id=user_id, **page)
        )
        return [(row.keyword, row.strength) for row in found.rows]

    assert shown("ben") == [("tea", 2), ("ben", 1), ("scones", 1), ("song", 1)]
    assert shown("nobody") == [("scones", 1), ("song", 1), ("tea", 1)]
    assert shown(None)[0] == ("tea", 3)
    assert shown("ben", limit=2) == [("tea", 2), ("ben", 1)]
    page = questions.keywords.perform(Actor(group), KeywordsQuery(agent_id=AGENT, user_id="ben", limit=2))
    assert shown("ben", limit=2, cursor=page.next) == [("scones", 1), ("song", 1)]


def test_what_another_said_in_private_is_not_even_named_as_evidence(group: str) -> None:
    """Report F110: the id of a private turn stood in what was told others."""
    private, open_ = remember(group, "Zoe is ill", "zoe"), remember(group, "The shop is closed")
    rests = remember(group, "Nobody opens the shop", node_type="thought", evidence=[private, open_])

    def evidence(user_id: str | None) -> tuple[list[UUID], list[UUID], list[str]]:
        reasons = why.perform(Actor(group), WhyQuery(id=rests, user_id=user_id))
        detail = questions.get_memory.perform(Actor(group), ByIdForUser(id=rests, user_id=user_id))
        return reasons.nodes[rests].evidence, reasons.missing, detail.filling

    assert evidence("ben") == ([open_], [], [str(open_)])
    found = told(group, "ben", "opens the shop")
    assert [memory.filling for memory in found if memory.node_id == rests] == [[str(open_)]]
    found = told(group, "zoe", "opens the shop")  # by the same index
    assert [memory.filling for memory in found if memory.node_id == rests] == [[str(private), str(open_)]]
    both = [private, open_]
    assert evidence("zoe") == evidence(None) == (both, [], [str(node_id) for node_id in both])


def test_a_session_of_one_user_ends_though_the_user_is_not_named(group: str) -> None:
    """Report F106: a session's end without its user came to nothing."""
    words = [["Zoe", "I leave on Friday"]]
    talk = remember(group, "a talk", "zoe", node_type="chat", session_id="one", utterances=words)
    for user in ("zoe", "ben"):
        remember(group, f"{user} talks", user, node_type="chat", session_id="two", utterances=words)

    def ended(session: str, **payload: Any) -> reflections.Transcript:
        told = {"type": "session.ended", "group_id": group, "agent_id": AGENT, "session_id": session}
        event = build({**told, "payload": payload})
        save(event)
        with unit_of_work() as connection:
            ending = reflections.find_ended(connection, event.event_id)
            assert ending is not None
            return reflections.load_transcript(connection, ending)

    assert ended("one").chat_ids == [talk]
    assert ended("one", user_id="ben").chat_ids == []
    of_two = ended("two")
    assert of_two.chat_ids == []
    assert of_two.nothing.endswith("give user_id")
    assert len(ended("two", user_id="ben").chat_ids) == 1


def test_what_has_a_user_is_hidden_from_others_by_the_database_too(group: str) -> None:
    remember(group, "Klaus is there")

    def add(table: str, user: str | None) -> None:
        with unit_of_work() as connection:
            values = {"g": group, "id": uuid4(), "user": user, "hash": uuid4().bytes}
            connection.execute(text(ROWS[table]), values)

    for table in ROWS:
        with for_groups(group):
            add(table, "zoe")
            add(table, None)
        statement = text(f"SELECT user_id FROM {table} WHERE group_id = :g ORDER BY user_id")
        seen = {}
        for user in ("ben", "zoe", None):
            with for_groups(group, user=user), unit_of_work() as connection:
                seen[user] = connection.execute(statement, {"g": group}).scalars().all()
        assert seen == {"ben": [None], "zoe": ["zoe", None], None: ["zoe", None]}, table
        with pytest.raises(ProgrammingError, match="row-level security"), for_groups(group, user="ben"):
            add(table, "zoe")
