"""What a model is asked first, and what rules answer in its place."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from engine.conversations.notes import Notes
from engine.conversations.trials import TRIALS, Careful
from engine.providers import breakers, health, llms, verdicts
from engine.providers import known as known_models
from engine.providers.llm_prompts import Usage
from engine.providers.questions import Keywords, Memo, Poignancy, Triple
from engine.providers.verdicts import ABILITIES, NEEDS, verdict
from jiyi.errors import BadReply, LeftToRules, LLMUnavailable
from jiyi.protocol.conversations import Message
from jiyi.settings import Settings
from models.operations import health_checks
from tests.llms import Answering
from tests.misbehaving import Vendor, chat, status

Use = Callable[..., Careful]
STOLEN = Poignancy(agent_id="Mira", text="Pavel's bicycle was stolen")
SAID = Notes(agent_id="Mira", messages=[Message(role="user", text="I keep bees.")])
SAID_ZH = Notes(agent_id="Mira", language="zh", messages=[Message(role="user", text="我养了两箱蜜蜂。")])
TEA, HELLO = Keywords(agent_id="M", text="tea"), Memo(agent_id="M", utterances=[("M", "Hello")])


@pytest.fixture
def model(server: Vendor) -> Answering:
    server.otherwise = answering = Answering()
    return answering


@pytest.fixture
def use(server: Vendor, model: Answering, used: list[Usage], configure: Callable[..., Settings]) -> Use:
    """The LLM as work asks it."""

    def make(spec: str = "compatible:m", **settings: Any) -> Careful:
        configure(llm=spec, **{"llm_base_url": server.base_url, "llm_trial_days": 30, **settings})
        llms.llm.cache_clear()
        return Careful(llms.llm())

    return make


def test_every_prompt_has_its_needs_and_every_ability_its_trial() -> None:
    there = files("engine.providers").joinpath("prompts").iterdir()
    assert set(NEEDS) == {file.name.split(".")[0] for file in there} - {"frame"}
    assert set(TRIALS) == set(ABILITIES) == set(verdicts.TRIED_WITH)


def test_a_new_model_is_asked_once_what_a_question_needs(use: Use, model: Answering) -> None:
    assert use().ask(STOLEN).poignancy == 1
    assert model.asked == {"poignancy": 3}  # two events, and the question itself
    use().ask(STOLEN)  # in another process
    use().ask(SAID)
    assert model.asked == {"poignancy": 4, "extraction": 5}
    use().ask(SAID_ZH)
    assert model.asked["extraction"] == 7
    assert verdict(llms.llm().endpoint).prompts_by_rules() == []  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("wrong", "questions", "others", "reason"),
    [
        ("importance", [STOLEN], [SAID, TEA], "gives a death 3 and the brushing of teeth 3"),
        ("triple", [Triple(agent_id="M", text="x"), TEA], [STOLEN], "statement / is / Klaus"),
        ("nothing", [SAID, SAID_ZH], [STOLEN], "of a sum it notes 'The user asked for a product.'"),
        ("chinese", [SAID_ZH], [SAID, STOLEN], "it notes 'The user is a nurse.'"),
        ("injection", [SAID, HELLO], [STOLEN], "what a page orders it to note"),
        ("endings", [SAID, SAID_ZH], [STOLEN], "she is no nurse any more"),
        ("others", [SAID], [STOLEN], "'The user has a dog called Rex.' is over"),
    ],
)
def test_what_a_model_cannot_do_is_left_to_the_rules_and_not_asked_again(
    use: Use, model: Answering, wrong: str, questions: list[Any], others: list[Any], reason: str
) -> None:
    model.wrong = {wrong}
    llm = use()
    for question in questions:
        with pytest.raises(LeftToRules, match=question.prompt):
            llm.ask(question)
    asked = model.asked.total()
    for question in questions:
        with pytest.raises(LeftToRules) as raised:
            llm.ask(question)
        assert reason in str(raised.value)
    assert model.asked.total() == asked
    for question in others:
        llm.ask(question)


def test_health_names_what_rules_answer(use: Use, model: Answering, known: Callable[..., None]) -> None:
    model.wrong = {"importance", "chinese"}
    for question in (STOLEN, SAID_ZH):
        with pytest.raises(LeftToRules):
            use().ask(question)
    known()
    found = next(one for one in health.providers(verdicts.get_settings()) if one.name == "llm")
    assert found.state == "limited"
    assert "rules answer poignancy, triple (zh), " in found.detail
    assert health_checks.provider(found).state == "attention"


def test_a_server_that_is_away_has_not_failed(use: Use, server: Vendor, model: Answering) -> None:
    server.otherwise = status(503)
    with pytest.raises(LLMUnavailable):
        use().ask(STOLEN)
    server.otherwise = model
    breakers.in_process.clear()
    assert use().ask(STOLEN).poignancy == 1


def test_a_filter_that_keeps_injections_out_does_what_is_wanted(
    use: Use, server: Vendor, model: Answering
) -> None:
    server.otherwise = lambda request: (
        status(400, "content_filter")(request)
        if "administrator" in request.body["messages"][1]["content"]
        else model(request)
    )
    assert use().ask(SAID).memories


@pytest.mark.parametrize("change", ["address", "model", "prompt", "days", "hand"])
def test_another_model_is_asked_again(
    use: Use, server: Vendor, model: Answering, change: str, later: Callable[[float], None], tmp_path: Path
) -> None:
    model.wrong = {"importance"}
    llm = use()
    with pytest.raises(LeftToRules):
        llm.ask(STOLEN)
    model.wrong = set()
    settings: dict[str, Any] = {}
    match change:
        case "address":
            settings["llm_base_url"] = f"{server.base_url}/"
        case "model":
            settings["spec"] = "compatible:another"
        case "prompt":
            settings["home"] = tmp_path / "other"
            (tmp_path / "other" / "prompts").mkdir(parents=True)
            own = "---\nname: poignancy\nversion: ours\n---\nHow heavy?\n"
            (tmp_path / "other" / "prompts" / "poignancy.en.md").write_text(own, "utf-8")
        case "days":
            later(30 * 86_400 + 1)
        case "hand":
            known_models.forget(llms.llm().endpoint)  # type: ignore[attr-defined]
    assert use(**settings).ask(STOLEN).poignancy == 1


def test_models_are_not_asked_where_nobody_wants_it(use: Use, model: Answering) -> None:
    model.wrong = set(ABILITIES)
    assert use(llm_trial_days=0).ask(STOLEN).poignancy == 3
    assert model.asked == {"poignancy": 1}


def test_after_a_row_of_unusable_answers_rules_have_a_prompt_for_an_hour(
    use: Use, server: Vendor, model: Answering, later: Callable[[float], None]
) -> None:
    llm = use(llm_trial_days=0)
    server.otherwise = lambda request: (
        chat("no JSON")(request) if "extraction" in str(request.body) else model(request)
    )
    for _ in range(verdicts.MOST_IN_A_ROW):
        with pytest.raises(BadReply, match="no usable answer"):
            llm.ask(SAID)
    asked = len(server.requests)
    with pytest.raises(LeftToRules, match="for an hour"):
        use(llm_trial_days=0).ask(SAID)
    assert len(server.requests) == asked
    assert llm.ask(STOLEN).poignancy == 1  # other prompts are not touched
    later(verdicts.PAUSE_SECONDS + 1)
    with pytest.raises(BadReply, match="no usable answer"):  # tried again, and one such answer is enough now
        llm.ask(SAID)
    with pytest.raises(LeftToRules):
        llm.ask(SAID)
    later(verdicts.PAUSE_SECONDS + 1)
    server.otherwise = model
    assert llm.ask(SAID).memories
    server.otherwise = chat("no JSON")
    for _ in range(2):
        with pytest.raises(BadReply, match="no usable answer"):
            llm.ask(SAID)


def test_what_a_filter_refuses_says_nothing_of_a_prompt(use: Use, server: Vendor) -> None:
    server.otherwise = status(400, "content_filter")
    llm = use(llm_trial_days=0)
    for _ in range(verdicts.MOST_IN_A_ROW + 1):
        with pytest.raises(BadReply, match="filter"):
            llm.ask(SAID)


def test_what_becomes_of_answers_is_counted(
    use: Use, server: Vendor, model: Answering, used: list[Usage]
) -> None:
    llm, tea = use(llm_trial_days=0), Keywords(agent_id="Mira", text="Pavel drinks green tea", group_id="g")
    server.script(chat("no JSON"), chat('{"keywords": ["tea", "moon", "sun"]}'))
    assert llm.ask(tea).keywords == ["tea"]
    server.script(chat('{"keywords": ["moon"]}'))
    with pytest.raises(BadReply, match="none of them stands in the text"):
        llm.ask(tea)
    counts = {"questions": 2, "unusable": 1, "repaired": 1, "dropped": 2, "calls": 3}
    assert {name: sum(getattr(one, name) for one in used) for name in counts} == counts
    assert {(one.prompt, one.model, one.group_id) for one in used} == {("keywords@2", "compatible:m", "g")}
    assert used[0].seconds > 0
