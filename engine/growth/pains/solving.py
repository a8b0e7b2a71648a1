"""What to propose against a pain point, by rules: what helped before, what was advised, or first steps of its kind."""

from __future__ import annotations

import re
from collections.abc import Sequence

from engine.growth.pains.merging import most_alike
from jiyi.protocol.conversations.types import OUTCOMES
from jiyi.protocol.growth.overrides import override_in
from jiyi.protocol.growth.pain_types import MAX_STEP_CHARS, MAX_STEPS, MAX_SUMMARY_CHARS, Category, KnownSolution, ProposedSolution
from jiyi.text.words import Language

_LIST_ITEM = re.compile(r"^[^\S\n]*+(?:\d++[.)、]|[-*•])[^\S\n]*+(?P<step>\S.*)$", re.MULTILINE)
#: Characters of an answer that steps are looked for in.
READ_CHARS = 8_000
_TITLES: dict[Language, str] = {"en": "What may help: {pain}", "zh": "也许有用：{pain}"}
#: First steps where nobody knows better: what an attentive assistant would do.
_FIRST_STEPS: dict[Language, dict[Category, tuple[str, ...]]] = {
    "en": {
        "fault": ("Note when it fails, with the exact message", "Try the smallest case that fails", "Undo the latest change and try again"),
        "slow": ("Measure which step takes the time", "Do less in it, or do it ahead of time", "Measure again"),
        "wrong": ("Write down what is wrong and what would be right", "Correct it at its source", "Check the next three results"),
        "tedious": ("Write the steps down once", "Let a template or a script do the ones that never vary", "Do the rest as a list"),
        "unclear": ("Say in one sentence what it is for", "Show one example", "Ask whether that was clear"),
        "other": ("Ask what exactly hurts, and when", "Agree on one thing to change", "Ask again after a week"),
    },
    "zh": {
        "fault": ("记下出错的时间和完整的报错信息", "用最小的例子重现一次", "撤回最近的改动再试"),
        "slow": ("先量一下时间花在哪一步", "减少这一步的工作，或提前做好", "再量一次"),
        "wrong": ("写下哪里不对、应该是什么", "从源头改正", "检查之后的三次结果"),
        "tedious": ("把步骤完整写下来一次", "不变的部分交给模板或脚本", "剩下的列成清单逐项做"),
        "unclear": ("先用一句话说明用途", "给一个例子", "问一问是否清楚"),
        "other": ("问清楚具体是什么、什么时候发生", "商定先改一处", "一周后再问一次"),
    },
}


def advice_in(text: str) -> list[str]:
    """The items of the lists in an assistant's answer."""
    return [match["step"].strip()[:MAX_STEP_CHARS] for match in _LIST_ITEM.finditer(text[:READ_CHARS])][:MAX_STEPS]


def propose(
    pain: str, category: Category, language: Language, *, experiences: Sequence[KnownSolution] = (), advice: Sequence[str] = ()
) -> ProposedSolution:
    """The steps of the experience most like the pain that did not fail, else what was advised, else first steps of its kind."""
    usable = [one for one in experiences if one.outcome != OUTCOMES[0] and _clean(one.steps)]
    found = most_alike(pain, [one.problem for one in usable])
    steps = _clean(usable[found].steps) if found is not None else _clean(advice)
    title = _TITLES[language].format(pain=pain)[:MAX_SUMMARY_CHARS]
    return ProposedSolution(title=title, steps=steps or list(_FIRST_STEPS[language][category]))


def _clean(steps: Sequence[str]) -> list[str]:
    """Without steps that are blank, or that talk the agent out of what it was told."""
    told = [" ".join(step.split())[:MAX_STEP_CHARS] for step in steps if step.strip() and override_in(step) is None]
    return list(dict.fromkeys(told))[:MAX_STEPS]
