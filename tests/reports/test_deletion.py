"""What people find in their assistant's memory after they deleted something: not its words in what they said,
and all else as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from jiyi.errors import Conflict, InvalidRequest, NotFound
from jiyi.protocol.base import ByIdForUser, OfAgents
from jiyi.protocol.conversation_commands import ExtractMessages
from jiyi.protocol.conversations import ContextRequest, ProfileSignals
from jiyi.protocol.erasure import Erasure
from jiyi.protocol.recall import ForgetWhatWasSaid, ReinstateMemory, UpdateMemory
from models.conversations import actions, injections
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.erasure.actions import request_erasure
from models.memory.archive import list_mistakes, reinstate_memory, update_memory
from tasks.conversations import injection
from tasks.conversations.commands import forget
from tests.integration.conversations.talk import START, facts, hurry, nodes, run, say
from tests.integration.erasure.test_erasure import alone, carry_on, erase
from tests.integration.memory.test_inbox import observed, rows, save

__all__ = ["alone"]

pytestmark = pytest.mark.usefixtures("database", "alone", "nothing_owed")

CALLED = "Hello there.", "Nice weather.", "Well then."
LATER = START + timedelta(days=30)


def told(group: str, *said: Any, start: datetime = START, **fields: Any) -> list[UUID]:
    """Messages that are looked through at once; the ids of those that say something."""
    ids = say(group, *CALLED, *said, start=start, **fields)
    hurry()
    run()
    return ids[len(CALLED) :]


def fact(group: str, word: str) -> UUID:
    """The one memory in force with a word."""
    [found] = [
        row["node_id"]
        for row in nodes(group, "knowledge", "preference")
        if word in row["description"] and not row["superseded_at"]
    ]
    return UUID(str(found))


def said(group: str) -> str:
    """All that is stored of what was said, and of what was taken from it."""
    return " ".join(row["description"] for row in nodes(group) if row["archived_at"] is None)


def profile(group: str, *users: str | None) -> None:
    with unit_of_work() as connection:
        for user in users:
            injections.update_profile(
                connection,
                (group, "helper"),
                ProfileSignals(recent_topics=["stamps"]),
                datetime.now(UTC),
                user,
            )


def profiles(group: str) -> list[str]:
    return [
        str(row["user_id"])
        for row in rows("SELECT user_id FROM user_profiles WHERE group_id = :g ORDER BY user_id", g=group)
    ]


def by_client(group: str, node_id: UUID) -> None:
    """As ``client.delete``, ``DELETE /nodes/{id}``, the tool ``memory_delete`` and the admin ask for it."""
    request_erasure.perform(Actor(group, "test"), Erasure(node_ids=[node_id]))


def by_conversations(group: str, node_id: UUID) -> None:
    actions.delete.perform(Actor(group, "test"), ByIdForUser(id=node_id))


DOORS = pytest.mark.parametrize("door", [by_client, by_conversations])
Door = Callable[[str, UUID], None]


@pytest.mark.parametrize(
    ("sentence", "word", "asked"),
    [
        ("I am pregnant, due in June.", "pregnant", "How am I doing lately?"),
        ("我怀孕了，预产期六月。", "怀孕", "我最近怎么样？"),
        ("I collect stamps.", "stamps", "What do I collect?"),
        ("I was sacked on Friday.", "sacked", "How is my job?"),
    ],
)
def test_the_next_prompt_has_no_word_of_a_deleted_fact(
    group: str, sentence: str, word: str, asked: str
) -> None:
    told(group, sentence)

    def prompt() -> str:
        built = injection.build(
            Actor(group, "test"), ContextRequest(agent_id="helper", query=asked, session_id="s2")
        )
        return built.model_dump_json()

    assert word in prompt()
    by_client(group, fact(group, word))
    carry_on()
    assert word not in prompt()


@DOORS
@pytest.mark.parametrize(
    ("sentence", "word", "stays"),
    [
        ("My birthday is on 3 May. I have two dogs.", "3 May", "dogs"),
        ("I live in Porto. I'm allergic to walnuts.", "walnuts", "Porto"),
        ("我对花生过敏。我住在成都。", "花生", "成都"),
        ("My salary is 48,000 euros a year. My sister Nora lives in Graz.", "48,000", "Nora"),
    ],
)
def test_the_words_of_a_deleted_fact_are_in_no_turn(
    group: str, door: Door, sentence: str, word: str, stays: str
) -> None:
    told(group, sentence)
    kept = fact(group, stays)
    door(group, fact(group, word))
    carry_on()
    assert word not in said(group)
    assert any(stays in row["description"] for row in nodes(group, "session"))
    assert fact(group, stays) == kept, "what else was taken from the turn is the memory that it was"


def test_what_was_only_the_deleted_fact_goes_as_a_turn_in_each_session(group: str) -> None:
    """Said twice in other sessions, and confirmed by the assistant in the same words."""
    told(group, "I take warfarin every evening.", ("assistant", "Noted: I take warfarin every evening."))
    say(group, "I take warfarin every evening.", start=LATER, session_id="s2")
    by_client(group, fact(group, "warfarin"))
    carry_on()
    assert "warfarin" not in said(group)
    assert "Nice weather." in said(group)


def test_who_else_said_the_same_keeps_it(group: str) -> None:
    told(group, "I take warfarin every evening.", user_id="mia")
    told(group, "I take warfarin every evening.", user_id="leo", session_id="s2")
    [mine] = [row["node_id"] for row in nodes(group, "knowledge", "preference") if row["user_id"] == "mia"]
    by_client(group, mine)
    carry_on()
    assert {row["user_id"] for row in nodes(group) if "warfarin" in row["description"]} == {"leo"}


def test_profile_and_thoughts_follow_the_deleted_fact_and_other_profiles_stay(group: str) -> None:
    told(group, "I am pregnant, due in June.", user_id="mia")
    deleted = fact(group, "pregnant")
    save(
        observed(
            group,
            "Mia will be a mother",
            agent_id="helper",
            node_type="thought",
            evidence=[deleted],
            user_id="mia",
        )
    )
    profile(group, "mia", "leo")
    by_client(group, deleted)
    carry_on()
    assert "mother" not in said(group)
    assert profiles(group) == ["leo"]


@pytest.mark.parametrize(
    "sentence", ["I have two dogs. My birthday is on 3 May.", "I take warfarin every evening."]
)
def test_recording_the_same_turns_again_brings_nothing_back(group: str, sentence: str) -> None:
    word = next(word for word in ("3 May", "warfarin") if word in sentence)
    ids = [{"event_id": uuid4(), "occurred_at": START + timedelta(minutes=place)} for place in range(4)]
    pairs = list(zip((*CALLED, sentence), ids, strict=True))
    for _ in range(2):
        for words, fields in pairs:
            say(group, words, **fields)
        hurry()
        run()
        if word in said(group):
            by_client(group, fact(group, word))
            carry_on()
    hurry()
    run()
    assert word not in said(group)
    assert len([one for one in facts(group) if "dogs" in one]) == ("dogs" in sentence), "and nothing twice"


def test_a_conversation_that_is_recorded_again_as_a_whole_brings_nothing_back(group: str) -> None:
    messages = [
        {"role": "user", "text": text} for text in (*CALLED, "I am pregnant, due in June. I live in Porto.")
    ]
    request = ExtractMessages.model_validate({"agent_id": "helper", "session_id": "s1", "messages": messages})
    actions.extract_and_store.perform(Actor(group, "test"), request)
    run()
    by_client(group, fact(group, "pregnant"))
    carry_on()
    actions.extract_and_store.perform(Actor(group, "test"), request)
    run()
    assert "pregnant" not in said(group)
    assert said(group).count("Porto") == 2, "the turn and what was taken from it"


def test_a_corrected_memory_takes_the_words_that_it_corrected_along(group: str) -> None:
    told(group, "I live in Porto. I'm allergic to walnuts.")
    update_memory.perform(
        Actor(group, "test"), UpdateMemory(id=fact(group, "Porto"), description="User: I live in Lisbon.")
    )
    by_client(group, fact(group, "Lisbon"))
    carry_on()
    assert not any("Porto" in row["description"] for row in nodes(group, "session"))
    assert fact(group, "walnuts")


def test_a_fact_that_was_corrected_by_hand_outlives_its_neighbour(group: str) -> None:
    told(group, "I live in Porto. I'm allergic to walnuts.")
    update_memory.perform(
        Actor(group, "test"), UpdateMemory(id=fact(group, "Porto"), description="User: I live in Lisbon.")
    )
    by_client(group, fact(group, "walnuts"))
    carry_on()
    hurry()
    run()
    assert fact(group, "Lisbon")
    assert not any("Porto" in one for one in facts(group)), (
        "what was corrected is not taken from the rest of the turn again"
    )


def test_what_a_model_put_in_other_words_goes_with_all_that_nothing_else_was_taken_from(group: str) -> None:
    [turn] = say(group, "I collect stamps. The stork is coming this summer, if you know what I mean.")
    taken = {
        "agent_id": "helper",
        "kind": "knowledge",
        "uri": "agent://helper/knowledge/family",
        "evidence": [turn],
    }
    paraphrase = observed(group, "User expects a baby", **taken)
    save(observed(group, "User: I collect stamps.", **taken), paraphrase)
    by_client(group, paraphrase.event_id)
    carry_on()
    assert "stork" not in said(group)
    assert fact(group, "stamps")
    assert any("stamps" in row["description"] for row in nodes(group, "session"))


def test_two_facts_of_one_turn_deleted_one_after_the_other_leave_nothing(group: str) -> None:
    told(group, "I live in Porto. I'm allergic to walnuts.")
    first, second = fact(group, "Porto"), fact(group, "walnuts")
    by_client(group, first)
    by_client(group, second)
    carry_on()
    assert [row["description"] for row in nodes(group)] == list(CALLED)


def test_deleting_the_turn_too_leaves_no_rest_of_it(group: str) -> None:
    [turn] = told(group, "I live in Porto. I'm allergic to walnuts.")
    erase(group, node_ids=[fact(group, "walnuts"), turn])
    assert [row["description"] for row in nodes(group)] == list(CALLED)


def test_a_person_goes_with_turns_and_profile_and_an_agent_with_all(group: str) -> None:
    person = f"quillfeather{uuid4().hex[:8]}"
    told(group, "I live in Porto. I'm allergic to walnuts.", user_id=person)
    told(group, "I drink tea every day.", user_id="leo", session_id="s2")
    profile(group, person, "leo")
    erase(group, person=person)
    assert {row["user_id"] for row in nodes(group)} == {"leo"}
    assert profiles(group) == ["leo"]
    erase(group, agent_id="helper")
    assert nodes(group) == []
    assert profiles(group) == []


@pytest.mark.parametrize(
    "text", ["🙂🙂", "👶🏽", "my tax number", "our summer house in Kotor", "我的护照号码", "…"]
)
def test_an_order_that_fits_nothing_erases_nothing_and_says_so(group: str, text: str) -> None:
    told(group, "I live in Porto.", "My phone number is 415-555-0199.")
    before = [row["description"] for row in nodes(group)]
    answer = forget(Actor(group, "test"), ForgetWhatWasSaid(agent_id="helper", text=text))
    assert (answer.erasure_id, answer.forgotten, answer.asks) == (None, [], [])
    carry_on()
    assert [row["description"] for row in nodes(group)] == before


def test_forgetting_by_words_keeps_the_memories_of_the_rest(group: str) -> None:
    """One memory holds both sentences: it is told again without the one that goes."""
    told(group, "My phone number is 415-555-0199. Olga waters my plants on Sundays.")
    done = forget(Actor(group, "test"), ForgetWhatWasSaid(agent_id="helper", text="my phone number"))
    assert [part.description for part in done.forgotten] == ["My phone number is 415-555-0199"]
    carry_on()
    assert "0199" not in said(group)
    assert fact(group, "Olga")
    assert any("Olga" in row["description"] for row in nodes(group, "session"))


@pytest.mark.parametrize(
    ("text", "word"),
    [("my tax number", "Nothing"), ("我的护照号码", "没有符合"), ("my phone number", "Done")],
)
def test_the_answer_says_what_was_done_without_what_was_forgotten(group: str, text: str, word: str) -> None:
    told(group, "My phone number is 415-555-0199.")
    answer = forget(Actor(group, "test"), ForgetWhatWasSaid(agent_id="helper", text=text)).answer
    assert word in answer
    assert "0199" not in answer


def superseded(group: str) -> UUID:
    told(group, "I live in Porto.")
    told(group, "I live in Lisbon now.", start=LATER, session_id="s2")
    return UUID(
        str(
            next(
                row["node_id"]
                for row in nodes(group, "knowledge", "preference")
                if "Porto" in row["description"]
            )
        )
    )


def hold_again(group: str, node_id: UUID) -> None:
    reinstate_memory.perform(Actor(group, "test"), ReinstateMemory(id=node_id, reason="there are two homes"))


def test_a_mistake_that_is_taken_back_is_a_row_to_train_on(group: str) -> None:
    hold_again(group, superseded(group))
    [row] = list_mistakes.perform(Actor(group, "test"), OfAgents(agent_id="helper")).rows
    assert (row.older, row.newer, row.label) == ("I live in Porto.", "I live in Lisbon now.", "adds")
    assert list_mistakes.perform(Actor(group, "test"), OfAgents(agent_id="stranger")).rows == []


def test_what_was_erased_or_is_another_groups_cannot_be_held_again(group: str) -> None:
    old = superseded(group)
    with pytest.raises(NotFound, match="has no memory"):
        hold_again(f"{group}-other", old)
    by_client(group, old)
    with pytest.raises(Conflict, match="being erased and cannot be reinstated"):
        hold_again(group, old)
    carry_on()
    with pytest.raises(NotFound, match="was erased for good and cannot be reinstated"):
        hold_again(group, old)
    with pytest.raises(NotFound, match="has no memory"):
        hold_again(group, uuid4())


def test_what_is_in_force_or_was_said_again_cannot_be_held_again(group: str) -> None:
    old = superseded(group)
    hold_again(group, old)
    with pytest.raises(Conflict, match="is current"):
        hold_again(group, old)


def test_nothing_to_forget_is_refused_by_its_field(group: str) -> None:
    for text in ("", "   "):
        with pytest.raises((InvalidRequest, ValueError), match="text"):
            ForgetWhatWasSaid(agent_id="helper", text=text)


@pytest.mark.parametrize(
    ("before", "order", "gone", "stays"),
    [
        (
            "My new mobile number is 040 771 88.",
            "Kindly strike my phone number from whatever it is you keep.",
            "771 88",
            "plums",
        ),
        (
            "I told you about the row with Marthe.",
            "that business with marthe, could u unremember it pls",
            "Marthe",
            "plums",
        ),
        ("我家住在青石巷12号。", "麻烦您把我的家庭住址抹了吧，谢谢", "青石巷", "plums"),
    ],
)
def test_an_order_to_forget_in_a_persons_own_words_is_carried_out(
    group: str, before: str, order: str, gone: str, stays: str
) -> None:
    told(group, before, "I keep plums in the cellar.")
    told(group, order, start=LATER)
    carry_on()
    assert gone not in said(group)
    assert stays in said(group)


@pytest.mark.parametrize(
    ("message", "secret"),
    [
        ("This needn't go in your files: my aunt lent us nine thousand for the roof.", "aunt"),
        ("我偷偷报了钢琴班，这事儿别给我往里记", "钢琴"),
    ],
)
def test_what_is_told_in_confidence_is_not_kept_whatever_the_words(
    group: str, message: str, secret: str
) -> None:
    told(group, "I keep plums in the cellar.", message)
    carry_on()
    assert secret not in said(group)
    assert "plums" in said(group)


@pytest.mark.parametrize(
    "message",
    [
        "Can you remove the second paragraph of the letter about the plums?",
        "He asked me not to tell anyone about the plums, so I did not.",
        "把稿子第二段关于李子的删掉，太长了",
    ],
)
def test_what_only_sounds_like_an_order_erases_nothing_that_was_said(group: str, message: str) -> None:
    told(group, "My sister keeps plums in the cellar.", "我妹妹在地窖里存李子")
    told(group, message, start=LATER)
    carry_on()
    assert "sister keeps plums" in said(group)
    assert "地窖里存李子" in said(group)
    assert message in said(group)
