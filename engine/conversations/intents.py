"""What a query asks for: its intent, its keywords, and words of the same meaning.

The intent is told with the context and shown to people. It changes what is searched only where it is ``identity_recall``: weights and kinds
by intent were measured, and find no more or less (docs/decisions.md).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import cast

from engine.text.keywords import keywords_ranked, single_characters
from jiyi.protocol.conversations import KINDS, Intent, Kind, QueryAnalysis
from jiyi.text.sections import first, sections, union, unions
from jiyi.text.words import normalise

#: Characters of a query that are looked at: longer ones are documents, whose end may hold the question.
READ_CHARS = 4_000
#: Words that a query is expanded by at most.
MAX_EXPANSIONS = 24

#: The kinds that the answer is likely to be of, the most likely first.
TARGETS: dict[Intent, list[Kind]] = {
    "preference": ["preference"],
    "knowledge": ["knowledge", "session"],
    "experience": ["experience"],
    "code": ["knowledge", "experience"],
    "identity_recall": ["preference", "knowledge"],
    "general": list(KINDS),
}
_WEAK = re.compile(r"我|咱|俺|\b(?:i|i'm|i've|i'd|me|my|mine|myself|we|our|us)\b")
#: Code keeps its identifiers whole: ``load_config``, ``fetchData``, ``app.py`` (§4.16).
#: What only code is called: ``fetchData``, ``main()``; not iPhone.
_CALLED = re.compile(r"\b[a-z]{3,40}[A-Z][a-z]\w{0,40}\b|\b\w{1,60}\(\)")
_IDENTIFIER = re.compile(r"\b[A-Za-z]\w{0,60}(?:[._]\w{1,60}){1,8}\b|\b[a-z]{1,40}[A-Z]\w{0,40}\b|\b\w{1,60}\(\)")


def analyse(query: str, industry: Mapping[str, Sequence[str]] | None = None) -> QueryAnalysis:
    """What the query asks for.

    Args:
        query: the user's words.
        industry: the group's own keywords, each with words of the same meaning.
    """
    read = query[:READ_CHARS]
    text = normalise(read)
    intent = intent_of(read)
    identifiers = _IDENTIFIER.findall(read) if intent == "code" else []
    keywords = list(dict.fromkeys([*identifiers, *keywords_ranked(read), *single_characters(read)]))
    return QueryAnalysis(
        original=query,
        keywords=keywords,
        intent=intent,
        target_types=TARGETS[intent],
        expansions=_expansions(text, keywords, industry or {}),
        weak_identity=_WEAK.search(text) is not None,
    )


def intent_of(query: str) -> Intent:
    """The first intent whose words are in a query; "general" for what asks for nothing, as small talk and orders."""
    text = normalise(query)
    if union("engine.conversations", "identity.txt", "").search(text):
        return "identity_recall"
    if _CALLED.search(query):
        return "code"
    return cast("Intent", first(unions("engine.conversations", "intents.txt"), text) or "general")


def _expansions(text: str, keywords: Sequence[str], industry: Mapping[str, Sequence[str]]) -> list[str]:
    own = set(keywords)
    expansions: dict[str, None] = {}
    for group in _synonyms():
        if any(_says(word, text, own) for word in group):
            expansions |= dict.fromkeys(word for word in group if not _says(word, text, own))
    for keyword, others in industry.items():
        group = [normalise(keyword), *map(normalise, others)]
        if any(_says(word, text, own) for word in group):
            expansions |= dict.fromkeys(word for word in group if not _says(word, text, own))
    return list(expansions)[:MAX_EXPANSIONS]


def _says(word: str, text: str, keywords: set[str]) -> bool:
    """Whether a text has a word: Latin ones whole, a Chinese character by itself only where it is a word."""
    if word.isascii():
        return re.search(rf"(?<![a-z0-9]){re.escape(word)}(?![a-z0-9])", text) is not None
    return word in keywords if len(word) == 1 else word in text


@cache
def _synonyms() -> list[list[str]]:
    return [[word.strip() for word in line.split(",")] for line in sections("engine.conversations", "synonyms.txt")[""]]
