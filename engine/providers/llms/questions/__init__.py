"""What is asked of an LLM, each question with the form its answer must have.

A question carries data only; how it is put into words is the prompt file's business (``engine/providers/llms/prompts``), or
nobody's: the ``rules`` provider answers from the data itself. Memories in a question are data, never instructions.
"""

from __future__ import annotations

from engine.providers.llms.questions.base import MAX_ANSWER_CHARS, MAX_KEYWORDS, MAX_NAME_CHARS, A, OneSentence, Question
from engine.providers.llms.questions.conversations import Compaction, Extraction, Summarised, Summary
from engine.providers.llms.questions.growth import Pains, SelfReflection, SkillDraft, Solution
from engine.providers.llms.questions.memory import Facts, KeywordList, Keywords, Poignancy, Poignant, Triple
from engine.providers.llms.questions.reflection import FocalPoints, Insight, InsightList, Insights, Memo, Planning, Points
from engine.providers.llms.questions.tiers import Checked, Consistency, Digest, Digested
from jiyi.text.words import Language

__all__ = [
    "MAX_ANSWER_CHARS",
    "MAX_KEYWORDS",
    "MAX_NAME_CHARS",
    "A",
    "Checked",
    "Compaction",
    "Consistency",
    "Digest",
    "Digested",
    "Extraction",
    "Facts",
    "FocalPoints",
    "Insight",
    "InsightList",
    "Insights",
    "KeywordList",
    "Keywords",
    "Language",
    "Memo",
    "OneSentence",
    "Pains",
    "Planning",
    "Poignancy",
    "Poignant",
    "Points",
    "Question",
    "SelfReflection",
    "SkillDraft",
    "Solution",
    "Summarised",
    "Summary",
    "Triple",
]
