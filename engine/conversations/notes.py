"""What an LLM is asked about new messages, and what of its answer becomes a memory.

An LLM proposes statements; structure decides, as it does for the rules. A statement is kept if it shares
words, or meaning, with what the user says of their own in the messages that it names. Subject, kind and
attribute are read from these messages. Where structure agrees that a known statement is over, it is; else it
is shown as earlier, with the newer one. Health is never concluded, and ends only by what names that very
thing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, Field, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic.json_schema import SkipJsonSchema

from engine.conversations import attributes as cue
from engine.conversations.endings import MessagePart, live_parts
from engine.conversations.extract import category_of, link_facts, one_value
from engine.conversations.gate import GATES, copies, shared_words, unknown_names, words_of
from engine.conversations.memories import keywords, profile_signals
from engine.heads.judgements import Heads, concerns_health, is_vital, said_of
from engine.providers.questions import AboutLines, KnownFact
from jiyi.protocol.conversations import (
    MAX_CONTENT_CHARS,
    MAX_KEYWORDS,
    CombinedExtraction,
    Content,
    ExtractedExperience,
    ExtractedMemory,
    Message,
    Outcome,
    Word,
)
from jiyi.protocol.numbered import LineNumber, StatementNumber

#: Statements of one answer, experiences, and what all of them together may end.
MOST_NOTES, MOST_EXPERIENCES, MOST_ENDS = 60, 5, 3
#: Known statements that an LLM is shown with new messages.
MOST_SHOWN = 12
#: Share of a statement's words that messages have, with what is known or alone, if they say it.
SAME_WORDS, SOME_WORDS = 0.5, 0.3
#: Words, at least, that a statement has from the user's messages: of others known, unknown, of health.
OWN_WORD, OWN_WORDS, OWN_WORDS_OF_HEALTH = 1, 2, 3
#: Probability of being of different things, by the head of changes, from which on they are.
UNRELATED = 0.5
#: A shorter answer is understood by the question before it. Telling words.
ANSWER_WORDS = 3
#: Confidence of an experience that an LLM found: as much as one whose end the user confirms, with steps.
CONFIDENCE = 0.8

Lines = Annotated[
    list[LineNumber], Field(min_length=1, max_length=20, description="Lines that say it, such as L12.")
]


class Note(BaseModel):
    """A statement that an LLM proposes."""

    content: Content = Field(
        description=(
            "One sentence in the language of the line, understood by itself: who, days as dates, and the"
            " reason if it is given."
        )
    )
    type: Literal["preference", "knowledge"] = Field(
        "knowledge", description="preference: likes, habits, wishes for how to be answered."
    )
    about: Word = Field("user", description="Whom it is about: user, or a name, or such as user's sister.")
    importance: float = Field(
        5, ge=1, le=10, description="From 1, mundane, over 5, a habit, to 10, an allergy."
    )
    lines: Lines
    ends: list[StatementNumber] = Field(
        [], max_length=20, description="Statements that are no longer so, such as S3; each once."
    )


class Noted(BaseModel):
    """An LLM's answer: what of it has the right form counts, entry by entry."""

    memories: list[Note] = Field([], max_length=MOST_NOTES)
    #: How many entries had another form.
    unusable: SkipJsonSchema[int] = 0

    @model_validator(mode="wrap")
    @classmethod
    def _each(cls, data: Any, handler: ModelWrapValidatorHandler[Noted]) -> Noted:
        entries = data.get("memories") if isinstance(data, dict) else None
        if not isinstance(entries, list):
            return handler(data)
        usable = [entry for entry in entries if _fits(Note, entry)]
        if entries and not usable:
            return handler(data)  # says what is wrong
        answer = handler({**data, "memories": usable[:MOST_NOTES]})
        answer.unusable = len(entries) - len(answer.memories)
        return answer


def _fits(form: type[BaseModel], entry: Any) -> bool:
    if isinstance(entry, form):
        return True
    try:
        form.model_validate(entry)
    except ValidationError:
        return False
    return True


class Notes(AboutLines[Noted]):
    """Which statements about people do the new lines make that are worth remembering?"""

    prompt: ClassVar[str] = "extraction"
    answer: ClassVar[type[BaseModel]] = Noted

    #: Current facts: not to be given again, perhaps to be ended.
    known: list[KnownFact] = Field(default_factory=list)

    @property
    def statements(self) -> list[str]:
        return [fact.content for fact in self.known]


def _without_copies(question: Notes, answer: Noted) -> Noted | str:
    """Statements out of our own prompt are none."""
    notes = [note for note in answer.memories if not copies(note.content, question)]
    if answer.memories and not notes:
        return "it repeats the prompt itself"
    return answer.model_copy(update={"memories": notes})


GATES[Notes] = _without_copies


class Lived(BaseModel):
    """A problem, what was done about it, and how that ended."""

    problem: Content = Field(description="The problem in one sentence, in the user's language.")
    steps: list[Content] = Field(max_length=20, description="What was done about it, in order.")
    outcome: Outcome = Field(description="How it ended.")
    tools: list[Word] = Field([], max_length=10, description="Tools that were used, as they are named.")
    lines: Lines


class LivedThrough(BaseModel):
    experiences: list[Lived] = Field([], max_length=MOST_EXPERIENCES)


class Experiences(AboutLines[LivedThrough]):
    """Which problems did somebody have, and how did they end?"""

    prompt: ClassVar[str] = "experiences"
    answer: ClassVar[type[BaseModel]] = LivedThrough


def nearest_facts(
    known_facts: Sequence[KnownFact], messages: Sequence[Message], heads: Heads | None
) -> list[int]:
    """Numbers of at most :data:`MOST_SHOWN` known facts that users' messages are likeliest to repeat or end.

    First those with an attribute of the messages, then in turn those that share most words and those that
    mean most nearly the same: what is over is seldom said in the words in which it was so.
    """
    if len(known_facts) <= MOST_SHOWN:
        return list(range(len(known_facts)))
    texts = [message.text for message in messages if message.role == "user"]
    attributes = {
        part.attribute.name for text in texts for part in live_parts(text) if part.attribute is not None
    }
    whole, facts = "\n".join(texts), [said_of(fact.content) for fact in known_facts]
    by_attribute = [number for number, fact in enumerate(known_facts) if fact.attribute in attributes]
    words = [len(shared_words(fact, whole)) for fact in facts]
    similarities = (
        [max(of_fact) for of_fact in zip(*(heads.similarities(text, facts) for text in texts), strict=True)]
        if heads and texts
        else words
    )
    by_words, by_meaning = (
        sorted(range(len(known_facts)), key=shares.__getitem__, reverse=True)
        for shares in (words, similarities)
    )
    in_turn = (number for pair in zip(by_words, by_meaning, strict=True) for number in pair)
    return sorted(list(dict.fromkeys([*by_attribute, *in_turn]))[:MOST_SHOWN])


def reports_problem(messages: Sequence[Message], since: int) -> bool:
    """Whether to ask for experiences: somebody had trouble, and a new message says how it ended."""
    trouble = any(cue.TROUBLE.search(message.text) for message in messages if message.role == "user")
    new = [message.text for message in messages[since:] if message.role == "user"]
    return trouble and any(ends.search(text) for text in new for ends in (cue.SOLVED, cue.FAILED, cue.PARTLY))


def accept_answers(
    notes: Noted,
    lived: LivedThrough,
    question: Notes,
    heads: Heads | None,
    visible: Sequence[int] | None = None,
) -> tuple[CombinedExtraction, int]:
    """What of an LLM's answers becomes memories and experiences, and how many of the entries do not.

    ``visible``: numbers of the known facts that the LLM was shown, in that order; None: all. The profile is
    read by the rules.
    """
    messages, since = question.messages, question.since
    memories, shadows = list[ExtractedMemory](), list[ExtractedMemory]()
    ends = list[tuple[MessagePart, Sequence[int]]]()
    numbers = range(len(question.known)) if visible is None else visible
    visible_question = question.model_copy(update={"known": [question.known[number] for number in numbers]})
    for note in notes.memories:
        new = (line for line in dict.fromkeys(note.lines) if since <= line < len(messages))
        lines = [line for line in new if messages[line].role == "user"]
        if (part := _part_stating(note, lines, visible_question, heads)) is not None:
            memory = _memory(note, lines, part, messages[lines[-1]])
            memories.append(memory)
            # As the rules would have it, in the user's words: these structure and the heads can read.
            shadows.append(memory.model_copy(update={"content": f"User: {part.context}"[:MAX_CONTENT_CHARS]}))
            ends.append((part, [numbers[number] for number in note.ends if 0 <= number < len(numbers)]))
    remaining = MOST_ENDS
    for place, shadow in enumerate(link_facts(shadows, question.known, heads)):
        memory, (part, proposed) = memories[place], ends[place]
        facts = {number: question.known[number] for number in proposed}
        # Statements about other people take nothing back.
        speaker = messages[memory.turns[-1]].name or "user"
        of_others = part.relations and memory.subject == speaker
        also = [] if of_others else [number for number, fact in facts.items() if _takes_back(memory, fact)]
        every = list(dict.fromkeys([*shadow.supersedes, *also]))[:remaining]
        remaining -= len(every)
        rest = [
            number
            for number, fact in facts.items()
            if number not in every and _may_end(memory, part, fact, speaker)
        ][:remaining]
        remaining -= len(rest)
        changes = {"single_valued": shadow.single_valued, "supersedes": every, "may_end": rest}
        memories[place] = memory.model_copy(update=changes)
    candidates = (_experience(entry, messages, since) for entry in lived.experiences)
    experiences = [experience for experience in candidates if experience is not None]
    dropped = notes.unusable + len(notes.memories) - len(memories) + len(lived.experiences) - len(experiences)
    signals = profile_signals(messages, since)
    return CombinedExtraction(memories=memories, experiences=experiences, profile_signals=signals), dropped


def _part_stating(
    note: Note, lines: Sequence[int], question: Notes, heads: Heads | None
) -> MessagePart | None:
    """The part of the user's messages that says most of a statement; None if they do not say it."""
    messages, content = question.messages, note.content
    known_text = "\n".join(said_of(fact.content) for fact in question.known)
    texts = [f"{message.name or ''} {message.text}" for message in messages]
    if unknown_names(content, "\n".join([*texts, known_text])):
        return None
    about, of_health = words_of(content), concerns_health(content) is not False
    parts, questions = list[MessagePart](), list[str]()
    for line in lines:
        own = [part for part in live_parts(messages[line].text) if not cue.IMAGINED.search(part.context)]
        short = any(len(part.words) <= ANSWER_WORDS for part in own)
        if short and line and messages[line - 1].role == "assistant":
            questions.append(messages[line - 1].text)
        parts += own
    user_text = "\n".join([*dict.fromkeys(part.context for part in parts), *questions])
    shared, with_known = (
        len(shared_words(content, user_text)),
        len(shared_words(content, f"{user_text}\n{known_text}")),
    )
    # That something which the message names has ended is no inference: "the doc says no more labetalol".
    ended = [question.known[number] for number in note.ends if 0 <= number < len(question.known)]
    is_named = any((_named(fact, user_text) & about) - words_of(note.about) for fact in ended)
    says_health = any(map(_of_health, parts)) or any(map(concerns_health, questions))
    if of_health and not (is_named or says_health or shared >= OWN_WORDS_OF_HEALTH):
        return None
    mostly_known = shared >= OWN_WORD and with_known >= SAME_WORDS * len(about)
    some = shared >= OWN_WORDS and shared >= SOME_WORDS * len(about)
    is_enough = some or shared >= SAME_WORDS * len(about)
    if not (mostly_known or is_enough or any(_means(part.context, content, heads) for part in parts)):
        return None
    return max(parts, key=lambda part: len(shared_words(content, part.clause.text)), default=None)


def _of_health(part: MessagePart) -> bool:
    """Whether a part of a message is about somebody's health, or what they must not eat."""
    attribute = part.attribute
    return concerns_health(part.context) is not False or (
        attribute is not None and attribute.name.partition(":")[0] in _HEALTH
    )


def _means(text: str, content: str, heads: Heads | None) -> bool:
    """Whether a statement is of what a message says, in other words."""
    judged = heads.changes([(text, content)])[0] if heads is not None else None
    return judged is not None and judged.probabilities["unrelated"] < UNRELATED


def _memory(note: Note, lines: list[int], part: MessagePart, message: Message) -> ExtractedMemory:
    """A statement with what structure reads in the part of the message that says it."""
    attribute = part.attribute
    subject = note.about
    if attribute is not None and (attribute.subject != "user" or subject.lower() in _USER):
        subject = attribute.subject
    if subject.lower() in _USER:
        subject = message.name or "user"
    preference = note.type == "preference"
    if attribute is not None:
        preference = attribute.category == "user_preference"
    return ExtractedMemory(
        content=note.content,
        type="preference" if preference else "knowledge",
        category=category_of(attribute, part.context, preference=preference),
        keywords=keywords(note.content, MAX_KEYWORDS),
        importance=max(note.importance, attribute.importance if attribute is not None else 0.0),
        subject=subject,
        attribute=None if attribute is None else attribute.name,
        single_valued=attribute is not None and one_value(attribute, part.context),
        turns=lines,
        negative=attribute is not None and attribute.over,
    )


_HEALTH = frozenset({"allergy", "diet", "health"})
_USER = frozenset({"user", "the user", "用户", "me", "i", "我"})


def _takes_back(memory: ExtractedMemory, fact: KnownFact) -> bool:
    """Whether an LLM may take back a known statement: of its subject and attribute, and not of health."""
    mine, theirs = (memory.subject, memory.attribute), (fact.subject, fact.attribute)
    same = memory.attribute is not None and mine == theirs
    return same and concerns_health(said_of(fact.content)) is False and not is_vital(fact.content)


def _may_end(memory: ExtractedMemory, part: MessagePart, fact: KnownFact, speaker: str) -> bool:
    """Whether a statement that an LLM ends is shown as earlier: it is of nobody else, and not of health.

    Of health it is if the user's message names that very thing, other than whom it is about.
    """
    subject, words = fact.subject or speaker, said_of(fact.content)
    if memory.subject == speaker and part.headed:  # it is about somebody else
        return False
    if subject != memory.subject and subject.lower() not in memory.content.lower():
        return False
    if concerns_health(words) or is_vital(fact.content):
        return bool(_named(fact, part.context) - words_of(speaker))
    return True


def _named(fact: KnownFact, text: str) -> frozenset[str]:
    """What a message names of a known statement, other than whom it is about."""
    return shared_words(said_of(fact.content), text) - words_of(fact.subject or "")


def _experience(entry: Lived, messages: Sequence[Message], since: int) -> ExtractedExperience | None:
    """None if no message says so, or none of them is new."""
    lines = [line for line in dict.fromkeys(entry.lines) if 0 <= line < len(messages)]
    user_text = "\n".join(messages[line].text for line in lines if messages[line].role == "user")
    if not any(line >= since for line in lines) or not shared_words(entry.problem, user_text):
        return None
    return ExtractedExperience(
        pain_pattern=entry.problem,
        solution_steps=entry.steps,
        outcome=entry.outcome,
        confidence=CONFIDENCE,
        tools_used=entry.tools,
        turns=lines,
    )
