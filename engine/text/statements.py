"""Of what a plain statement speaks ("我表姐的工作地是杭州": the 工作地 of 我表姐), of whom, in which topics.

Two statements of one form about different things can both hold, however similar they are; two of one topic
may contradict each other without a common word. ``changes.txt`` has the words by which people say that
something is no longer as it was.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from jiyi.text.sections import sections, unions
from jiyi.text.words import normalise

#: Characters of a text that are looked at.
READ_CHARS = 200

_SPEAKER = re.compile(r"\A[^:：\n\d]{1,40}[:：] ?")
_CHINESE = re.compile(
    r"(?:我们?家?的?|咱们?家?的?)?(?P<thing>[\w\u4e00-\u9fff]{2,16}?)"
    r"(?:的(?P<attribute>[\u4e00-\u9fff]{1,8}?)(?:是|在|为|叫)|在(?=[\w\u4e00-\u9fff]{2})|住在?|来自|喜欢)"
)
_ENGLISH = re.compile(
    r"(?:[Mm]y |[Oo]ur |[Tt]he )?(?P<thing>[\w-]{2,30}(?: [\w-]{2,30})?)"
    r"(?:['’]s (?P<attribute>[a-z]{2,20}(?: [a-z]{2,20})?) (?:is|are|was)\b|"
    r" (?:works|lives|likes|comes|stays|has)\b)"
)
#: A person or a time rather than a thing: nobody can know whose these are.
_NO_THING = re.compile(
    r"[我你您他她它咱]|现在|目前|今|明|昨|最近|以前|原来|从前|后来|已经|一直|还|就|也|都|不|没|正|新|旧|老|[这那]|[上下]个?[周月半次回]"
    r"|(?:he|she|it|this|that|there|here|who|what|everyone|everything|now|new|old|last|next)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class StatementSubject:
    """``attribute`` is empty where the verb says it: 下属 of "我的下属在广州上班"."""

    thing: str
    attribute: str


def statement_of(text: str) -> StatementSubject | None:
    """What a text begins to speak of; None where it is no plain statement about something with a name."""
    statement = _SPEAKER.sub("", text[:READ_CHARS], count=1).lstrip()
    match = _CHINESE.match(statement) or _ENGLISH.match(statement)
    if match is None or _NO_THING.match(match["thing"]):
        return None
    return StatementSubject(match["thing"].lower(), (match["attribute"] or "").lower())


def stand_beside(one: str, other: str) -> bool:
    """Whether two statements are of different things, or attributes of one, so that both may hold."""
    first, second = statement_of(one), statement_of(other)
    if (
        first is not None
        and second is not None
        and not (first.thing in second.thing or second.thing in first.thing)
    ):
        return True
    return any(_says_other(statement, text) for statement, text in ((first, other), (second, one)))


def _says_other(statement: StatementSubject | None, text: str) -> bool:
    """Whether a text says nothing of the attribute that a statement is about."""
    if statement is None or not statement.attribute or statement.attribute in text.lower():
        return False
    return topics_of(statement.attribute).isdisjoint(topics_of(text))


#: Characters of a text that are looked at.
PEOPLE_CHARS = 2_000


def _either(words: list[str]) -> str:
    """A pattern of English words, whole, and Chinese ones."""
    return (
        rf"\b(?:{'|'.join(word for word in words if word.isascii())})\b(?!-)"
        rf"|{'|'.join(word for word in words if not word.isascii())}"
    )


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
    "grandson": r"grandson|孙子|外孙",
    "granddaughter": r"granddaughter|孙女|外孙女",
    "aunt": r"aunt|auntie|姑姑|姑妈|姨妈|小姨|舅妈|婶婶|阿姨",
    "uncle": r"uncle|叔叔|舅舅|伯伯|姑父|姨夫",
    "cousin": r"cousin|表哥|表弟|表姐|表妹|堂哥|堂弟|堂姐|堂妹",
    "niece": r"niece|侄女|外甥女",
    "nephew": r"nephew|侄子|外甥",
    "boss": r"boss|老板|上司",
    "colleague": r"colleague|coworker|co-worker|同事",
    "friend": r"friend|朋友|闺蜜|哥们",
    "roommate": r"roommate|flatmate|室友",
    "neighbour": r"neighbour|neighbours|neighbor|neighbors|邻居",
}
_RELATION = re.compile("|".join(_either(words.split("|")) for words in _RELATIONS.values()))
_ENGLISH_RELATIONS = {
    word: name for name, words in _RELATIONS.items() for word in words.split("|") if word.isascii()
}
_CHINESE_RELATIONS = {
    word: name for name, words in _RELATIONS.items() for word in words.split("|") if not word.isascii()
}
#: The longest first: a 女朋友 is no 朋友.
_CHINESE_WORD = re.compile("|".join(sorted(_CHINESE_RELATIONS, key=len, reverse=True)))
_WORD = re.compile(r"[a-z]+(?:-[a-z]+)*")
#: A capital within a sentence, or with an 's: mostly a name.
_NAME = re.compile(
    r"(?<=[a-z,;’'] )[A-Z][a-z]+|\b[A-Z][a-z]+(?=['’]s\b)"
    # or beside Chinese
    r"|(?<![A-Za-z])[A-Z][a-z]+(?=[\u3400-\u9fff])|(?<=[\u3400-\u9fff])[A-Z][a-z]+(?![A-Za-z])"
)
#: Somebody whom the text begins with, after its speaker, and a thing of theirs ("Daniel's phone").
_SPEAKER_OF_PEOPLE = re.compile(r"\A[^:：\n]{1,40}[:：] ?")
_POSSESSIVE = re.compile(r"'s (?!(?:been|got|not|a|an|the|\w+ing)\b)|的")
_MINE = re.compile(r"(?:my|our|我(?:们|家)?的?) ?")
_FIRST_NAME = re.compile(r"[A-Z][a-z]+(?=['’]s |[\u3400-\u9fff])")
#: Somebody is quoted: but what a doctor, a landlord or a school says concerns the user.
_SAYS = re.compile(
    r"(?![跟和对我你听话据再就老]|[\u4e00-\u9fff]{0,2}[医师东板员生局司店校院]说)[\u4e00-\u9fff]{2,3}说(?!我)(?<![我们]说)"
)
_OWN = re.compile(r"\b(?:i|i'm|i've|i'd|i'll|my|me|mine|we|we're|our|us)\b|[我咱]")


def people_in(text: str) -> frozenset[str]:
    """The relations that a text speaks of ("mother", the same in either language), and the names in it."""
    return relations_in(text) | set(_NAME.findall(text[:PEOPLE_CHARS]))


def relations_in(text: str) -> frozenset[str]:
    """The relations that a text speaks of."""
    lower = text[:PEOPLE_CHARS].lower()
    relations = {_ENGLISH_RELATIONS[word] for word in _WORD.findall(lower) if word in _ENGLISH_RELATIONS}
    if not lower.isascii():
        relations.update(_CHINESE_RELATIONS[word] for word in _CHINESE_WORD.findall(lower))
    return frozenset(relations)


def may_be_of(people: frozenset[str], text: str) -> bool:
    """Whether a text may speak of those whom a question is about: of the user where it names nobody."""
    statement = _SPEAKER_OF_PEOPLE.sub("", text[:PEOPLE_CHARS], count=1)
    relations = people & _RELATIONS.keys()
    if not relations:
        return any(name in statement for name in people) or not _is_of_another(statement)
    mentioned = relations_in(statement)
    if not mentioned.isdisjoint(relations) or any(name in statement for name in people - relations):
        return True
    return not mentioned and not _is_of_another(statement)


def _is_of_another(text: str) -> bool:
    """Whether it begins with somebody else and says nothing of the speaker, or is of a thing of theirs."""
    if _SAYS.match(text):
        return True
    lower = text.lower().replace("’", "'")
    start = match.end() if (match := _MINE.match(lower)) else 0
    person = _RELATION.match(lower, start) or _FIRST_NAME.match(text)
    if person is None:
        return False
    rest = lower[person.end() :]
    return _POSSESSIVE.match(rest) is not None or _OWN.search(rest) is None


#: Characters of a text that are looked at: in a longer one a word of a topic is about one thing of many.
TOPIC_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class _Topic:
    pattern: re.Pattern[str]
    #: Topics that hide this one: what is of the dentist is of no doctor in general.
    narrower: tuple[str, ...]


def topics_of(text: str) -> frozenset[str]:
    """The topics that a text has words of (``topics.txt``): phone, rent, coffee."""
    return narrowest(all_topics_of(text))


def all_topics_of(text: str) -> frozenset[str]:
    """The same, with those that a narrower one hides."""
    normalised = _read(text)
    return frozenset(name for name, topic in _topics().items() if topic.pattern.search(normalised))


def narrowest(names: frozenset[str]) -> frozenset[str]:
    """Topics without those that a narrower one among them hides."""
    return frozenset(name for name in names if names.isdisjoint(_topics()[name].narrower))


def is_of(text: str, name: str) -> bool:
    """Whether a text has words of a topic, be they of a narrower one, too."""
    return _topics()[name].pattern.search(_read(text)) is not None


def _read(text: str) -> str:
    return normalise(text[:TOPIC_CHARS]).replace("’", "'")


@cache
def _topics() -> dict[str, _Topic]:
    lines = {
        header.partition(":"): patterns for header, patterns in sections(__package__, "topics.txt").items()
    }
    return {
        name: _Topic(
            re.compile("|".join(patterns), re.ASCII),  # so that a word ends where Chinese begins
            tuple(other for other, _, wider in lines if name in wider.split()),
        )
        for (name, _, _), patterns in lines.items()
    }


_WORDS = unions(__package__, "changes.txt")

#: In any memory: it says so (now, moved, 改, 不再), or perhaps (went up, 了 at the end of a clause).
SAYS = _WORDS["says"]
PERHAPS = _WORDS["perhaps"]
#: In a statement of the user's: something is otherwise, is only over.
CHANGE = _WORDS["change"]
OVER = _WORDS["over"]
