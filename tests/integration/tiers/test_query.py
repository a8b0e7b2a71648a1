"""Asking the tiers: what each gives, in which order, and what is left when one is away."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import Mock
from uuid import UUID

import pytest
from pydantic import ValidationError
from sqlalchemy import text

from jiyi.errors import EmbeddingUnavailable
from jiyi.protocol.conversations import ContextRequest
from jiyi.protocol.knowledge import EditKnowledge, PromoteBody
from jiyi.protocol.recall import InjectedContext
from jiyi.protocol.tier_questions import ContextBody, MemoryAnswer
from jiyi.text.prompting import quoted
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.db.scope import for_groups
from models.tiers import actions, knowledge, working
from tasks.conversations.injection import build as build_prompt
from tests.integration.away import away
from tests.integration.growth.growing import AGENT, experienced
from tests.integration.memory.test_inbox import observed, rows
from tests.integration.memory.test_inbox import save as observe
from tests.integration.tiers.outputs import TEXTS, ask, embed, say, tasks, tier

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")


def promote(group: str, *entries: UUID, **fields: Any) -> None:
    actions.promote.perform(Actor(group, "Lin"), PromoteBody(entry_ids=list(entries), **fields))
    embed()


@pytest.fixture
def known(group: str) -> str:
    """A group with something in each tier."""
    say(group, TEXTS[0], session_id="s1")
    promote(group, text=TEXTS[3])
    return group


def contents(answer: MemoryAnswer, source: str | None = None) -> list[str]:
    return [item.content for item in answer.results if source in (None, item.source)]


def states(answer: MemoryAnswer) -> dict[str, str]:
    return {status.tier: status.state for status in answer.tiers}


def test_hot_first_with_score_one_then_cold_by_similarity_unless_by_score(known: str) -> None:
    answer = ask(known, TEXTS[3], relevance_threshold=-1)
    assert [(item.source, item.content) for item in answer.results] == [("hot", TEXTS[0]), ("cold", TEXTS[3])]
    hot, cold = answer.results
    assert (hot.score, hot.similarity) == (1.0, None)
    assert (hot.temporary, hot.verified, cold.temporary, cold.verified) == (True, False, False, True)
    assert cold.score == pytest.approx(1, abs=1e-5)
    assert (answer.status, states(answer)) == ("ok", {"working": "ok", "longterm": "ok"})
    cold, hot = ask(known, TEXTS[3], order="score", relevance_threshold=-1).results
    assert (cold.content, hot.content) == (TEXTS[3], TEXTS[0])
    assert hot.score == hot.similarity
    assert hot.score < cold.score
    assert contents(ask(known, "something else entirely", relevance_threshold=0.9)) == [
        TEXTS[0]
    ]  # of long-term memory only


def test_a_piece_that_gets_its_vector_while_it_is_looked_for_is_found_once(
    group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    actions.promote.perform(Actor(group, "Lin"), PromoteBody(text=TEXTS[3]))
    asked: list[str] = []

    def embedded_before_the_second(name: str) -> None:
        original = getattr(knowledge, name)

        def ask_tier(*arguments: Any) -> Any:
            asked.append(name)
            if len(asked) == 2:
                assert embed() == 1
            return original(*arguments)

        monkeypatch.setattr(knowledge, name, ask_tier)

    embedded_before_the_second("nearest")
    embedded_before_the_second("by_words")
    assert contents(ask(group, TEXTS[3])) == [TEXTS[3]]
    assert len(asked) == 2


def test_a_piece_that_gets_other_words_while_it_is_looked_for_is_found_as_it_was(
    known: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (piece,) = rows("SELECT knowledge_id FROM knowledge WHERE group_id = :g", g=known)
    original, edited = knowledge.by_words, EditKnowledge(id=piece["knowledge_id"], content=TEXTS[4])

    def edit_after(*arguments: Any) -> Any:
        found = original(*arguments)
        actions.edit.perform(Actor(known, "Lin"), edited)
        return found

    monkeypatch.setattr(knowledge, "by_words", edit_after)
    assert contents(ask(known, TEXTS[3]), "cold") == [TEXTS[3]]
    monkeypatch.undo()
    assert contents(ask(known, TEXTS[4], relevance_threshold=-1), "cold") == [TEXTS[4]]


def test_other_sessions_are_remembered_unless_one_is_asked_for(group: str) -> None:
    """The original asks for the session always, and promotes none: from a workflow it finds nothing."""
    (one,) = say(group, TEXTS[3], session_id="s1")
    promote(group, one)
    say(group, TEXTS[0], session_id="s2")
    everything = contents(ask(group, TEXTS[3], relevance_threshold=-1))
    assert set(everything) == {TEXTS[0], TEXTS[3]}
    assert set(contents(ask(group, TEXTS[3], relevance_threshold=-1, session_id="s1"))) == {TEXTS[3]}
    assert set(contents(ask(group, TEXTS[3], relevance_threshold=-1, session_id="s2"))) == {TEXTS[0]}


def test_verdicts_can_be_left_out_and_cn59_the_time_range_leaves_precedents_in(group: str) -> None:
    say(group, TEXTS[0], node_type="judge")
    promote(group, text=TEXTS[3], kind="verdict")
    promote(group, text=TEXTS[4])
    assert contents(ask(group, TEXTS[3], relevance_threshold=-1, include_verdicts=False)) == [TEXTS[4]]
    with unit_of_work() as connection:
        long_ago = datetime.now(UTC) - timedelta(days=9)
        connection.execute(
            text("UPDATE knowledge SET promoted_at = :at WHERE group_id = :g AND content = :c"),
            {"at": long_ago, "g": group, "c": TEXTS[4]},
        )
        connection.execute(
            text("UPDATE quarantine_logs SET created_at = :at WHERE group_id = :g"),
            {"at": long_ago, "g": group},
        )
    working.forget(group)  # made anew from the rows
    assert contents(ask(group, TEXTS[3], relevance_threshold=-1)) == [TEXTS[0], TEXTS[3], TEXTS[4]]
    assert contents(ask(group, TEXTS[3], relevance_threshold=-1, time_range_days=7)) == [TEXTS[3], TEXTS[4]]
    by_words = ask(group, TEXTS[4], embedder=False, relevance_threshold=-1, time_range_days=7)
    assert contents(by_words) == [TEXTS[4]]


def test_who_lives_in_another_time_finds_what_was_said_in_it(group: str) -> None:
    for year in (2023, 2050):
        now = datetime(year, 2, 13, tzinfo=UTC)
        say(group, f"{year}: {TEXTS[year % 2]}", occurred_at=now)
        assert len(contents(ask(group, "x", now=now + timedelta(hours=1)), "hot")) >= 1
        (one,) = [
            item
            for item in ask(group, "x", now=now + timedelta(hours=1)).results
            if item.content.startswith(str(year))
        ]
        assert one.expires_at == now + timedelta(hours=24)
        assert str(year) not in str(contents(ask(group, "x", now=now + timedelta(hours=25))))


# Away


def test_without_valkey_long_term_memory_answers_and_says_so(known: str) -> None:
    with away("valkey"):
        answer, of_the_web = ask(known, TEXTS[3]), ask(known, TEXTS[3], embedder=False)
    assert (answer.status, states(answer)) == ("partial", {"working": "failed", "longterm": "ok"})
    assert contents(answer) == contents(of_the_web) == [TEXTS[3]]
    assert "Valkey is away" in tier(answer, "working").message
    assert tier(of_the_web, "longterm").message == "asked without an embedder: found by their words"


def test_without_the_database_working_memory_answers_and_says_so_but_is_not_made_anew(known: str) -> None:
    with away("database"):
        answer, lost = ask(known, TEXTS[3]), ask(f"{known}-lost", "x")
    assert (answer.status, states(answer)) == ("partial", {"working": "ok", "longterm": "failed"})
    assert contents(answer) == [TEXTS[0]]
    assert "the database is away" in tier(answer, "longterm").message
    assert "nobody" not in tier(answer, "longterm").message
    assert (lost.status, lost.results) == ("failed", [])
    assert "cannot be rebuilt" in tier(lost, "working").message


def test_an_embedder_that_is_away_leaves_words_and_the_web_is_asked_only_if_wanted(
    known: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        tasks("tiers"), "query_vector", Mock(side_effect=EmbeddingUnavailable("nobody answers"))
    )
    answer = ask(known, TEXTS[3])
    assert contents(answer, "cold") == [TEXTS[3]]
    assert tier(answer, "longterm").message == "the embedder is away: found by their words"
    assert "web" not in states(answer)
    answer = ask(known, "x", web_results=3)
    assert (answer.status, states(answer)["web"]) == ("ok", "skipped")
    assert "JIYI_WEB_SEARCH" in tier(answer, "web").message


def test_a_prompt_has_the_agents_experiences_beside_what_the_group_knows(known: str) -> None:
    experienced(known, times=1)
    body = {
        "proposal": "The printer jams on the second tray: what now?",
        "persona": "You are Lin.",
        "relevance_threshold": -1,
    }
    with for_groups(known):
        build = tasks("tiers").build
        answer = build(Actor(known), ContextBody(**body, agent_id=AGENT))
        of_nobody = build(Actor(known), ContextBody(**body))
    assert [(part.name, part.kept) for part in answer.parts] == [
        ("system", 0),
        ("persona", 1),
        ("memories", 2),
        ("experiences", 1),
        ("proposal", 1),
    ]
    persona, memories, experiences, proposal = answer.text.split("\n\n---\n\n")
    assert (persona, proposal) == ("You are Lin.", body["proposal"])
    assert TEXTS[3] in memories
    assert f"temporary, unverified\n{quoted(TEXTS[0])}" in memories, "nobody has checked it"
    assert "the printer jams on the second tray" in experiences
    assert "printer" not in of_nobody.text.removesuffix(str(body["proposal"]))


@pytest.mark.parametrize("split", [False, True])
def test_one_context_has_memories_and_what_the_group_knows_within_one_budget(known: str, split: bool) -> None:
    observe(
        observed(
            known,
            "Lin likes green tea.",
            agent_id=AGENT,
            kind="preference",
            uri=f"agent://{AGENT}/preference/tea",
        )
    )
    tasks("tiers")
    session = {"split": True, "session_id": "s9", "turn": 1} if split else {}

    def context(budget: int, **fields: Any) -> InjectedContext:
        with for_groups(known):
            asked = ContextRequest(
                agent_id=AGENT, query=f"{TEXTS[3]} And what tea?", max_tokens=budget, **session | fields
            )
            return build_prompt(Actor(known), asked)

    both = context(600, tiers=True)
    assert both.tokens <= 600
    assert "green tea" in both.context and quoted(TEXTS[3]) in both.context
    assert quoted(TEXTS[3]) not in context(600, **({"session_id": "s10"} if split else {})).context
    assert context(60, tiers=True, **({"session_id": "s11"} if split else {})).tokens <= 60


def test_a_groups_knowledge_goes_with_no_json_and_no_past() -> None:
    for wrong in ({"format": "json"}, {"as_of": datetime(2026, 1, 1, tzinfo=UTC)}):
        with pytest.raises(ValidationError, match="tiers"):
            ContextRequest(agent_id=AGENT, query="x", tiers=True, **wrong)
