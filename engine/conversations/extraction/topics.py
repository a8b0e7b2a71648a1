"""What the user's messages are about: what those name that state or ask something, and keywords. Small talk has no topic."""

from __future__ import annotations

import re
from collections.abc import Sequence

from engine.conversations.extraction import words as cue
from engine.conversations.extraction.attributes import attribute_of
from engine.conversations.extraction.statements import READ_CHARS, statements
from engine.providers.llms.rules.chinese import tagged_words
from engine.providers.llms.rules.english import VERBS
from engine.text.keywords import keywords_ranked, single_characters
from jiyi.protocol.conversations.types import Message
from jiyi.text.sections import sections
from jiyi.text.tokens import is_filler, stem
from jiyi.text.words import CJK, normalise

#: Topics that one message gives.
TOPICS = 2
#: An English question to the assistant itself ("did you sleep well?") is about something if it has as many telling words.
ASKED_WORDS = 2

#: Jieba's parts of speech: things and names; what is done.
_NAMING, _DOING = ("n", "vn", "eng", "j"), ("v",)
_CHINESE = re.compile(f"[{CJK}]")
_YOU = re.compile(r"[你您]")
#: How a memory calls who speaks, and what anything may be.
_GENERAL = frozenset("user users new old 用户".split())
_ADVERB = re.compile(r"[a-z]{3,40}ly")
#: The calendar, greetings and what any message may hold.
_IDLE = frozenset(word for line in sections("engine.conversations", "extraction/signals.txt")["no_topic"] for word in line.split())
_IDLE_STEMS = cue.EMPTY | cue.NUMBERS | cue.CALENDAR | frozenset(map(stem, _IDLE))
_VERB_STEMS = frozenset(map(stem, VERBS))


def topics(messages: Sequence[Message], since: int = 0) -> list[str]:
    """What the user's messages from ``since`` on are about, the newest first, with repetitions."""
    stated = {made[0].turn for made in statements(messages, since)}
    found = []
    for turn in reversed(range(since, len(messages))):
        message = messages[turn]
        if message.role != "user" or cue.HANDED_OVER.search(message.text[:READ_CHARS]) or cue.ROLE_PLAY.search(message.text[:READ_CHARS]):
            continue
        if turn in stated or _asks(message.text[:READ_CHARS]):
            found += _topics(message.text[:READ_CHARS])
    return found


def keywords(text: str, most: int) -> list[str]:
    """What a memory names, the most telling first: things, people, places; without any, what is done. No pronouns, no days, no "user"."""
    naming, doing = _words(text)
    alone = [word for word in single_characters(text) if dict(tagged_words(normalise(text))).get(word, "").startswith(_NAMING)]
    return (list(dict.fromkeys([*naming, *alone])) or doing)[:most]


def _asks(text: str) -> bool:
    """Whether something is asked, or the assistant is to do something."""
    return any(asks.search(text) for asks in (cue.QUESTION_MARK, cue.ASKING, cue.REQUEST))


def _topics(text: str) -> list[str]:
    naming, doing = _words(text)
    if naming and not (cue.SECOND_PERSON.search(text) and not cue.FIRST_PERSON.search(text) and len(naming) + len(doing) < ASKED_WORDS):
        return naming[:TOPICS]
    talks = _YOU.search(text) or cue.SECOND_PERSON.search(text)
    return doing[:TOPICS] if attribute_of(text) or (_asks(text) and not talks) else []


def _words(text: str) -> tuple[list[str], list[str]]:
    """Keywords that name something, and those that say what is done, the most telling first."""
    spoken = dict(tagged_words(normalise(text)))
    naming: list[str] = []
    doing: list[str] = []
    for word in keywords_ranked(text):
        if word.isdigit() or word in _GENERAL or is_filler(word) or word in _IDLE or stem(word) in _IDLE_STEMS or _ADVERB.fullmatch(word):
            continue
        if _CHINESE.search(word):
            tag = spoken.get(word, "")
            of_which = naming if tag.startswith(_NAMING) else doing if tag.startswith(_DOING) else None
        else:
            of_which = doing if stem(word) in _VERB_STEMS or word.endswith(("ing", "ed")) else naming
        if of_which is not None:
            of_which.append(word)
    return naming, doing
