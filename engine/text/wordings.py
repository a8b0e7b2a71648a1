"""Whether two statements are one in other words: "I really like tea." and "I like tea".

Neither vectors nor shared words can decide that: "Anna beat Emma" and "Emma beat Anna" are nearer to each
other than most paraphrases (docs/decisions.md). So what may differ is listed here, and whatever is not listed
keeps two statements apart: every number, name, "not", every other word, and its order.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Protocol

from jiyi.text.remembering import remembered
from jiyi.text.words import CJK, nfkc

#: Longer texts are one only if they are the same.
MAX_READ = 1_000
#: Texts whose wordings are kept: the same memories come up question after question.
KNOWN = 4_000
#: Shorter statements keep their order: 蜜蜂 and 蜂蜜, "A3, B7" and "B7, A3".
LEAST_MOVED = 5

_WORD = re.compile(
    rf"[{CJK}]|(?<!\w)[-−+]?\d[\d.,:/-]*(?<=\d)|[^\W_{CJK}]+(?:[-'_.@/][^\W_{CJK}]+)*|[^\w\s]|_"
)
_SENTENCE = re.compile(r"[.!?;。！？；\n]\s*|\Z")
_PLAIN_FIRST_WORD = re.compile(r"\A\W*[A-Z][a-z]*(?![\w'])(?<!\bI)")
#: What introduces a statement, and is no part of its content.
_OPENING = re.compile(
    r"\A\W*(?:(?:please |just )?(?:remember|note|keep in mind)(?: that|[:,])|by the"
    r" way|btw|oh|well|hey|hi|hello|ok|okay)(?=[\s,])[\s,]*"
    r"|\A\W*(?:请?记住|顺便说一下|顺便提一下|对了|其实|你好|嗨|嗯)[，,：: 、]\s*",
    re.IGNORECASE,
)
_NEGATED = re.compile(
    r"\b(?:not?|never|none|nobody|nothing|nowhere|neither|nor|without|hardly|rarely|seldom|barely"
    r"|few|less|least|only|than|cannot)\b"
    r"|n[’']t\b|[不没無无未别非勿莫免戒少比仅]|(?<![一二两三四五六七八九十几这那每\d])只",
    re.IGNORECASE,
)
#: (of what, by what): spellings and contractions, which change nothing anywhere.
_SPELLINGS = [
    (re.compile(pattern, re.IGNORECASE), by)
    for pattern, by in (
        (r"\bcan(?:no|['’])t\b", "can not"),
        (r"\bwon['’]t\b", "will not"),
        (r"n['’]t\b", " not"),
        (r"\b(I)['’]m\b", r"\1 am"),
        (r"\b(I|you|we|they)['’]ve\b", r"\1 have"),
        (r"\b(you|we|they)['’]re\b", r"\1 are"),
        (r"\b(I|you|he|she|it|we|they)['’]ll\b", r"\1 will"),
        (r"\b(favo|colo|neighbo|flavo|hono)u?r", r"\1r"),
        (r"(?<=\d),(?=\d{3}(?!\d))", ""),
        (r"[’‘]", "'"),
        ("喜爱", "喜欢"),
    )
]
#: What only lends weight; where something is denied or compared it may carry the meaning (很少).
_WEIGHTS = [
    (re.compile(pattern, re.IGNORECASE), by)
    for pattern, by in (
        (r"\b(?:really|truly|very|definitely|absolutely|certainly|totally|please|of course)\b", ""),
        (r"\b(?:very much|so much|a lot|too|as well)(?=\W*\Z)", ""),
        (rf"\b(?:the|an?(?! (?:few|little|lot)\b))(?= [^\W{CJK}])", ""),
        (r"\b(?:has|have) (?=[a-z]{2,}ed\b)", ""),
        ("真的|确实|的确|请|(?:很|非常|特别|超级|挺|十分|真|也)(?=喜欢|爱|想|讨厌|高兴)", ""),
        (rf"(?<=[我你您他她们])的(?=[{CJK}])", ""),
        (r"是([^是,，]{2,})的(?=\W*\Z)", r"\1"),
        (r"[呀啊哦喔呢哈嘛]+(?=\W*\Z)", ""),
        (r"\A((?:每[天周年月])?(?:早上|晚上|中午|上午|下午|周末|每[天周年月]))我", r"我\1"),
    )
]
_PAUSES = frozenset(".,;:!'\"()[]，。；：！、…“”「」《》（）")


def wording(text: str) -> str:
    """A text's form that it shares with those that say the same in other words; itself if it is long."""
    return text if len(text) > MAX_READ else _wording(text)


@remembered(KNOWN)
def _wording(text: str) -> str:
    plain = _OPENING.sub("", nfkc(text))
    denied, is_question = _NEGATED.search(plain) is not None, "?" in plain
    for pattern, by in _SPELLINGS:
        plain = pattern.sub(by, plain)
    parts = [_with_plain_beginning(part) for part in _SENTENCE.split(plain) if part.strip()]
    plain = (". " if denied else " ").join(parts)
    if not denied:
        for pattern, by in _WEIGHTS:
            plain = pattern.sub(by, plain)
    words = [word for word in _WORD.findall(plain) if denied or word not in _PAUSES]
    numbers = sum(any(map(str.isdigit, word)) for word in words)
    if not denied and not is_question and len(words) >= LEAST_MOVED and len(parts) == 1 and numbers <= 1:
        # "in the morning I like tea", "I like tea in the morning"
        words = min(words[start:] + words[:start] for start in range(len(words)))
    return " ".join([*words, *("?" if is_question else "")])


def _with_plain_beginning(sentence: str) -> str:
    """Without the capital that every sentence begins with."""
    return _PLAIN_FIRST_WORD.sub(lambda match: match[0].lower(), sentence)


class WordingSource(Protocol):
    """What two memories have to have in common to be one."""

    @property
    def subject(self) -> str | None: ...
    @property
    def user_id(self) -> str | None: ...
    @property
    def visibility(self) -> str | None: ...


class StatementKey(NamedTuple):
    """The key that memories share if they say the same, of the same subject, to the same people."""

    wording: str
    subject: str | None
    user_id: str | None
    visibility: str | None

    @classmethod
    def of(cls, text: str, source: WordingSource) -> StatementKey:
        """What is compared. "I like tea" of two people are two statements, unless the text names them."""
        subject = source.subject
        if subject is not None and (subject == "user" or subject.lower() in text.lower()):
            subject = None
        return cls(wording(text), subject, source.user_id, source.visibility)
