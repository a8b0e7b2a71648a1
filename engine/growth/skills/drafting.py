"""A skill written by rules: a heading, when it helps, its steps, and what it rests on."""

from __future__ import annotations

from jiyi.protocol.growth.skill_types import MAX_BODY_CHARS, MAX_DESCRIPTION_CHARS, MAX_NAME_CHARS, MAX_TRIGGERS, Pattern, SkillCandidate
from jiyi.text.prompting import one_line
from jiyi.text.words import Language, language_of

#: Evidence that a body names, the newest.
NAMED_EVIDENCE = 10

_WORDS: dict[Language, dict[str, str]] = {
    "en": {
        "name": "Handle: {}",
        "does": "What helped with: {}",
        "known": "Used {} times before; different wordings: {}; confidence {:.2f}.",
        "when": "When",
        "steps": "Steps",
        "tools": "Tools",
        "evidence": "Evidence",
    },
    "zh": {
        "name": "处理：{}",
        "does": "曾经有效的做法：{}",
        "known": "此前用过 {} 次，有 {} 种说法；把握 {:.2f}。",
        "when": "何时使用",
        "steps": "步骤",
        "tools": "工具",
        "evidence": "依据",
    },
}


def draft(pattern: Pattern) -> SkillCandidate:
    """The skill of a pattern, in the language of its problem; it says nothing that the experiences do not."""
    words = _WORDS[language_of(pattern.title)]
    title = one_line(pattern.title)
    name = _cut(words["name"].format(title), MAX_NAME_CHARS)
    sections = [
        f"# {name}",
        words["known"].format(pattern.total_reuse, len(pattern.wordings), pattern.confidence),
        f"## {words['when']}",
        "\n".join(f"- {one_line(wording)}" for wording in pattern.wordings[:MAX_TRIGGERS]),
        f"## {words['steps']}",
        "\n".join(f"{number}. {one_line(step)}" for number, step in enumerate(pattern.common_steps, 1)),
    ]
    if pattern.tools_used:
        sections += [f"## {words['tools']}", ", ".join(map(one_line, pattern.tools_used))]
    sections += [f"## {words['evidence']}", "\n".join(f"- {one}" for one in pattern.evidence[-NAMED_EVIDENCE:])]
    return SkillCandidate(
        name=name,
        description=_cut(words["does"].format(title), MAX_DESCRIPTION_CHARS),
        triggers=[_cut(one_line(wording), MAX_DESCRIPTION_CHARS) for wording in pattern.wordings[:MAX_TRIGGERS]],
        tools=[_cut(tool, MAX_NAME_CHARS) for tool in pattern.tools_used],
        body="\n\n".join(sections)[:MAX_BODY_CHARS],
        confidence=pattern.confidence,
    )


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
