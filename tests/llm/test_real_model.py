"""A small real model behind a real server, known by its address alone: not what it says, but what becomes of
it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from engine.conversations.trials import Careful
from engine.providers import llms
from engine.providers.llm_prompts import Usage
from engine.providers.llms import LLM
from engine.providers.questions import Keywords, Memo, Planning, Poignancy, Question, Triple
from engine.providers.verdicts import verdict
from jiyi.errors import BadReply, LLMUnavailable
from tests.llm.conftest import OTHER, Model
from tests.misbehaving import Vendor

Use = Callable[..., LLM]
#: Share of short questions whose first answer can be used.
FIRST = 0.8

TEXTS = {
    "en": [
        "Klaus lost his job at the mill today and did not tell Maria.",
        "Maria is brushing her teeth.",
        "Maria lends her bicycle to Klaus until Friday.",
    ],
    "zh": ["陈伟今天被公司裁员了，没有告诉家里人。", "小丽正在刷牙。", "小丽把自行车借给陈伟，周五还。"],
}
TALKS = {
    "en": [
        ("Maria", "Did you hear that the library closes in May?"),
        ("Klaus", "No! Where shall I read then?"),
    ],
    "zh": [("小丽", "你听说图书馆五月关门吗？"), ("陈伟", "没有！那我去哪儿看书？")],
}
NAMES = {"en": "Maria", "zh": "小丽"}
SHORT: list[Question[Any]] = [
    *(
        cls(agent_id=NAMES[language], language=language, text=text)
        for language, texts in TEXTS.items()
        for text in texts
        for cls in (Poignancy, Triple, Keywords)
    ),
    *(
        cls(agent_id=NAMES[language], language=language, utterances=talk)
        for language, talk in TALKS.items()
        for cls in (Memo, Planning)
    ),
]  # fmt: skip


def test_most_short_questions_are_answered_at_the_first_request_and_none_takes_more_than_three(
    use: Use, wire: Vendor, used: list[Usage]
) -> None:
    llm, first = use(), Counter[str]()
    for question in SHORT:
        before = len(wire.requests)
        try:
            llm.ask(question)
        except (BadReply, LLMUnavailable) as error:
            print(f"{question.prompt} {question.language}: {error}")  # noqa: T201 – shown where a test fails, or by -s
        else:
            first[question.prompt] += len(wire.requests) - before == 1
        assert len(wire.requests) - before <= 3
    print(f"usable at the first request: {sum(first.values())} of {len(SHORT)} ({dict(first)})")  # noqa: T201
    assert sum(first.values()) >= FIRST * len(SHORT)
    # What is counted is what went over the wire.
    counts = [json.loads(reply.body)["usage"] for reply in wire.replies]  # type: ignore[attr-defined]
    assert sum(one.calls for one in used) == len(wire.requests)
    assert sum(one.prompt_tokens for one in used) == sum(count["prompt_tokens"] for count in counts)
    assert sum(one.completion_tokens for one in used) == sum(count["completion_tokens"] for count in counts)


@pytest.mark.parametrize("structured", ["object", "words"])
def test_whatever_the_form_an_answer_fits_or_is_a_bad_reply(use: Use, wire: Vendor, structured: str) -> None:
    llm = use(llm_structured=structured)
    for question in (SHORT[0], SHORT[-1]):
        before = len(wire.requests)
        try:
            llm.ask(question)
        except BadReply as error:
            assert question.prompt in str(error)
        assert len(wire.requests) - before <= 3


def test_a_question_that_is_too_long_for_the_model_is_refused_once(use: Use, wire: Vendor) -> None:
    if OTHER:
        pytest.skip("how much another model reads is not known")
    with pytest.raises(BadReply, match="too long for the model"):
        use().ask(Poignancy(agent_id="小丽", language="zh", text="图书馆五月关门" * 3_000))
    assert len(wire.requests) == 1


def test_a_server_that_is_stopped_is_waited_for_and_asked_again(use: Use, model: Model) -> None:
    if OTHER:
        pytest.skip("another server is not ours to stop")
    llm = use()
    llm.ask(SHORT[0])
    model.stop()
    try:
        with pytest.raises(LLMUnavailable):
            llm.ask(SHORT[0])
    finally:
        model.start()
    assert 1 <= llm.ask(Poignancy(agent_id="Maria", text="Maria is brushing her teeth.")).poignancy <= 10


def test_a_model_is_tried_out_once_and_what_it_cannot_do_costs_no_request_any_more(
    use: Use, wire: Vendor
) -> None:
    llm = Careful(use(llm_trial_days=30))

    def ask() -> int:
        """Requests of two questions."""
        before = len(wire.requests)
        for question in SHORT[:2]:
            try:
                llm.ask(question)
            except BadReply as error:
                print(f"{question.prompt}: {error}")  # noqa: T201 – shown where a test fails, or by -s
        return len(wire.requests) - before

    assert (
        3 <= ask() <= 15
    )  # two events and a sentence, and what is left to the model, each with at most two corrections
    found = verdict(llms.llm().endpoint)  # type: ignore[attr-defined]
    assert list(found.found) == ["importance", "triple"]
    possible = sum(not found.why_rules(question) for question in SHORT[:2])
    assert possible <= ask() <= 3 * possible
