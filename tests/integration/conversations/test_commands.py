"""Commands on memories of conversations: what each does, what bad input gets, and that none shows another
agent's (BUG-M3).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args
from uuid import uuid4

import pytest
from pydantic import ValidationError

from engine.providers.questions import Extraction
from engine.rules.provider import Rules
from jiyi.errors import InvalidRequest, NotFound
from jiyi.protocol.base import OfAgent, Request
from jiyi.protocol.conversation_commands import (
    ConfigureSummaries,
    EmbedText,
    ExtractMessages,
    FindOptions,
    ListResources,
    MemoryEntryInput,
    PersistentMemory,
    PromptName,
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
from models.memory import access
from models.memory.work import SUMMARIZE
from tasks.conversations import commands as worker
from tasks.conversations import extraction, injection
from tasks.conversations.commands import show_prompts
from tasks.framework.work import run_until_idle
from tasks.operations.reembedding import embedder_report
from tests.integration.conversations.talk import SMALL_TALK, end_session, facts, nodes, run, say, talked
from tests.integration.growth.living import act, rows
from tests.llms import Perfect, Scripted

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")

UseLLM = Callable[[Any], Any]


def me(group: str) -> Actor:
    return Actor(group, "test")


def add(group: str, content: str, uri: str = "agent://helper/knowledge/food") -> Any:
    return act(group, actions.add_resource, uri=uri, content=content)


def keep(group: str, content: str, **fields: Any) -> Any:
    return act(group, actions.store_memory, content=content, **{"agent_id": "helper"} | fields)


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
    found = act(group, actions.get, id=done.id)
    assert (found.description, found.uri) == ("用户对花生过敏。", "agent://小伴/knowledge/allergy")
    assert (found.keywords, found.poignancy) == (["花生"], 9)
    assert act(group, actions.get, id=uuid4()) is act(f"{group}-other", actions.get, id=done.id) is None


def test_bug_h2_a_resource_that_is_added_again_is_stored_once(group: str) -> None:
    for kind in ("knowledge", "session"):
        one, two = (add(group, said, f"agent://helper/{kind}/food") for said in ("Peanuts.", "  PEANUTS. "))
        assert (one.new, two.new, one.id) == (True, False, two.id)
        assert add(group, "Peanuts.", f"agent://helper/{kind}/other").new


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
    [counted] = [row for row in rows_of("node_access", group) if row["node_id"] == done.id]
    assert counted["access_count"] == 2


def test_deleting_is_an_erasure(group: str) -> None:
    done = add(group, "peanuts")
    assert act(group, actions.delete, id=done.id).count == 1
    assert act(group, actions.delete, id=uuid4()).erasure_id is None
    assert [act(group, actions.delete_all, agent_id=name).count for name in ("helper", "nobody")] == [1, 0]
    for blank in ("", " ", "\t"):
        with pytest.raises(ValidationError, match="agent_id"):
            OfAgent(agent_id=blank)


def test_stats_count_by_type_and_by_agent(group: str) -> None:
    add(group, "one")
    add(group, "two", "agent://other/preference/x")
    found = act(group, actions.stats)
    assert (found.total, found.size_bytes, found.by_agent) == (2, 6, {"helper": 1, "other": 1})
    assert found.by_type == {"knowledge": 1, "preference": 1}
    assert act(f"{group}-other", actions.stats).total == 0
    state = act(group, actions.status)
    assert "@" not in state.path, "the path tells no secret"
    assert (state.memories, state.llm, state.waiting) == (2, "rules", {"embed": 2, "summarize": 2})
    assert act(group, actions.estimate_content_tokens, content="渡口停航").count == 6
    talk = (("user", "How hot is the kiln?"), ("assistant", "1,240 °C."))
    said = [ChatMessage(role=role, content=content) for role, content in talk]
    assert act(group, actions.estimate_content_tokens, messages=said).count == 25
    for both in ({}, {"content": "x", "messages": said}):
        with pytest.raises(ValidationError, match="content"):
            EstimateTokens(**both)
    assert isinstance(embedder_report(me(group), Request()), EmbedderReport)


def test_what_is_exported_can_be_imported_again_and_again(group: str) -> None:
    def exported(**of: Any) -> tuple[list[int], list[Any]]:
        """How many rows each page has, and all of them."""
        pages, cursor, more = [], None, True
        while more:
            page = act(group, actions.export, limit=2, cursor=cursor, **of)
            pages.append(page.rows)
            cursor, more = page.next, page.next is not None
        return [len(page) for page in pages], [row for page in pages for row in page]

    for number in range(3):
        add(group, f"fact {number}")
    sizes, rows = exported(agent_id="helper")
    assert sizes == [2, 1]
    wanted = [PersistentMemory.model_validate(memory.model_dump(exclude={"node_id"})) for memory in rows]
    add(group, "fact of another", "agent://zoe/knowledge/food")
    told = [memory.description for memory in exported()[1]]
    assert told == ["fact 0", "fact 1", "fact 2", "fact of another"]
    counts = [
        act(to, actions.import_memories, memories=wanted).count for to in (f"{group}-b",) * 2 + (group,)
    ]
    assert counts == [3, 0, 0]


# Addresses


def test_ls_and_tree_count_what_is_in_force_and_removing_takes_what_is_below(group: str) -> None:
    for content, path in (
        ("one", "knowledge/food"),
        ("two", "knowledge/home/city"),
        ("3", "preference/food"),
    ):
        add(group, content, f"agent://helper/{path}")
    listed = act(group, actions.ls, uri="agent://helper").rows
    assert [(one.name, one.memories) for one in listed] == [("knowledge", 2), ("preference", 1)]
    tree = act(group, actions.ls, uri="agent://helper/knowledge", depth=2).rows
    below = [(one.name, [child.name for child in one.children]) for one in tree]
    assert below == [("food", []), ("home", ["city"])]
    add(group, "four", "agent://helper/knowledge/food/nuts")
    add(group, "five", "agent://helper/knowledge/foods")
    assert act(group, actions.remove, uri="agent://helper/knowledge/food").count == 2


def test_a_level_that_is_missing_is_made_of_the_text(group: str) -> None:
    add(group, "The user is allergic to peanuts. " * 40)

    def read(level: Any) -> str:
        [found] = act(group, actions.read, uri="agent://helper/knowledge/food", level=level).rows
        return str(found.text)

    assert len(read("L2")) > len(read("L1")) > len(read("L0")) > 0
    run_until_idle(SUMMARIZE, extraction.summarize)
    [row] = nodes(group)
    assert (read("L1"), read("L0")) == (row["overview"], row["abstract"])


def test_grep_knows_regular_expressions(group: str) -> None:
    add(group, "Born on 1990-03-02.")
    add(group, "生日是3月2日")
    found = lambda pattern: len(act(group, actions.grep, pattern=pattern, uri="agent://helper").rows)
    assert [found(r"\d{4}-\d\d"), found("3月"), found("^x"), found("(a+)+$")] == [1, 1, 0, 0]
    for wrong in ("(", "x" * 201):
        with pytest.raises((InvalidRequest, ValidationError), match="pattern"):
            found(wrong)


def test_what_is_no_address_is_refused() -> None:
    for uri in ("agent://a/../b", "helper", "agent:///knowledge/x", "agent://a/secrets/x"):
        for model in (ResourceUri, ListResources):
            with pytest.raises(ValidationError, match="uri"):
                model(uri=uri)
    with pytest.raises(ValidationError, match=r"names no category|address"):
        MemoryEntryInput(uri="agent://a/knowledge", content="x")


def test_words_of_the_trade_are_looked_for_together(group: str) -> None:
    add(group, "The glaze cracks.")
    act(group, actions.load_industry_keywords, industry="pottery", keywords={"釉": ["glaze"]})
    assert "The glaze cracks." in context(group, "釉怎么了？").context


#: Each way to read one agent's memories.
READERS: dict[str, Callable[[str, str], object]] = {
    "search": lambda group, agent: search(group, agent_id=agent),
    "find": lambda group, agent: worker.find(
        me(group), FindOptions(query="peanuts", scope=f"agent://{agent}")
    ),
    "grep": lambda group, agent: act(group, actions.grep, pattern="peanuts", uri=f"agent://{agent}"),
    "ls": lambda group, agent: act(group, actions.ls, uri=f"agent://{agent}/knowledge"),
    "tree": lambda group, agent: act(group, actions.ls, uri=f"agent://{agent}", depth=3),
    "read": lambda group, agent: act(group, actions.read, uri=f"agent://{agent}/knowledge/food"),
    "context": lambda group, agent: context(group, "peanuts", agent_id=agent),
    "export": lambda group, agent: act(group, actions.export, agent_id=agent),
}


def test_bug_m3_no_other_agents_memories_are_shown(group: str) -> None:
    for agent in ("alpha", "alphabet", "alph"):
        add(group, f"peanuts of {agent}!", f"agent://{agent}/knowledge/food")
    add(f"{group}-other", "peanuts of strangers!", "agent://alpha/knowledge/food")
    for reader, ask in READERS.items():
        found = str(ask(group, "alpha"))
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


def rows_of(table: str, group: str) -> list[dict[str, Any]]:
    return rows(f"SELECT * FROM {table} WHERE group_id = :g", g=group)


class Told(Rules):
    """Rules that always extract the same."""

    model = "rules-told"

    def __init__(self, **answer: Any) -> None:
        self.answer = CombinedExtraction(**answer)

    def ask(self, question: Any) -> Any:
        return self.answer if isinstance(question, Extraction) else super().ask(question)


def experience(**fields: Any) -> ExtractedExperience:
    made = {"pain_pattern": "The glaze cracks", "solution_steps": ["cool slowly"], "turns": [0]}
    return ExtractedExperience.model_validate({**made, "outcome": "partial", "confidence": 0.9, **fields})


def test_signals_reach_the_profile_and_what_is_unsure_known_or_cannot_be_stored_holds_up_nothing(
    group: str, use_llm: UseLLM
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
    use_llm(Told(memories=[*memories, known, dull], experiences=unsure, profile_signals=signals))
    said = "I run a pottery that needs a new glaze.", "Keep it short: is the glaze safe?"
    say(group, *SMALL_TALK, *said, agent_id=agent)
    run()
    assert facts(group) == ["The user is allergic to peanuts.", "Fact a.", "Fact c."]
    assert nodes(group, "experience") == []
    found = act(group, actions.agent_get, agent_id=agent).profile
    assert (found.industry, found.role) == ("pottery", None)
    assert (found.communication_style, found.recent_topics) == ("concise", ["glaze"])
    with pytest.raises(NotFound):
        act(group, actions.agent_get, agent_id="nobody")


def test_experiences_of_the_same_problem_are_merged_and_one_that_is_injected_was_used_again(
    group: str, use_llm: UseLLM
) -> None:
    use_llm(Told(experiences=[experience()]))
    first = talked(group, *SMALL_TALK, "x")
    again = {"pain_pattern": "the GLAZE cracks", "solution_steps": ["thinner coat"], "outcome": "success"}
    use_llm(Told(experiences=[experience(**again)]))
    talked(group, *SMALL_TALK, "y", session_id="s2")
    [row] = rows_of("experiences", group)
    assert row["solution_steps"] == ["cool slowly", "thinner coat"]
    assert (row["outcome"], row["reuse_count"]) == ("success", 1)
    old, new = nodes(group, "experience")
    assert (old["superseded_by"], row["node_id"]) == (new["node_id"], new["node_id"])
    assert str(first[0]) in new["filling"]  # so that an erasure of what told it finds it
    assert old["uri"] == new["uri"]
    found = context(group, "The glaze cracks, what can I do?")
    assert "experience" in {memory.kind for memory in found.memories}
    assert [row["reuse_count"] for row in rows_of("experiences", group)] == [2]


# The others


def test_extracting_stores_nothing_unless_it_is_to(group: str, use_llm: UseLLM) -> None:
    said = [Message(role="user", text="I am allergic to peanuts.")]
    request = ExtractMessages(agent_id="helper", messages=said, session_id="s")
    found = worker.extract_session_memories(me(group), request)
    assert [item.category for item in found.items] == ["user_fact"]
    assert found.items[0].suggested_uri.startswith("agent://helper/knowledge/")
    assert nodes(group) == []
    assert [actions.extract_and_store.perform(me(group), request).new for _ in range(2)] == [1, 0]
    run()
    assert len(facts(group)) == 1
    lesson = ExtractedMemory(category="agent_lesson", content="Fire the kiln slowly.", turns=[0])
    use_llm(Told(memories=[lesson]))
    assert [item.fact for item in worker.extract_session_memories(me(group), request).items] == ["behavior"]


def test_what_an_llm_would_be_asked_is_shown_and_not_asked(group: str, use_llm: UseLLM) -> None:
    say(group, *SMALL_TALK, "I am allergic to peanuts.", user_id="zoe")
    run()
    llm = use_llm(Scripted())

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
    assert llm.asked == []


def test_a_vector_with_pieces_and_keywords(group: str) -> None:
    found = worker.create_embedding(me(group), EmbedText(text="The kiln reached 1,240 °C."))
    assert len(found.vector) > 0
    assert found.pieces[0]["keywords"]


def test_drivers_are_named_and_what_is_missing_is_told(group: str) -> None:
    found = worker.configure_summaries(me(group), ConfigureSummaries(provider="openai", model="gpt-4o-mini"))
    assert (found.active, found.in_use) == (False, "rules")
    assert "JIYI_LLM=openai:gpt-4o-mini" in found.how
    assert worker.configure_summaries(me(group), ConfigureSummaries(provider="rules")).active


def test_a_summary_that_fails_is_made_by_rules_and_a_short_text_is_its_own(
    group: str, use_llm: UseLLM
) -> None:
    for content, llm, overview, abstract in (
        (f"One. Two. {'Three. Four. ' * 200}", Perfect(prose=True), "One. Two.", None),
        ("One. Two. Three. Four.", Scripted(), "One. Two. Three. Four.", "one, two, three, four"),
    ):
        own = f"{group}-{type(llm).__name__}"
        use_llm(llm)
        add(own, content)
        run_until_idle(SUMMARIZE, extraction.summarize)
        [row] = nodes(own)
        assert row["overview"] == overview
        assert abstract in (None, row["abstract"])
    assert isinstance(llm, Scripted)
    assert llm.asked == []
