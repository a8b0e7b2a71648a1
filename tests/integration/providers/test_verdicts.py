"""What a model can do, known to all processes; what rules do in its place, counted and shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from engine.conversations.trials import Careful
from engine.providers import known, llms
from engine.providers.llm_prompts import on_usage
from engine.providers.questions import Poignancy
from engine.rules.provider import Rules
from jiyi.errors import LeftToRules, LLMUnavailable
from jiyi.protocol.base import Request
from jiyi.protocol.operations import LettersRequest
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.operations import actions, numbers
from models.queue import dead_letters
from tasks.operations.maintenance import _active
from tests.integration.conversations.talk import hurry, nodes, owed, run, say
from tests.llms import Answering
from tests.misbehaving import Vendor, forget_vendors, vendor
from workers.ephemeral import environment

pytestmark = pytest.mark.usefixtures("database")
STOLEN = Poignancy(agent_id="Mira", text="Pavel's bicycle was stolen")


@pytest.fixture
def model() -> Answering:
    return Answering()


@pytest.fixture
def server(model: Answering) -> Iterator[Vendor]:
    """A model that nobody has asked before."""
    with vendor() as running, environment(llm=f"compatible:{uuid4().hex}", llm_base_url=running.base_url):
        running.otherwise = model
        llms.llm.cache_clear()
        on_usage(numbers.record_usage)
        yield running
        on_usage(None)
    llms.llm.cache_clear()
    forget_vendors()


@pytest.fixture
def another_process(server: Vendor) -> Callable[[], Careful]:
    """The LLM as work asks it in a process that knows only what Valkey does."""

    def make() -> Careful:
        forget_vendors()
        llms.llm.cache_clear()
        return Careful(llms.llm())

    return make


def test_what_one_process_found_out_all_know_until_somebody_has_it_forgotten(
    another_process: Callable[[], Careful], model: Answering, group: str
) -> None:
    model.wrong = {"importance"}
    for _ in range(2):
        with pytest.raises(LeftToRules):
            another_process().ask(STOLEN)
    assert model.asked == {"poignancy": 2}  # two events, asked about once
    assert [row.prompt for row in _active().left_to_rules] == [
        "poignancy",
        "focal_points",
        "insights",
        "planning",
        "memo",
    ]
    model.wrong = set()
    actions.forget_llm.perform(Actor(group, operator=True), Request())
    assert another_process().ask(STOLEN).poignancy == 1
    assert (_active().tried, _active().left_to_rules) == (["importance"], [])


def test_while_one_process_asks_a_model_what_it_can_do_the_work_of_others_waits(
    another_process: Callable[[], Careful], model: Answering
) -> None:
    endpoint = llms.llm().endpoint  # type: ignore[attr-defined]
    assert known.claim(endpoint, 60)
    with pytest.raises(LLMUnavailable, match="another process"):
        another_process().ask(STOLEN)
    assert model.asked.total() == 0
    known.release(endpoint)
    assert another_process().ask(STOLEN).poignancy == 1


@pytest.mark.usefixtures("nothing_owed", "server")
def test_what_a_model_cannot_extract_rules_do_at_once_and_without_dead_letters(
    group: str, model: Answering, sign_in: Callable[..., Any]
) -> None:
    model.wrong = {"nothing"}
    say(group, "I am allergic to peanuts.", ("assistant", "Noted."), "My sister lives in Oslo.")
    hurry()
    assert run() == 1
    assert owed() == []
    facts = nodes(group, "knowledge", "preference")
    assert len(facts) == 2
    assert {(row["provenance"]["llm"], row["provenance"]["fallback"]) for row in facts} == {
        (Rules.model, True)
    }
    with unit_of_work() as connection:
        assert [
            letter
            for letter in dead_letters.letters(connection, group, LettersRequest())
            if letter.group_id == group
        ] == []
        [row] = numbers.usage_since(connection, group, datetime.now(UTC).date())
    assert (row.prompt, row.by_rules, row.questions) == ("extraction@4", 1, 0)
    page = sign_in("operator").get(f"/llm-use?group={group}").text
    assert "<code>extraction</code>" in page
    assert "The user asked for a product." in page


@pytest.mark.usefixtures("nothing_owed", "server")
def test_what_is_dropped_of_an_answer_is_counted(group: str, model: Answering) -> None:
    say(group, "I work on trains.")  # the model notes bees
    hurry()
    assert run() == 1
    assert nodes(group, "knowledge", "preference") == []
    with unit_of_work() as connection:
        [row] = numbers.usage_since(connection, group, datetime.now(UTC).date())
    assert (row.questions, row.unusable, row.by_rules, row.dropped) == (1, 0, 0, 1)
    assert row.seconds > 0
