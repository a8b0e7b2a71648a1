"""What people find in their assistant's memory after they deleted something: not its words in what they said,
and all else as it was.

An erasure looks through every table: stories that can share one do, each with a user of its own.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from engine.conversations.marks import marks_of
from jiyi.errors import Conflict, InvalidRequest, NotFound
from jiyi.protocol.base import ByIdForUser, OfAgents
from jiyi.protocol.conversation_commands import ExtractMessages
from jiyi.protocol.conversations import ContextRequest, ProfileSignals
from jiyi.protocol.erasure import Erasure
from jiyi.protocol.recall import ForgetWhatWasSaid, Forgotten, ReinstateMemory, UpdateMemory
from models.conversations import actions, injections
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.erasure.actions import request_erasure
from models.memory.archive import list_mistakes, reinstate_memory, update_memory
from tasks.conversations import injection
from tasks.conversations.commands import forget
from tests.integration.conversations.talk import START, facts, nodes, say
from tests.integration.erasure.test_erasure import alone, carry_on, erase
from tests.integration.memory.test_inbox import observed, rows, save
from tests.reports.talks import CALLED, LATER, a_group_each, extracted, fact, stored_text, talk, talk_in_each

__all__ = ["alone"]

pytestmark = pytest.mark.usefixtures("database", "alone", "nothing_owed")


def profiles(group: str, *users: str) -> list[str]:
    """Make these; the users of all that there are."""
    with unit_of_work() as connection:
        for user in users:
            signals = ProfileSignals(recent_topics=["stamps"])
            injections.update_profile(connection, (group, "helper"), signals, datetime.now(UTC), user)
    found = rows("SELECT user_id FROM user_profiles WHERE group_id = :g ORDER BY user_id", g=group)
    return [str(row["user_id"]) for row in found]


def by_client(group: str, *node_ids: UUID) -> None:
    """As ``client.delete``, ``DELETE /nodes/{id}``, the tool ``memory_delete`` and the admin ask for it."""
    request_erasure.perform(Actor(group, "test"), Erasure(node_ids=list(node_ids)))


def by_conversations(group: str, node_id: UUID) -> None:
    actions.delete.perform(Actor(group, "test"), ByIdForUser(id=node_id))


def corrected(group: str, node_id: UUID, description: str) -> None:
    update_memory.perform(Actor(group, "test"), UpdateMemory(id=node_id, description=description))


#: What was said, a word of it that is deleted, what stays, and a question.
DELETED = [
    ("I am pregnant, due in June.", "pregnant", "", "How am I doing lately?"),
    ("我怀孕了，预产期六月。", "怀孕", "", "我最近怎么样？"),
    ("I collect stamps.", "stamps", "", "What do I collect?"),
    ("I was sacked on Friday.", "sacked", "", "How is my job?"),
    ("My birthday is on 3 May. I have two dogs.", "3 May", "dogs", "When is my birthday?"),
    ("I live in Porto. I'm allergic to walnuts.", "walnuts", "Porto", "What must I not eat?"),
    ("我对花生过敏。我住在成都。", "花生", "成都", "我不能吃什么？"),
    (
        "My salary is 48,000 euros a year. My sister Nora lives in Graz.",
        "48,000",
        "Nora",
        "What is my salary?",
    ),
]


def test_the_words_of_a_deleted_fact_are_in_no_prompt_and_no_turn_and_the_rest_stays(group: str) -> None:
    talks = {f"user{number}": row for number, row in enumerate(DELETED)}
    for user, (sentence, *_) in talks.items():
        say(group, *CALLED, sentence, user_id=user, session_id=user)
    extracted()

    def prompt(user: str) -> str:
        request = ContextRequest(agent_id="helper", query=talks[user][3], session_id="new", user_id=user)
        return injection.build(Actor(group, "test"), request).model_dump_json()

    for user, (_, word, _, _) in talks.items():
        assert word in prompt(user)
    kept = {user: fact(group, stays, user) for user, (_, _, stays, _) in talks.items() if stays}
    first, *others = [fact(group, word, user) for user, (_, word, _, _) in talks.items()]
    by_client(group, *others[:-1])
    by_conversations(group, first)
    by_conversations(group, others[-1])
    carry_on()
    for user, (_, word, stays, _) in talks.items():
        assert word not in prompt(user)
        assert word not in stored_text(group, user)
        if stays:
            assert any(
                stays in row["description"] for row in nodes(group, "session") if row["user_id"] == user
            )
            assert fact(group, stays, user) == kept[user], (
                "what else was taken from it is the memory that it was"
            )


def test_a_deleted_fact_goes_from_every_session_thought_and_profile_of_its_user_alone(group: str) -> None:
    warfarin = "I take warfarin every evening."
    talk(group, warfarin, ("assistant", f"Noted: {warfarin}"), user_id="mia")
    say(group, warfarin, start=LATER, session_id="s2", user_id="mia")
    talk(group, warfarin, user_id="leo", session_id="s3")
    talk(group, "I am pregnant, due in June.", user_id="zoe", session_id="s4")
    pregnant = fact(group, "pregnant")
    thought = {"agent_id": "helper", "node_type": "thought", "evidence": [pregnant], "user_id": "zoe"}
    save(observed(group, "Zoe will be a mother", **thought))
    profiles(group, "zoe", "leo")
    by_client(group, pregnant, fact(group, "warfarin", "mia"))
    carry_on()
    assert {row["user_id"] for row in nodes(group) if "warfarin" in row["description"]} == {"leo"}
    assert "Nice weather." in stored_text(group, "mia")
    assert "mother" not in stored_text(group)
    assert profiles(group) == ["leo"]


def test_recording_the_same_again_brings_nothing_back_and_nothing_twice(group: str) -> None:
    sentences = {"mia": "I have two dogs. My birthday is on 3 May.", "leo": "I take warfarin every evening."}
    turns = [
        (words, {"event_id": uuid4(), "occurred_at": START + timedelta(minutes=place), "session_id": user})
        for user, sentence in sentences.items()
        for place, words in enumerate((*CALLED, sentence))
    ]
    whole = [
        {"role": "user", "text": text} for text in (*CALLED, "I am pregnant, due in June. I live in Porto.")
    ]
    request = ExtractMessages.model_validate({"agent_id": "helper", "session_id": "s1", "messages": whole})

    def record() -> None:
        for words, fields in turns:
            say(group, words, user_id=fields["session_id"], **fields)
        actions.extract_and_store.perform(Actor(group, "test"), request)
        extracted()

    record()
    by_client(group, *(fact(group, word) for word in ("3 May", "warfarin", "pregnant")))
    carry_on()
    for _ in range(2):
        record()
        assert [word for word in ("3 May", "warfarin", "pregnant") if word in stored_text(group)] == []
        assert len([one for one in facts(group) if "dogs" in one]) == 1
        assert stored_text(group).count("Porto") == 2, "the turn and what was taken from it"


def test_a_correction_goes_with_the_words_it_corrected_and_outlives_its_neighbour(group: str) -> None:
    for user in ("mia", "leo"):
        talk(group, "I live in Porto. I'm allergic to walnuts.", user_id=user, session_id=user)
        corrected(group, fact(group, "Porto", user), "User: I live in Lisbon.")
    by_client(group, fact(group, "Lisbon", "mia"), fact(group, "walnuts", "leo"))
    carry_on()
    extracted()
    assert "Porto" not in " ".join(
        row["description"] for row in nodes(group, "session") if row["user_id"] == "mia"
    )
    assert fact(group, "walnuts", "mia")
    assert fact(group, "Lisbon", "leo")
    assert not any("Porto" in one for one in facts(group)), (
        "what was corrected is not taken from the turn again"
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
    assert "stork" not in stored_text(group)
    assert fact(group, "stamps")
    assert any("stamps" in row["description"] for row in nodes(group, "session"))


def test_two_facts_of_one_turn_or_a_fact_and_its_turn_leave_nothing(group: str) -> None:
    """With the first the turn goes for good, and the rest of it stands in its place."""
    [_] = talk(group, "I live in Porto. I'm allergic to walnuts.", user_id="mia", session_id="mia")
    [turn] = talk(group, "I live in Porto. I'm allergic to walnuts.", user_id="leo", session_id="leo")
    home, walnuts = fact(group, "Porto", "mia"), fact(group, "walnuts", "mia")
    by_client(group, home, fact(group, "walnuts", "leo"), turn)
    carry_on()
    assert "[forgotten, as asked] I'm allergic to walnuts." in stored_text(group, "mia")
    assert fact(group, "walnuts", "mia") == walnuts
    by_client(group, walnuts)
    carry_on()
    assert [row["description"] for row in nodes(group)] == [*CALLED, *CALLED]


def test_a_person_goes_with_turns_and_profile_and_an_agent_with_all(group: str) -> None:
    person = f"quillfeather{uuid4().hex[:8]}"
    talk(group, "I live in Porto. I'm allergic to walnuts.", user_id=person)
    talk(group, "I drink tea every day.", user_id="leo", session_id="s2")
    profiles(group, person, "leo")
    erase(group, person=person)
    assert {row["user_id"] for row in nodes(group)} == {"leo"}
    assert profiles(group) == ["leo"]
    erase(group, agent_id="helper")
    assert nodes(group) == []
    assert profiles(group) == []


# By words


def order(group: str, text: str, **fields: Any) -> Forgotten:
    return forget(Actor(group, "test"), ForgetWhatWasSaid(agent_id="helper", text=text, **fields))


def test_an_order_that_fits_nothing_erases_nothing_and_one_that_fits_leaves_the_rest(group: str) -> None:
    talk(group, "I live in Porto.", "My phone number is 415-555-0199. Olga waters my plants on Sundays.")
    before = [row["description"] for row in nodes(group)]
    for text in ("🙂🙂", "👶🏽", "my tax number", "our summer house in Kotor", "我的护照号码", "…"):
        nothing = order(group, text)
        assert (nothing.erasure_id, nothing.forgotten, nothing.asks) == (None, [], [])
    carry_on()
    assert [row["description"] for row in nodes(group)] == before
    assert "Nothing" in order(group, "my tax number").answer
    assert "没有符合" in order(group, "我的护照号码").answer
    done = order(group, "my phone number")
    assert [part.description for part in done.forgotten] == ["My phone number is 415-555-0199"]
    assert "Done" in done.answer
    assert "0199" not in done.answer
    carry_on()
    assert "0199" not in stored_text(group)
    assert fact(group, "Olga")
    assert any("Olga" in row["description"] for row in nodes(group, "session"))


def test_a_program_that_forgets_by_words_is_asked_back_where_several_things_fit(group: str) -> None:
    talk(
        group,
        "My phone number at work is 415-555-0111.",
        "My phone number at home is 415-555-0222.",
        "I like green tea.",
    )
    asked = order(group, "my phone number")
    assert asked.erasure_id is None
    assert len(asked.asks) == 2
    assert order(group, "my phone number", every=True).erasure_id is not None
    carry_on()
    assert "555" not in stored_text(group)
    assert "green tea" in stored_text(group)
    with pytest.raises(NotFound, match="stranger"):
        forget(Actor(group, "test"), ForgetWhatWasSaid(agent_id="stranger", text="my phone number"))
    for text in ("", "   "):
        with pytest.raises((InvalidRequest, ValueError), match="text"):
            ForgetWhatWasSaid(agent_id="helper", text=text)


#: What was said, the order, a word that goes, and one that stays.
ORDERS = [
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
    (
        "My phone number is 415-555-0199. And Olga waters my plants on Sundays.",
        "Please forget my phone number.",
        "phone",
        "Olga waters my plants",
    ),
]
#: What is told in confidence, and a word of it.
CONFIDENCES = [
    ("This needn't go in your files: my aunt lent us nine thousand for the roof.", "aunt"),
    ("我偷偷报了钢琴班，这事儿别给我往里记", "钢琴"),
]
#: What only sounds like an order.
NO_ORDERS = [
    "Can you remove the second paragraph of the letter about the plums?",
    "He asked me not to tell anyone about the plums, so I did not.",
    "把稿子第二段关于李子的删掉，太长了",
]


def test_an_order_in_a_persons_own_words_is_carried_out_and_what_only_sounds_like_one_is_not(
    group: str,
) -> None:
    orders, others = a_group_each(group, ORDERS), a_group_each(f"{group}-no", NO_ORDERS)
    secrets = a_group_each(f"{group}-secret", CONFIDENCES)
    plums, zh = "My sister keeps plums in the cellar.", "我妹妹在地窖里存李子"
    talk_in_each(
        [
            *((one, [said, plums]) for one, (said, *_) in orders),
            *((one, [plums, zh]) for one, _ in others),
            *((one, [plums, said]) for one, (said, _) in secrets),
        ]
    )
    later = [*((one, [said]) for one, (_, said, *_) in orders), *((one, [said]) for one, said in others)]
    talk_in_each(later, LATER)
    carry_on()
    for one, (_, _, gone, stays) in orders:
        assert gone not in stored_text(one)
        assert stays in stored_text(one)
    for one, message in others:
        assert all(part in stored_text(one) for part in ("sister keeps plums", zh, message))
    for one, (_, secret) in secrets:
        assert secret not in stored_text(one)
        assert "plums" in stored_text(one)


# Taken back


def reinstated(group: str, node_id: UUID) -> None:
    reinstate_memory.perform(Actor(group, "test"), ReinstateMemory(id=node_id, reason="there are two homes"))


def test_a_wrong_supersession_is_taken_back_with_the_turn_and_what_was_erased_is_not(group: str) -> None:
    turns = {}
    for user in ("mia", "leo"):
        [turns[user]] = talk(group, "I live in Porto.", user_id=user, session_id=user)
        talk(group, "I live in Lisbon now.", start=LATER, user_id=user, session_id=f"{user}2")
    old = {
        row["user_id"]: row["node_id"]
        for row in nodes(group, "knowledge", "preference")
        if row["superseded_at"]
    }

    def ended() -> list[str]:
        [turn] = [row for row in nodes(group, "session") if row["node_id"] == turns["mia"]]
        return [turn["description"][mark.start : mark.end] for mark in marks_of(turn["provenance"])]

    assert ended() == ["I live in Porto"]
    for whose, node_id in ((f"{group}-other", old["mia"]), (group, uuid4())):
        with pytest.raises(NotFound, match="has no memory"):
            reinstated(whose, node_id)
    reinstated(group, old["mia"])
    assert ended() == []
    assert any("Porto" in one for one in facts(group))
    [row] = list_mistakes.perform(Actor(group, "test"), OfAgents(agent_id="helper")).rows
    assert (row.older, row.newer, row.label) == ("I live in Porto.", "I live in Lisbon now.", "adds")
    assert list_mistakes.perform(Actor(group, "test"), OfAgents(agent_id="stranger")).rows == []
    with pytest.raises(Conflict, match="is current"):
        reinstated(group, old["mia"])
    by_client(group, old["leo"])
    with pytest.raises(Conflict, match="being erased and cannot be reinstated"):
        reinstated(group, old["leo"])
    carry_on()
    with pytest.raises(NotFound, match="was erased for good and cannot be reinstated"):
        reinstated(group, old["leo"])
