"""Of what, and what of it, a plain statement speaks: "我表姐的工作地是杭州" of the 工作地 of 我表姐.

Two statements of one form about different things stand beside each other, however much they are alike.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from engine.text.topics import topics_of

#: Characters of a text that are looked at.
READ_CHARS = 200

_SPEAKER = re.compile(r"\A[^:：\n\d]{1,40}[:：] ?")
_CHINESE = re.compile(
    r"(?:我们?家?的?|咱们?家?的?)?(?P<thing>[\w\u4e00-\u9fff]{2,16}?)"
    r"(?:的(?P<attribute>[\u4e00-\u9fff]{1,8}?)(?:是|在|为|叫)|在(?=[\w\u4e00-\u9fff]{2})|住在?|来自|喜欢)"
)
_ENGLISH = re.compile(
    r"(?:[Mm]y |[Oo]ur |[Tt]he )?(?P<thing>[\w-]{2,30}(?: [\w-]{2,30})?)"
    r"(?:['’]s (?P<attribute>[a-z]{2,20}(?: [a-z]{2,20})?) (?:is|are|was)\b| (?:works|lives|likes|comes|stays|has)\b)"
)
#: Who or when rather than what: nobody can tell whose these are.
_NO_THING = re.compile(
    r"[我你您他她它咱]|现在|目前|今|明|昨|最近|以前|原来|从前|后来|已经|一直|还|就|也|都|不|没|正|新|旧|老|[这那]|[上下]个?[周月半次回]"
    r"|(?:he|she|it|this|that|there|here|who|what|everyone|everything|now|new|old|last|next)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Statement:
    """``attribute`` is empty where the verb says it: 下属 of "我的下属在广州上班"."""

    thing: str
    attribute: str


def statement_of(text: str) -> Statement | None:
    """What a text begins to speak of; None where it is no plain statement about somebody or something with a name."""
    said = _SPEAKER.sub("", text[:READ_CHARS], count=1).lstrip()
    found = _CHINESE.match(said) or _ENGLISH.match(said)
    if found is None or _NO_THING.match(found["thing"]):
        return None
    return Statement(found["thing"].lower(), (found["attribute"] or "").lower())


def stand_beside(one: str, other: str) -> bool:
    """Whether two statements are of different things, or of different attributes of a thing, so that both may hold."""
    first, second = statement_of(one), statement_of(other)
    if first is not None and second is not None and not (first.thing in second.thing or second.thing in first.thing):
        return True
    return any(_says_other(statement, text) for statement, text in ((first, other), (second, one)))


def _says_other(statement: Statement | None, text: str) -> bool:
    """Whether a text says nothing of the attribute that a statement is about."""
    if statement is None or not statement.attribute or statement.attribute in text.lower():
        return False
    return topics_of(statement.attribute).isdisjoint(topics_of(text))
