"""Experiences of a conversation by rules: a problem, the steps against it, how it ended.

The user names trouble with a tool or a task, then says what they did about it, or takes the assistant's steps, and how that
ended. A problem and what solved it are one experience and name both turns; a problem without an end is none yet.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.conversations.extraction import words as cue
from jiyi.protocol.conversations.types import MAX_CONTENT_CHARS, MAX_STEPS, ExtractedExperience, Message, Outcome
from jiyi.text.splitting import sentences

#: Confidence of an experience whose end the user confirms, and what each thing known of it adds.
CONFIDENCE, WITH_STEPS, WITH_TOOLS = 0.6, 0.2, 0.1
#: Messages between a problem and its end at most: later ones are about something else.
MAX_BETWEEN = 16
#: Characters of one step, and of a message that is read.
MAX_STEP_CHARS, READ_CHARS = 300, 4_000

_LIST_ITEM = re.compile(r"^[^\S\n]*+(?:\d++[.)、]|[-*•])[^\S\n]++(?P<step>.+)$", re.MULTILINE)
_TOOL = re.compile(
    r"(?<!error )(?<!code )(?<!fault )\b(?:[A-Z][\w+#-]{0,38}[a-z0-9]|[a-z]{1,20}[-_.][a-z][\w-]{0,20}|[A-Z]{2,20}\w{0,20})\b"
)
_NO_TOOL = frozenset("I The It This That My We When After Then But And So OK Now Still Thanks Yes No What How".split())


@dataclass
class _Problem:
    text: str
    turns: list[int]
    steps: list[str] = field(default_factory=list)

    def hear(self, turn: int, sentence: str) -> Outcome | None:
        """Take in the next sentence of the user; how it ended, if it did with it."""
        outcome = _outcome(sentence)
        if outcome is None and cue.TROUBLE.search(sentence):
            return None
        if cue.STEP.search(sentence) and outcome != "failed":
            self.steps.append(_one_line(sentence))
        if outcome is not None and turn not in self.turns:
            self.turns.append(turn)
        return None if outcome == "failed" and not cue.GAVE_UP.search(sentence) else outcome


def experiences(messages: Sequence[Message], since: int = 0) -> list[ExtractedExperience]:
    """Problems that ended in a message from ``since`` on; they may have begun before."""
    found: list[ExtractedExperience] = []
    problem: _Problem | None = None
    advice: list[str] = []
    for turn, message in enumerate(messages):
        text = message.text[:READ_CHARS]
        if message.role == "assistant":
            advice = [match["step"].strip()[:MAX_STEP_CHARS] for match in _LIST_ITEM.finditer(text)][:MAX_STEPS]
        if message.role != "user" or cue.HANDED_OVER.search(text):
            continue
        for sentence in map(str.strip, sentences(text)):
            if problem is None:
                problem = _begun(turn, sentence)
            elif (outcome := problem.hear(turn, sentence)) is not None:
                if turn >= since:
                    found.append(_experience(problem, outcome, advice))
                problem = None
        if problem is not None and turn - problem.turns[0] > MAX_BETWEEN:
            problem = None
    return found


def _begun(turn: int, sentence: str) -> _Problem | None:
    if cue.TROUBLE.search(sentence) is None or cue.IMAGINED.search(sentence) or _outcome(sentence) is not None:
        return None
    return _Problem(_one_line(sentence), [turn])


def _outcome(sentence: str) -> Outcome | None:
    if cue.QUESTION_MARK.search(sentence) or cue.IMAGINED.search(sentence):
        return None
    if cue.FAILED.search(sentence):
        return "failed"
    if cue.SOLVED.search(sentence):
        return "partial" if cue.PARTLY.search(sentence) else "success"
    return "partial" if cue.PARTLY.search(sentence) and cue.TROUBLE.search(sentence) else None


def _experience(problem: _Problem, outcome: Outcome, advice: list[str]) -> ExtractedExperience:
    steps = list(dict.fromkeys(problem.steps or advice))[:MAX_STEPS]
    tools = list(dict.fromkeys(word for word in _TOOL.findall(" ".join([problem.text, *steps])) if word not in _NO_TOOL))[:5]
    return ExtractedExperience(
        pain_pattern=problem.text,
        context="",
        solution_steps=steps,
        outcome=outcome,
        confidence=min(1.0, CONFIDENCE + (WITH_STEPS if steps else 0.0) + (WITH_TOOLS if tools else 0.0)),
        tools_used=tools,
        turns=problem.turns,
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())[:MAX_CONTENT_CHARS]
