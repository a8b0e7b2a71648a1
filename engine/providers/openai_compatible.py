"""Any LLM behind OpenAI's protocol: asked in words, held to a schema, told what is wrong with its answer.

What a vendor or a model takes of the protocol is learned from its refusals: no list of them stays true.
"""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from pydantic import ValidationError

from engine.providers import llm_prompts as prompts
from engine.providers.guarded import Patience, Provider
from engine.providers.llm_prompts import Usage, allow, cost_of, report
from engine.providers.questions import A, Question
from engine.providers.spec import Endpoint
from jiyi.errors import BadReply, LLMUnavailable, join_problems, problems_of
from jiyi.protocol.base import JsonMapping, JsonObject, unstorable
from jiyi.settings import Settings

#: Answers that the LLM may give until one fits what was asked.
TRIES = 3

#: A question with all its tries takes at most so many times the time-out of one request.
QUESTION_TIMEOUTS = 2
#: Requests of one try while the vendor is busy or fails; the time of the whole question is bounded as well.
REQUEST_TRIES = 2
#: Longest answer to the question that only asks whether anything is answered.
PROBE_TOKENS = 16
#: With less time left than this, nothing is tried again. Seconds.
LEAST_SECONDS = 1.0
#: Characters of an unusable answer that the model is shown again, and that an error quotes.
SHOWN_AGAIN, QUOTED = 2_000, 120


@dataclass(slots=True)
class _Tally:
    calls: int = 0
    failures: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


class OpenAICompatible:
    """Thread-safe; see :class:`engine.providers.llms.LLM`."""

    def __init__(self, endpoint: Endpoint, settings: Settings) -> None:
        self.model = str(endpoint.spec)
        self._settings = settings
        self._provider = Provider(endpoint, LLMUnavailable)
        # Replaced as a whole by whoever learns more; two threads at worst learn the same.
        self._dialect = Dialect(endpoint.preset.structured)

    def ask(self, question: Question[A]) -> A:
        """An answer that fits, after at most ``TRIES``.

        Raises:
            LLMUnavailable: the vendor cannot be reached, is too slow or refuses.
            BadReply: no answer fitted, or the vendor refuses this question alone; it names the prompt and the problem.
        """
        allow(question.group_id)
        tally = _Tally()
        try:
            return self._until_it_fits(question, tally)
        except LLMUnavailable as error:
            # Work waits for a vendor that is away for as long as it takes. A question that is too long for the model, or
            # that a filter does not let through, would wait for ever.
            if error.status in REFUSED and self._takes_another_question():
                name = prompts.signature(question, question.language)
                raise BadReply(f"{name} was not answered, though others are: {error}") from None
            raise
        finally:
            self._report(question, tally)

    def _until_it_fits(self, question: Question[A], tally: _Tally) -> A:
        deadline = time.monotonic() + QUESTION_TIMEOUTS * self._settings.llm_timeout
        messages = prompts.messages(question, schema_of(question))
        problem = reply = ""
        for number in range(TRIES):
            if number and deadline - time.monotonic() < LEAST_SECONDS:
                problem += "; no time is left to ask again"
                break
            reply = ""
            try:
                reply = self._say(question, messages, deadline, tally)
                return answer_in(reply, question)
            except Unusable as error:
                tally.failures += 1
                problem = str(error)
                messages = [*messages[:2], *_correction(reply, problem)]
        quoted = f"; it began {reply[:QUOTED]!r}" if reply else ""
        name = prompts.signature(question, question.language)
        raise BadReply(f"{self.model} gave no usable answer to {name}, the last time because {problem}{quoted}")

    def _say(self, question: Question[Any], messages: list[dict[str, str]], deadline: float, tally: _Tally) -> str:
        """The text of one reply. Raises :class:`Unusable` if there is none, or only a part."""
        try:
            completion = self._request(question, messages, deadline)
        except LLMUnavailable:
            tally.failures += 1
            raise
        finally:
            tally.calls += 1
        used = completion.get("usage")
        if isinstance(used, dict):
            tally.prompt_tokens += _count(used.get("prompt_tokens"))
            tally.completion_tokens += _count(used.get("completion_tokens"))
        try:
            choice = completion["choices"][0]
            content, refusal = choice["message"].get("content"), choice["message"].get("refusal")
        except (LookupError, TypeError, AttributeError):
            raise Unusable("it holds no message") from None
        if choice.get("finish_reason") == "length":
            raise Unusable(f"it was cut off at {self._settings.llm_max_tokens:,} tokens (JIYI_LLM_MAX_TOKENS)")
        if not isinstance(content, str) or not content.strip():
            raise Unusable(f"it is empty{f', refused with {str(refusal)[:QUOTED]!r}' if refusal else ''}")
        return content

    def _request(self, question: Question[Any], messages: list[dict[str, str]], deadline: float) -> dict[str, Any]:
        schema, dialect = strict_schema(schema_of(question)), self._dialect
        while True:
            remaining = max(deadline - time.monotonic(), LEAST_SECONDS)
            patience = Patience(min(self._settings.llm_timeout, remaining), REQUEST_TRIES, remaining)
            form = dialect.body(question.prompt, schema, self._settings.llm_max_tokens)
            body = {"model": self._provider.endpoint.spec.model, "messages": messages, **form}
            try:
                completion = self._provider.chat(body, patience)
            except LLMUnavailable as error:
                other = dialect.without(str(error)) if error.status in REFUSED else None
                if other is None:
                    raise
                dialect = other
            else:
                self._dialect = dialect  # only what has helped is remembered
                return completion

    def _takes_another_question(self) -> bool:
        """Whether a harmless question gets through: vendors refuse wrong keys and unpaid bills with the same codes."""
        body = {"model": self._provider.endpoint.spec.model, "messages": [{"role": "user", "content": "Say OK."}]}
        try:
            self._provider.chat({**body, self._dialect.limit: PROBE_TOKENS}, Patience(self._settings.llm_timeout, 1))
        except LLMUnavailable:
            return False
        return True

    def _report(self, question: Question[Any], tally: _Tally) -> None:
        settings = self._settings
        report(
            Usage(
                prompt=prompts.signature(question, question.language),
                model=self.model,
                group_id=question.group_id,
                calls=tally.calls,
                failures=tally.failures,
                prompt_tokens=tally.prompt_tokens,
                completion_tokens=tally.completion_tokens,
                cost=cost_of(tally.prompt_tokens, tally.completion_tokens, settings.token_prices),
            )
        )


def _correction(reply: str, problem: str) -> list[dict[str, str]]:
    told = f"That cannot be used: {problem}. Answer again, with one JSON object that fits the schema and nothing else."
    reply_again = [{"role": "assistant", "content": reply[:SHOWN_AGAIN]}] if reply else []
    return [*reply_again, {"role": "user", "content": told}]


def _count(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value <= 10**9 else 0


#: The same question gets the same answer, as far as the vendor can do that.
TEMPERATURE = 0.0
#: How a vendor says that the request is at fault: its form, its size or what it holds.
REFUSED = frozenset({400, 413, 422})


@dataclass(frozen=True, slots=True)
class Dialect:
    """How requests are put."""

    structured: Literal["schema", "object", "words"]
    temperature: bool = True
    #: Newer models of OpenAI want ``max_completion_tokens``.
    limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"

    def body(self, name: str, schema: JsonMapping, max_tokens: int) -> JsonObject:
        """The part of a request that depends on the dialect; ``schema`` is a strict one."""
        body: dict[str, Any] = {self.limit: max_tokens}
        if self.temperature:
            body["temperature"] = TEMPERATURE
        if self.structured == "schema":
            body["response_format"] = {"type": "json_schema", "json_schema": {"name": name, "strict": True, "schema": schema}}
        elif self.structured == "object":
            body["response_format"] = {"type": "json_object"}
        return body

    def without(self, refusal: str) -> Dialect | None:
        """What to try after a refusal in these words; None if there is nothing left to do without."""
        if "max_completion_tokens" in refusal and self.limit == "max_tokens":
            return replace(self, limit="max_completion_tokens")
        if "temperature" in refusal and self.temperature:
            return replace(self, temperature=False)
        if self.structured == "words":
            return None
        return replace(self, structured="object" if self.structured == "schema" else "words")


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
    strict = {
        # Names of fields are no keywords: a field may well be called "description".
        key: {name: strict_schema(part) for name, part in value.items()} if key in ("properties", "$defs") else strict_schema(value)
        for key, value in schema.items()
        if key not in _LIMITS
    }
    if strict.get("type") != "object":
        return strict
    return {**strict, "required": list(strict.get("properties", ())), "additionalProperties": False}


def _short(text: str) -> str:
    return text if len(text) <= MAX_PROBLEM_CHARS else f"{text[: MAX_PROBLEM_CHARS - 1]}…"
