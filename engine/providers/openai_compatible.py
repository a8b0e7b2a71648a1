"""Any LLM behind OpenAI's protocol: held to a schema where it takes one, asked again if it does not fit."""

from __future__ import annotations

import logging
import time
from collections import Counter
from dataclasses import dataclass
from threading import BoundedSemaphore
from typing import Any, cast

from engine.providers import breakers
from engine.providers import llm_prompts as prompts
from engine.providers.calls import tokens_used
from engine.providers.dialects import REFUSED, cause_of, recall, remember
from engine.providers.guarded import ProviderClient, RetryLimits
from engine.providers.llm_prompts import Usage, allow, cost_of, report
from engine.providers.questions import A, Question
from engine.providers.replies import UnusableReply, answer_in, text_of
from engine.providers.spec import Endpoint
from jiyi.errors import BadReply, LLMUnavailable
from jiyi.protocol.base import JsonObject
from jiyi.protocol.providers import Structured
from jiyi.settings import Settings

log = logging.getLogger(__name__)
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
        initial = dialect = recall(endpoint, self._pinned)
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
                    remember(endpoint, dialect, self._pinned)
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
        limit: JsonObject = {recall(self.endpoint, self._pinned).limit: PROBE_TOKENS}
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
            *(spec.vendor, spec.model, prompt, recall(self.endpoint, self._pinned).structured),
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
