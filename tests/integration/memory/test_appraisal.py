"""What an event did not bring is asked of the LLM, and then counts as if the event had brought it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import Mock
from uuid import UUID

import pytest

from engine.providers.questions import Facts, KeywordList, Keywords, Poignancy, Poignant, Question, Triple
from jiyi.errors import BadReply, LLMUnavailable, SettingsError
from jiyi.protocol.events import Event
from jiyi.protocol.operations import LettersRequest, ResolveBody
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.memory.work import ACCUMULATE, APPRAISE, STRENGTHEN
from models.queue import actions, dead_letters, pending_work
from tasks import appraisal
from tasks.appraisal import appraise_memories
from tasks.framework import work as tasks_work
from tasks.framework.work import MAX_ATTEMPTS, RULES_SECONDS, LeaseRenewingLLM
from tasks.memory import accumulate, strengthen
from tests.integration.memory.test_inbox import configured, execute, nodes, observed, rows, save
from tests.integration.queue.test_work import do, due_now
from workers.ephemeral import environment

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")

IMPORTANCE = {"Klaus proposes to Maria": 9, "林岚答应周五还书": 6}


class Scripted:
    """Answers from a list; ``broken`` texts raise what they are mapped to."""

    model = "scripted-1"

    def __init__(self) -> None:
        self.asked: list[Question[Any]] = []
        self.broken: dict[str, Exception] = {}
        self.wrong_setting: Exception | None = None

    def made(self) -> Scripted:
        if self.wrong_setting is not None:
            raise self.wrong_setting
        return self

    def ask(self, question: Any) -> Any:
        self.asked.append(question)
        if question.text in self.broken:
            raise self.broken[question.text]
        match question:
            case Poignancy():
                return Poignant(poignancy=IMPORTANCE.get(question.text, 4))
            case Triple(language="zh"):
                return Facts(subject="林岚", predicate="答应还", object="书")
            case Triple(text="nobody uses the kiln"):
                return Facts(subject="kiln", predicate="is", object="idle")
            case Triple():
                return Facts(subject="Klaus", predicate="proposes to", object="Maria")
            case Keywords():
                return KeywordList(keywords=["Promise", "promise", "书"])
        raise AssertionError(question)


@pytest.fixture
def llm(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    made = Scripted()
    monkeypatch.setattr(appraisal, "llm", made.made)
    return made


@pytest.fixture
def configure(group: str) -> Callable[..., None]:
    def use(**settings: object) -> None:
        save(configured(group, **settings))

    return use


def mute(group: str, description: str, **fields: object) -> Event:
    return observed(group, description, poignancy=None, **fields)


def node_of(event: Event) -> dict[str, Any]:
    (found,) = rows("SELECT * FROM memory_nodes WHERE node_id = :id", id=event.event_id)
    return found


def appraise_once() -> None:
    due_now(APPRAISE)
    tasks_work.run_due(tasks_work.KINDS[APPRAISE], appraise_memories)


def settle() -> None:
    for kind, handler in ((APPRAISE, appraise_memories), (STRENGTHEN, strengthen), (ACCUMULATE, accumulate)):
        do(kind, handler)


def kinds_owed(event: Event) -> set[str]:
    found = rows(
        "SELECT kind FROM pending_work WHERE subject_id = :id AND kind <> 'embed'", id=event.event_id
    )
    return {str(row["kind"]) for row in found}


def left(event: Event) -> tuple[object, object]:
    """Attempts and last error of its appraisal, which is still owed."""
    (row,) = rows(
        "SELECT * FROM pending_work WHERE kind = 'appraise' AND subject_id = :id", id=event.event_id
    )
    return row["attempts"], row["last_error"]


def counted(group: str) -> tuple[object, ...]:
    """All that appraisal feeds: strengths and counters."""
    strengths = rows(
        "SELECT memory_type, keyword, strength FROM kw_strength WHERE group_id = :g ORDER BY 1, 2", g=group
    )
    agents = rows("SELECT importance_trigger_curr, importance_ele_n FROM agents WHERE group_id = :g", g=group)
    return strengths, agents


def test_importance_is_asked_for_and_noted(group: str, llm: Scripted) -> None:
    events = [mute(group, description, provenance={"channel": "diary"}) for description in IMPORTANCE]
    save(*events)
    assert [kinds_owed(event) for event in events] == [{APPRAISE}] * 2
    do(APPRAISE, appraise_memories)
    for event in events:
        node = node_of(event)
        assert node["poignancy"] == IMPORTANCE[event.payload.description]
        assert node["provenance"] == {
            "channel": "diary",
            "appraised": {"poignancy": {"llm": "scripted-1", "prompt": "poignancy@1"}},
        }
        assert kinds_owed(event) == {STRENGTHEN, ACCUMULATE}
    assert {question.text: question.language for question in llm.asked} == dict(
        zip(IMPORTANCE, ("en", "zh"), strict=True)
    )


def test_what_is_asked_for_counts_as_if_it_had_been_brought(group: str, llm: Scripted) -> None:
    twin, brought = f"{group}-twin", [9, 6, 1, 4]
    told = [
        *zip(
            [*IMPORTANCE, "the kiln is idle", "an insight"],
            ["event", "event", "event", "thought"],
            brought,
            strict=True,
        )
    ]
    for whose in (group, twin):
        save(
            *(
                observed(
                    whose,
                    text,
                    node_type=kind,
                    keywords=["Tea", "书"],
                    poignancy=poignancy if whose == twin else None,
                )
                for text, kind, poignancy in told
            )
        )
        settle()
    assert counted(group) == counted(twin)
    assert [node["poignancy"] for node in nodes(group)] == brought
    assert "the kiln is idle" not in [question.text for question in llm.asked]  # 1 without a call


def test_a_triple_gives_the_keywords_that_the_event_did_not_bring_and_may_say_that_something_is_idle(
    group: str, llm: Scripted, configure: Callable[..., None]
) -> None:
    configure(derive_triple="llm")
    events = [mute(group, description) for description in IMPORTANCE]
    save(*events)
    do(APPRAISE, appraise_memories)
    for event, keywords in zip(events, (["Klaus", "Maria"], ["林岚", "书"]), strict=True):
        node = node_of(event)
        assert [node["subject"], node["object"]] == node["keywords"] == keywords
        assert node["keywords_lower"] == [word.lower() for word in keywords]
    idle = mute(group, "nobody uses the kiln", keywords=["kiln"])
    save(idle)
    do(APPRAISE, appraise_memories)
    node = node_of(idle)
    assert (node["is_idle"], node["poignancy"]) == (True, 1)
    assert kinds_owed(idle) == {ACCUMULATE}  # idle memories strengthen nothing


def test_only_what_is_missing_is_asked_for(group: str, llm: Scripted, configure: Callable[..., None]) -> None:
    configure(derive_triple="llm", derive_keywords="llm")
    own = {"subject": "Ann", "predicate": "sees", "object": "Bo", "keywords": ["Ann"], "poignancy": 2}
    complete = observed(group, "complete", **own)
    partly = observed(group, "Klaus proposes, partly", **{**own, "predicate": None})
    save(complete, partly, observed(group, "a promise", **{**own, "keywords": None}))
    assert kinds_owed(complete) == {STRENGTHEN, ACCUMULATE}
    settle()
    assert {(type(question).__name__, question.text) for question in llm.asked} == {
        ("Triple", "Klaus proposes, partly"),
        ("Keywords", "a promise"),
    }
    node = node_of(partly)
    assert [node[name] for name in ("subject", "predicate", "object", "keywords", "poignancy")] == [
        "Ann",
        "proposes to",
        "Bo",
        ["Ann"],
        2,
    ]
    assert [node["keywords"] for node in nodes(group)][-1] == ["Promise", "promise"], "书 is no word of it"


def test_an_agent_may_want_nothing_derived_also_of_what_is_owed_already(
    group: str, llm: Scripted, configure: Callable[..., None]
) -> None:
    before, after = mute(group, "Klaus proposes to Maria"), mute(group, "Klaus proposes to Maria")
    save(before)
    configure(derive_poignancy="off")
    save(after)
    assert (kinds_owed(before), kinds_owed(after)) == ({APPRAISE}, {STRENGTHEN, ACCUMULATE})
    settle()
    assert llm.asked == []
    assert (kinds_owed(before), node_of(after)["poignancy"]) == (set(), None)
    assert counted(group)[1] == [{"importance_trigger_curr": 150.0, "importance_ele_n": 2}]


@pytest.fixture
def one_by_one() -> Iterator[None]:
    with environment(llm_questions="1"):
        yield


@pytest.mark.usefixtures("one_by_one")
def test_an_llm_that_is_away_is_waited_for_and_the_rest_of_the_batch_not_tried(
    group: str, llm: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = [mute(group, text) for text in ("Klaus proposes to Maria", *map(str, range(7)))]
    save(*events)
    away = LLMUnavailable("no route to the model")
    llm.broken.update({event.payload.description: away for event in events})
    appraise_once()
    assert len(llm.asked) == 1
    for _ in range(MAX_ATTEMPTS + 1):
        appraise_once()
    assert {left(one) for one in events} == {(0, "no route to the model")}
    away.retry_after = 1_800.0  # it asks to be left alone
    appraise_once()
    later = "SELECT FROM pending_work WHERE group_id = :g AND due_at > now() + interval '1700 s'"
    assert rows(later, g=group)
    llm.wrong_setting = SettingsError("JIYI_LLM: unknown provider 'openia'")
    appraise_once()
    assert left(events[0]) == (0, "JIYI_LLM: unknown provider 'openia'")
    llm.wrong_setting = None
    llm.broken = {
        event.payload.description: SettingsError("poignancy.zh.md must begin with ---") for event in events
    }
    appraise_once()
    assert left(events[0]) == (0, "poignancy.zh.md must begin with ---")
    llm.broken.clear()
    with monkeypatch.context() as patch:
        patch.setattr(appraisal, "ASK_SECONDS", -1)
        appraise_once()
    assert (left(events[-1])[0], "too slow" in str(left(events[-1])[1])) == (0, True)
    appraise_once()
    assert node_of(events[0])["poignancy"] == 9


@pytest.mark.usefixtures("one_by_one")
def test_answers_that_do_not_fit_end_as_a_dead_letter_while_the_rest_is_written_or_waits(
    group: str, llm: Scripted
) -> None:
    good, bad, slow = (mute(group, text) for text in ("林岚答应周五还书", "Klaus proposes to Maria", "tea"))
    save(good, bad, slow)
    llm.broken["Klaus proposes to Maria"] = BadReply("poignancy: 11 is more than 10")
    llm.broken["tea"] = LLMUnavailable("too slow")
    appraise_once()
    assert (node_of(good)["poignancy"], kinds_owed(bad)) == (6, {APPRAISE})
    assert (left(slow), left(bad)) == ((0, "too slow"), (1, "BadReply: poignancy: 11 is more than 10"))
    for _ in range(MAX_ATTEMPTS - 1):
        appraise_once()
    with unit_of_work() as connection:
        (letter,) = dead_letters.letters(connection, group, LettersRequest(kind=APPRAISE))
    assert (letter.subject_id, letter.attempts) == (bad.event_id, MAX_ATTEMPTS)
    assert "11 is more than 10" in letter.reason
    assert node_of(bad)["poignancy"] is None
    llm.broken.clear()
    actions.resolve_letters.perform(Actor(group), ResolveBody(action="replay", letter_ids=[letter.letter_id]))
    due_now(APPRAISE)
    settle()
    assert counted(group)[1] == [{"importance_trigger_curr": 150.0 - 6 - 9 - 4, "importance_ele_n": 3}]


def test_a_worker_killed_after_asking_leaves_all_owed_and_the_next_one_writes_once(
    group: str, llm: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = mute(group, "Klaus proposes to Maria")
    save(event)
    with monkeypatch.context() as patch:  # half a write is none
        patch.setattr(pending_work, "enqueue", Mock(side_effect=RuntimeError("power cut")))
        appraise_once()
    assert (node_of(event)["poignancy"], kinds_owed(event)) == (None, {APPRAISE})
    due_now(APPRAISE)
    with unit_of_work() as connection:
        pending_work.claim(connection, APPRAISE, 16, 60)
        loaded = appraisal.nodes.load(connection, [event.event_id])
    appraisal.ask(llm, loaded)  # killed here: nothing is written
    assert kinds_owed(event) == {APPRAISE}
    slow, quick = (tasks_work.Batch(APPRAISE, [event.event_id]) for _ in range(2))
    appraise_memories(quick)
    do(ACCUMULATE, accumulate)
    appraise_memories(slow)  # the lease ran out, and the first one comes back after all
    settle()
    assert counted(group)[1] == [{"importance_trigger_curr": 141.0, "importance_ele_n": 1}]


def test_more_than_a_batch_is_appraised_and_a_node_that_is_gone_is_settled(group: str, llm: Scripted) -> None:
    gone, *events = [mute(group, f"event {i}") for i in range(41)]
    save(gone, *events)
    execute("DELETE FROM memory_nodes WHERE node_id = :id", id=gone.event_id)
    do(APPRAISE, appraise_memories)
    assert kinds_owed(gone) == set()
    assert {UUID(str(node["node_id"])) for node in nodes(group) if node["poignancy"] == 4} == {
        e.event_id for e in events
    }


def test_the_claim_is_renewed_for_as_long_as_the_slowest_question_may_take(group: str, llm: Scripted) -> None:
    event = mute(group, "Klaus proposes to Maria")
    batch = tasks_work.Batch(APPRAISE, [event.event_id])
    question = Poignancy(agent_id="klaus", text="x")
    LeaseRenewingLLM(llm, batch).ask(question)
    assert 0 < batch.until - time.monotonic() <= RULES_SECONDS
    with environment(llm="ollama", llm_timeout="300"):
        LeaseRenewingLLM(llm, batch).ask(question)
    assert batch.until - time.monotonic() > 2 * 300
