"""What a chat model said, as the answer that was asked for; or what is wrong with it, in words that help it."""

from __future__ import annotations

import json
import re
from typing import Any, cast

from pydantic import ValidationError

from engine.providers.llms.questions import A, Question
from jiyi.errors import join_problems, problems_of
from jiyi.protocol.events import unstorable
from jiyi.protocol.wire.json_values import JsonObject

#: The largest answer that fits a schema has some 20 sentences of 2,000 characters; what is longer is no answer.
MAX_REPLY_CHARS = 50_000
#: Characters of a problem, which may quote the reply.
MAX_PROBLEM_CHARS = 500

FENCE = "```"
#: Some models think aloud first.
_THOUGHTS = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
#: Keywords that say how long, how many, how large or what if not given: not every vendor's schemas know them, and we check them anyway.
_LIMITS = frozenset(
    """title description default pattern minLength maxLength minItems maxItems minimum maximum exclusiveMinimum
    exclusiveMaximum""".split()
)


class Unusable(Exception):  # noqa: N818 – its name says what happened
    """A reply that is no answer; the message says why."""


def answer_in(reply: str, question: Question[A]) -> A:
    """The answer in a reply.

    Raises:
        Unusable: it is too long, no JSON, not the JSON that was asked for, or holds what cannot be stored.
    """
    if len(reply) > MAX_REPLY_CHARS:
        raise Unusable(f"it has {len(reply):,} characters, more than {MAX_REPLY_CHARS:,}")
    try:
        content = json.loads(_unwrapped(reply))
    except (ValueError, RecursionError):
        raise Unusable("it is not one JSON object and nothing else") from None
    try:
        answer = cast("A", question.answer.model_validate(content))
    except ValidationError as error:
        raise Unusable(_short(join_problems(problems_of(error)))) from None
    problems = [*unstorable(answer.model_dump()), *question.problems(answer)]
    if problems:
        raise Unusable(_short(join_problems(problems)))
    return answer


def _unwrapped(reply: str) -> str:
    """Without thoughts and the fence that many put around JSON whatever they are told: neither changes what is said."""
    text = _THOUGHTS.sub("", reply, count=1).strip()
    if not (text.startswith(FENCE) and text.endswith(FENCE)):
        return text
    return text.removesuffix(FENCE).partition("\n")[2]


def schema_of(question: Question[Any]) -> JsonObject:
    """The JSON schema of a question's answer, limits included."""
    return question.answer.model_json_schema()


def strict_schema(schema: Any) -> Any:
    """A schema as vendors take it who promise to keep to it: forms only, no limits, all that is named and nothing beside it."""
    if isinstance(schema, list):
        return [strict_schema(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made = {
        # Names of fields are no keywords: a field may well be called "description".
        key: {name: strict_schema(part) for name, part in value.items()} if key in ("properties", "$defs") else strict_schema(value)
        for key, value in schema.items()
        if key not in _LIMITS
    }
    if made.get("type") != "object":
        return made
    return {**made, "required": list(made.get("properties", ())), "additionalProperties": False}


def _short(text: str) -> str:
    return text if len(text) <= MAX_PROBLEM_CHARS else f"{text[: MAX_PROBLEM_CHARS - 1]}…"
