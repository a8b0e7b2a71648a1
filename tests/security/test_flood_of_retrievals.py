"""Stopping everybody's retrieval: texts that are far longer than they look, and more calls than can be
answered.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import numpy as np
import pytest
from pydantic import ValidationError

from engine.operations import check_deadline, deadline
from engine.providers import embedders
from jiyi import Client
from jiyi.errors import NoAnswer, TooManyQuestions
from jiyi.protocol import limits
from jiyi.protocol.retrieval import RetrievalRequest, RetrieveBody
from jiyi.text.words import nfkc
from tasks.framework import answering
from tasks.framework.answering import CallTurns
from tests.integration.programs import Program

#: One character that Unicode's form NFKC makes eighteen of.
EXPANDING = "\ufdfa"
#: Seconds after which a test that waits has failed.
PATIENCE = 60.0
#: Seconds that are no time to wait for a call of a flood, which does not end.
SOON = 1.0


# What one request may hold


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ([EXPANDING * 8_000] * 8, "characters of all focal texts together are more than 16,000"),
        ([EXPANDING * 500], "9,000 characters after Unicode normalisation are more than 8,000"),
        ([EXPANDING * 400] * 3, "21,600 characters of all focal texts together are more than 16,000"),
        ([":" * 8_000] * 3, "24,000 characters of all focal texts together are more than 16,000"),
        (["a"] * 33, "33 focal texts are more than 32"),
    ],
)
def test_a_request_is_bounded_by_all_its_characters(
    api: Program, group: str, texts: list[str], said: str
) -> None:
    answer = api.ask("POST", "/retrieve", 422, json={"agent_id": "klaus", "queries": texts})
    assert said in answer.json["detail"]
    with pytest.raises(ValidationError, match=said):
        RetrievalRequest(group_id=group, agent_id="klaus", queries=texts)


def test_what_is_within_the_bounds_is_taken() -> None:
    texts = ["记" * 500] * 32
    assert RetrieveBody(agent_id="klaus", queries=texts).queries == texts


@pytest.mark.parametrize("text", [EXPANDING * 8_000, ":" * 8_000, "的" * 8_000, "word " * 1_600])
def test_a_question_is_cut_before_the_model_sees_it(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    class Engine:
        dim = 4

        def query(self, texts: list[str]) -> object:
            seen.extend(texts)
            return np.ones((len(texts), self.dim), dtype=np.float32)

        def passage(self, texts: list[str]) -> object:
            return self.query(texts)

    monkeypatch.setattr(embedders, "engine", Engine)
    embedder = embedders.LocalEmbedder()
    embedder.query(text), embedder.queries([text])
    assert all(len(nfkc(one)) <= limits.EMBEDDED_QUESTION_CHARS + 1 for one in seen)
    seen.clear()
    embedder.passages([text])
    assert len(nfkc(seen[0])) <= embedders.MAX_CHARS


def test_of_a_long_question_the_end_is_looked_for_too() -> None:
    cut = embedders.shortened("About my cat. " + "Well, you know. " * 500 + "Which food does she like?")
    assert cut.startswith("About my cat.")
    assert cut.endswith("Which food does she like?")


# Work that nobody waits for


def test_a_call_whose_caller_has_given_up_is_dropped_before_it_begins() -> None:
    past = SimpleNamespace(expires=(datetime.now(UTC) - timedelta(seconds=1)).isoformat())
    with pytest.raises(NoAnswer), answering.in_turn(past, "group"):
        pytest.fail("it was begun")


def test_a_long_computation_ends_when_nobody_waits_any_more() -> None:
    with deadline(time.monotonic() + PATIENCE):
        check_deadline()
    with deadline(time.monotonic() - 1), pytest.raises(NoAnswer):
        check_deadline()
    check_deadline()  # nobody has said


def test_a_message_that_never_expires_is_waited_for_no_longer_than_a_task_may_take() -> None:
    far = SimpleNamespace(expires=(datetime.now(UTC) + timedelta(days=1)).isoformat())
    for request in (
        far,
        SimpleNamespace(expires=None),
        SimpleNamespace(expires="tomorrow"),
        SimpleNamespace(),
    ):
        assert 0 < answering.seconds_left(request) <= answering.ANSWER_TIME_LIMIT


# Turns


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(200) as made:
        yield made


class Flood:
    """Calls of one group that compute until they are told to end."""

    def __init__(self, turns: CallTurns, threads: ThreadPoolExecutor, group_id: str) -> None:
        self._turns, self._threads, self._group_id = turns, threads, group_id
        self._end = threading.Event()
        self.calls: list[Future[None]] = []

    def send(self, count: int) -> None:
        self.calls += [self._threads.submit(self._compute) for _ in range(count)]

    def end(self) -> None:
        self._end.set()

    def _compute(self) -> None:
        with self._turns.turn(self._group_id, time.monotonic() + PATIENCE):
            self._end.wait(PATIENCE)


@contextmanager
def flood(turns: CallTurns, threads: ThreadPoolExecutor, group_id: str, count: int) -> Iterator[Flood]:
    made = Flood(turns, threads, group_id)
    made.send(count)
    try:
        yield made
    finally:
        made.end()


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_another_groups_call_begins_at_once_whatever_one_group_sends(threads: ThreadPoolExecutor) -> None:
    turns = CallTurns(8)
    with flood(turns, threads, "flooding", limits.WAITING_CALLS) as flooding:
        until(lambda: turns.waiting("flooding") == limits.WAITING_CALLS - 6)
        with turns.turn("other", time.monotonic() + SOON):
            pass
        assert not any(call.done() for call in flooding.calls)


def test_too_many_calls_of_a_group_are_refused_and_those_of_others_are_not(
    threads: ThreadPoolExecutor,
) -> None:
    turns = CallTurns(4)
    with flood(turns, threads, "flooding", 2 + limits.WAITING_CALLS) as flooding:
        until(lambda: turns.waiting("flooding") == limits.WAITING_CALLS)
        refused = pytest.raises(
            TooManyQuestions, match=f"{limits.WAITING_CALLS} calls of this group are already waiting"
        )
        with refused, turns.turn("flooding", time.monotonic() + PATIENCE):
            pytest.fail("it was begun")
        with turns.turn("other", time.monotonic() + SOON):
            pass
        flooding.end()
        assert [call.result(PATIENCE) for call in flooding.calls] == [None] * len(flooding.calls)


def test_whoever_has_used_more_than_their_share_computes_one_at_a_time_while_others_ask(
    threads: ThreadPoolExecutor,
) -> None:
    turns = CallTurns(8)
    turns.of_group("flooding", time.monotonic()).use(limits.MEMORY_SECONDS, time.monotonic())
    with ExitStack() as stack:
        stack.enter_context(flood(turns, threads, "flooding", 6))
        until(lambda: turns.running == 6)  # alone it may
    turns = CallTurns(8)
    with turns.turn("other", time.monotonic() + SOON):
        turns.of_group("flooding", time.monotonic()).use(limits.MEMORY_SECONDS, time.monotonic())
        with flood(turns, threads, "flooding", 6):
            until(lambda: turns.waiting("flooding") == 5)
            assert turns.running == 2
            with ExitStack() as others:
                for _ in range(5):
                    others.enter_context(turns.turn("other", time.monotonic() + SOON))


def test_a_call_that_is_never_next_is_told_so_and_leaves_nothing_behind(threads: ThreadPoolExecutor) -> None:
    turns = CallTurns(1)
    with flood(turns, threads, "flooding", 1):
        until(lambda: turns.running == 1)
        with pytest.raises(NoAnswer), turns.turn("other", time.monotonic() + 0.05):
            pytest.fail("it was begun")
        assert turns.waiting("other") == 0
    with turns.turn("other", time.monotonic() + PATIENCE):
        assert turns.running == 1
    assert turns.running == 0


def test_groups_that_have_not_asked_for_long_are_forgotten() -> None:
    turns = CallTurns(2)
    for number in range(answering.MOST_GROUPS + 1_000):
        with turns.turn(f"group-{number}", time.monotonic() + PATIENCE):
            pass
    assert len(turns.groups) <= answering.MOST_GROUPS


# The whole service


def test_a_flood_of_one_group_leaves_another_its_answers(
    client: Client, program: Callable[..., Program], threads: ThreadPoolExecutor
) -> None:
    client.observe("klaus", "Klaus likes tea.", wait=True)
    flooding = program(f"{client.group}-flooding")
    flooding.post("/events?wait=30", {"agent_id": "maria", "description": "Maria likes coffee."})
    texts = [":" * 500] * 32

    def ask(_: int) -> int:
        body = {"agent_id": "maria", "queries": texts, "timeout": 30}
        return int(
            flooding.client.application.test_client()
            .post("/api/v1/retrieve", json=body, headers=flooding.headers)
            .status_code
        )

    calls = [threads.submit(ask, number) for number in range(40)]
    for _ in range(5):
        assert client.retrieve("klaus", "What does Klaus drink?").status == "ok"
    assert {call.result() for call in calls} <= {200, 429, 504}
