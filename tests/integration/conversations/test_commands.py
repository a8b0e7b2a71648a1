"""Commands on memories of conversations: what each does, what bad input gets, and that none shows another
agent's (BUG-M3).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args
from uuid import uuid4

import pytest
from pydantic import ValidationError
from sqlalchemy import text

from engine.providers import llms
from engine.providers.questions import Extraction
from engine.rules.provider import Rules
from jiyi.errors import InvalidRequest, NotFound
from jiyi.protocol.base import AgentForUser, ByIdForUser, OfAgent, OfAgents, Request
from jiyi.protocol.conversation_commands import (
    ConfigureSummaries,
    EmbedText,
    ExtractMessages,
    FindOptions,
    GrepOptions,
    ImportMemories,
    IndustryWords,
    ListResources,
    MemoryEntryInput,
    PersistentMemory,
    PromptName,
    ReadOptions,
    ResourceUri,
    SearchOptions,
    ShowPrompts,
)
from jiyi.protocol.conversations import (
    ChatMessage,
    CombinedExtraction,
    ContextRequest,
    EstimateTokens,
    ExtractedExperience,
    ExtractedMemory,
    Message,
    ProfileSignals,
    uri_of,
)
from jiyi.protocol.providers import EmbedderReport
from jiyi.protocol.recall import InjectedContext
from jiyi.protocol.retrieval import ScoredMemory
from models.conversations import actions
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.memory import access
from models.memory.work import SUMMARIZE
from tasks.conversations import commands as worker
from tasks.conversations import extraction, injection
from tasks.conversations.commands import show_prompts
from tasks.framework.work import run_until_idle
from tasks.operations.reembedding import embedder_report
from tests.integration.conversations.talk import end_session, facts, hurry, nodes, run, say
from tests.llms import Scripted

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")

SMALL_TALK = ["Hello there.", "Nice weather.", "Well then."]


def me(group: str) -> Actor:
    return Actor(group, "test")


def add(group: str, content: str, uri: str = "agent://helper/knowledge/food") -> Any:
    return actions.add_resource.perform(me(group), MemoryEntryInput(uri=uri, content=content))


def keep(group: str, content: str, **fields: Any) -> Any:
    entry = MemoryEntryInput.model_validate({"agent_id": "helper", "content": content, **fields})
    return actions.store_memory.perform(me(group), entry)


def context(group: str, query: str, **fields: Any) -> InjectedContext:
    asked = ContextRequest.model_validate({"agent_id": "helper", "query": query, **fields})
    return injection.build(me(group), asked)


def search(group: str, **options: Any) -> list[ScoredMemory]:
    request = SearchOptions.model_validate({"agent_id": "helper", "query": "peanuts", **options})
    return worker.search(me(group), request).rows


# Memory


def test_what_is_stored_can_be_got_and_nothing_under_another_id_or_in_another_group(group: str) -> None:
    entry = {"agent_id": "小伴", "category": "allergy", "keywords": ["花生"], "importance": 9}
    done = keep(group, "用户对花生过敏。", **entry)
    found = actions.get.perform(me(group), ByIdForUser(id=done.id))
    assert found is not None
    assert (found.description, found.uri) == ("用户对花生过敏。", "agent://小伴/knowledge/allergy")
    assert (found.keywords, found.poignancy) == (["花生"], 9)
    assert actions.get.perform(me(group), ByIdForUser(id=uuid4())) is None
    assert actions.get.perform(me(f"{group}-other"), ByIdForUser(id=done.id)) is None


@pytest.mark.parametrize("kind", ["knowledge", "session"])
def test_bug_h2_a_resource_that_is_added_again_is_stored_once(group: str, kind: str) -> None:
    one = add(group, "Peanuts are bad.", f"agent://helper/{kind}/food")
    two = add(group, "  PEANUTS are bad. ", f"agent://helper/{kind}/food")
    assert (one.new, two.new, one.id) == (True, False, two.id)
    assert add(group, "Peanuts are bad.", f"agent://helper/{kind}/other").new


def test_search_finds_by_words_type_and_importance(group: str) -> None:
    add(group, "The user is allergic to peanuts.")
    keep(group, "The user likes peanuts butter.", memory_type="preference", importance=3)

    def found(**options: Any) -> list[str]:
        return sorted(memory.kind or "" for memory in search(group, **options))

    assert found() == ["knowledge", "preference"]
    assert found(memory_type="preference") == ["preference"]
    assert found(min_importance=4) == ["knowledge"]
    assert len(found(limit=1)) == 1


def test_filters_come_before_the_limit_and_what_is_found_counts_as_accessed(group: str) -> None:
    for number in range(30):
        add(group, f"Peanuts, peanuts, peanuts: {number}.", f"agent://helper/knowledge/other/{number}")
    done = keep(group, "Something about peanuts.", category="rare", importance=9)
    assert [memory.node_id for memory in search(group, min_importance=8, limit=1)] == [done.id]
    rare = FindOptions(query="peanuts", scope="agent://helper/knowledge/rare", limit=1)
    assert [memory.node_id for memory in worker.find(me(group), rare).rows] == [done.id]
    access.flush()
    with unit_of_work() as connection:
        count = text("SELECT access_count FROM node_access WHERE group_id = :g AND node_id = :id")
        assert connection.execute(count, {"g": group, "id": done.id}).scalar_one() == 2


def test_deleting_is_an_erasure(group: str) -> None:
    done = add(group, "peanuts")
    assert actions.delete.perform(me(group), ByIdForUser(id=done.id)).count == 1
    assert actions.delete.perform(me(group), ByIdForUser(id=uuid4())).erasure_id is None
    assert actions.delete_all.perform(me(group), OfAgent(agent_id="helper")).count == 1
    assert actions.delete_all.perform(me(group), OfAgent(agent_id="nobody")).count == 0
    for blank in ("", " ", "\t"):
        with pytest.raises(ValidationError, match="agent_id"):
            OfAgent(agent_id=blank)


def test_stats_count_by_type_and_by_agent(group: str) -> None:
    add(group, "one")
    add(group, "two", "agent://other/preference/x")
    found = actions.stats.perform(me(group), Request())
    assert (found.total, found.size_bytes, found.by_agent) == (2, 6, {"helper": 1, "other": 1})
    assert found.by_type == {"knowledge": 1, "preference": 1}
    assert actions.stats.perform(me(f"{group}-other"), Request()).total == 0
    assert "@" not in actions.status.perform(me(group), Request()).path, "the path tells no secret"
    assert actions.estimate_content_tokens.perform(me(group), EstimateTokens(content="渡口停航")).count == 6
    said = [
        ChatMessage(role="user", content="How hot is the kiln?"),
        ChatMessage(role="assistant", content="1,240 °C."),
    ]
    assert actions.estimate_content_tokens.perform(me(group), EstimateTokens(messages=said)).count == 25
    for both in ({}, {"content": "x", "messages": said}):
        with pytest.raises(ValidationError, match="content"):
            EstimateTokens(**both)
    assert isinstance(embedder_report(me(group), Request()), EmbedderReport)


def test_what_is_exported_can_be_imported_again_and_again(group: str) -> None:
    for number in range(3):
        add(group, f"fact {number}")
    page = actions.export.perform(me(group), OfAgents(agent_id="helper", limit=2))
    rest = actions.export.perform(me(group), OfAgents(agent_id="helper", limit=2, cursor=page.next))
    assert [len(page.rows), len(rest.rows), rest.next] == [2, 1, None]
    exported = [memory.model_dump(exclude={"node_id"}) for memory in (*page.rows, *rest.rows)]
    wanted = [PersistentMemory.model_validate(memory) for memory in exported]
    add(group, "fact of another", "agent://zoe/knowledge/food")
    everything: list[str] = []
    page = actions.export.perform(me(group), OfAgents(limit=2))
    while page.next is not None:
        everything += [memory.description for memory in page.rows]
        page = actions.export.perform(me(group), OfAgents(limit=2, cursor=page.next))
    everything += [memory.description for memory in page.rows]
    assert everything == ["fact 0", "fact 1", "fact 2", "fact of another"]
    other = me(f"{group}-other")
    assert actions.import_memories.perform(other, ImportMemories(memories=wanted)).count == 3
    assert actions.import_memories.perform(other, ImportMemories(memories=wanted)).count == 0
    assert actions.import_memories.perform(me(group), ImportMemories(memories=wanted)).count == 0


# Addresses


def test_ls_and_tree_count_what_is_in_force_and_removing_takes_what_is_below(group: str) -> None:
    add(group, "one", "agent://helper/knowledge/food")
    add(group, "two", "agent://helper/knowledge/home/city")
    add(group, "three", "agent://helper/preference/food")
    listed = actions.ls.perform(me(group), ListResources(uri="agent://helper")).rows
    assert [(one.name, one.memories) for one in listed] == [("knowledge", 2), ("preference", 1)]
    tree = actions.ls.perform(me(group), ListResources(uri="agent://helper/knowledge", depth=2)).rows
    below = [(one.name, [child.name for child in one.children]) for one in tree]
    assert below == [("food", []), ("home", ["city"])]
    add(group, "four", "agent://helper/knowledge/food/nuts")
    add(group, "five", "agent://helper/knowledge/foods")
    assert actions.remove.perform(me(group), ResourceUri(uri="agent://helper/knowledge/food")).count == 2


def test_a_level_that_is_missing_is_made_of_the_text(group: str) -> None:
    add(group, "The user is allergic to peanuts. " * 40)

    def read(level: Any) -> str:
        options = ReadOptions(uri="agent://helper/knowledge/food", level=level)
        [found] = actions.read.perform(me(group), options).rows
        return found.text

    assert len(read("L2")) > len(read("L1")) > len(read("L0")) > 0
    run_until_idle(SUMMARIZE, extraction.summarize)
    [row] = nodes(group)
    assert read("L1") == row["overview"]
    assert read("L0") == row["abstract"]


def test_grep_knows_regular_expressions(group: str) -> None:
    add(group, "Born on 1990-03-02.")
    add(group, "生日是3月2日")

    def found(pattern: str) -> int:
        return len(actions.grep.perform(me(group), GrepOptions(pattern=pattern, uri="agent://helper")).rows)

    assert [found(r"\d{4}-\d\d"), found("3月"), found("^x"), found("(a+)+$")] == [1, 1, 0, 0]
    with pytest.raises(InvalidRequest, match="pattern"):
        found("(")
    with pytest.raises(ValidationError, match="pattern"):
        found("x" * 201)


@pytest.mark.parametrize("uri", ["agent://a/../b", "helper", "agent:///knowledge/x", "agent://a/secrets/x"])
def test_what_is_no_address_is_refused(uri: str) -> None:
    for model in (ResourceUri, ListResources):
        with pytest.raises(ValidationError, match="uri"):
            model(uri=uri)
    with pytest.raises(ValidationError, match=r"names no category|address"):
        MemoryEntryInput(uri="agent://a/knowledge", content="x")


def test_status_tells_what_is_owed(group: str) -> None:
    add(group, "one")
    found = actions.status.perform(me(group), Request())
    assert (found.memories, found.llm, found.waiting) == (1, "rules", {"embed": 1, "summarize": 1})


def test_words_of_the_trade_are_looked_for_together(group: str) -> None:
    add(group, "The glaze cracks.")
    words = IndustryWords(industry="pottery", keywords={"釉": ["glaze"]})
    actions.load_industry_keywords.perform(me(group), words)
    assert "The glaze cracks." in context(group, "釉怎么了？").context


#: Each way to read one agent's memories.
READERS: dict[str, Callable[[Actor, str], object]] = {
    "search": lambda me, agent: worker.search(me, SearchOptions(agent_id=agent, query="peanuts")),
    "find": lambda me, agent: worker.find(me, FindOptions(query="peanuts", scope=f"agent://{agent}")),
    "grep": lambda me, agent: actions.grep.perform(
        me, GrepOptions(pattern="peanuts", uri=f"agent://{agent}")
    ),
    "ls": lambda me, agent: actions.ls.perform(me, ListResources(uri=f"agent://{agent}/knowledge")),
    "tree": lambda me, agent: actions.ls.perform(me, ListResources(uri=f"agent://{agent}", depth=3)),
    "read": lambda me, agent: actions.read.perform(me, ReadOptions(uri=f"agent://{agent}/knowledge/food")),
    "context": lambda me, agent: injection.build(me, ContextRequest(agent_id=agent, query="peanuts")),
    "export": lambda me, agent: actions.export.perform(me, OfAgents(agent_id=agent)),
}


def test_bug_m3_no_other_agents_memories_are_shown(group: str) -> None:
    for agent in ("alpha", "alphabet", "alph"):
        add(group, f"peanuts of {agent}!", f"agent://{agent}/knowledge/food")
    add(f"{group}-other", "peanuts of strangers!", "agent://alpha/knowledge/food")
    for reader, ask in READERS.items():
        found = str(ask(me(group), "alpha"))
        for others in ("alphabet", "agent://alph/", "strangers"):
            assert others not in found, reader
        assert ("peanuts of alpha!" in found) or reader in ("ls", "tree"), reader


# The loop


def test_bug_m5_a_new_session_recalls_an_old_one(group: str) -> None:
    say(group, "I am allergic to peanuts.")
    end_session(group)
    run()
    found = context(group, "What am I allergic to?", base_prompt="Be kind.", session_id="s2")
    assert found.prompt.startswith("Be kind.\n\n")
    assert "peanuts" in found.prompt
    [row] = rows_of("injections", group)
    assert row["node_ids"] == [memory.node_id for memory in found.memories]
    assert (row["injection_id"], len(row["reasons"])) == (found.injection_id, len(found.memories))
    say(group, "I like tea.", session_id="s3")  # the conversation that goes on is not repeated
    for query in ("tea?", "What is my favourite drink?", "我喜欢喝什么？"):
        assert "tea" not in context(group, query, session_id="s3").context
    assert context(group, "my tea?", session_id="s1").context.count("tea") == 1
    for query in ("What do I like?", "x", ""):
        nothing = context(group, query, agent_id="nobody", base_prompt="Be kind.")
        assert (nothing.prompt, nothing.memories, nothing.injection_id) == ("Be kind.", [], None)


def rows_of(table: str, group: str) -> list[Any]:
    with unit_of_work() as connection:
        found = connection.execute(text(f"SELECT * FROM {table} WHERE group_id = :g"), {"g": group})
        return list(found.mappings())


class Told(Rules):
    """Rules that always tell the same."""

    model = "rules-told"

    def __init__(self, answer: CombinedExtraction) -> None:
        self.answer = answer

    def ask(self, question: Any) -> Any:
        return self.answer if isinstance(question, Extraction) else super().ask(question)


def told(monkeypatch: pytest.MonkeyPatch, **answer: Any) -> None:
    monkeypatch.setattr(llms, "llm", lambda: Told(CombinedExtraction(**answer)))


def experience(**fields: Any) -> ExtractedExperience:
    made = {"pain_pattern": "The glaze cracks", "solution_steps": ["cool slowly"], "turns": [0]}
    return ExtractedExperience.model_validate({**made, "outcome": "partial", "confidence": 0.9, **fields})


def test_signals_reach_the_profile_and_what_is_unsure_known_or_cannot_be_stored_holds_up_nothing(
    group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = "%" * 190
    add(group, "The user is allergic to peanuts.", uri_of(agent, "knowledge", "food"))
    context(group, "peanuts?", agent_id=agent)
    names = ("aaa", "%" * 200, "ccc")
    memories = [ExtractedMemory(content=f"Fact {name[:1]}.", turns=[0], attribute=name) for name in names]
    known = ExtractedMemory(content="The user is allergic to peanuts!", turns=[0])
    dull = ExtractedMemory(content="The user ate bread.", importance=2, turns=[0])
    signals = ProfileSignals(
        industry="pottery", role="duke", communication_style="concise", recent_topics=["glaze", "whales"]
    )
    unsure = [experience(confidence=0.59)]
    told(monkeypatch, memories=[*memories, known, dull], experiences=unsure, profile_signals=signals)
    said = "I run a pottery that needs a new glaze.", "Keep it short: is the glaze safe?"
    say(group, *SMALL_TALK, *said, agent_id=agent)
    run()
    assert facts(group) == ["The user is allergic to peanuts.", "Fact a.", "Fact c."]
    assert nodes(group, "experience") == []
    found = actions.agent_get.perform(me(group), AgentForUser(agent_id=agent)).profile
    assert found is not None
    assert (found.industry, found.role) == ("pottery", None)
    assert (found.communication_style, found.recent_topics) == ("concise", ["glaze"])
    with pytest.raises(NotFound):
        actions.agent_get.perform(me(group), AgentForUser(agent_id="nobody"))


def test_experiences_of_the_same_problem_are_merged(group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told(monkeypatch, experiences=[experience()])
    first = say(group, *SMALL_TALK, "x")
    run()
    again = {"pain_pattern": "the GLAZE cracks", "solution_steps": ["thinner coat"], "outcome": "success"}
    told(monkeypatch, experiences=[experience(**again)])
    say(group, *SMALL_TALK, "y", session_id="s2")
    hurry()
    run()
    [row] = rows_of("experiences", group)
    assert row["solution_steps"] == ["cool slowly", "thinner coat"]
    assert (row["outcome"], row["reuse_count"]) == ("success", 1)
    old, new = nodes(group, "experience")
    assert (old["superseded_by"], row["node_id"]) == (new["node_id"], new["node_id"])
    assert str(first[0]) in new["filling"]  # so that an erasure of what told it finds it
    assert old["uri"] == new["uri"]


def test_an_experience_that_is_injected_was_used_again(group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told(monkeypatch, experiences=[experience()])
    say(group, *SMALL_TALK, "x")
    run()
    found = context(group, "The glaze cracks, what can I do?")
    assert "experience" in {memory.kind for memory in found.memories}
    assert [row["reuse_count"] for row in rows_of("experiences", group)] == [1]


# The others


def test_extracting_stores_nothing_unless_it_is_to(group: str) -> None:
    request = ExtractMessages(
        agent_id="helper", messages=[Message(role="user", text="I am allergic to peanuts.")], session_id="s"
    )
    found = worker.extract_session_memories(me(group), request)
    assert [item.category for item in found.items] == ["user_fact"]
    assert found.items[0].suggested_uri.startswith("agent://helper/knowledge/")
    assert nodes(group) == []
    assert actions.extract_and_store.perform(me(group), request).new == 1
    assert actions.extract_and_store.perform(me(group), request).new == 0
    run()
    assert len(facts(group)) == 1


def test_what_an_llm_would_be_asked_is_shown_and_not_asked(
    group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(group, *SMALL_TALK, "I am allergic to peanuts.", user_id="zoe")
    run()
    monkeypatch.setattr(llms, "llm", lambda: pytest.fail("asked"))

    def asked(name: Any, user_id: str = "zoe") -> Any:
        request = ShowPrompts(name=name, agent_id="helper", session_id="s1", user_id=user_id)
        [only] = show_prompts(me(group), request).rows
        return only

    for name in get_args(PromptName):
        only = asked(name)
        assert only.prompt.startswith(f"{name}@")
        assert "peanuts" in only.messages[-1].content
        assert only.answer["properties"]
    assert 'S0: "User: I am allergic to peanuts."' in asked("extraction").messages[-1].content
    with pytest.raises(NotFound):
        asked("extraction", "ben")


def test_what_an_agent_learned_is_a_behavior(group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lesson = ExtractedMemory(category="agent_lesson", content="Fire the kiln slowly.", turns=[0])
    told(monkeypatch, memories=[lesson])
    messages = [Message(role="user", text="The glaze cracked, we fired too fast.")]
    said = ExtractMessages(agent_id="helper", messages=messages)
    assert [item.fact for item in worker.extract_session_memories(me(group), said).items] == ["behavior"]


def test_a_vector_with_pieces_and_keywords(group: str) -> None:
    found = worker.create_embedding(me(group), EmbedText(text="The kiln reached 1,240 °C."))
    assert len(found.vector) > 0
    assert found.pieces[0]["keywords"]


def test_drivers_are_named_and_what_is_missing_is_told(group: str) -> None:
    found = worker.configure_summaries(me(group), ConfigureSummaries(provider="openai", model="gpt-4o-mini"))
    assert (found.active, found.in_use) == (False, "rules")
    assert "JIYI_LLM=openai:gpt-4o-mini" in found.how
    assert worker.configure_summaries(me(group), ConfigureSummaries(provider="rules")).active


def test_a_summary_that_fails_is_made_by_rules(group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from jiyi.errors import BadReply

    class Wrong(Rules):
        def ask(self, question: Any) -> Any:
            raise BadReply("no JSON")

    monkeypatch.setattr(llms, "llm", Wrong)
    add(group, f"One. Two. {'Three. Four. ' * 200}")
    run_until_idle(SUMMARIZE, extraction.summarize)
    [row] = nodes(group)
    assert row["overview"] == "One. Two."


def test_a_text_that_is_short_is_its_own_summary_and_asks_nobody(
    group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llms, "llm", Scripted)
    add(group, "One. Two. Three. Four.")
    run_until_idle(SUMMARIZE, extraction.summarize)
    [row] = nodes(group)
    assert (row["overview"], row["abstract"]) == ("One. Two. Three. Four.", "one, two, three, four")
