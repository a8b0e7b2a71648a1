"""What the new messages of a conversation tell, found by rules: no model, the same answer each time (ZC-12…ZC-20)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from jiyi.conversations.types import Category, CombinedExtraction, ExtractedMemory, Message
from jiyi.providers.llms.questions import Extraction
from jiyi.text.splitting import sentences
from jiyi.text.words import keywords_ranked, language_of, normalise

#: Keywords of a memory.
KEYWORDS = 5


@dataclass(frozen=True, slots=True)
class _Rule:
    """A way of telling something about oneself."""

    pattern: re.Pattern[str]
    attribute: str
    category: Category
    importance: float
    single_valued: bool = False


def _rule(pattern: str, attribute: str, category: Category, importance: float, *, single_valued: bool = False) -> _Rule:
    return _Rule(re.compile(pattern), attribute, category, importance, single_valued)


_RULES = [
    _rule(r"my name is (?:\w+)|我(?:叫|的名字是)(?:\w{1,8})", "name", "user_fact", 8, single_valued=True),
    _rule(r"i(?:'m| am) allergic to (?:.+)|我?对(?:.{1,12})过敏", "allergy", "user_fact", 9),
    _rule(r"i (?:live in|(?:just )?moved to) (?:.+)|我(?:住在|搬到)了?(?:.+)", "home", "user_fact", 7, single_valued=True),
    _rule(r"i work (?:as|at|for|in) (?:.+)|我(?:在(?:.+)(?:工作|上班))", "job", "user_fact", 7, single_valued=True),
    _rule(r"i (?:really )?(?:like|love|prefer|enjoy) (?:.+)|我(?:很|最|更|特别)?(?:喜欢|爱)(?:.+)", "likes", "user_preference", 6),
    _rule(r"i (?:don't like|do not like|hate|dislike) (?:.+)|我(?:不喜欢|讨厌|不爱)(?:.+)", "dislikes", "user_preference", 6),
]
_ASKING = re.compile(r"[?？]\s*\Z")


def extract(question: Extraction) -> CombinedExtraction:
    """The memories in the messages from ``question.since`` on; what only the assistant says is no fact of the user."""
    memories = [
        memory
        for number, message in enumerate(question.messages)
        if number >= question.since and message.role == "user"
        for memory in _of_message(number, message)
    ]
    return CombinedExtraction(memories=memories)


def _of_message(number: int, message: Message) -> list[ExtractedMemory]:
    found = []
    for sentence in sentences(message.text):
        said = normalise(sentence).strip(" .。!！")
        rule = next((rule for rule in _RULES if rule.pattern.search(said)), None)
        if rule is None or _ASKING.search(sentence):
            continue
        chinese = language_of(sentence) == "zh"
        who = message.name or ("用户" if chinese else "The user")
        content = f"{who}说：{sentence.strip()}" if chinese else f"{who} said: {sentence.strip()}"
        found.append(
            ExtractedMemory(
                content=content,
                type="preference" if rule.category == "user_preference" else "knowledge",
                category=rule.category,
                keywords=keywords_ranked(sentence)[:KEYWORDS],
                importance=rule.importance,
                subject=message.name or "user",
                attribute=rule.attribute,
                single_valued=rule.single_valued,
                turns=[number],
            )
        )
    return found
