"""A recorded model: the replies of a trace, in the original's formats, as answers to our questions."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from engine.providers import questions as ask
from jiyi.errors import BadReply

#: The last line of a prompt's list is empty; the list of statements ends with it.
_NUMBERED = re.compile(r"^\s*\d+\. ")
_FOCAL = re.compile(r"^\s*\d+\) ?")


class Differs(Exception):  # noqa: N818 – its name says what happened
    """What was asked is not what was recorded."""


@dataclass(frozen=True, slots=True)
class Call:
    """One recorded call: of which kind, what was asked (statements, or one text), and the reply."""

    kind: str
    asked: tuple[str, ...]
    reply: str

    @classmethod
    def of(cls, raw: list[Any]) -> Call:
        kind, *rest = raw
        if kind == "embed":
            return cls(kind, (rest[0],), "")
        if (
            kind == "focal_points_davinci"
        ):  # the trace has only its reply: it was asked about the same statements
            return cls("focal_points", (), rest[0])
        first = rest[0]
        asked = tuple(line for line in first if line) if isinstance(first, list) else (first,)
        return cls(kind.removesuffix("_chat"), asked, rest[-1])


def memory_of(everything: list[dict[str, Any]]) -> list[str]:
    """The whole memory that all scenarios start from, least recently accessed first: one of them asked about
    all of it.
    """
    asked = [
        Call.of(raw).asked
        for scenario in everything
        for raw in scenario["calls"]
        if raw[0] == "focal_points_chat"
    ]
    return list(max(asked, key=lambda texts: len(list(texts))))


def pools_of(scenario: dict[str, Any], everything: list[dict[str, Any]]) -> list[list[str]]:
    """What was retrieved for each focal point: as the insights were asked about it.

    A scenario that broke off early shows only its first ones; all start from the same memory, so that another
    one with the same focal points shows the rest.
    """
    own = _pools(scenario)
    others = [_pools(other) for other in everything]
    return max([own, *(pools for pools in others if pools[: len(own)] == own)], key=len)


def _pools(scenario: dict[str, Any]) -> list[list[str]]:
    asked = [Call.of(raw).asked for raw in scenario["calls"] if raw[0] == "insights"]
    return [[_NUMBERED.sub("", line, count=1) for line in lines] for lines in dict.fromkeys(asked)]


def conversation(everything: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """The conversation that ends in the scenarios about one."""
    text = next(
        raw[1] for scenario in everything for raw in scenario["calls"] if raw[0] == "planning_on_convo"
    )
    return [(speaker, said) for speaker, _, said in (line.partition(": ") for line in text.splitlines())]


class Replay:
    """An LLM that says what was recorded. A reply that does not fit is followed by the next one, as in the
    original.
    """

    model = "recorded"

    def __init__(self, calls: list[Call], everything: list[Call], *, strict: bool) -> None:
        self._calls, self._everything, self._strict = calls, everything, strict
        self._place = 0
        #: Texts of thoughts that were embedded; ours are, later, by work owed.
        self._later: list[str] = []

    def embedded(self, text: str) -> None:
        """A focal point was embedded."""
        if self._strict:
            self._expect("embed", (text,))

    def ask(self, question: Any) -> Any:
        kind, asked = asked_by(question)
        reason = "no reply"
        for reply in self._replies(kind, asked):
            try:
                answer = read(question, reply)
            except ValueError as error:
                reason = str(error)
                continue
            problems = question.problems(answer)
            if not problems:
                return answer
            reason = "; ".join(problems)
        raise BadReply(f"{kind}: {reason}")

    def finished(self, thoughts: list[str]) -> None:
        """Everything recorded was asked, and the thoughts are those that were embedded. Raises
        :class:`Differs`.
        """
        self._skip_embeds()
        if self._place != len(self._calls):
            raise Differs(
                f"{len(self._calls) - self._place} recorded calls were not made, next"
                f" {self._calls[self._place]}"
            )
        if self._later != thoughts:
            raise Differs(f"embedded {self._later}, thoughts {thoughts}")

    def _replies(self, kind: str, asked: tuple[str, ...]) -> Iterator[str]:
        if not self._strict:
            same = [call.reply for call in self._calls if call.kind == kind]
            exact = [call.reply for call in self._calls if call.kind == kind and call.asked == asked]
            anywhere = [call.reply for call in self._everything if call.kind == kind and call.asked == asked]
            yield from exact or same or anywhere
            return
        self._skip_embeds()
        yield self._expect(kind, asked)
        while self._place < len(self._calls):
            again = self._calls[self._place]
            if again.kind != kind or again.asked not in (asked, ()):
                return
            self._place += 1
            yield again.reply

    def _expect(self, kind: str, asked: tuple[str, ...]) -> str:
        call = self._calls[self._place] if self._place < len(self._calls) else None
        if call is None or (call.kind, call.asked) != (kind, asked):
            raise Differs(f"call {self._place}: asked {kind} {asked}, recorded {call}")
        self._place += 1
        return call.reply

    def _skip_embeds(self) -> None:
        while self._place < len(self._calls) and self._calls[self._place].kind == "embed":
            self._later += self._calls[self._place].asked
            self._place += 1


def asked_by(question: Any) -> tuple[str, tuple[str, ...]]:
    """The original's call for a question of ours."""
    match question:
        case ask.FocalPoints():
            return "focal_points", tuple(question.statements)
        case ask.Insights():
            return "insights", tuple(f"{number}. {text}" for number, text in enumerate(question.statements))
        case ask.Triple():
            return "event_triple", (f"{question.agent_id} is {question.text}",)
        case ask.Poignancy():
            return "event_poignancy", (question.text,)
        case ask.Planning() | ask.Memo():
            kind = "planning_on_convo" if isinstance(question, ask.Planning) else "memo_on_convo"
            return kind, ("".join(f"{speaker}: {said}\n" for speaker, said in question.utterances),)
    raise TypeError(f"the original asks nothing like {type(question).__name__}")


def read(question: Any, reply: str) -> Any:
    """A reply in the original's format as our answer. Raises :class:`ValueError` if it is not in that
    format.
    """
    match question:
        case ask.FocalPoints():
            return ask.Points(questions=_points(reply))
        case ask.Insights():
            return ask.InsightList(insights=[_insight(line) for line in f"1. {reply.strip()}".splitlines()])
        case ask.Triple():
            predicate, object_ = reply.partition(")")[0].split(",")
            return ask.Facts(subject=question.agent_id, predicate=predicate.strip(), object=object_.strip())
        case ask.Poignancy():
            return ask.Poignant(poignancy=int(_output(reply)))
        case ask.Planning():
            return ask.OneSentence(sentence=reply.partition('"')[0].strip())
        case ask.Memo():
            return ask.OneSentence(sentence=str(_output(reply)).strip())
    raise TypeError(type(question).__name__)


def _output(reply: str) -> Any:
    try:
        return json.loads(reply)["output"]
    except (KeyError, TypeError) as error:
        raise ValueError(f"no output in {reply!r}") from error


def _points(reply: str) -> list[str]:
    if not reply.lstrip().startswith("{"):
        return [_FOCAL.sub("", line, count=1) for line in f"1) {reply.strip()}".splitlines()]
    found = _output(reply)
    try:
        points = ast.literal_eval(found) if isinstance(found, str) else found
    except SyntaxError as error:
        raise ValueError(f"no list: {found!r}") from error
    if not isinstance(points, list):
        raise ValueError(f"no list: {found!r}")  # noqa: TRY004 - the reply is wrong, not the program
    return points


def _insight(line: str) -> ask.Insight:
    text, because, numbers = _NUMBERED.sub("", line, count=1).partition("(because of ")
    if not because:
        raise ValueError(f"no evidence: {line!r}")
    return ask.Insight(
        text=text.strip(), evidence=[int(number) for number in re.findall(r"\d+", numbers.partition(")")[0])]
    )
