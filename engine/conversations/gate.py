"""What of an LLM's answer can be used: it says what it was shown, not what stands in our prompts.

Providers check the form of an answer. Here its words are compared with the data, and, of summaries, their
length and the names, numbers and dates in them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, cast

from pydantic import BaseModel

from engine.conversations.attributes import CALENDAR, NAME, subject_words
from engine.providers import questions as ask
from engine.providers.llm_prompts import FRAME, prompt
from engine.providers.questions import A, Question
from engine.providers.replies import texts_in
from jiyi.errors import BadReply
from jiyi.text.budget import estimate_tokens
from jiyi.text.words import CJK, Language, normalise, stem

#: Words in a row that an answer has from a prompt of ours; Chinese characters in a row.
COPIED_WORDS, COPIED_CHARS = 8, 16
#: A summary has at least one token for so many of what it is of, but no more than so many are asked for.
TOKENS_A_TOKEN, LEAST_TOKENS = 40, 60
#: Share of the names, numbers and dates that a summary keeps, and how many are enough.
KEPT, KEPT_ENOUGH = 0.2, 6
#: From so many on a text has names, numbers and dates that a summary of it keeps.
TELLING = 3

_WORD = re.compile(r"[^\W_]+")
_CHINESE_RUN = re.compile(f"[{CJK}]+")
_DIGITS = re.compile(r"\d+(?:[.,:/-]\d+)*")
#: How anybody is called whom a statement is about.
_ANYBODY = frozenset({"user", "assistant", "agent", "用户", "助手", "智能体"})


def shared_words(text: str, source: str) -> frozenset[str]:
    """Words of a text that a source has, too, other than those that any text has."""
    theirs, whole = subject_words(source), normalise(source)
    return frozenset(
        word for word in words_of(text) if word in theirs or (_CHINESE_RUN.match(word) and word in whole)
    )


def words_of(text: str) -> frozenset[str]:
    """What a text is about; single Chinese characters count where it has no other words."""
    words = subject_words(text) - _ANYBODY
    return frozenset(word for word in words if len(word) > 1) or words


def unknown_names(text: str, source: str) -> frozenset[str]:
    """Names in a text that its source does not have."""
    whole = source.lower()
    names = {name.removesuffix("'s").removesuffix("’s") for name in map(str.lower, NAME.findall(text))}
    return frozenset(name for name in names if name not in whole and stem(name) not in CALENDAR)


def lacks(summary: str, source: str) -> str:
    """What is wrong with a text as the summary of another; empty if nothing."""
    least = min(LEAST_TOKENS, estimate_tokens(source) // TOKENS_A_TOKEN)
    if estimate_tokens(summary) < least:
        return f"it has fewer than {least} tokens"
    if not shared_words(summary, source):
        return "it has no word of what it is of"
    invented = {number for number in _DIGITS.findall(summary) if number not in source}
    if invented:
        return f"{', '.join(sorted(invented)[:3])} are no numbers of what it is of"
    details = {*map(str.lower, NAME.findall(source)), *_DIGITS.findall(source)}
    if len(details) < TELLING:
        return ""
    whole = summary.lower()
    minimum = min(KEPT_ENOUGH, max(1, int(KEPT * len(details))))
    if sum(one in whole for one in details) < minimum:
        return f"it keeps fewer than {minimum} of {len(details)} names, numbers and dates"
    return ""


def usable(question: Question[A], answer: A) -> A:
    """What of an LLM's answer can be used.

    Raises:
        BadReply: nothing; it names the prompt and the problem.
    """
    gate = GATES.get(type(question))
    result = answer if gate is None else gate(question, answer)
    if not isinstance(result, str) and any(copies(text, question) for text in texts_in(result.model_dump())):
        result = "it repeats the prompt itself"
    if isinstance(result, str):
        raise BadReply(f"an answer to {question.prompt} cannot be used: {result}")
    return cast("A", result)


def copies(text: str, question: Question[Any]) -> bool:
    """Whether a text has a run of words of the question's prompt, or of what stands in all prompts."""
    return not _runs_of_prompt(question.prompt, question.language).isdisjoint(_runs(text))


@lru_cache(maxsize=64)
def _runs_of_prompt(name: str, language: Language) -> frozenset[str]:
    return frozenset(run for file in (name, FRAME) for run in _runs(prompt(file, language).body))


def _runs(text: str) -> Iterator[str]:
    words = _WORD.findall(_CHINESE_RUN.sub(" ", text.lower()))
    for start in range(len(words) - COPIED_WORDS + 1):
        yield " ".join(words[start : start + COPIED_WORDS])
    chinese = "".join(_CHINESE_RUN.findall(text))
    for start in range(len(chinese) - COPIED_CHARS + 1):
        yield chinese[start : start + COPIED_CHARS]


# What may be used of an answer, or what is wrong with all of it


def _says_of(text: str, source: str) -> str:
    return "" if shared_words(text, source) else "it has no word of what it was shown"


def _sentence(question: ask.Planning | ask.Memo, answer: ask.OneSentence) -> ask.OneSentence | str:
    conversation = "\n".join(f"{speaker}: {text}" for speaker, text in question.utterances)
    return _says_of(answer.sentence, f"{question.agent_id}\n{conversation}") or answer


def _compaction(question: ask.Compaction, answer: ask.Condensed) -> ask.Condensed | str:
    source = "\n".join([question.text, *(text for _, text in question.utterances)])
    return lacks(answer.summary, source) or answer


def _summary(question: ask.Summary, answer: ask.Summarised) -> ask.Summarised | str:
    keywords = [word for word in answer.keywords if _stands_in(word, question.text)]
    if not keywords:
        return "none of its keywords stands in the text"
    return lacks(answer.overview, question.text) or answer.model_copy(update={"keywords": keywords})


def _keywords(question: ask.Keywords, answer: ask.KeywordList) -> ask.KeywordList | str:
    keywords = [word for word in answer.keywords if _stands_in(word, question.text)]
    return answer.model_copy(update={"keywords": keywords}) if keywords else "none of them stands in the text"


def _stands_in(word: str, text: str) -> bool:
    return normalise(word).strip() in normalise(text) or bool(shared_words(word, text))


def _triple(question: ask.Triple, answer: ask.Facts) -> ask.Facts | str:
    if _stands_in(answer.object, question.text):
        return answer
    parts = f"{answer.subject} {answer.predicate} {answer.object}"
    return _says_of(parts, f"{question.agent_id}\n{question.text}") or answer


def _insights(question: ask.Insights, answer: ask.InsightList) -> ask.InsightList | str:
    def source(one: ask.Insight) -> str:
        return " ".join([question.focal_point, *(question.statements[number] for number in one.evidence)])

    insights = [one for one in answer.insights if shared_words(one.text, source(one))]
    if answer.insights and not insights:
        return "none of them has a word of its evidence"
    return answer.model_copy(update={"insights": insights})


#: Question → what of an answer can be used, or what is wrong with all of it; a subject adds those of its own.
GATES: dict[type[Question[Any]], Callable[[Any, Any], BaseModel | str]] = {
    ask.Planning: _sentence,
    ask.Memo: _sentence,
    ask.Compaction: _compaction,
    ask.Summary: _summary,
    ask.Keywords: _keywords,
    ask.Triple: _triple,
    ask.Insights: _insights,
    ask.Digest: lambda question, answer: _says_of(answer.summary, "\n".join(question.statements)) or answer,
}
