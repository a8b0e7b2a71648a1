"""Who does what to whom, by patterns. Any text that is not blank gives a triple; "I" and 我 are the agent."""

from __future__ import annotations

import re

from engine.providers.llms.questions import Facts, Triple
from engine.providers.llms.rules import chinese, english
from engine.providers.llms.rules.wordlists import TRIM, one_line
from jiyi.text.words import language_of

#: Only the beginning of a text is looked at: who and what stand there.
MAX_CHARS = 400
#: Longer parts make poor keywords.
MAX_PART_CHARS = 80

#: What ends a clause. A colon does only before what is quoted: 10:30 and world:sector:arena go on.
_CLAUSE_END = re.compile(r"[。！？；;!?\n]|\.(?=\s|\Z)|(?<=\S)[：:](?=\s|[“\"「])| [-–—] ")
_SELF = frozenset({"i", "me", "we", "我", "我们", "咱", "咱们", "自己", "本人"})


def triple(question: Triple) -> Facts:
    """Subject, predicate and object of the first clause that has a verb; else the agent, "is" or 说, and the text."""
    text = question.text.strip()[:MAX_CHARS]
    found = next((parts for clause in _CLAUSE_END.split(text) if (parts := _parts(clause.strip(TRIM)))), None)
    subject, predicate, object_ = found or ("", "", "")
    return Facts(
        subject=_part("" if subject.lower() in _SELF else subject) or _part(question.agent_id) or "?",
        predicate=_part(predicate) or ("说" if language_of(text) == "zh" else "is"),
        object=_part(object_) or _part(text) or "?",
    )


def _parts(clause: str) -> tuple[str, str, str] | None:
    if not clause:
        return None
    return chinese.parts(clause) if language_of(clause) == "zh" else english.parts(clause)


def _part(text: str) -> str:
    line = one_line(text).strip(TRIM)
    return line if len(line) <= MAX_PART_CHARS else f"{line[: MAX_PART_CHARS - 1].rstrip()}…"
