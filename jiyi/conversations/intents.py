"""What a query asks for: its intent, its keywords, and words of the same meaning (ZC-33…ZC-38)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from jiyi.conversations.types import KINDS, QueryAnalysis
from jiyi.text.words import keywords_ranked, normalise, single_characters

_IDENTITY = re.compile(r"我是谁|我叫什么|你(?:还)?记得我吗|\bwho am i\b|\bwhat(?:'s| is) my name\b|\bdo you (?:still )?remember me\b")
_WEAK = re.compile(r"我|\b(?:i|my|me|mine)\b")


def analyse(query: str, industry: Mapping[str, Sequence[str]] | None = None) -> QueryAnalysis:
    """What the query asks for.

    Args:
        query: the user's words.
        industry: the group's own keywords, each with words of the same meaning (ZC-121).
    """
    text = normalise(query)
    keywords = list(dict.fromkeys([*keywords_ranked(query), *single_characters(query)]))
    expansions = [word for keyword in keywords for word in (industry or {}).get(keyword, ())]
    identity = _IDENTITY.search(text) is not None
    return QueryAnalysis(
        original=query,
        keywords=keywords,
        intent="identity_recall" if identity else "general",
        target_types=["preference", "knowledge"] if identity else list(KINDS),
        expansions=list(dict.fromkeys(expansions)),
        weak_identity=_WEAK.search(text) is not None,
    )
