"""engine.providers.replies: the weak forms in which models answer, each read right or not at all."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.growth.questions import PainQuestion
from engine.providers.questions import Consistency, Insights, Keywords, Memo, Poignancy, Question, Triple
from engine.providers.replies import MAX_REPLY_CHARS, UnusableReply, answer_in, text_of
from jiyi.protocol.conversations import Message

QUESTION = Poignancy(agent_id="Maria", text="Maria lost her job")
OK = '{"poignancy": 7}'
HARMONY = (
    '<|channel|>analysis<|message|>hm {"poignancy": 3}<|end|><|start|>assistant<|channel|>final<|message|>'
)


def said(content: Any, finish: str = "stop", **message: Any) -> tuple[dict[str, Any], bool]:
    return {"content": content, **message}, finish == "length"


CALL = {"id": "1", "type": "function", "function": {"name": "poignancy", "arguments": OK}}
#: Name, what came, and the poignancy in it; None: there is none.
FORMS: list[tuple[str, tuple[dict[str, Any], bool], int | None]] = [
    ("plain", said(OK), 7),
    ("fence", said(f"```json\n{OK}\n```"), 7),
    ("fence after words", said(f"Here is the answer:\n```json\n{OK}\n```"), 7),
    ("fence before words", said(f"```json\n{OK}\n```\nI chose 7 because it matters."), 7),
    ("words after", said(f"{OK}\n\nThis is a significant event."), 7),
    ("words before", said(f"Sure! {OK}"), 7),
    ("single quotes", said("{'poignancy': 7}"), 7),
    ("trailing comma", said('{"poignancy": 7,}'), 7),
    ("a number as a text", said('{"poignancy": "7"}'), 7),
    ("a whole number with a point", said('{"poignancy": 7.0}'), 7),
    ("in a list", said(f"[{OK}]"), 7),
    ("in another object", said(f'{{"answer": {OK}}}'), 7),
    ("the schema again", said('{"type": "object", "properties": {"poignancy": 7}}'), None),
    ("the number alone", said("7"), 7),
    ("a comment after", said(f"{OK} // serious"), 7),
    ("a comment within", said('{\n  // serious\n  "poignancy": 7\n}'), 7),
    ("thoughts", said(f'<think>hm {{"poignancy": 3}}</think>\n{OK}'), 7),
    ("thoughts that the template began", said(f'{{"poignancy": 3}}, no, serious.</think>\n{OK}'), 7),
    ("thoughts by another name", said(f"<thinking>hm</thinking>\n{OK}"), 7),
    ("channels", said(f"{HARMONY}{OK}"), 7),
    ("thoughts beside empty content", said("", reasoning_content=f"I think 7. {OK}"), 7),
    ("thoughts in place of content", said(None, reasoning_content=f"I think 7. {OK}"), 7),
    ("a tool call", said(None, "tool_calls", tool_calls=[CALL]), 7),
    ("parts", said([{"type": "text", "text": OK}]), 7),
    ("nothing", said(""), None),
    ("cut off", said('{"poignancy": 7', "length"), None),
    ("cut off behind the answer", said(OK, "length"), 7),
    ("filtered", said("", "content_filter"), None),
    ("refused", said(None, refusal="I cannot help"), None),
    ("one field more", said('{"poignancy": 7, "why": "because"}'), 7),
    ("out of range", said('{"poignancy": 11}'), None),
    ("a mark of the byte order", said(f"\ufeff{OK}"), 7),
    ("the same twice", said(f"{OK}\n{OK}"), 7),
    ("full-width braces", said('｛"poignancy"：7｝'), 7),
]  # fmt: skip


def read(form: tuple[dict[str, Any], bool]) -> int | None:
    message, cut_off = form
    try:
        return answer_in(text_of(message), QUESTION, cut_off=cut_off).poignancy
    except UnusableReply:
        return None


def test_of_34_weak_forms_at_least_30_are_read_right_and_none_wrong() -> None:
    found = {name: (read(form), right) for name, form, right in FORMS}
    assert len(found) == 34
    wrong = {name: value for name, (value, right) in found.items() if value not in (right, None)}
    missed = [name for name, (value, right) in found.items() if value != right]
    assert not wrong
    assert missed == ["full-width braces"]


def test_what_is_uncertain_is_not_read() -> None:
    for reply in (
        f'{OK} or {{"poignancy": 3}}',  # two answers
        f'```\n{OK}\n```\n```\n{{"poignancy": 3}}\n```',
        "{'poignancy': 7} or {'poignancy': 3}",
        '{"poignancy": 7, "others": [{"poignancy": 3},]',  # cut off; the inner object is another one's
        '<think>it might be {"poignancy": 3}',  # it never came to an answer
        '<|channel|>analysis<|message|>{"poignancy": 3}',
        "I would say seven.",
        "true",
        '{"Poignancy is": "7"}',
        "[7, 3]",
    ):
        assert read(said(reply)) is None, reply
    assert read(said('{"poignancy": 7, "others": [{"poignancy": 3},]}')) == 7  # repaired, not searched


TRIPLE, MEMO = Triple(agent_id="a", text="x"), Memo(agent_id="a", utterances=[("a", "b")])
INSIGHTS = Insights(agent_id="a", focal_point="?", statements=["x", "y"], count=2)
AT_HOME = {"subject": "Maria", "predicate": "isn't", "object": "at {home}"}
PAINS = PainQuestion(agent_id="a", messages=[Message(role="user", text="x")])


def test_other_answers_are_read_as_they_are_meant() -> None:
    answers: list[tuple[Question[Any], str, dict[str, Any]]] = [
        (Keywords(agent_id="a", text="tea"), '["tea", "honey"]', {"keywords": ["tea", "honey"]}),
        (TRIPLE, str(AT_HOME), AT_HOME),
        (MEMO, '{"sentence": "He said "no" to me", }', {"sentence": 'He said "no" to me'}),
        (
            MEMO,
            '{"sentence": "keeps ``` and </think> {as} is"}',
            {"sentence": "keeps ``` and </think> {as} is"},
        ),
        (
            INSIGHTS,
            '[{"text": "t", "evidence": ["0", 1]}]',
            {"insights": [{"text": "t", "evidence": [0, 1]}]},
        ),
    ]
    for question, reply, answer in answers:
        assert answer_in(reply, question).model_dump() == answer


CHOICES = '{"verdict": "consistent|inconsistent|unknown", "why": ""}'


@pytest.mark.parametrize(
    ("question", "reply", "problem"),
    [
        (TRIPLE, '{"subject": "…", "predicate": "…", "object": "…"}', "stands for a text of your own"),
        (Consistency(agent_id="a", text="x"), CHOICES, "verdict"),
        # An object without any of the fields is no answer that found nothing.
        (PAINS, '{"type": "object", "title": "x"}', "none of the fields pains, helped"),
        (QUESTION, "x" * (MAX_REPLY_CHARS + 1), "50,001 characters, more than 50,000"),
        (QUESTION, '{"poignancy": 11}', "less than or equal to 10"),
    ],
)
def test_what_is_no_answer_says_why_in_both_languages(
    question: Question[Any], reply: str, problem: str
) -> None:
    with pytest.raises(UnusableReply, match=problem) as caught:
        answer_in(reply, question)
    assert caught.value.localized("en") == str(caught.value)
    assert any("一" <= character <= "鿿" for character in caught.value.localized("zh"))


HANGING = [
    *('{"a" ' * 9_000, '{"a":' * 8_000, "{" * 40_000, "[" * 40_000, "}{" * 20_000, "{ " * 20_000),
    *("<think>" * 7_000, "</think>" * 6_000, "```" + "\n" * 40_000, "{'a': '" + "x' " * 16_000),
    *("{'a'" + "," * 40_000 + "}", "{'" * 600 + "x" * 40_000 + "}", '{"a": [' * 299 + "'" * 40_000 + "}"),
]


@pytest.mark.parametrize("reply", HANGING)
def test_replies_made_to_hang_a_parser_do_not(reply: str) -> None:
    assert read(said(reply)) is None


@given(st.text(max_size=300))
def test_any_reply_is_an_answer_or_unusable(reply: str) -> None:
    try:
        assert 1 <= answer_in(reply, QUESTION).poignancy <= 10
    except UnusableReply as error:
        assert len(str(error)) <= 500
