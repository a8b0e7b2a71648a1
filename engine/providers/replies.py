"""Reading a model's reply: the one JSON object in it that answers the question.

Taken away are thoughts, fences, words before and after, and slips that leave no doubt about what is meant.
What is cut off, holds two different answers, or merely repeats the form is no answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, cast

import json_repair
from pydantic import ValidationError

from engine.providers.questions import A, Question
from jiyi.errors import join_problems, problems_of
from jiyi.protocol.base import JsonMapping, unstorable
from jiyi.text.words import Language

#: Characters. The largest answer that fits a schema has some 20 sentences of 2,000; what is longer is none.
MAX_REPLY_CHARS = 50_000
#: Characters of a problem, which may quote the reply.
MAX_PROBLEM_CHARS = 500
#: Opening brackets of a reply that is repaired: the time grows with their square; 100 memories have some 500.
MAX_BRACKETS = 600
#: Places in a reply where an object is looked for.
MAX_OBJECTS = 50
#: Stands for a text where a form is shown: an answer that has it as a text repeats the form.
PLACEHOLDER = "…"

FENCE = "```"
BOM = "\ufeff"
#: What ends the thoughts that some models write first; they may begin in the model's template.
THOUGHTS = ("think", "thinking", "thought", "reasoning")
#: "Harmony", the form of gpt-oss: channels, of which the one called final is the answer.
CHANNEL, FINAL = "<|channel|>", "<|channel|>final<|message|>"
_END = re.compile(r"<\|(?:end|return|im_end|eot_id)\|>")
#: Parts of a message that are text: "text" in completions, "output_text" in responses.
TEXT_PARTS = frozenset({"text", "output_text"})
_DECODER = json.JSONDecoder()
#: An object, not a brace in prose.
_BEGINS = re.compile(r"\{\s*[\"']")
#: Two objects, one after the other.
_TWO = re.compile(r"\}[^{},\]\"']*\{")


class UnusableReply(Exception):  # noqa: N818 – its name says what happened
    """A reply that is no answer; :meth:`localized` says why in a prompt's language."""

    def __init__(self, problem: str, zh: str) -> None:
        super().__init__(problem)
        self._localized = {"en": problem, "zh": zh}

    def localized(self, language: Language) -> str:
        return self._localized[language]


def text_of(message: JsonMapping) -> str:
    """Its content, else the arguments of its tool call, else its thoughts; empty if nothing."""
    calls = [call.get("function") for call in _objects(message.get("tool_calls"))]
    calls.append(message.get("function_call"))
    arguments = [call.get("arguments") for call in calls if isinstance(call, dict)]
    thoughts = [message.get(name) for name in ("reasoning_content", "reasoning")]
    for value in (message.get("content"), *arguments, *thoughts):
        text = _joined(value) if isinstance(value, list) else value
        text = json.dumps(text) if isinstance(text, dict) else text
        if isinstance(text, str) and text.strip():
            return text
    return ""


def _joined(parts: list[Any]) -> str:
    texts = (part.get("text") for part in _objects(parts) if part.get("type", "text") in TEXT_PARTS)
    return "".join(str(text or "") for text in texts)


def _objects(value: Any) -> list[JsonMapping]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def answer_in(reply: str, question: Question[A], *, cut_off: bool = False) -> A:
    """The answer in a reply. Of one that was ``cut_off`` nothing is repaired: its last number may be half a
    one.

    Raises:
        UnusableReply: it is too long, holds no JSON, or not what was asked for, or two answers, or cannot be
        stored.
    """
    if len(reply) > MAX_REPLY_CHARS:
        size, most = f"{len(reply):,}", f"{MAX_REPLY_CHARS:,}"
        raise UnusableReply(f"it has {size} characters, more than {most}", f"它有 {size} 个字符，超过 {most}")
    whole = reply.strip(BOM).strip()
    answer_text = _without_thoughts(whole)
    answers: list[A] = []
    problem = UnusableReply("it is not one JSON object and nothing else", "它不是单独的一个 JSON 对象")
    for find in (_strict, *(() if cut_off else (_repaired,))):
        for value in [*_whole(whole), *find(answer_text)]:
            try:
                answer = _checked(value, question)
            except UnusableReply as error:
                problem = error
            else:
                answers += [answer] if answer not in answers else []
        if len(answers) > 1:
            raise UnusableReply("it holds several different answers", "它包含几个不同的答案")
        if answers:
            return answers[0]
    raise problem


def _without_thoughts(text: str) -> str:
    """Without thoughts, which may be about other answers."""
    if CHANNEL in text:
        _, final, text = text.rpartition(FINAL)
        return _END.split(text, maxsplit=1)[0] if final else ""
    for name in THOUGHTS:
        _, closed, after = text.rpartition(f"</{name}>")
        if closed:
            text = after
        elif text.lstrip().startswith(f"<{name}>"):
            return ""  # it thinks to the end
    return text.strip()


def _whole(text: str) -> list[Any]:
    try:
        return [json.loads(text)]
    except (ValueError, RecursionError):
        return []


def _strict(text: str) -> Iterator[Any]:
    """What stands in fences, and the objects that stand one after the other, none within another."""
    for block in text.split(FENCE)[1::2]:
        yield from _whole(block) or _whole(block.partition("\n")[2])  # without ``json``
    place = 0
    for _ in range(MAX_OBJECTS):
        place = text.find("{", place)
        if place < 0:
            return
        try:
            value, place = _DECODER.raw_decode(text, place)
            yield value
        except (ValueError, RecursionError):
            if _BEGINS.match(text, place):
                return  # what stands within an object is a part of an answer
            place += 1


def _repaired(text: str) -> list[Any]:
    """The one object in a text, its quotes, commas and comments put right; none that is not closed."""
    start, end = text.find("{"), text.rfind("}")
    if not 0 <= start < end:
        return []
    slip = text[start : end + 1]
    opening = slip.count("{") + slip.count("[")
    closed = slip.count("{") == slip.count("}") and slip.count("[") == slip.count("]")
    if not closed or opening > MAX_BRACKETS or _TWO.search(slip):
        return []
    try:
        value = json_repair.loads(slip, skip_json_loads=True)
    except (ValueError, RecursionError):
        return []
    return [value] if isinstance(value, dict) else []


def _checked(value: Any, question: Question[A]) -> A:
    """``value`` as the answer, also wrapped once or as its only field. Raises :class:`UnusableReply`."""
    names = question.answer.model_fields.keys()
    inner = value[0] if isinstance(value, list) and len(value) == 1 else value
    fits = isinstance(inner, dict) and bool(inner.keys() & names)
    only = next(iter(inner.values())) if isinstance(inner, dict) and len(inner) == 1 else None
    if not fits and isinstance(only, dict):
        inner = only
    elif not fits and len(names) == 1 and not isinstance(value, dict | bool):
        inner = {next(iter(names)): value}
    if not isinstance(inner, dict):
        raise UnusableReply("it is not one JSON object and nothing else", "它不是单独的一个 JSON 对象")
    return _validated(inner, question)


def _validated(content: JsonMapping, question: Question[A]) -> A:
    fields = question.answer.model_fields
    if content and content.keys().isdisjoint(fields):
        names = ", ".join(fields)
        raise UnusableReply(
            f"it has none of the fields {names}: required, but missing", f"它缺少字段 {names}"
        )
    try:
        answer = cast("A", question.answer.model_validate(content))
    except ValidationError as error:
        problem = _short(join_problems(problems_of(error)))
        raise UnusableReply(problem, f"这些字段不符合要求：{problem}") from None
    problems = [*unstorable(answer.model_dump()), *question.problems(answer)]
    if PLACEHOLDER in map(str.strip, texts_in(answer.model_dump())):
        problems.append(f"{PLACEHOLDER} stands for a text of your own")
    if problems:
        problem = _short(join_problems(problems))
        raise UnusableReply(problem, f"这些内容不符合要求：{problem}")
    return answer


def texts_in(value: Any) -> Iterator[str]:
    """All texts of what an answer dumps."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            yield from texts_in(part)


def _short(text: str) -> str:
    return text if len(text) <= MAX_PROBLEM_CHARS else f"{text[: MAX_PROBLEM_CHARS - 1]}…"
