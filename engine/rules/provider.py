"""The ``rules`` provider: no model, no network. It answers from the words of what it is asked about.

Every answer is made of the texts in the question, the same each time. It knows no more than they say: its
insights say how figures went and what comes again on which days, not what follows from it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from pydantic import BaseModel

from engine.providers import questions as ask
from engine.providers.llm_prompts import count
from engine.providers.questions import A, Digest, Digested, Memo, OneSentence, Planning, Poignancy, Question
from engine.retrieval.lexicon import Lexicon
from engine.rules.insights import focal_points, insights
from engine.rules.topics import topics
from engine.rules.triples import triple, weigh, word_list
from engine.text.keywords import keywords_ranked
from jiyi.protocol.conversations import CombinedExtraction
from jiyi.text.budget import cut_to_tokens
from jiyi.text.splitting import sentences
from jiyi.text.words import normalise, one_line, shortened, tokens

#: What a summary has: sentences, tokens, keywords.
SUMMARY_SENTENCES, SUMMARY_TOKENS, SUMMARY_KEYWORDS = 2, 200, 5
#: Kept with what is made from the answers; goes up when they change.
MODEL = "rules-2"


class Rules:
    """Thread-safe: it has no state."""

    model = MODEL

    def ask(self, question: Question[A]) -> A:
        """An answer at once. Raises :class:`TypeError` for a question that there is no rule for."""
        rule = RULES.get(type(question))
        if rule is None:
            raise TypeError(f"the rules have no answer to {type(question).__name__}")
        return cast("A", rule(question))


class StandIn(Rules):
    """The rules in place of an LLM, whose questions they answer: that is counted."""

    def __init__(self, llm: str) -> None:
        self._llm = llm

    def ask(self, question: Question[A]) -> A:
        count(self._llm, question, by_rules=1)
        return super().ask(question)


def _consistency(question: ask.Consistency) -> ask.Checked:
    """Words do not show whether a text is right: no rule pretends to know (fail-open)."""
    zh, en = "没有配置大语言模型，无法检查。", "There is no LLM that could check it."
    why = zh if question.language == "zh" else en
    return ask.Checked(verdict="unknown", why=why)


def _extraction(question: ask.Extraction) -> CombinedExtraction:
    from engine.conversations.extract import extract  # late: it stands on the word lists of this package
    from engine.heads.local import heads

    return extract(question, heads())


def _summary(question: ask.Summary) -> ask.Summarised:
    parts = sentences(question.text) or [question.text]
    first = " ".join(map(str.strip, parts[:SUMMARY_SENTENCES]))
    overview = cut_to_tokens(first, SUMMARY_TOKENS)[: ask.MAX_ANSWER_CHARS]
    words = [word[: ask.MAX_NAME_CHARS] for word in keywords_ranked(question.text)[:SUMMARY_KEYWORDS]]
    return ask.Summarised(overview=overview or "…", keywords=words or ["…"])


def _compaction(question: ask.Compaction) -> ask.Condensed:
    """The first sentence of each turn, the latest if there is not room for all."""
    lines = [f"{speaker}: {(sentences(text) or [text])[0]}".strip() for speaker, text in question.utterances]
    summary = "\n".join([question.text, *lines]).strip()[-ask.MAX_ANSWER_CHARS :].strip()
    return ask.Condensed(summary=summary or "…")


MAX_NAME = 100
#: Utterances that are looked at: the last ones.
MAX_UTTERANCES = 200
#: Characters of a turn that are weighed.
TEXT_CHARS = 2_000

#: What each thing in a turn counts for: a word of planning as much as three telling words.
PLAN, NUMBER, KEYWORD, SMALL_TALK, QUESTION = 3.0, 1.0, 1.0, -3.0, -1.5
#: More of them count no further: long utterances would win by length.
MOST_NUMBERS, MOST_KEYWORDS, MOST_SMALL_TALK = 2, 6, 2

#: A run of Chinese digits is looked at once, from its beginning, however long it is.
_NUMBER = re.compile(r"\d|(?<![一二两三四五六七八九十])[一二两三四五六七八九十]++[点号月日]")
_ASKING = re.compile(r"[?？]\s*\Z")


def best_sentence(question: Planning | Memo) -> OneSentence:
    """The one with the most plans in it, or for a memo the one that weighs most, quoted."""
    language, recent = question.language, question.utterances[-MAX_UTTERANCES:]
    for_plans = isinstance(question, Planning)
    heard = [(speaker, line) for speaker, text in recent if (line := one_line(text))]
    if not heard:
        nothing = "这次谈话里什么也没有说。" if language == "zh" else "Nothing was said in this conversation."
        return OneSentence(sentence=nothing)
    speaker, line = max(heard, key=lambda item: _worth(item[1], for_plans=for_plans))  # the first of equals
    name, quoted = shortened(speaker, MAX_NAME), shortened(line, MAX_QUOTED)
    if language == "zh":
        return OneSentence(sentence=f"{name or '有人'}说：“{quoted}”")
    return OneSentence(sentence=f'{name or "Somebody"} said: "{quoted}"')


def _worth(line: str, *, for_plans: bool) -> float:
    text = normalise(line[:TEXT_CHARS])[:TEXT_CHARS]
    cues = Counter(label for label, _ in {(cue.label, cue.phrase) for cue in word_list("cues").find(text)})
    worth = KEYWORD * min(len(keywords_ranked(text)), MOST_KEYWORDS)
    worth += NUMBER * min(len(_NUMBER.findall(text)), MOST_NUMBERS)
    worth += SMALL_TALK * min(cues["small_talk"], MOST_SMALL_TALK)
    worth += QUESTION if _ASKING.search(text) else 0.0
    if for_plans:
        return worth + PLAN * cues["plan"]
    return worth + weigh(Poignancy(agent_id="", text=text)).poignancy


#: Statements, and sentences of them all, that are looked at.
MAX_STATEMENTS, MAX_SENTENCES = 200, 600
#: Characters of a sentence that are read: each is compared with each.
SENTENCE_CHARS = 1_000
#: Sentences that are quoted, and characters of each, or of a turn, and of the topic.
QUOTED, MAX_QUOTED, MAX_TITLE = 3, 240, 80
#: Sentences with fewer tokens say little by themselves.
LEAST_TOKENS = 3
#: A sentence that shares more than this of its words with one that is quoted already says the same again.
OVERLAP = 0.5


def digest(question: Digest) -> Digested:
    """Up to three sentences that are most like all the others, in the order in which they were said."""
    statements = question.statements[:MAX_STATEMENTS]
    parts = [(number, sentence) for number, text in enumerate(statements) for sentence in sentences(text)]
    heard = ((number, one_line(sentence[:SENTENCE_CHARS])) for number, sentence in parts)
    read = [item for item in heard if item[1]][:MAX_SENTENCES]
    telling = [item for item in read if len(tokens(item[1])) >= LEAST_TOKENS] or read
    if not telling:
        return Digested(topic="…", summary="…", evidence=[0])
    chosen = sorted(_central([sentence for _, sentence in telling]))
    joint = "" if question.language == "zh" else " "
    names = topics(statements, 1, question.agent_id, least_members=min(2, len(statements)))
    topic = names[0].name if names else telling[chosen[0]][1]
    return Digested(
        topic=shortened(topic, MAX_TITLE) or "…",
        summary=joint.join(shortened(telling[place][1], MAX_QUOTED) for place in chosen) or "…",
        evidence=sorted({telling[place][0] for place in chosen}),
    )


def _central(texts: list[str]) -> list[int]:
    """Places of the sentences that are most like all, without those that repeat one taken before."""
    words = [set(tokens(sentence)) for sentence in texts]
    lexicon = Lexicon(texts=(" ".join(tokens(sentence)) for sentence in texts))
    centrality = sum((lexicon.similarity(place) for place in range(len(texts))), np.zeros(len(texts)))
    chosen: list[int] = []
    for place in np.argsort(-np.round(centrality, 9), kind="stable"):
        mine = words[place]
        if all(len(mine & words[other]) <= OVERLAP * len(mine | words[other]) for other in chosen):
            chosen.append(int(place))
        if len(chosen) == QUOTED:
            break
    return chosen


#: Question → who answers it; a subject adds those of its own.
RULES: dict[type[BaseModel], Callable[[Any], BaseModel]] = {
    ask.Poignancy: lambda question: ask.Poignant(poignancy=weigh(question).poignancy),
    ask.Triple: triple,
    ask.Keywords: lambda question: ask.KeywordList(
        keywords=keywords_ranked(question.text)[: ask.MAX_KEYWORDS]
    ),
    ask.FocalPoints: focal_points,
    ask.Insights: insights,
    ask.Planning: best_sentence,
    ask.Memo: best_sentence,
    ask.Digest: digest,
    ask.Consistency: _consistency,
    ask.Extraction: _extraction,
    ask.Summary: _summary,
    ask.Compaction: _compaction,
}
