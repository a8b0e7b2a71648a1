"""The ``rules`` provider: no model, no network. It answers from the words of what it is asked about.

Every answer is made of the texts in the question, the same each time. It knows no more than they say: its insights say
how figures went and what comes again on which days, not what follows from it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from pydantic import BaseModel

from engine.growth.self_review import SelfReflected
from engine.growth.skills import draft_skill
from engine.providers.llms import questions as ask
from engine.providers.llms.questions import A, Question
from engine.providers.llms.rules import conversations, digests, insights, poignancy, triples
from engine.text.keywords import keywords_ranked
from jiyi.protocol.conversations.types import CombinedExtraction
from jiyi.protocol.growth.pains import FoundPains, ProposedSolution
from jiyi.text.budget import cut_to_tokens
from jiyi.text.splitting import sentences

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


def _poignancy(question: ask.Poignancy) -> ask.Poignant:
    return ask.Poignant(poignancy=poignancy.weigh(question).poignancy)


def _keywords(question: ask.Keywords) -> ask.KeywordList:
    return ask.KeywordList(keywords=keywords_ranked(question.text)[: ask.MAX_KEYWORDS])


def _consistency(question: ask.Consistency) -> ask.Checked:
    """Words do not show whether a text is right: no rule pretends to know (fail-open)."""
    why = "没有配置大语言模型，无法检查。" if question.language == "zh" else "There is no LLM that could tell."
    return ask.Checked(verdict="unknown", why=why)


def _extraction(question: ask.Extraction) -> CombinedExtraction:
    from engine.conversations.extraction.extract import extract  # late: it stands on the word lists of this package
    from engine.heads.local import heads

    return extract(question, heads())


def _pains(question: ask.Pains) -> FoundPains:
    from engine.growth.pains import find_pains

    return find_pains(question.messages, question.since)


def _solution(question: ask.Solution) -> ProposedSolution:
    from engine.growth.pains import propose_solution

    return propose_solution(question.text, question.category, question.language, experiences=question.experiences, advice=question.advice)


def _self_reflection(question: ask.SelfReflection) -> SelfReflected:
    from engine.growth.self_review import review

    return review(question.agent_id, question.utterances)


def _summary(question: ask.Summary) -> ask.Summarised:
    said = sentences(question.text) or [question.text]
    overview = cut_to_tokens(" ".join(map(str.strip, said[:SUMMARY_SENTENCES])), SUMMARY_TOKENS)[: ask.MAX_ANSWER_CHARS]
    words = [word[: ask.MAX_NAME_CHARS] for word in keywords_ranked(question.text)[:SUMMARY_KEYWORDS]]
    return ask.Summarised(overview=overview or "…", keywords=words or ["…"])


def _compaction(question: ask.Compaction) -> ask.OneSentence:
    """The first sentence of each utterance, the latest if there is not room for all."""
    lines = [f"{speaker}: {(sentences(said) or [said])[0]}".strip() for speaker, said in question.utterances]
    return ask.OneSentence(sentence=("\n".join([question.text, *lines]).strip() or "…")[-ask.MAX_ANSWER_CHARS :].strip() or "…")


RULES: dict[type[BaseModel], Callable[[Any], BaseModel]] = {
    ask.Poignancy: _poignancy,
    ask.Triple: triples.triple,
    ask.Keywords: _keywords,
    ask.FocalPoints: insights.focal_points,
    ask.Insights: insights.insights,
    ask.Planning: conversations.planning,
    ask.Memo: conversations.memo,
    ask.Digest: digests.digest,
    ask.Consistency: _consistency,
    ask.Extraction: _extraction,
    ask.Summary: _summary,
    ask.Compaction: _compaction,
    ask.SkillDraft: lambda question: draft_skill(question.pattern),
    ask.Pains: _pains,
    ask.Solution: _solution,
    ask.SelfReflection: _self_reflection,
}
