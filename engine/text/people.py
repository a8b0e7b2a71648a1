"""Whom a text speaks of: the user's relations, in either language, and names; and whether it speaks of somebody else than asked for."""

from __future__ import annotations

import re

#: Characters of a text that are looked at.
READ_CHARS = 2_000


def _either(words: list[str]) -> str:
    """A pattern of English words, whole, and Chinese ones."""
    return rf"\b(?:{'|'.join(word for word in words if word.isascii())})\b(?!-)|{'|'.join(word for word in words if not word.isascii())}"


#: Words for a relation of the speaker's, the same in either language.
_RELATIONS = {
    "mother": r"mom|mum|mother|mama|妈妈|母亲|老妈|我妈|妈",
    "father": r"dad|father|papa|爸爸|父亲|老爸|我爸|爸",
    "brother": r"brother|弟弟|哥哥|我弟|我哥|大哥|二哥|弟|哥",
    "sister": r"sister|妹妹|姐姐|我妹|我姐|大姐|二姐|妹|姐",
    "son": r"son|儿子",
    "daughter": r"daughter|女儿|闺女",
    "wife": r"wife|老婆|妻子|太太|媳妇",
    "husband": r"husband|老公|丈夫|先生",
    "girlfriend": r"girlfriend|女朋友|女友",
    "boyfriend": r"boyfriend|男朋友|男友",
    "grandmother": r"grandma|grandmother|granny|nana|奶奶|外婆|姥姥",
    "grandfather": r"grandpa|grandfather|granddad|爷爷|外公|姥爷",
    "colleague": r"colleague|coworker|co-worker|同事",
    "friend": r"friend|朋友|闺蜜|哥们",
    "roommate": r"roommate|flatmate|室友",
    "neighbour": r"neighbour|neighbours|neighbor|neighbors|邻居",
}
_RELATION = re.compile("|".join(_either(words.split("|")) for words in _RELATIONS.values()))
_ENGLISH = {word: name for name, words in _RELATIONS.items() for word in words.split("|") if word.isascii()}
_CHINESE = {word: name for name, words in _RELATIONS.items() for word in words.split("|") if not word.isascii()}
#: The longest first: a 女朋友 is no 朋友.
_CHINESE_WORD = re.compile("|".join(sorted(_CHINESE, key=len, reverse=True)))
_WORD = re.compile(r"[a-z]+(?:-[a-z]+)*")
#: A capital within a sentence, or with an 's: mostly a name.
_NAME = re.compile(
    r"(?<=[a-z,;’'] )[A-Z][a-z]+|\b[A-Z][a-z]+(?=['’]s\b)"
    r"|(?<![A-Za-z])[A-Z][a-z]+(?=[\u3400-\u9fff])|(?<=[\u3400-\u9fff])[A-Z][a-z]+(?![A-Za-z])"  # or beside Chinese
)
#: Somebody whom the text begins with, after its speaker, and whether a thing of theirs follows ("Daniel's phone", 妈妈的手机).
_SPEAKER = re.compile(r"\A[^:：\n]{1,40}[:：] ?")
_POSSESSIVE = re.compile(r"'s (?!(?:been|got|not|a|an|the|\w+ing)\b)|的")
_MINE = re.compile(r"(?:my|our|我(?:们|家)?的?) ?")
_FIRST_NAME = re.compile(r"[A-Z][a-z]+(?=['’]s |[\u3400-\u9fff])")
#: Somebody is quoted: but what a doctor, a landlord or a school says concerns the user.
_SAYS = re.compile(r"(?![跟和对我你听话据再就老]|[\u4e00-\u9fff]{0,2}[医师东板员生局司店校院]说)[\u4e00-\u9fff]{2,3}说(?!我)(?<![我们]说)")
_OWN = re.compile(r"\b(?:i|i'm|i've|i'd|i'll|my|me|mine|we|we're|our|us)\b|[我咱]")


def people_in(text: str) -> frozenset[str]:
    """The relations that a text speaks of ("mother", "brother"), the same in either language, and the names in it."""
    return relations_in(text) | set(_NAME.findall(text[:READ_CHARS]))


def relations_in(text: str) -> frozenset[str]:
    """The relations that a text speaks of."""
    lower = text[:READ_CHARS].lower()
    found = {_ENGLISH[word] for word in _WORD.findall(lower) if word in _ENGLISH}
    if not lower.isascii():
        found.update(_CHINESE[word] for word in _CHINESE_WORD.findall(lower))
    return frozenset(found)


def may_be_of(asked: frozenset[str], text: str) -> bool:
    """Whether a text may speak of those whom a question is about: of the user themselves, where it names nobody."""
    said = _SPEAKER.sub("", text[:READ_CHARS], count=1)
    relations = asked & _RELATIONS.keys()
    if not relations:
        return any(name in said for name in asked) or not _is_of_another(said)
    found = relations_in(said)
    if not found.isdisjoint(relations) or any(name in said for name in asked - relations):
        return True
    return not found and not _is_of_another(said)


def _is_of_another(said: str) -> bool:
    """Whether it begins with somebody else and says nothing of the speaker, or is of a thing of theirs."""
    if _SAYS.match(said):
        return True
    lower = said.lower().replace("’", "'")
    start = match.end() if (match := _MINE.match(lower)) else 0
    found = _RELATION.match(lower, start) or _FIRST_NAME.match(said)
    if found is None:
        return False
    rest = lower[found.end() :]
    return _POSSESSIVE.match(rest) is not None or _OWN.search(rest) is None
