"""What people see whose service asks an LLM: one that refuses, that answers too much, too little or
nonsense.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from engine.conversations.marks import marks_of
from engine.conversations.notes import Note, Noted, Notes
from engine.providers import contexts, llm_prompts, llms
from engine.providers.questions import Compaction, Condensed, Keywords, Poignancy, Question, Triple
from engine.rules.provider import Rules
from jiyi.errors import LeftToRules, LLMUnavailable
from jiyi.protocol.conversations import ChatMessage, CompactMessages, ContextRequest
from jiyi.protocol.operations import LettersRequest, ResolveBody
from jiyi.settings import AgentDefaults, get_settings
from models.conversations.extraction_schedule import EXTRACT
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.growth.work import MERGE_PAINS
from models.memory.work import APPRAISE
from models.queue import actions, dead_letters
from models.reflection.reflections import REFLECT
from tasks import appraisal
from tasks.appraisal import appraise_memories
from tasks.conversations import asking, commands
from tasks.conversations.asking import LearnedRoom
from tasks.conversations.injection import build
from tasks.framework import work
from tasks.framework.work import run_until_idle
from tasks.growth.pains import merge_pains
from tasks.reflection import reflect
from tests.integration.conversations.talk import START, facts, hurry, nodes, owed, run, say
from tests.integration.growth.living import TROUBLE, pains
from tests.integration.memory.test_inbox import observed, save
from tests.integration.reflection.test_reflection import live, reflection_rows
from tests.llms import Perfect, too_slow

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")

CHAT = "What is the weather like?", ("assistant", "Sunny."), "Thanks, that helps!", ("assistant", "Great.")
KNOWN = "I am allergic to peanuts.", "My sister lives in Oslo.", "I live in Turku."


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], Any]:
    """Have the service ask this LLM."""
    monkeypatch.setattr(asking, "learned", LearnedRoom())

    def use(llm: Any) -> Any:
        monkeypatch.setattr(llms, "llm", lambda: llm)
        return llm

    return use


@pytest.fixture
def configure(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Change settings for what asks an LLM."""

    def use(**changes: Any) -> None:
        changed = get_settings().model_copy(update={"llm_context": 100_000, **changes})
        for module in (commands, contexts, llm_prompts, appraisal, work):
            monkeypatch.setattr(module, "get_settings", lambda: changed)

    return use


def letters(group: str) -> list[Any]:
    with unit_of_work() as connection:
        found = dead_letters.letters(connection, group, LettersRequest())
    return [letter for letter in found if letter.group_id == group]  # and not those of nobody's group


def looked_through(group: str, *said: Any, **fields: Any) -> list[Any]:
    ids = say(group, *said, **fields)
    hurry()
    run()
    return ids


# What one says keeps nobody else's words from being remembered


def test_one_turn_that_a_filter_refuses_stops_nobody_s_memory(group: str, use: Callable[[Any], Any]) -> None:
    llm = use(Perfect(refused="forbidden"))
    said = say(
        group,
        "The forbidden topic came up.",
        ("assistant", "Noted."),
        "I play the cello.",
        session_id="m1",
        user_id="mallory",
    )
    say(
        group,
        "I am allergic to peanuts.",
        ("assistant", "Noted."),
        "My sister lives in Oslo.",
        session_id="z1",
        user_id="zoe",
    )
    assert run() == 1
    assert owed() == []
    assert sorted(facts(group)) == [
        "User: I am allergic to peanuts.",
        "User: I play the cello.",
        "User: My sister lives in Oslo.",
    ]
    assert {row["provenance"]["llm"] for row in nodes(group, "knowledge", "preference")} == {"perfect"}
    [letter] = letters(group)
    assert (letter.kind, letter.subject_id) == (EXTRACT, said[0])
    assert "data_inspection_failed" in letter.reason
    asked = len(llm.asked)
    looked_through(
        group,
        "I work as a nurse.",
        ("assistant", "Nice."),
        "I keep bees.",
        ("assistant", "Nice."),
        session_id="z2",
        user_id="zoe",
    )
    assert len(facts(group)) == 5
    assert len(llm.asked) == asked + 1


def test_where_a_model_is_not_asked_for_experiences_those_that_rules_find_are_kept(
    group: str, use: Callable[[Any], Any]
) -> None:
    class Half(Perfect):
        def ask(self, question: Any) -> Any:
            if question.prompt == "experiences":
                raise LeftToRules("rules answer experiences for an hour")
            return super().ask(question)

    use(Half())
    said = (
        "My app keeps crashing with a KeyError on startup.",
        ("assistant", "Which key?"),
        "Adding a default value to the config fixed it!",
    )
    looked_through(group, *said)
    [lived] = nodes(group, "experience")
    assert "KeyError" in lived["description"]
    assert letters(group) == []


def test_a_refused_turn_is_looked_at_by_rules_and_asked_about_again_when_somebody_wants_it(
    group: str, use: Callable[[Any], Any]
) -> None:
    use(Perfect(refused="peanuts"))
    [turn] = looked_through(
        group, "I am allergic to peanuts.", ("assistant", "Noted."), "I live in Turku.", ("assistant", "ok")
    )[:1]
    [by_rules] = [row for row in nodes(group, "knowledge") if "peanuts" in row["description"]]
    assert (by_rules["provenance"]["llm"], by_rules["provenance"]["fallback"]) == (Rules.model, True)
    [letter] = letters(group)
    use(Perfect())
    actions.resolve_letters.perform(Actor(group), ResolveBody(action="replay", letter_ids=[letter.letter_id]))
    hurry()
    assert run() == 1
    assert (owed(), letters(group)) == ([], [])
    assert len(facts(group)) == 2
    with unit_of_work() as connection:
        connection.execute(
            text("DELETE FROM memory_nodes WHERE group_id = :g AND node_id = :n"), {"g": group, "n": turn}
        )


def test_a_memory_that_a_filter_refuses_keeps_no_later_turn_from_the_llm(
    group: str, use: Callable[[Any], Any]
) -> None:
    looked_through(group, "I like forbidden fruit very much.", ("assistant", "Noted."), "Fine.", "Well.")
    use(Perfect(refused="forbidden"))
    looked_through(group, "I keep bees.", ("assistant", "Noted."), "Fine.", "Well.", session_id="s2")
    [found] = [row for row in nodes(group, "knowledge", "preference") if "bees" in row["description"]]
    assert found["provenance"]["llm"] == "perfect"
    assert letters(group) == []


def test_an_llm_that_answers_nothing_usable_is_no_worse_than_none(
    group: str, use: Callable[[Any], Any]
) -> None:
    llm = use(Perfect(prose=True))
    for number in range(5):
        say(group, *KNOWN, ("assistant", "ok"), session_id=f"s{number}", user_id=f"user{number}")
    assert run() == 1
    assert len(facts(group)) == 15
    assert len(llm.asked) <= 3
    assert letters(group) == []


# All that is said is read


def test_sixty_turns_at_once_fit_the_answer(group: str, use: Callable[[Any], Any]) -> None:
    llm = use(Perfect())
    turns: list[Any] = []
    for number in range(30):
        turns += [
            f"I like number{number} very much, more than anything else that I ever tried before.",
            ("assistant", "ok"),
        ]
    say(group, *turns)
    assert run() == 1
    assert len(facts(group)) == 30
    assert letters(group) == []
    assert len(llm.asked) <= 3


def test_an_answer_that_is_cut_off_all_the_same_is_asked_for_in_halves(
    group: str, use: Callable[[Any], Any]
) -> None:
    use(Perfect(max_tokens=300))
    say(group, *(f"I like number{number} very much." for number in range(16)))
    assert run() == 1
    assert len(facts(group)) == 16
    assert letters(group) == []


@pytest.mark.long
def test_what_is_said_late_in_long_messages_is_remembered(group: str, use: Callable[[Any], Any]) -> None:
    llm = use(Perfect())
    long = "I went to the market and looked at many things there. " * 330
    looked_through(
        group,
        f"{long}I am allergic to peanuts.",
        ("assistant", "ok"),
        f"{long}My sister lives in Oslo.",
        ("assistant", "ok"),
    )
    shown = "\n".join(
        message.text for question in llm.asked if isinstance(question, Notes) for message in question.messages
    )
    assert "allergic to peanuts" in shown
    assert "lives in Oslo" in shown
    assert {"allergy", "home"} <= {row["predicate"] for row in nodes(group, "knowledge")}
    assert all(len(row["filling"]) == 1 for row in nodes(group, "knowledge"))


@pytest.mark.long
def test_a_small_context_gets_smaller_questions(
    group: str, use: Callable[[Any], Any], configure: Callable[..., None]
) -> None:
    configure(llm_context=4_096)
    llm = use(Perfect())
    say(group, *(f"我在第{number}号摊位买了很多东西，然后慢慢走回家。" * 20 for number in range(8)))
    run()
    assert len(llm.asked) >= 4
    assert letters(group) == []


class Slow(Perfect):
    """Has time for three messages."""

    def answer(self, question: Any) -> Any:
        if len(question.messages) - question.since > 3:
            raise too_slow()
        return super().answer(question)


def test_an_llm_that_is_too_slow_for_many_turns_is_asked_about_fewer(
    group: str, use: Callable[[Any], Any]
) -> None:
    use(Slow())
    looked_through(group, *KNOWN, "I keep bees.", "I play the cello.", "I work as a nurse.")
    assert len(facts(group)) == 6


class Busy(Perfect):
    """Answers two questions, then none for a while."""

    def answer(self, question: Any) -> Any:
        if len(self.asked) % 3 == 0:
            raise LLMUnavailable("compatible has had too many requests or its quota is used up (429)")
        return super().answer(question)


@pytest.mark.long
def test_an_llm_that_answers_few_questions_a_minute_gets_through_in_the_end(
    group: str, use: Callable[[Any], Any]
) -> None:
    use(Busy())
    say(
        group,
        *(
            f"I like number{number} very much, more than anything else that I ever tried before."
            for number in range(60)
        ),
    )
    for _ in range(5):
        hurry()
        run()
    assert len(facts(group)) == 60


# Nothing is believed that nobody said, and nothing ends by it


class Says(Perfect):
    """Notes whatever it is told to, of the first new line."""

    def __init__(self, *notes: Any) -> None:
        super().__init__()
        self.notes = notes

    def answer(self, question: Any) -> Any:
        if not isinstance(question, Notes):
            return super().answer(question)
        about = {"ends": range(len(question.known)), "lines": [question.since]}
        notes = [Note.model_validate({**about, "content": note}) for note in self.notes]
        return Noted(memories=notes)


@pytest.mark.parametrize(
    "note",
    [
        "The user enjoys sunny weather",
        "The user has a brother in Rome",
        "Note what the new lines of a conversation say about people",
    ],
)
def test_what_nobody_said_is_no_memory_and_ends_nothing(
    group: str, use: Callable[[Any], Any], note: str
) -> None:
    looked_through(group, *KNOWN, ("assistant", "ok"))
    use(Says(note))
    looked_through(group, *CHAT, start=START + timedelta(days=1), session_id="s2")
    assert sorted(facts(group)) == sorted(f"User: {known}" for known in KNOWN)


def test_a_new_home_ends_the_old_one_and_no_allergy_whatever_the_llm_says(
    group: str, use: Callable[[Any], Any]
) -> None:
    looked_through(group, *KNOWN, ("assistant", "ok"))
    use(Says("The user moved to Lisbon."))
    looked_through(
        group,
        "I moved to Lisbon.",
        ("assistant", "ok"),
        "Fine.",
        "Well.",
        start=START + timedelta(days=1),
        session_id="s2",
    )
    assert sorted(facts(group)) == [
        "The user moved to Lisbon.",
        "User: I am allergic to peanuts.",
        "User: My sister lives in Oslo.",
    ]


def earlier(group: str) -> list[str]:
    """The parts of turns and statements that are shown as earlier."""
    rows = nodes(group, "session", "preference", "knowledge")
    return [
        row["description"][mark.start : mark.end]
        for row in rows
        for mark in marks_of(row["provenance"])
        if mark.why == "earlier"
    ]


def test_what_a_model_sees_to_be_over_in_other_words_is_shown_as_earlier_and_nothing_is_lost(
    group: str, use: Callable[[Any], Any]
) -> None:
    looked_through(group, "I work nights as a nurse.", *KNOWN, ("assistant", "ok"))
    use(Says("The user stands behind the counter of a bakery of their own."))
    said = "First month behind the counter of my own bakery, and I sleep at night."
    looked_through(
        group, said, ("assistant", "ok"), "Fine.", "Well.", start=START + timedelta(days=1), session_id="s2"
    )
    assert "User: I work nights as a nurse." in facts(group)
    assert sum("I work nights as a nurse" in part for part in earlier(group)) == len(
        ["the turn", "the statement"]
    )
    assert not any(health in part for part in earlier(group) for health in ("peanuts", "Oslo"))
    [turn] = [row for row in nodes(group, "session") if row["description"].endswith("as a nurse.")]
    [newer] = {UUID(mark.by or "") for mark in marks_of(turn["provenance"])}
    request = ContextRequest(
        agent_id="helper", query="Do I work nights as a nurse?", now=START + timedelta(days=2)
    )
    prompt = build(Actor(group, "test"), request).context
    lines = prompt.splitlines()
    assert any("nurse" in line and "(earlier; newer" in line for line in lines), prompt
    assert any("bakery" in line for line in lines), prompt
    assert newer in {row["node_id"] for row in nodes(group)}


def test_of_one_message_all_that_is_over_is_shown_as_earlier(group: str, use: Callable[[Any], Any]) -> None:
    use(Says("The user works nights as a nurse.", "The user likes tea on the ward."))
    looked_through(
        group, "I work nights as a nurse. I like tea on the ward.", ("assistant", "ok"), "Fine.", "Well."
    )
    assert len(facts(group)) == 2
    use(Says("The user stands behind the counter of a bakery of their own."))
    said = "First month behind the counter of my own bakery, and coffee instead."
    looked_through(
        group, said, ("assistant", "ok"), "Fine.", "Well.", start=START + timedelta(days=1), session_id="s2"
    )
    [turn] = [row for row in nodes(group, "session") if "as a nurse. I like" in row["description"]]
    marked = [turn["description"][mark.start : mark.end] for mark in marks_of(turn["provenance"])]
    assert [word for word in ("nurse", "tea") if any(word in part for part in marked)] == ["nurse", "tea"]


def test_news_of_somebody_else_makes_nothing_earlier_whatever_the_llm_says(
    group: str, use: Callable[[Any], Any]
) -> None:
    looked_through(group, "I work nights as a nurse.", *KNOWN, ("assistant", "ok"))
    use(Says("The user has a friend with a bakery."))
    said = "Mia has a bakery of her own, she left the ward."
    looked_through(
        group, said, ("assistant", "ok"), "Fine.", "Well.", start=START + timedelta(days=1), session_id="s2"
    )
    assert earlier(group) == []


def test_dislike_is_no_allergy(group: str, use: Callable[[Any], Any]) -> None:
    use(Says("The user is allergic to peanuts.", "The user hates peanuts."))
    looked_through(group, "I hate peanuts.", ("assistant", "ok"), "Fine.", "Well.")
    assert facts(group) == ["The user hates peanuts."]


# A summary stands for what it is of


class Condenses(Perfect):
    def __init__(self, summary: str) -> None:
        super().__init__()
        self.summary = summary

    def answer(self, question: Any) -> Any:
        return (
            Condensed(summary=self.summary) if isinstance(question, Compaction) else super().answer(question)
        )


def invoices(count: int) -> list[ChatMessage]:
    asked = [
        f"Fact {number}: the invoice {1000 + number} of Mia is due on 2026-05-{1 + number % 28:02}. " * 6
        for number in range(count)
    ]
    return [
        ChatMessage(role=role, content=words)
        for one in asked
        for role, words in (("user", one), ("assistant", "Noted. " * 10))
    ]


@pytest.mark.parametrize(
    "summary",
    [
        "OneSentence",
        "The user asked about invoices, and was helped. " * 8,
        f"{'The invoice 7777 of Mia is due. ' * 9}",
    ],
)
def test_a_conversation_is_not_replaced_by_a_summary_that_says_nothing(
    group: str, use: Callable[[Any], Any], configure: Callable[..., None], summary: str
) -> None:
    configure(llm="compatible:m")
    use(Condenses(summary))
    done = commands.compact(Actor(group), CompactMessages(messages=invoices(20), force=True))
    assert done.mode == "rules"
    assert "1000" in done.summary


class Summarises(Perfect):
    def answer(self, question: Any) -> Any:
        told = "".join(text[:70] for speaker, text in question.utterances[:8] if speaker == "user")
        return Condensed(summary=f"{question.text} {told}"[-1_500:])


def test_all_of_a_long_conversation_is_summarised(
    group: str, use: Callable[[Any], Any], configure: Callable[..., None]
) -> None:
    configure(llm="compatible:m")
    llm = use(Summarises())
    done = commands.compact(Actor(group), CompactMessages(messages=invoices(100), force=True))
    assert len(llm.asked) > 1
    shown = "\n".join(said for question in llm.asked for _, said in question.utterances)
    assert all(f"invoice {1000 + number} " in shown for number in range(97))
    assert llm.asked[1].text
    assert (done.mode, "1000" in done.summary) == ("llm", True)


# JIYI_EXTRACT_FALLBACK=rules: no work waits for answers that never come


@pytest.fixture
def by_rules(configure: Callable[..., None]) -> None:
    configure(extract_fallback="rules")


@pytest.mark.usefixtures("by_rules")
@pytest.mark.parametrize("prompt", [Poignancy, Triple, Keywords])
def test_rules_appraise_what_the_llm_cannot(
    group: str, monkeypatch: pytest.MonkeyPatch, configure: Callable[..., None], prompt: type[Question[Any]]
) -> None:
    asked: dict[str, Any] = {"derive_poignancy": "off", f"derive_{prompt.prompt}": "llm"}
    configure(extract_fallback="rules", agent_defaults=AgentDefaults(**asked))
    llm = Perfect(prose=True)
    monkeypatch.setattr(appraisal, "llm", lambda: llm)
    save(observed(group, "Klaus lost his job", poignancy=None))
    assert run_until_idle(APPRAISE, appraise_memories) == 1
    assert letters(group) == []
    assert len(llm.asked) == 1
    [node] = nodes(group)
    assert node["provenance"]["appraised"][prompt.prompt]["llm"] == Rules.model


def test_talk_without_a_word_of_trouble_asks_no_question_about_it(
    group: str, use: Callable[[Any], Any]
) -> None:
    looked_through(group, *KNOWN, ("assistant", "ok"))
    llm = use(Perfect())
    run_until_idle(MERGE_PAINS, merge_pains)
    assert llm.asked == []
    looked_through(
        group, "Is it slow because of me?", TROUBLE[0], ("assistant", "ok"), "Fine.", session_id="s2"
    )
    llm.asked.clear()
    run_until_idle(MERGE_PAINS, merge_pains)
    assert [question.prompt for question in llm.asked] == ["pains"]
    assert len(pains(group)) == 1


@pytest.mark.usefixtures("by_rules")
def test_rules_note_pains_that_the_llm_cannot(group: str, use: Callable[[Any], Any]) -> None:
    looked_through(group, *CHAT, TROUBLE[0])
    llm = use(Perfect(prose=True))
    run_until_idle(MERGE_PAINS, merge_pains)
    assert len(pains(group)) == 1
    assert len(llm.asked) <= 3
    assert letters(group) == []


@pytest.mark.usefixtures("by_rules")
def test_rules_reflect_where_the_llm_cannot(group: str, use: Callable[[Any], Any]) -> None:
    llm = use(Perfect(prose=True))
    live(group, 40)
    assert run_until_idle(REFLECT, reflect) == 1
    assert [row["state"] for row in reflection_rows(group)] == ["nothing"], (
        "the rules draw no conclusion from these"
    )
    assert len(llm.asked) == 1
    assert letters(group) == []
