"""A user's profile: what messages tell of them in general, by rules, what that adds to what is known, and how it is shown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

from engine.conversations import cues as cue
from engine.conversations.attributes import attribute_of
from engine.conversations.statements import READ_CHARS, statements
from engine.rules.triples import VERBS, tagged_words
from engine.text.keywords import keywords_ranked, single_characters
from jiyi.protocol.conversations import PROFILE_ENTRIES, Message, Profile, ProfileSignals, Style
from jiyi.text.sections import first, sections, union, unions
from jiyi.text.splitting import sentences
from jiyi.text.words import CJK, Language, is_filler, normalise, stem

MAX_WORD_CHARS = 60

_HERE, _SIGNALS = "engine.conversations", "signals.txt"


def profile_signals(messages: Sequence[Message], since: int = 0) -> ProfileSignals:
    """The signals in the user's messages from ``since`` on; the newest first in lists."""
    texts = [message.text[:READ_CHARS] for number, message in enumerate(messages) if number >= since and message.role == "user"]
    told = [text for text in texts if not cue.HANDED_OVER.search(text) and not cue.ROLE_PLAY.search(text)]
    lowered = [normalise(text) for text in told]
    own = [
        sentence
        for text in told
        for sentence in sentences(text)
        if not cue.IMAGINED.search(sentence) and not cue.QUESTION_MARK.search(sentence)
    ]
    roles = [
        (match["en"] or match["zh"]).strip() for sentence in own if (match := union(_HERE, _SIGNALS, "role").search(normalise(sentence)))
    ]
    tools = [match["en"] or match["zh"] for sentence in own for match in union(_HERE, _SIGNALS, "tool").finditer(sentence)]
    pains = [sentence.strip() for sentence in own if cue.TROUBLE.search(sentence)]
    return ProfileSignals(
        industry=first(unions(_HERE, _SIGNALS, "industry:"), " ".join(map(normalise, own))),
        role=roles[-1][:MAX_WORD_CHARS] if roles else None,
        expertise_level=first(unions(_HERE, _SIGNALS, "expertise:"), " ".join(lowered)),
        communication_style=cast("Style | None", first(unions(_HERE, _SIGNALS, "style:"), "\n".join(lowered))),
        recent_topics=_newest(topics(messages, since)),
        pain_points=_newest([pain[:500] for pain in reversed(pains)]),
        preferred_tools=_newest(list(reversed(tools))),
    )


def _newest(words: list[str]) -> list[str]:
    return [word for word in dict.fromkeys(words) if word.strip()][:PROFILE_ENTRIES]


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
_IDLE = frozenset(word for line in sections("engine.conversations", "signals.txt")["no_topic"] for word in line.split())
_IDLE_STEMS = cue.EMPTY | cue.NUMBERS | cue.CALENDAR | frozenset(map(stem, _IDLE))
_VERB_STEMS = frozenset(map(stem, VERBS))


def topics(messages: Sequence[Message], since: int = 0) -> list[str]:
    """What the user's messages from ``since`` on are about, the newest first, with repetitions."""
    stated = {group[0].turn for group in statements(messages, since)}
    result = []
    for turn in reversed(range(since, len(messages))):
        message = messages[turn]
        if message.role != "user" or cue.HANDED_OVER.search(message.text[:READ_CHARS]) or cue.ROLE_PLAY.search(message.text[:READ_CHARS]):
            continue
        if turn in stated or _asks(message.text[:READ_CHARS]):
            result += _topics(message.text[:READ_CHARS])
    return result


def keywords(text: str, most: int) -> list[str]:
    """What a memory names, the most telling first: things, people, places; without any, what is done. No pronouns, no days, no "user"."""
    naming, doing = _keywords(text)
    alone = [word for word in single_characters(text) if dict(tagged_words(normalise(text))).get(word, "").startswith(_NAMING)]
    return (list(dict.fromkeys([*naming, *alone])) or doing)[:most]


def _asks(text: str) -> bool:
    """Whether something is asked, or the assistant is to do something."""
    return any(asks.search(text) for asks in (cue.QUESTION_MARK, cue.ASKING, cue.REQUEST))


def _topics(text: str) -> list[str]:
    naming, doing = _keywords(text)
    if naming and not (cue.SECOND_PERSON.search(text) and not cue.FIRST_PERSON.search(text) and len(naming) + len(doing) < ASKED_WORDS):
        return naming[:TOPICS]
    talks = _YOU.search(text) or cue.SECOND_PERSON.search(text)
    return doing[:TOPICS] if attribute_of(text) or (_asks(text) and not talks) else []


def _keywords(text: str) -> tuple[list[str], list[str]]:
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


LABELS: dict[Language, dict[str, str]] = {
    "en": {
        "industry": "industry",
        "role": "role",
        "expertise_level": "expertise",
        "communication_style": "style",
        "recent_topics": "recent topics",
        "pain_points": "pain points",
        "preferred_tools": "tools",
    },
    "zh": {
        "industry": "行业",
        "role": "角色",
        "expertise_level": "专业水平",
        "communication_style": "沟通风格",
        "recent_topics": "近期话题",
        "pain_points": "痛点",
        "preferred_tools": "常用工具",
    },
}


def merged(known: Profile, signals: ProfileSignals) -> Profile:
    """The profile with what was told: a new value replaces the old one, lists grow at their head."""
    changed = {}
    for name in ProfileSignals.model_fields:
        new, old = getattr(signals, name), getattr(known, name)
        changed[name] = _merged_entries(new, old) if isinstance(new, list) else new or old
    return known.model_copy(update=changed)


def lines(profile: Profile, language: Language) -> list[str]:
    """The profile in lines, without what is not known."""
    told = []
    for name, label in LABELS[language].items():
        value = getattr(profile, name)
        if value:
            told.append(f"{label}: {', '.join(value) if isinstance(value, list) else value}")
    return told


def _merged_entries(new: Sequence[str], old: Sequence[str]) -> list[str]:
    entries: dict[str, str] = {}
    for entry in (*new, *old):
        entries.setdefault(normalise(entry).strip(), entry)
    return list(entries.values())[:PROFILE_ENTRIES]
