"""Any LLM behind OpenAI's protocol: held to a schema where it takes one, asked again if it does not fit.

What a server takes of the protocol is learned from its refusals, since no list of vendors stays true. It is
kept for a server's address and a model, for a day (:mod:`engine.providers.known`).
"""

from __future__ import annotations

import logging
import re
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from threading import BoundedSemaphore
from typing import Any, Literal, TypeAlias, cast, get_args

from engine.providers import breakers, known
from engine.providers import llm_prompts as prompts
from engine.providers.calls import tokens_used
from engine.providers.guarded import ProviderClient, RetryLimits
from engine.providers.llm_prompts import Usage, allow, cost_of, report
from engine.providers.questions import A, Question
from engine.providers.replies import UnusableReply, answer_in, text_of
from engine.providers.spec import Endpoint
from jiyi.errors import BadReply, LLMUnavailable
from jiyi.protocol.base import JsonMapping, JsonObject
from jiyi.protocol.providers import Structured
from jiyi.settings import Settings

log = logging.getLogger(__name__)
#: The same question gets the same answer, as far as the vendor can do that.
TEMPERATURE = 0.0
#: How a vendor says that the request is at fault: its form, its size or what it holds.
REFUSED = frozenset({400, 413, 422})
TOO_LARGE = 413
#: Seconds that what was learned holds: servers are updated.
LEARNED_SECONDS = 86_400

#: From the most to the least that a server is asked for.
FORMS: tuple[Structured, ...] = get_args(Structured)
#: Keywords that say how long, how many or how large: not every vendor's schemas know them, and we check them.
LIMITS = frozenset(
    "pattern minLength maxLength minItems maxItems minimum maximum exclusiveMinimum exclusiveMaximum".split()
)
#: Never sent: names of our classes and values of ours, which models copy.
OURS = frozenset({"title", "default"})

Cause: TypeAlias = Literal["length", "filter", "form", ""]
#: Why a request is refused, by vendors' codes and words; in this order, as one may name a schema, too.
_CAUSES: Mapping[Cause, re.Pattern[str]] = {
    "length": re.compile(
        r"context[_ -]?(?:length|size|window)|exceed_context|maximum context|string_above_max_length"
        r"|too many tokens|(?:prompt|input|message|text|request)s? (?:is |are )?too (?:long|large)"
        r"|max_model_len|input length|token count"
    ),
    "filter": re.compile(
        r"content[_ -]?(?:filter|policy|management|violation)|content exists risk|data_inspection"
        r"|inappropriate content|moderation|sensitive (?:content|words)|敏感内容"
    ),
    "form": re.compile(
        r"response[_ ]?format|json[_ ](?:schema|object|mode)|\bschema|\bgrammar|guided|structured[_ ]output"
    ),
}
#: Words of a refusal that is about the kind of form, and not about what stands in a schema.
_KIND = re.compile(r"response[_ ]?format|json_(?:schema|object)|json[_ ]mode")
_WORD = re.compile(r"[A-Za-z]+")


def cause_of(refusal: str, status: int | None = None) -> Cause:
    """What a refusal in these words (code included) is about; empty if it names nothing known here."""
    words = refusal.lower()
    match: Cause = next((cause for cause, pattern in _CAUSES.items() if pattern.search(words)), "")
    return match or ("length" if status == TOO_LARGE else "")


@dataclass(frozen=True, slots=True)
class ServerDialect:
    """How requests are put."""

    structured: Structured
    #: Keywords that are left out of schemas.
    without_keywords: frozenset[str] = frozenset()
    temperature: bool = True
    #: Newer models of OpenAI want ``max_completion_tokens``.
    limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"

    def body(self, name: str, schema: JsonMapping, max_tokens: int) -> JsonObject:
        """The part of a request that depends on the dialect; ``schema`` is pydantic's."""
        body: dict[str, Any] = {self.limit: max_tokens}
        if self.temperature:
            body["temperature"] = TEMPERATURE
        if self.structured == "schema":
            form = {"name": name, "strict": True, "schema": strict_schema(schema, self.without_keywords)}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        elif self.structured == "object":
            body["response_format"] = {"type": "json_object"}
        return body

    def without(self, refusal: str, *, pinned: bool = False) -> ServerDialect | None:
        """What to try after a refusal in these words: without what it names; None if it names nothing of
        this.

        ``pinned``: the form stays.
        """
        if "max_completion_tokens" in refusal and self.limit == "max_tokens":
            return replace(self, limit="max_completion_tokens")
        if "temperature" in refusal and self.temperature:
            return replace(self, temperature=False)
        if cause_of(refusal) != "form" or self.structured == "words":
            return None
        if self.structured == "schema":
            remaining = LIMITS - self.without_keywords
            keywords = remaining & set(_WORD.findall(refusal))
            if keywords or (remaining and not _KIND.search(refusal.lower())):
                return replace(self, without_keywords=self.without_keywords | (keywords or remaining))
        return None if pinned else replace(self, structured=FORMS[FORMS.index(self.structured) + 1])


def strict_schema(schema: Any, without: frozenset[str] = frozenset()) -> Any:
    """A schema as vendors take it who promise to keep to it: all that is named, nothing else, no titles.

    Descriptions of fields stay; those of objects are the docstrings of our classes.
    """
    if isinstance(schema, list):
        return [strict_schema(item, without) for item in schema]
    if not isinstance(schema, dict):
        return schema
    is_object = schema.get("type") == "object"
    left_out = OURS | without | ({"description"} if is_object else frozenset())
    strict = {
        # Names of fields are no keywords: a field may well be called "description".
        key: (
            {name: strict_schema(part, without) for name, part in value.items()}
            if key in ("properties", "$defs")
            else strict_schema(value, without)
        )
        for key, value in schema.items()
        if key not in left_out
    }
    if not is_object:
        return strict
    return {**strict, "required": list(strict.get("properties", ())), "additionalProperties": False}


DIALECT = "dialect"


def recall_dialect(endpoint: Endpoint, pinned: Structured | None) -> ServerDialect:
    """Learned in the last day, or the vendor's usual. ``pinned``: the form to ask for."""
    dialect = _dialect_of(known.read(endpoint).get(DIALECT)) or ServerDialect(endpoint.preset.structured)
    return dialect if pinned is None else replace(dialect, structured=pinned)


def remember_dialect(endpoint: Endpoint, dialect: ServerDialect, pinned: Structured | None) -> None:
    """Keep what has helped, for a day; a form that was ``pinned`` was not learned."""
    structured = dialect.structured if pinned is None else endpoint.preset.structured
    content = asdict(dialect) | {"structured": structured}
    content["without_keywords"] = sorted(dialect.without_keywords)
    known.write(endpoint, DIALECT, content, LEARNED_SECONDS)


def _dialect_of(content: Any) -> ServerDialect | None:
    try:
        return ServerDialect(**{**content, "without_keywords": frozenset(content["without_keywords"])})
    except (TypeError, KeyError):  # not learned, or another version's
        return None


#: Tries until an answer fits; of those that are cut off fewer, since another ends at the same place.
TRIES, CUT_OFF_TRIES = 3, 2

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

_AGAIN = {
    "en": "That cannot be used: {problem}. Answer again, and keep to the form.",
    "zh": "这个回答不能使用：{problem}。请重新回答，并遵守格式。",
}
#: After an answer that was cut off.
_SHORTER = {
    "en": (
        "Your answer was cut off because it was too long. Answer again, much shorter: repeat nothing, leave"
        " out what matters least."
    ),
    "zh": "你的回答太长，被截断了。请重新回答，要短得多：不要重复，省略最不重要的内容。",
}
_WHY = {"length": "it is too long for the model", "filter": "a filter of contents refuses it"}


class _Tally(Counter[str]):
    """The counts of one question, as :class:`Usage` has them."""

    def add(self, completion: JsonObject) -> None:
        prompt, completed = tokens_used(completion)
        self.update(prompt_tokens=prompt, completion_tokens=completed)


@dataclass(frozen=True, slots=True)
class _Reply:
    """A reply. ``problem``: why there is nothing to read in it."""

    text: str
    cut_off: bool = False
    problem: str = ""

    def answer(self, question: Question[A]) -> A:
        """The answer in it. Raises :class:`UnusableReply`."""
        if self.problem:
            raise UnusableReply(self.problem, "它是空的")
        return answer_in(self.text, question, cut_off=self.cut_off)


class OpenAICompatible:
    """Thread-safe; see :class:`engine.providers.llms.LLM`."""

    def __init__(self, endpoint: Endpoint, settings: Settings) -> None:
        self.model, self.endpoint = str(endpoint.spec), endpoint
        self._settings = settings
        self._provider = ProviderClient(endpoint, LLMUnavailable)
        self._turns = BoundedSemaphore(settings.llm_questions)
        pinned = settings.llm_structured
        self._pinned: Structured | None = None if pinned == "auto" else pinned

    def ask(self, question: Question[A]) -> A:
        """An answer that fits, after at most ``TRIES``.

        Raises:
            LLMUnavailable: the vendor cannot be reached, is too slow or refuses, or others' questions take
            all its time.
            BadReply: no answer fitted, or the vendor refuses this question alone; it names the
            prompt and the problem.
        """
        allow(question.group_id)
        if not self._turns.acquire(timeout=QUESTION_TIMEOUTS * self._settings.llm_timeout):
            raise LLMUnavailable(
                f"{self._settings.llm_questions} questions to {self.model} are open (JIYI_LLM_QUESTIONS): the"
                " rest waits"
            )
        tally, began, outcome = _Tally(), time.monotonic(), "unavailable"
        try:
            if not breakers.is_closed(self.endpoint.breaker):
                self._probe(tally)  # a short question is the breaker's trial
            answer = self._until_it_fits(question, tally)
        except BadReply:
            tally["questions"], tally["unusable"], outcome = 1, 1, "unusable"
            raise
        except LLMUnavailable as error:
            # Work waits for a vendor that is away; a question too long or filtered would wait for ever.
            if error.status in REFUSED and (why := self._why_alone(error, tally)):
                name = prompts.signature(question, question.language)
                failure = BadReply(f"{name} was not answered, {why}: {error}")
                failure.refused, failure.too_long = True, "question" if why == _WHY["length"] else ""
                tally["questions"], tally["unusable"], outcome = 1, 1, "refused"
                raise failure from None
            outcome = "timed_out" if error.timed_out else outcome
            raise
        else:
            tally["questions"], outcome = 1, "repaired" if tally["repaired"] else "usable"
            return answer
        finally:
            self._turns.release()
            self._report(question, tally, time.monotonic() - began, outcome)

    def _until_it_fits(self, question: Question[A], tally: _Tally) -> A:
        deadline = time.monotonic() + QUESTION_TIMEOUTS * self._settings.llm_timeout
        correction: list[dict[str, str]] = []
        problem, reply, cut = "", _Reply(""), 0
        for number in range(TRIES):
            if number and deadline - time.monotonic() < LEAST_SECONDS:
                problem += "; no time is left to ask again"
                break
            reply = self._say(question, correction, deadline, tally)
            cut += reply.cut_off
            try:
                answer = reply.answer(question)
            except UnusableReply as error:
                tally["failures"] += 1
                cut_off = f"it was cut off at {prompts.answer_tokens():,} tokens (JIYI_LLM_MAX_TOKENS)"
                problem = cut_off if reply.cut_off else str(error)
                instruction = (_SHORTER if reply.cut_off else _AGAIN)[question.language]
                instruction = instruction.format(problem=error.localized(question.language))
                correction = _correction(reply.text, instruction)
            else:
                tally["repaired"] = int(number > 0)
                return answer
            if cut == CUT_OFF_TRIES:
                break
        quoted = f"; it began {reply.text[:QUOTED]!r}" if reply.text else ""
        name = prompts.signature(question, question.language)
        gave_none = f"{self.model} gave no usable answer to {name}"
        failure = BadReply(f"{gave_none}, the last time because {problem}{quoted}")
        failure.too_long = "answer" if reply.cut_off else ""
        raise failure

    def _say(
        self, question: Question[Any], correction: list[dict[str, str]], deadline: float, tally: _Tally
    ) -> _Reply:
        try:
            completion = self._request(question, correction, deadline, tally)
        except LLMUnavailable:
            tally["failures"] += 1
            raise
        tally.add(completion)
        try:
            choice = cast("Any", completion)["choices"][0]
            finish, message = choice.get("finish_reason"), choice["message"]
            text, refusal = text_of(message), message.get("refusal")
        except (LookupError, TypeError, AttributeError):
            return _Reply("", problem="it holds no message")
        if finish == "content_filter":
            name = prompts.signature(question, question.language)
            tally["failures"] += 1
            failure = BadReply(f"{self.model} did not answer {name}: a filter of contents cut its answer off")
            failure.refused = True
            raise failure
        refused = f", refused with {str(refusal)[:QUOTED]!r}" if refusal else ""
        return _Reply(text, finish == "length", "" if text else f"it is empty{refused}")

    def _request(
        self, question: Question[Any], correction: list[dict[str, str]], deadline: float, tally: _Tally
    ) -> JsonObject:
        endpoint, schema = self.endpoint, question.answer.model_json_schema()
        initial = dialect = recall_dialect(endpoint, self._pinned)
        while True:
            remaining = max(deadline - time.monotonic(), LEAST_SECONDS)
            patience = RetryLimits(min(self._settings.llm_timeout, remaining), REQUEST_TRIES, remaining)
            # A model that did not keep to a schema is shown the form as well.
            with_example = correction or dialect.structured != "schema"
            example = prompts.example_of(schema, question.language) if with_example else ""
            messages = _corrected(prompts.messages(question, example), correction)
            form = dialect.body(question.prompt, schema, prompts.answer_tokens())
            tally["calls"] += 1
            try:
                body = {**self._body(messages), **form, **self._settings.llm_extras}
                completion = self._provider.chat(body, patience)
            except LLMUnavailable as error:
                other = dialect.without(error.words, pinned=self._pinned is not None)
                if other is None or error.status not in REFUSED:
                    raise
                tally["failures"] += 1
                dialect = other
            else:
                if dialect != initial:  # only what has helped is remembered
                    remember_dialect(endpoint, dialect, self._pinned)
                return completion

    def _body(self, messages: list[dict[str, str]]) -> JsonObject:
        return {"model": self.endpoint.spec.model, "messages": messages}

    def _why_alone(self, error: LLMUnavailable, tally: _Tally) -> str:
        """Why the vendor refuses this question alone; empty if it refuses all, as with wrong keys."""
        if why := _WHY.get(cause_of(error.words, error.status)):
            breakers.note_success(self.endpoint.breaker)
            return why
        try:
            self._probe(tally)
        except LLMUnavailable:
            return ""
        return "though others are"

    def _probe(self, tally: _Tally) -> None:
        """Ask for a word. Raises :class:`LLMUnavailable` if nothing at all is answered."""
        limit: JsonObject = {recall_dialect(self.endpoint, self._pinned).limit: PROBE_TOKENS}
        body = {**self._body([{"role": "user", "content": "Say OK."}]), **self._settings.llm_extras, **limit}
        tally["calls"] += 1
        try:
            tally.add(self._provider.chat(body, RetryLimits(self._settings.llm_timeout, 1)))
        except LLMUnavailable:
            tally["failures"] += 1
            raise

    def _report(self, question: Question[Any], tally: _Tally, seconds: float, outcome: str) -> None:
        prompt, spec = prompts.signature(question, question.language), self.endpoint.spec
        used = tally["prompt_tokens"], tally["completion_tokens"]
        log.info(
            "llm_question provider=%s model=%s prompt=%s form=%s requests=%d tokens_in=%d tokens_out=%d"
            " seconds=%.1f outcome=%s",
            *(spec.vendor, spec.model, prompt, recall_dialect(self.endpoint, self._pinned).structured),
            *(tally["calls"], *used, seconds, outcome),
        )
        cost = cost_of(*used, self._settings.token_prices)
        counts: dict[str, Any] = {"cost": cost, "seconds": seconds, **tally}
        report(Usage(prompt=prompt, model=self.model, group_id=question.group_id, **counts))


def _corrected(messages: list[dict[str, str]], correction: list[dict[str, str]]) -> list[dict[str, str]]:
    """Roles take turns, as many models' templates want: without a reply the correction joins the question."""
    if len(correction) != 1:
        return [*messages, *correction]
    *before, last = messages
    return [*before, {**last, "content": f"{last['content']}\n\n{correction[0]['content']}"}]


def _correction(reply: str, instruction: str) -> list[dict[str, str]]:
    turns = [{"role": "assistant", "content": reply[:SHOWN_AGAIN]}] if reply.strip() else []
    return [*turns, {"role": "user", "content": instruction}]
