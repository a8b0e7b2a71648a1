"""Turns, extracted memories and experiences as events; a user's profile, read by rules, merged and shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import cast
from uuid import UUID, uuid5

from pydantic import BaseModel, ValidationError
from uuid6 import uuid7

from engine.conversations import attributes as cue
from engine.conversations.attributes import attribute_of
from engine.conversations.statements import READ_CHARS, statements
from engine.providers.questions import Poignancy
from engine.rules import triples
from engine.rules.insights import states
from engine.rules.triples import VERBS, tagged_words
from engine.text.keywords import keywords_ranked, single_characters
from jiyi.protocol import events as wire
from jiyi.protocol.base import JsonMapping, Visibility
from jiyi.protocol.conversations import (
    MAX_CONTENT_CHARS,
    MAX_STEPS,
    OUTCOMES,
    PROFILE_ENTRIES,
    CombinedExtraction,
    ExtractedExperience,
    ExtractedMemory,
    Message,
    Outcome,
    Profile,
    ProfileSignals,
    Style,
    uri_of,
)
from jiyi.protocol.events import Event, MemoryObserved, Observation, TurnRecorded
from jiyi.protocol.origins import ORIGIN_OF_ROLE
from jiyi.text.sections import first, sections, union, unions
from jiyi.text.splitting import sentences
from jiyi.text.words import (
    CJK_CHARACTER,
    Language,
    content_digest,
    is_filler,
    language_of,
    normalise,
    stem,
    tokens,
)

#: Less certain experiences are dropped.
LEAST_CONFIDENCE = 0.6
#: Share of words from which on a text only repeats one that was injected.
SAME_WORDS = 0.85


#: What worked matters more than what did not.
EXPERIENCE_IMPORTANCE: dict[Outcome, float] = {"success": 7, "partial": 6, "failed": 5}


@dataclass(frozen=True, slots=True)
class ExtractionSource:
    """The messages that were processed, with the ids of their turns, and by what."""

    group_id: str
    agent_id: str
    session_id: str
    messages: Sequence[Message]
    turn_ids: Sequence[UUID]
    #: Which LLM, by which prompt; ``fallback`` if the rules stood in for one that was away.
    llm: str
    prompt: str
    fallback: bool = False
    #: With which user the agent talked, if it has several.
    user_id: str | None = None

    def evidence(self, turns: Iterable[int]) -> list[UUID]:
        """Ids of the turns of messages, each once: parts of a long one are several messages."""
        return list(dict.fromkeys(self.turn_ids[turn] for turn in turns))


def worth_keeping(
    extraction: CombinedExtraction, injected: Sequence[str], least_importance: float
) -> CombinedExtraction:
    """Without what matters less, is uncertain, or only repeats what was put before the answer."""
    repeated = [set(tokens(text)) for text in injected]
    memories = [
        memory
        for memory in extraction.memories
        if memory.importance >= least_importance and not _repeats(memory.content, repeated)
    ]
    experiences = [
        experience for experience in extraction.experiences if experience.confidence >= LEAST_CONFIDENCE
    ]
    return extraction.model_copy(update={"memories": memories, "experiences": experiences})


def of_user(extraction: CombinedExtraction, messages: Sequence[Message]) -> CombinedExtraction:
    """Without memories that rest on no message of the user's: what others say is no fact of theirs."""
    users = {turn for turn, message in enumerate(messages) if message.role == "user"}
    memories = [memory for memory in extraction.memories if not users.isdisjoint(memory.turns)]
    return extraction.model_copy(update={"memories": memories})


def event_of(memory: ExtractedMemory, source: ExtractionSource) -> Event:
    """The memory as an event; its id follows from its turns and content, so each attempt gives the same.

    Raises:
        InvalidEvent: it holds what cannot be stored.
    """
    turns = sorted(set(memory.turns))
    evidence = source.evidence(turns)
    category = (memory.attribute or memory.category).partition(":")[0]
    provenance = {
        "session": source.session_id,
        "llm": source.llm,
        "prompt": source.prompt,
        "category": memory.category,
        "single_valued": memory.single_valued,
    }
    if source.fallback:
        provenance["fallback"] = True
    if memory.negative:
        provenance["negative"] = True
    payload = {
        "node_type": "event",
        "description": memory.content,
        "subject": memory.subject,
        "predicate": memory.attribute,
        "keywords": list(dict.fromkeys(memory.keywords)),
        "poignancy": memory.importance,
        "evidence": evidence,
        "provenance": provenance,
        "kind": memory.type,
        "uri": uri_of(source.agent_id, memory.type, category),
        "user_id": source.user_id,
    }
    name, at = (source.group_id, source.agent_id), said_at(source.messages, turns)
    return wire.made("memory.observed", name, at, payload, event_id=memory_id(evidence, memory.content))


def experience_event(
    experience: StoredExperience,
    name: tuple[str, str],
    evidence: Sequence[UUID],
    at: datetime,
    provenance: JsonMapping,
    user_id: str | None = None,
    visibility: Visibility | None = None,
) -> MemoryObserved:
    """An experience as the event of its memory, at the address of its problem."""
    payload = {
        "node_type": "event",
        "description": text_of(experience),
        "keywords": experience.tools_used,
        "poignancy": EXPERIENCE_IMPORTANCE[experience.outcome],
        "evidence": evidence,
        "provenance": {**provenance, "outcome": experience.outcome},
        "kind": "experience",
        "uri": uri_of(name[1], "experience", pattern_hash(experience.pain_pattern, user_id).hex()),
        "user_id": user_id,
        "visibility": visibility,
    }
    event_id = memory_id(evidence, text_of(experience)) if evidence else uuid7()
    event = wire.made("memory.observed", name, at, payload, event_id=event_id)
    assert isinstance(event, MemoryObserved)
    return event


def memory_id(evidence: Sequence[UUID], content: str) -> UUID:
    """The id of what was extracted from these turns."""
    return uuid5(evidence[-1], f"{'/'.join(map(str, evidence))} {content_digest(content).hex()}")


def said_at(messages: Sequence[Message], turns: Sequence[int]) -> datetime:
    """When the last of the turns was said."""
    return max(at for turn in turns if (at := messages[turn].at) is not None)


def waves(memories: Sequence[ExtractedMemory]) -> list[list[ExtractedMemory]]:
    """Memories in parts that are stored in turn: a later value of the same attribute in a later part."""
    parts: list[list[ExtractedMemory]] = []
    last_place: dict[tuple[str, str], int] = {}
    for memory in memories:
        place = 0
        if memory.attribute is not None and memory.single_valued:
            name = (memory.subject, memory.attribute)
            place = last_place[name] = last_place.get(name, -1) + 1
        while len(parts) <= place:
            parts.append([])
        parts[place].append(memory)
    return parts


def _repeats(content: str, repeated: Sequence[set[str]]) -> bool:
    words = set(tokens(content))
    return any(words and len(words & other) >= SAME_WORDS * len(words | other) for other in repeated)


class StoredExperience(BaseModel):
    """An experience in its stored form."""

    pain_pattern: str
    context: str = ""
    solution_steps: list[str] = []
    outcome: Outcome = "partial"
    confidence: float = 0.0
    #: How often it was reported again, or injected into a prompt.
    reuse_count: int = 0
    tools_used: list[str] = []
    industry_context: str | None = None


def pattern_hash(pain_pattern: str, user_id: str | None = None) -> bytes:
    """What experiences of the same problem are merged by; those of two users never are."""
    return content_digest(pain_pattern, user_id)


def merge_experience(
    previous: StoredExperience | None, new: ExtractedExperience | StoredExperience
) -> StoredExperience:
    """All steps of both in order, the better outcome; an experience reported again was used again."""
    if previous is None:
        return StoredExperience(**new.model_dump(include=set(_EXTRACTED_FIELDS)))
    return StoredExperience(
        pain_pattern=previous.pain_pattern,
        context=new.context or previous.context,
        solution_steps=_union(previous.solution_steps, new.solution_steps)[:MAX_STEPS],
        outcome=max(previous.outcome, new.outcome, key=OUTCOMES.index),
        confidence=max(previous.confidence, new.confidence),
        reuse_count=previous.reuse_count + 1,
        tools_used=_union(previous.tools_used, new.tools_used)[:PROFILE_ENTRIES],
        industry_context=new.industry_context or previous.industry_context,
    )


def text_of(experience: StoredExperience) -> str:
    """The experience in one text, in the language of its problem: what is found and injected."""
    labels = _LABELS[language_of(experience.pain_pattern)]
    parts = [experience.pain_pattern]
    if experience.context:
        parts.append(f"{labels['context']}{experience.context}")
    if experience.solution_steps:
        steps = (f"{number}. {step}" for number, step in enumerate(experience.solution_steps, 1))
        parts.append(labels["steps"] + "; ".join(steps))
    parts.append(labels["outcome"] + labels[experience.outcome])
    return " | ".join(parts)


def experience_of(
    description: str, overrides: JsonMapping, before: StoredExperience | None = None
) -> StoredExperience:
    """The experience of a memory's text, as :func:`text_of` writes it; any other text is the problem.

    Fields of ``given`` count before those of the text. A correction keeps what ``before`` says and it does
    not. An unknown outcome is partial.
    """
    problem, *parts = description.split(" | ")
    labels = next(
        (labels for labels in _LABELS.values() if any(part.startswith(labels["outcome"]) for part in parts)),
        _LABELS["en"],
    )
    pairs = ((name, part) for part in parts for name in _PARTS if part.startswith(labels[name]))
    texts = {name: part.removeprefix(labels[name]) for name, part in pairs}
    says: dict[str, object] = {"pain_pattern": " ".join(problem.split())[:MAX_CONTENT_CHARS]}
    if "context" in texts:
        says["context"] = texts["context"]
    if "steps" in texts:
        says["solution_steps"] = [step for step in _STEP_NUMBER.split(texts["steps"]) if step]
    if outcome := next((outcome for outcome in OUTCOMES if texts.get("outcome") == labels[outcome]), None):
        says["outcome"] = outcome
    if before is not None:
        return before.model_copy(update=says)
    with suppress(ValidationError):
        fields = {name: overrides[name] for name in _EXTRACTED_FIELDS if name in overrides}
        return StoredExperience.model_validate({"confidence": LEAST_CONFIDENCE} | says | fields, strict=True)
    return StoredExperience.model_validate({"confidence": LEAST_CONFIDENCE} | says)


_PARTS = ("context", "steps", "outcome")
_STEP_NUMBER = re.compile(r"(?:^|; )\d+\. ")
#: What is extracted of an experience: all but how often it was used.
_EXTRACTED_FIELDS = tuple(
    name for name in StoredExperience.model_fields if name in ExtractedExperience.model_fields
)
_WORDS: dict[Language, tuple[str, ...]] = {
    "en": ("Context: ", "Steps: ", "Outcome: ", "failed", "partial", "success"),
    "zh": ("背景：", "步骤：", "结果：", "失败", "部分成功", "成功"),
}
_LABELS = {
    language: dict(zip((*_PARTS, *OUTCOMES), words, strict=True)) for language, words in _WORDS.items()
}


def _union(first: Iterable[str], second: Iterable[str]) -> list[str]:
    union: dict[str, str] = {}
    for entry in (*first, *second):
        union.setdefault(normalise(entry).strip(), entry)
    return list(union.values())


def memory_of(event: MemoryObserved | TurnRecorded) -> MemoryObserved:
    """The memory that the event becomes. A turn does not advance a reflection; what is extracted will."""
    if isinstance(event, MemoryObserved):
        return event
    turn = event.payload
    weighed = triples.weigh(Poignancy.model_construct(agent_id=event.agent_id, text=turn.text))
    payload = Observation.model_construct(
        description=f"{turn.name}: {turn.text}" if turn.name else turn.text,
        subject=turn.name or turn.role,
        keywords=[],
        poignancy=float(weighed.poignancy),
        historic=True,
        kind="session",
        uri=uri_of(event.agent_id, "session", event.session_id or ""),
        user_id=turn.user_id,
        origin=turn.origin or ORIGIN_OF_ROLE[turn.role],
        provenance={**turn.provenance, "role": turn.role},
    )
    names = type(event).model_fields.keys() - {"type", "payload"}
    envelope = {name: getattr(event, name) for name in names}
    return MemoryObserved.model_construct(**envelope, payload=payload)


MAX_WORD_CHARS = 60
_COMMA = re.compile(r"[,;，；]")

_HERE, _SIGNALS = __package__, "signals.txt"


def profile_signals(messages: Sequence[Message], since: int = 0) -> ProfileSignals:
    """The signals in the user's messages from ``since`` on, newest first: only what users say of themselves.

    Topics are candidates: one message makes no topic (:func:`supported`).
    """
    texts = [
        message.text[:READ_CHARS]
        for number, message in enumerate(messages)
        if number >= since and message.role == "user"
    ]
    own_texts = [
        text for text in texts if not cue.HANDED_OVER.search(text) and not cue.ROLE_PLAY.search(text)
    ]
    own = [
        sentence
        for text in own_texts
        for sentence in sentences(text)
        if not cue.IMAGINED.search(sentence) and not cue.QUESTION_MARK.search(sentence)
    ]
    roles = _roles(own)
    lowered = "\n".join(normalise(sentence) for sentence in own)
    tools = [
        match["en"] or match["zh"]
        for sentence in own
        for match in union(_HERE, _SIGNALS, "tool").finditer(sentence)
    ]
    pains = [sentence.strip() for sentence in own if cue.TROUBLE.search(sentence)]
    return ProfileSignals(
        industry=first(unions(_HERE, _SIGNALS, "industry:"), _of_work(own)),
        role=roles[-1][:MAX_WORD_CHARS] if roles else None,
        expertise_level=first(unions(_HERE, _SIGNALS, "expertise:"), lowered),
        communication_style=cast("Style | None", first(unions(_HERE, _SIGNALS, "style:"), lowered)),
        recent_topics=_newest(topics(messages, since)),
        pain_points=_newest([pain[:500] for pain in reversed(pains)]),
        preferred_tools=_newest(list(reversed(tools))),
    )


def _roles(own: Iterable[str]) -> list[str]:
    role = union(_HERE, _SIGNALS, "role")
    matches = ((match, clause) for clause in _clauses(own) if (match := role.search(normalise(clause))))
    return [(match["en"] or match["zh"]).strip() for match, clause in matches if states(clause)]


def _clauses(own: Iterable[str]) -> Iterator[str]:
    return (clause for sentence in own for clause in _COMMA.split(sentence))


def _of_work(own: Iterable[str]) -> str:
    """The sentences about the user's own work."""
    work = union(_HERE, _SIGNALS, "work")
    return "\n".join(sentence for sentence in map(normalise, own) if work.search(sentence))


#: Messages of the user that a topic comes up in: one question is no interest.
SURE_TOPIC = 2
#: Share of the words of an entry, in other words than the user's, that one message of theirs has.
SUPPORTED_WORDS = 0.6


def supported(profile: Profile, texts: Sequence[str]) -> Profile:
    """What of a profile the user's ``texts`` (newest first) still say, or an older role that they say."""
    lowered = [normalise(text[:READ_CHARS]) for text in texts]
    own = [sentence for text in lowered for sentence in sentences(text) if not cue.IMAGINED.search(sentence)]
    role = profile.role
    if role is None or not any(_mentions(role, [clause]) and states(clause) for clause in _clauses(own)):
        role = next(iter(_roles(own)), None)
    ones = {
        "role": role and role[:MAX_WORD_CHARS],
        "industry": _standing(profile.industry, "industry:", _of_work(own)),
        "expertise_level": _standing(profile.expertise_level, "expertise:", "\n".join(own)),
        "communication_style": _standing(profile.communication_style, "style:", "\n".join(own)),
    }
    least = {"recent_topics": SURE_TOPIC, "pain_points": 1, "preferred_tools": 1}
    lists = {
        name: [entry for entry in getattr(profile, name) if _mentions(entry, lowered) >= most]
        for name, most in least.items()
    }
    return profile.model_copy(update=ones | lists)


def _standing(value: str | None, kind: str, text: str) -> str | None:
    """A value that the texts say by the patterns of its kind, or word for word."""
    pattern = unions(_HERE, _SIGNALS, kind).get(value or "")
    return value if value and (pattern.search(text) if pattern else normalise(value) in text) else None


def _mentions(entry: str, texts: Sequence[str]) -> int:
    """How many texts speak of it."""
    words = cue.subject_words(entry) or {normalise(entry).strip()}
    return sum(sum(word in text for word in words) >= SUPPORTED_WORDS * len(words) for text in texts)


def _newest(words: list[str]) -> list[str]:
    return [word for word in dict.fromkeys(words) if word.strip()][:PROFILE_ENTRIES]


#: Topics that one message gives.
TOPICS = 2
#: Telling words of an English question to the assistant ("did you sleep well?") that is about something.
ASKED_WORDS = 2

#: Jieba's parts of speech: things and names; what is done.
_NAMING, _DOING = ("n", "vn", "eng", "j"), ("v",)
_YOU = re.compile(r"[你您]")
#: How a memory calls who speaks, and what anything may be.
_GENERAL = frozenset("user users new old 用户".split())
_ADVERB = re.compile(r"[a-z]{3,40}ly")
#: The calendar, greetings and what any message may hold.
_IDLE = frozenset(word for line in sections(__package__, "signals.txt")["no_topic"] for word in line.split())
_IDLE_STEMS = cue.EMPTY | cue.NUMBERS | cue.CALENDAR | frozenset(map(stem, _IDLE))
_VERB_STEMS = frozenset(map(stem, VERBS))


def topics(messages: Sequence[Message], since: int = 0) -> list[str]:
    """What the user's messages from ``since`` on are about, the newest first, with repetitions."""
    stated = {group[0].turn for group in statements(messages, since)}
    result = []
    for turn in reversed(range(since, len(messages))):
        text = messages[turn].text[:READ_CHARS]
        if messages[turn].role != "user" or cue.HANDED_OVER.search(text) or cue.ROLE_PLAY.search(text):
            continue
        if turn in stated or _asks(text):
            result += _topics(text)
    return result


def keywords(text: str, most: int) -> list[str]:
    """What a memory names (things, people, places), the most telling first; without any, what is done."""
    naming, doing = _keywords(text)
    tags = dict(tagged_words(normalise(text)))
    alone = [word for word in single_characters(text) if tags.get(word, "").startswith(_NAMING)]
    return (list(dict.fromkeys([*naming, *alone])) or doing)[:most]


def _asks(text: str) -> bool:
    """Whether something is asked, or the assistant is to do something."""
    return any(asks.search(text) for asks in (cue.QUESTION_MARK, cue.ASKING, cue.REQUEST))


def _topics(text: str) -> list[str]:
    naming, doing = _keywords(text)
    of_assistant = cue.SECOND_PERSON.search(text) and not cue.FIRST_PERSON.search(text)
    if naming and not (of_assistant and len(naming) + len(doing) < ASKED_WORDS):
        return naming[:TOPICS]
    talks = _YOU.search(text) or cue.SECOND_PERSON.search(text)
    return doing[:TOPICS] if attribute_of(text) or (_asks(text) and not talks) else []


def _keywords(text: str) -> tuple[list[str], list[str]]:
    """Keywords that name something, and those that say what is done, the most telling first."""
    spoken = dict(tagged_words(normalise(text)))
    naming: list[str] = []
    doing: list[str] = []
    for word in keywords_ranked(text):
        idle = word in _GENERAL or word in _IDLE or stem(word) in _IDLE_STEMS
        if idle or word.isdigit() or is_filler(word) or _ADVERB.fullmatch(word):
            continue
        if CJK_CHARACTER.search(word):
            tag = spoken.get(word, "")
            of_which = naming if tag.startswith(_NAMING) else doing if tag.startswith(_DOING) else None
        else:
            of_which = doing if stem(word) in _VERB_STEMS or word.endswith(("ing", "ed")) else naming
        if of_which is not None:
            of_which.append(word)
    return naming, doing


_FIELDS: dict[Language, tuple[str, ...]] = {
    "en": ("industry", "role", "expertise", "style", "recent topics", "pain points", "tools"),
    "zh": ("行业", "角色", "专业水平", "沟通风格", "近期话题", "痛点", "常用工具"),
}
LABELS = {
    language: dict(zip(ProfileSignals.model_fields, names, strict=True))
    for language, names in _FIELDS.items()
}


def merge_profile(profile: Profile, signals: ProfileSignals) -> Profile:
    """The profile with new signals: a new value replaces the old one, lists grow at their head."""
    changed = {}
    for name in ProfileSignals.model_fields:
        new, old = getattr(signals, name), getattr(profile, name)
        changed[name] = _union(new, old)[:PROFILE_ENTRIES] if isinstance(new, list) else new or old
    return profile.model_copy(update=changed)


def lines(profile: Profile, language: Language) -> list[str]:
    """The profile in lines, without what is not known."""
    result = []
    for name, label in LABELS[language].items():
        value = getattr(profile, name)
        if value:
            result.append(f"{label}: {', '.join(value) if isinstance(value, list) else value}")
    return result
