"""What people see whose service asks an LLM: one that refuses, that answers too much, too little or
nonsense.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from engine.conversations.marks import marks_of
from engine.conversations.notes import Note, Noted, Notes
from engine.providers import llms
from engine.providers.questions import Compaction, Condensed, Keywords, Poignancy, Question, Triple
from engine.rules.provider import Rules
from jiyi.errors import LeftToRules, LLMUnavailable
from jiyi.protocol.conversations import ChatMessage, CompactMessages, ContextRequest
from jiyi.protocol.operations import LettersRequest, ResolveBody
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
from tasks.framework.work import run_until_idle
from tasks.growth.pains import merge_pains
from tasks.reflection import reflect
from tests.integration.conversations.talk import START, facts, hurry, nodes, owed, run, say
from tests.integration.growth.living import TROUBLE, pains
from tests.integration.memory.test_inbox import observed, save
from tests.integration.reflection.test_reflection import live, reflection_rows
from tests.llms import Perfect, too_slow
from workers.ephemeral import environment

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")

CHAT = "What is the weather like?", ("assistant", "Sunny."), "Thanks, that helps!", ("assistant", "Great.")
KNOWN = "I am allergic to peanuts.", "My sister lives in Oslo.", "I live in Turku."


Use = Callable[[Any], Any]
Configure = Callable[..., None]


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Use:
    """Have the service ask this LLM."""
    monkeypatch.setattr(asking, "learned", LearnedRoom())

    def use(llm: Any) -> Any:
        for module in (llms, appraisal):
            monkeypatch.setattr(module, "llm", lambda: llm)
        return llm

    return use


@pytest.fixture
def configure() -> Iterator[Configure]:
    """Change settings for what asks an LLM."""
    with ExitStack() as stack:
        yield lambda **settings: stack.enter_context(environment(**{"llm_context": "100000", **settings}))


def letters(group: str) -> list[Any]:
    with unit_of_work() as connection:
        found = dead_letters.letters(connection, group, LettersRequest())
    return [letter for letter in found if letter.group_id == group]  # and not those of nobody's group


OK, NOTED, MORE = ("assistant", "ok"), ("assistant", "Noted."), ("Fine.", "Well.")


def extracted(group: str, *said: Any, **fields: Any) -> list[Any]:
    ids = say(group, *said, **fields)
    hurry()
    run()
    return ids


def later(group: str, *said: Any) -> None:
    """What is said a day later."""
    extracted(group, *said, start=START + timedelta(days=1), session_id="s2")


def remembered(group: str, word: str) -> Any:
    """The one memory with a word."""
    [found] = [row for row in nodes(group, "knowledge", "preference") if word in row["description"]]
    return found


# What one says keeps nobody else's words from being remembered


def test_one_turn_that_a_filter_refuses_stops_nobody_s_memory(group: str, use: Use) -> None:
    llm = use(Perfect(refused="forbidden"))
    mallory, zoe = {"session_id": "m1", "user_id": "mallory"}, {"session_id": "z1", "user_id": "zoe"}
    said = say(group, "The forbidden topic came up.", NOTED, "I play the cello.", **mallory)
    say(group, "I am allergic to peanuts.", NOTED, "My sister lives in Oslo.", **zoe)
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
    nice = ("assistant", "Nice.")
    extracted(group, "I work as a nurse.", nice, "I keep bees.", nice, session_id="z2", user_id="zoe")
    assert len(facts(group)) == 5
    assert len(llm.asked) == asked + 1


def test_where_a_model_is_not_asked_for_experiences_those_that_rules_find_are_kept(
    group: str, use: Use
) -> None:
    class Half(Perfect):
        def ask(self, question: Any) -> Any:
            if question.prompt == "experiences":
                raise LeftToRules("rules answer experiences for an hour")
            return super().ask(question)

    use(Half())
    fixed = "Adding a default value to the config fixed it!"
    crash = "My app keeps crashing with a KeyError on startup."
    extracted(group, crash, ("assistant", "Which key?"), fixed)
    [lived] = nodes(group, "experience")
    assert "KeyError" in lived["description"]
    assert letters(group) == []


def test_a_refused_turn_is_looked_at_by_rules_and_asked_about_again_when_somebody_wants_it(
    group: str, use: Use
) -> None:
    use(Perfect(refused="peanuts"))
    [turn] = extracted(group, "I am allergic to peanuts.", NOTED, "I live in Turku.", OK)[:1]
    by_rules = remembered(group, "peanuts")
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


def test_a_memory_that_a_filter_refuses_keeps_no_later_turn_from_the_llm(group: str, use: Use) -> None:
    extracted(group, "I like forbidden fruit very much.", NOTED, *MORE)
    use(Perfect(refused="forbidden"))
    extracted(group, "I keep bees.", NOTED, *MORE, session_id="s2")
    assert remembered(group, "bees")["provenance"]["llm"] == "perfect"
    assert letters(group) == []


def test_an_llm_that_answers_nothing_usable_is_no_worse_than_none(group: str, use: Use) -> None:
    llm = use(Perfect(prose=True))
    for number in range(5):
        say(group, *KNOWN, OK, session_id=f"s{number}", user_id=f"user{number}")
    assert run() == 1
    assert len(facts(group)) == 15
    assert len(llm.asked) <= 3
    assert letters(group) == []


# All that is said is read


def liking(number: int) -> str:
    return f"I like number{number} very much, more than anything else that I ever tried before."


def test_sixty_turns_at_once_fit_the_answer(group: str, use: Use) -> None:
    llm = use(Perfect())
    say(group, *(turn for number in range(30) for turn in (liking(number), OK)))
    assert run() == 1
    assert len(facts(group)) == 30
    assert letters(group) == []
    assert len(llm.asked) <= 3


def test_an_answer_that_is_cut_off_all_the_same_is_asked_for_in_halves(group: str, use: Use) -> None:
    use(Perfect(max_tokens=300))
    say(group, *(f"I like number{number} very much." for number in range(16)))
    assert run() == 1
    assert len(facts(group)) == 16
    assert letters(group) == []


@pytest.mark.long
def test_what_is_said_late_in_long_messages_is_remembered(group: str, use: Use) -> None:
    llm = use(Perfect())
    long = "I went to the market and looked at many things there. " * 330
    extracted(group, f"{long}I am allergic to peanuts.", OK, f"{long}My sister lives in Oslo.", OK)
    notes = [question for question in llm.asked if isinstance(question, Notes)]
    shown = "\n".join(message.text for question in notes for message in question.messages)
    assert "allergic to peanuts" in shown
    assert "lives in Oslo" in shown
    assert {"allergy", "home"} <= {row["predicate"] for row in nodes(group, "knowledge")}
    assert all(len(row["filling"]) == 1 for row in nodes(group, "knowledge"))


@pytest.mark.long
def test_a_small_context_gets_smaller_questions(group: str, use: Use, configure: Configure) -> None:
    configure(llm_context="4096")
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


def test_an_llm_that_is_too_slow_for_many_turns_is_asked_about_fewer(group: str, use: Use) -> None:
    use(Slow())
    extracted(group, *KNOWN, "I keep bees.", "I play the cello.", "I work as a nurse.")
    assert len(facts(group)) == 6


class Busy(Perfect):
    """Answers two questions, then none for a while."""

    def answer(self, question: Any) -> Any:
        if len(self.asked) % 3 == 0:
            raise LLMUnavailable("compatible has had too many requests or its quota is used up (429)")
        return super().answer(question)


@pytest.mark.long
def test_an_llm_that_answers_few_questions_a_minute_gets_through_in_the_end(group: str, use: Use) -> None:
    use(Busy())
    say(group, *map(liking, range(60)))
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


def test_what_nobody_said_is_no_memory_and_ends_nothing(group: str, use: Use) -> None:
    extracted(group, *KNOWN, OK)
    use(
        Says(
            "The user enjoys sunny weather",
            "The user has a brother in Rome",
            "Note what the new lines of a conversation say about people",
        )
    )
    later(group, *CHAT)
    assert sorted(facts(group)) == sorted(f"User: {known}" for known in KNOWN)


def test_a_new_home_ends_the_old_one_and_no_allergy_whatever_the_llm_says(group: str, use: Use) -> None:
    extracted(group, *KNOWN, OK)
    use(Says("The user moved to Lisbon."))
    later(group, "I moved to Lisbon.", OK, *MORE)
    assert sorted(facts(group)) == [
        "The user moved to Lisbon.",
        "User: I am allergic to peanuts.",
        "User: My sister lives in Oslo.",
    ]


def earlier(group: str) -> list[str]:
    """The parts of turns and statements that are shown as earlier."""
    rows = nodes(group, "session", "preference", "knowledge")
    marks = [(row["description"], mark) for row in rows for mark in marks_of(row["provenance"])]
    return [text[mark.start : mark.end] for text, mark in marks if mark.why == "earlier"]


def test_what_a_model_sees_to_be_over_in_other_words_is_shown_as_earlier_and_nothing_is_lost(
    group: str, use: Use
) -> None:
    extracted(group, "I work nights as a nurse.", *KNOWN, OK)
    use(Says("The user stands behind the counter of a bakery of their own."))
    said = "First month behind the counter of my own bakery, and I sleep at night."
    later(group, said, OK, *MORE)
    assert "User: I work nights as a nurse." in facts(group)
    marked = sum("I work nights as a nurse" in part for part in earlier(group))
    assert marked == len(["the turn", "the statement"])
    assert not any(health in part for part in earlier(group) for health in ("peanuts", "Oslo"))
    [turn] = [row for row in nodes(group, "session") if row["description"].endswith("as a nurse.")]
    [newer] = {UUID(mark.by or "") for mark in marks_of(turn["provenance"])}
    now = START + timedelta(days=2)
    request = ContextRequest(agent_id="helper", query="Do I work nights as a nurse?", now=now)
    prompt = build(Actor(group, "test"), request).context
    lines = prompt.splitlines()
    assert any("nurse" in line and "(earlier; newer" in line for line in lines), prompt
    assert any("bakery" in line for line in lines), prompt
    assert newer in {row["node_id"] for row in nodes(group)}


def test_of_one_message_all_that_is_over_is_shown_as_earlier(group: str, use: Use) -> None:
    use(Says("The user works nights as a nurse.", "The user likes tea on the ward."))
    extracted(group, "I work nights as a nurse. I like tea on the ward.", OK, *MORE)
    assert len(facts(group)) == 2
    use(Says("The user stands behind the counter of a bakery of their own."))
    said = "First month behind the counter of my own bakery, and coffee instead."
    later(group, said, OK, *MORE)
    [turn] = [row for row in nodes(group, "session") if "as a nurse. I like" in row["description"]]
    marked = [turn["description"][mark.start : mark.end] for mark in marks_of(turn["provenance"])]
    assert [word for word in ("nurse", "tea") if any(word in part for part in marked)] == ["nurse", "tea"]


def test_news_of_somebody_else_makes_nothing_earlier_whatever_the_llm_says(group: str, use: Use) -> None:
    extracted(group, "I work nights as a nurse.", *KNOWN, OK)
    use(Says("The user has a friend with a bakery."))
    said = "Mia has a bakery of her own, she left the ward."
    later(group, said, OK, *MORE)
    assert earlier(group) == []


def test_dislike_is_no_allergy(group: str, use: Use) -> None:
    use(Says("The user is allergic to peanuts.", "The user hates peanuts."))
    extracted(group, "I hate peanuts.", OK, *MORE)
    assert facts(group) == ["The user hates peanuts."]


# A summary stands for what it is of


class Condenses(Perfect):
    def __init__(self, summary: str) -> None:
        super().__init__()
        self.summary = summary

    def answer(self, question: Any) -> Any:
        is_summary = isinstance(question, Compaction)
        return Condensed(summary=self.summary) if is_summary else super().answer(question)


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


def test_a_conversation_is_not_replaced_by_a_summary_that_says_nothing(
    group: str, use: Use, configure: Configure
) -> None:
    configure(llm="compatible:m")
    for summary in (
        "OneSentence",
        "The user asked about invoices, and was helped. " * 8,
        "The invoice 7777 of Mia is due. " * 9,
    ):
        use(Condenses(summary))
        done = commands.compact(Actor(group), CompactMessages(messages=invoices(20), force=True))
        assert done.mode == "rules"
        assert "1000" in done.summary


class Summarises(Perfect):
    def answer(self, question: Any) -> Any:
        told = "".join(text[:70] for speaker, text in question.utterances[:8] if speaker == "user")
        return Condensed(summary=f"{question.text} {told}"[-1_500:])


def test_all_of_a_long_conversation_is_summarised(group: str, use: Use, configure: Configure) -> None:
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
def by_rules(configure: Configure) -> None:
    configure(extract_fallback="rules")


@pytest.mark.parametrize("prompt", [Poignancy, Triple, Keywords])
def test_rules_appraise_what_the_llm_cannot(
    group: str, use: Use, configure: Configure, prompt: type[Question[Any]]
) -> None:
    derived = {"derive_poignancy": "off", f"derive_{prompt.prompt}": "llm"}
    defaults = ",".join(f"{name}={how}" for name, how in derived.items())
    configure(extract_fallback="rules", agent_defaults=defaults)
    llm = use(Perfect(prose=True))
    save(observed(group, "Klaus lost his job", poignancy=None))
    assert run_until_idle(APPRAISE, appraise_memories) == 1
    assert letters(group) == []
    assert len(llm.asked) == 1
    [node] = nodes(group)
    assert node["provenance"]["appraised"][prompt.prompt]["llm"] == Rules.model


def test_talk_without_a_word_of_trouble_asks_no_question_about_it(group: str, use: Use) -> None:
    extracted(group, *KNOWN, OK)
    llm = use(Perfect())
    run_until_idle(MERGE_PAINS, merge_pains)
    assert llm.asked == []
    extracted(group, "Is it slow because of me?", TROUBLE[0], OK, "Fine.", session_id="s2")
    llm.asked.clear()
    run_until_idle(MERGE_PAINS, merge_pains)
    assert [question.prompt for question in llm.asked] == ["pains"]
    assert len(pains(group)) == 1


@pytest.mark.usefixtures("by_rules")
def test_rules_note_pains_that_the_llm_cannot(group: str, use: Use) -> None:
    extracted(group, *CHAT, TROUBLE[0])
    llm = use(Perfect(prose=True))
    run_until_idle(MERGE_PAINS, merge_pains)
    assert len(pains(group)) == 1
    assert len(llm.asked) <= 3
    assert letters(group) == []


@pytest.mark.usefixtures("by_rules")
def test_rules_reflect_where_the_llm_cannot(group: str, use: Use) -> None:
    llm = use(Perfect(prose=True))
    live(group, 40)
    assert run_until_idle(REFLECT, reflect) == 1
    # The rules draw no conclusion from these.
    assert [row["state"] for row in reflection_rows(group)] == ["nothing"]
    assert len(llm.asked) == 1
    assert letters(group) == []
