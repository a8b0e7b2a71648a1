"""Experiences of a conversation by rules: a problem, the steps against it, how it ended (ZC-17, ZC-52).

The user names trouble with a tool or a task, then says what they did about it, or takes the assistant's steps, and how that
ended. A problem and what solved it are one experience and name both turns; a problem without an end is none yet.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from jiyi.conversations import words as cue
from jiyi.conversations.types import MAX_CONTENT_CHARS, MAX_STEPS, ExtractedExperience, Message, Outcome
from jiyi.text.splitting import sentences
from jiyi.text.tokens import telling

#: Confidence of an experience whose end the user confirms, and what each thing known of it adds.
CONFIDENCE, WITH_STEPS, WITH_TOOLS = 0.6, 0.2, 0.1
#: Messages of the user between a problem and its end at most: later ones are about something else.
MAX_BETWEEN = 8
#: Characters of one step, and of a message that is read.
MAX_STEP_CHARS, READ_CHARS = 300, 4_000

#: What somebody did: "adding an index", "so I restarted it", 加了索引.
_STEP = re.compile(
    r"\b(?:i|we) (?:\w+ )?(?:added|removed|restarted|reinstalled|installed|changed|set|increased|reduced|updated|upgraded|downgraded|cleared|switched|rebuilt|replaced"
    r"|used|moved|tried|ran|enabled|disabled|rewrote|reset|rolled back|fixed|split|wrapped|pinned|deleted|turned|swapped|rebooted|cached|batched|followed)\b"
    r"|\b(?:after|by|once i|turns out|it was|the (?:cause|reason|fix|trick|solution) was)\b|\A\W*\w+ing \w+"
    r"|(?:加|删|改|换|重启|重装|升级|降级|清|调|用|开|关|设置?|重写|更新|回滚|增加|减少|拆|限制|加上|换成|改成|试)(?:了|掉|成|上|完|大|小|到|一下)|原来是|是因为|的原因|后",
    re.IGNORECASE,
)
_LIST_ITEM = re.compile(r"^\s*(?:\d+[.)、]|[-*•])\s+(?P<step>.+)$", re.MULTILINE)
_TOOL = re.compile(r"\b(?:[A-Z][\w+#.-]*[a-z0-9]|[a-z]+[-_.][a-z][\w.-]*|[A-Z]{2,}\w*)\b")
_NO_TOOL = frozenset("I The It This That My We When After Then But And So OK Now Still Thanks Yes No What How".split())


@dataclass
class _Problem:
    turn: int
    text: str
    steps: list[str] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    messages: int = 0


def experiences(messages: Sequence[Message], since: int = 0) -> list[ExtractedExperience]:
    """Problems that ended in a message from ``since`` on; they may have begun before."""
    found: list[ExtractedExperience] = []
    problem: _Problem | None = None
    advice: list[str] = []
    for turn, message in enumerate(messages):
        text = message.text[:READ_CHARS]
        if message.role == "assistant":
            advice = [match["step"].strip()[:MAX_STEP_CHARS] for match in _LIST_ITEM.finditer(text)][:MAX_STEPS]
            continue
        if message.role != "user" or cue.HANDED_OVER.search(text):
            continue
        for sentence in map(str.strip, sentences(text)):
            outcome = _outcome(sentence)
            if problem is None or (cue.TROUBLE.search(sentence) and outcome is None):
                if cue.TROUBLE.search(sentence) and not cue.IMAGINED.search(sentence):
                    if problem is None:
                        problem = _Problem(turn, _one_line(sentence), turns=[turn])
                        if outcome is None:
                            continue
                    else:
                        problem.messages += 1
                        continue
                else:
                    continue
            if _STEP.search(sentence) and outcome != "failed":
                problem.steps.append(_one_line(sentence))
            if outcome is not None and turn not in problem.turns:
                problem.turns.append(turn)
            if outcome in ("success", "partial") or (outcome == "failed" and "gave up" in sentence.lower()) or "放弃" in sentence:
                if turn >= since:
                    found.append(_experience(problem, outcome or "failed", advice))
                problem = None
        if problem is not None:
            problem.messages += 1
            if problem.messages > MAX_BETWEEN:
                problem = None
    return found


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


def is_trouble(text: str) -> bool:
    """Whether a sentence is about trouble with a tool or a task and says nothing else of the user."""
    return cue.TROUBLE.search(text) is not None and bool(telling(text))


def _one_line(text: str) -> str:
    return " ".join(text.split())[:MAX_CONTENT_CHARS]
