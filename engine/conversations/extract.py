"""What is extracted from a conversation's new messages: memories, experiences (a problem and its end),
profile signals.

What a message states is one memory, or several where it says different things of the user, each with the
weaker statements that follow it. Every memory stands alone: who said it, days as dates, and the question that
a short answer answers.

Two memories with the same subject and single-valued attribute contradict each other. With the heads every
pair of memories of one subject is judged; without them only the same attribute counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from engine.conversations import attributes as cue
from engine.conversations.attributes import (
    CALENDAR,
    FIRST_PERSON,
    NUMBERS,
    Attribute,
    attribute_of,
    person_in,
    subject_words,
    with_pronoun,
)
from engine.conversations.endings import TimedMessage, find_endings
from engine.conversations.memories import keywords, profile_signals
from engine.conversations.statements import READ_CHARS, Statement, statements
from engine.heads import judgements
from engine.heads.judgements import ANY, ATTRIBUTES, Heads, said_of
from engine.providers.questions import Extraction, KnownFact, Poignancy
from engine.rules.triples import weigh
from engine.text.statements import CHANGE
from engine.times.past import with_dates
from jiyi.protocol.conversations import (
    MAX_CONTENT_CHARS,
    MAX_EXPERIENCES,
    MAX_MEMORIES,
    MAX_STEPS,
    Category,
    CombinedExtraction,
    ExtractedExperience,
    ExtractedMemory,
    Message,
    Outcome,
)
from jiyi.text.sections import first, unions
from jiyi.text.splitting import sentences
from jiyi.text.words import CJK_CHARACTER, stem, telling

KEYWORDS = 5
#: Of memories without an attribute, and of preferences for how to be answered.
ORDINARY, LASTING = 3.0, 7.0
#: Messages before one in which somebody was named whom a pronoun means.
LOOK_BACK = 6

_CLAUSE = re.compile(r"(?<=[,，;；])|(?= and \w)", re.IGNORECASE)
_AND = re.compile(r"[\s,，;；]{0,9}(?:and |而且|并且|另外|还有)?", re.IGNORECASE)
_PRONOUN = re.compile(r"\b(?:he|she|his|her)\b|[他她](?!们)", re.IGNORECASE)


def extract(question: Extraction, heads: Heads | None = None) -> CombinedExtraction:
    """The memories, experiences and signals in the messages from ``question.since`` on.

    With ``heads`` these judge what is worth keeping, of which kind it is, and what it does to what is known.
    """
    messages = question.messages
    lived = experiences(messages, question.since)
    solved = {turn for experience in lived for turn in experience.turns}
    memories: list[ExtractedMemory] = []
    person = None
    for stated in statements(
        messages, question.since, heads, [judgements.stated(fact.content) for fact in question.known]
    ):
        # A problem is kept with what solved it.
        facts = [statement for statement in stated if not (statement.trouble or statement.turn in solved)]
        person = _person_before(messages, stated[0].turn) or person
        for attribute, group in _groups(facts, person):
            memories.append(_memory(attribute, group, messages[group[0].turn], person))
    return CombinedExtraction(
        memories=link_facts(_of_kinds(memories[:MAX_MEMORIES], heads), question.known, heads),
        experiences=lived[:MAX_EXPERIENCES],
        profile_signals=profile_signals(messages, question.since),
    )


def _of_kinds(memories: list[ExtractedMemory], heads: Heads | None) -> list[ExtractedMemory]:
    """With the kind, and the attribute where the list has none, that the heads are sure of."""
    if heads is None:
        return memories
    contents = [("", said_of(memory.content)) for memory in memories]
    least = heads.least(ATTRIBUTES, ANY)
    result = []
    judged = zip(memories, heads.kinds(contents), heads.attributes(contents), strict=True)
    for memory, kind, attribute in judged:
        update: dict[str, str] = {}
        if memory.attribute is None:
            if attribute is not None and attribute.probability >= least and attribute.label != "other":
                update["attribute"] = attribute.label
            if kind is not None:
                update["type"] = "preference" if kind.label == "preference" else "knowledge"
        result.append(memory.model_copy(update=update))
    return result


def _person_before(messages: Sequence[Message], turn: int) -> str | None:
    """Whom a pronoun in this message means, going by the user's messages up to it."""
    latest = messages[max(0, turn - LOOK_BACK) : turn + 1]
    own = [message.text for message in latest if message.role == "user"]
    return next((person for text in reversed(own) if (person := person_in(text))), None)


def _groups(
    statements: list[Statement], person: str | None
) -> list[tuple[Attribute | None, list[Statement]]]:
    """Statements of one message by what they say; those without an attribute belong to the one before."""
    groups: list[tuple[Attribute | None, list[Statement]]] = []
    for part in (part for statement in statements for part in _parts(statement, person)):
        attribute = attribute_of(part.text, person)
        current = groups[-1][0] if groups else None
        names = {(one.name, one.subject) for one in (attribute, current) if one is not None}
        if groups and (attribute is None or current is None or len(names) == 1):
            groups[-1] = (current or attribute, [*groups[-1][1], part])
        else:
            groups.append((attribute, [part]))
    return groups


def _parts(statement: Statement, person: str | None) -> list[Statement]:
    """A statement cut before each clause that says something else of the user: their name, then their job."""
    parts: list[str] = []
    before: Attribute | None = None
    for part in _CLAUSE.split(statement.text):
        clause, attribute = _own(part, statement.text, before, person)
        single = attribute is not None and attribute.single_valued and attribute.name
        if before is not None and before.single_valued and single and single != before.name:
            parts.append(clause)
            before = attribute
        else:
            parts = [*parts[:-1], "".join([*parts[-1:], clause])]
            before = before or attribute
    if len(parts) < 2:
        return [statement]
    return [replace(statement, text=_without_and(part).rstrip(" ,，;；")) for part in parts]


def _without_and(clause: str) -> str:
    return clause[_AND.match(clause).end() :]  # type: ignore[union-attr] # it matches nothing, too


def _own(
    clause: str, sentence: str, before: Attribute | None, person: str | None
) -> tuple[str, Attribute | None]:
    """What a clause says of the user, if they speak in it or in its sentence ("I live and work here")."""
    stripped = _without_and(clause)
    if FIRST_PERSON.match(stripped):
        return clause, attribute_of(stripped, person)
    if before is None or before.subject != "user":
        return clause, None
    return with_pronoun(stripped, sentence) or (clause, None)


def _memory(
    attribute: Attribute | None, group: list[Statement], message: Message, person: str | None
) -> ExtractedMemory:
    text = " ".join(statement.text for statement in group)
    lasting = any(statement.lasting for statement in group)
    vital = any(statement.vital for statement in group)
    chinese = group[0].language == "zh"
    who = message.name or ("用户" if chinese else "User")
    description = with_dates(text, message.at)
    if person and not person_in(text):
        description = _PRONOUN.sub(lambda match: f"{match.group()} ({person})", description, count=1)
    if question := group[0].question:
        description = (
            f"（被问“{question}”）{description}" if chinese else f'(asked "{question}") {description}'
        )
    content = f"{who}：{description}" if chinese else f"{who}: {description}"
    preference = lasting if attribute is None else attribute.category == "user_preference"
    subject = "user" if attribute is None else attribute.subject
    importance = attribute.importance if attribute else 0.0
    poignancy = weigh(Poignancy(agent_id="", text=text)).poignancy
    return ExtractedMemory(
        content=content[:MAX_CONTENT_CHARS],
        type="preference" if preference else "knowledge",
        category=category_of(attribute, text, preference=preference),
        keywords=keywords(text, KEYWORDS),
        importance=max(importance, LASTING if lasting or vital else ORDINARY, poignancy),
        subject=message.name or "user" if subject == "user" else subject,
        attribute=attribute.name if attribute else None,
        single_valued=attribute is not None and one_value(attribute, text),
        turns=[group[0].turn],
        negative=attribute is not None and attribute.over,
    )


def category_of(attribute: Attribute | None, text: str, *, preference: bool) -> Category:
    """The category of a statement in these words."""
    says = None if attribute is not None else first(unions(__package__, "cues.txt", "says:"), text)
    return cast("Category", says or ("user_preference" if preference else "user_fact"))


def one_value(attribute: Attribute, text: str) -> bool:
    """Whether the latest statement holds; what somebody likes changes by a word of change only."""
    return attribute.single_valued and (
        not attribute.name.startswith("likes:") or CHANGE.search(text) is not None
    )


#: Confidence of an experience whose end the user confirms, and what each thing known of it adds.
CONFIDENCE, WITH_STEPS, WITH_TOOLS = 0.6, 0.2, 0.1
#: Messages between a problem and its end at most: later ones are about something else.
MAX_BETWEEN = 16
MAX_STEP_CHARS = 300

_LIST_ITEM = re.compile(r"^[^\S\n]*+(?:\d++[.)、]|[-*•])[^\S\n]++(?P<step>.+)$", re.MULTILINE)
_TOOL = re.compile(
    r"(?<!error )(?<!code )(?<!fault"
    r" )\b(?:[A-Z][\w+#-]{0,38}[a-z0-9]|[a-z]{1,20}[-_.][a-z][\w-]{0,20}|[A-Z]{2,20}\w{0,20})\b"
)
_FIRST_WORD = re.compile(r"(?:^|(?<=[.!?;:] ))\W{0,9}[A-Za-z]+\b")
_NO_TOOL = frozenset(
    "I The It This That My We When After Then But And So OK Now Still Thanks Yes No What How".split()
)


@dataclass
class _OpenProblem:
    text: str
    turns: list[int]
    steps: list[str] = field(default_factory=list)

    def hear(self, turn: int, sentence: str) -> Outcome | None:
        """Take in the next sentence of the user; how it ended, if it did with it."""
        outcome = _outcome(sentence)
        if outcome is None and cue.TROUBLE.search(sentence):
            return None
        if cue.STEP.search(sentence) and outcome != "failed":
            self.steps.append(_one_line(sentence))
        if outcome is not None and turn not in self.turns:
            self.turns.append(turn)
        return None if outcome == "failed" and not cue.GAVE_UP.search(sentence) else outcome


def experiences(messages: Sequence[Message], since: int = 0) -> list[ExtractedExperience]:
    """Problems that ended in a message from ``since`` on; they may have begun before."""
    result: list[ExtractedExperience] = []
    problem: _OpenProblem | None = None
    advice: list[str] = []
    for turn, message in enumerate(messages):
        text = message.text[:READ_CHARS]
        if message.role == "assistant":
            items = list(_LIST_ITEM.finditer(text))[:MAX_STEPS]
            advice = [match["step"].strip()[:MAX_STEP_CHARS] for match in items]
        if message.role != "user" or cue.HANDED_OVER.search(text):
            continue
        for sentence in map(str.strip, sentences(text)):
            if problem is None:
                problem = _begun(turn, sentence)
            elif (outcome := problem.hear(turn, sentence)) is not None:
                if turn >= since:
                    result.append(_experience(problem, outcome, advice))
                problem = None
        if problem is not None and turn - problem.turns[0] > MAX_BETWEEN:
            problem = None
    return result


def _begun(turn: int, sentence: str) -> _OpenProblem | None:
    if (
        cue.TROUBLE.search(sentence) is None
        or cue.IMAGINED.search(sentence)
        or _outcome(sentence) is not None
    ):
        return None
    return _OpenProblem(_one_line(sentence), [turn])


def _outcome(sentence: str) -> Outcome | None:
    if cue.QUESTION_MARK.search(sentence) or cue.IMAGINED.search(sentence):
        return None
    if cue.FAILED.search(sentence):
        return "failed"
    if cue.SOLVED.search(sentence):
        return "partial" if cue.PARTLY.search(sentence) else "success"
    return "partial" if cue.PARTLY.search(sentence) and cue.TROUBLE.search(sentence) else None


def _experience(problem: _OpenProblem, outcome: Outcome, advice: list[str]) -> ExtractedExperience:
    steps = list(dict.fromkeys(problem.steps or advice))[:MAX_STEPS]
    # A step begins with what is done, not with a tool.
    text = " ".join([problem.text, *(_FIRST_WORD.sub("", step) for step in steps)])
    tools = list(dict.fromkeys(word for word in _TOOL.findall(text) if word not in _NO_TOOL))[:5]
    return ExtractedExperience(
        pain_pattern=problem.text,
        context="",
        solution_steps=steps,
        outcome=outcome,
        confidence=min(1.0, CONFIDENCE + (WITH_STEPS if steps else 0.0) + (WITH_TOOLS if tools else 0.0)),
        tools_used=tools,
        turns=problem.turns,
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())[:MAX_CONTENT_CHARS]


#: In a text of more telling words a word of change is about one thing of many.
MOST_WORDS_OF_CHANGE = 30
#: Words for the change itself, which name nothing.
_OF_CHANGE = frozenset(
    map(
        stem,
        """move moved change changed switch switched quit stop stopped sold sell postpone postponed
    reschedule rescheduled push pushed shift shifted replace replaced cancel cancelled canceled swap swapped
    finish finished drop dropped start started longer anymore actually turn turns used 取消 推迟 提前 不再
    其实 改成 改到 换成 换了 后来 卖了 分手 离职 辞职 退休 一个 那个 这个 两个 每天 有点 已经 自己
    家 住""".split(),
    )
)


def link_facts(
    memories: Sequence[ExtractedMemory], facts: Sequence[KnownFact], heads: Heads | None = None
) -> list[ExtractedMemory]:
    """The memories with the numbers of the known facts that they supersede."""
    if heads is not None:
        return _judged(memories, facts, heads)
    result: list[ExtractedMemory] = []
    for memory in memories:
        superseded = [number for number, fact in enumerate(facts) if _contradict(memory, fact)]
        newer = memory.model_copy(update={"supersedes": superseded}) if superseded else memory
        result.append(_unless_repeated(newer, result, facts))
    return result


def _judged(
    memories: Sequence[ExtractedMemory], facts: Sequence[KnownFact], heads: Heads
) -> list[ExtractedMemory]:
    """As :func:`link_facts`, by what the heads say of each new memory after each earlier one of its subject.

    Of the same single-valued attribute less is enough, and another value in the same words ("I live in
    Lisbon" after "I live in Porto") always is.
    """
    chances = _chances(memories, facts, heads)
    result: list[ExtractedMemory] = []
    for place, memory in enumerate(memories):
        earlier: list[ExtractedMemory | KnownFact] = [*facts, *result]
        rivals = [other for other in earlier if _contradict(memory, other)]
        newer = memory
        of_rivals = 0.0 if rivals and _another_value(memory, rivals[-1]) else judgements.EXPECTED
        if rivals and not any(chances.get((_key(other), place), 0.0) >= of_rivals for other in rivals):
            newer = memory.model_copy(update={"single_valued": False})
        of_attribute = {number for number, fact in enumerate(facts) if _contradict(newer, fact)}
        chance = [chances.get((_key(fact), place), 0.0) for fact in facts]
        retired = [number for number in of_attribute if chance[number] >= of_rivals]
        judged = [number for number in _ended_by(memory, facts, heads) if number not in of_attribute]
        retired += judged if len(judged) <= judgements.MOST_TAKEN_BACK else []
        if retired:
            newer = newer.model_copy(update={"supersedes": sorted(retired)})
        result.append(newer)
    return result


def _ended_by(memory: ExtractedMemory, facts: Sequence[KnownFact], heads: Heads) -> list[int]:
    """Numbers of the known facts of the same subject that a memory surely ends, as messages do."""
    numbers = [number for number, fact in enumerate(facts) if fact.subject == memory.subject]
    older = [TimedMessage(_key(facts[number])) for number in numbers]
    ends = find_endings(older, TimedMessage(_key(memory)), heads)
    whole = [end for end in ends if end.sure and 2 * (end.span[1] - end.span[0]) > len(older[end.old].text)]
    return sorted({numbers[end.old] for end in whole})


def _chances(
    memories: Sequence[ExtractedMemory], facts: Sequence[KnownFact], heads: Heads
) -> dict[tuple[str, int], float]:
    """How likely each new memory (by its place) retires each earlier one (by what it says) of its subject."""
    pairs, places = [], []
    for place, memory in enumerate(memories):
        earlier: list[ExtractedMemory | KnownFact] = [*facts, *memories[:place]]
        for other in earlier:
            older, newer = _key(other), _key(memory)
            if other.subject == memory.subject:
                pairs.append((older, newer))
                places.append((older, place))
    return dict(zip(places, judgements.chances(heads, pairs), strict=True))


def _key(memory: ExtractedMemory | KnownFact) -> str:
    return judgements.stated(memory.content)


def _unless_repeated(
    memory: ExtractedMemory, earlier: Sequence[ExtractedMemory], facts: Sequence[KnownFact]
) -> ExtractedMemory:
    """Without a word of change, what says something else of the attribute, or the same, ends nothing."""
    if not (memory.single_valued and memory.attribute) or _is_change(memory.content):
        return memory
    # A value that comes back is compared with what was said last.
    same: Sequence[ExtractedMemory | KnownFact] = [
        other for other in earlier if _same_attribute(other, memory)
    ][-1:]
    same = same or [other for other in facts if _same_attribute(other, memory)]
    if not same or (
        not memory.attribute.startswith("time:") and all(_another_value(memory, other) for other in same)
    ):
        return memory
    return memory.model_copy(update={"single_valued": False, "supersedes": []})


def _same_attribute(older: ExtractedMemory | KnownFact, newer: ExtractedMemory) -> bool:
    return (older.subject, older.attribute) == (newer.subject, newer.attribute)


def _is_change(content: str) -> bool:
    return CHANGE.search(content.lower()) is not None and len(telling(content)) <= MOST_WORDS_OF_CHANGE


def _another_value(memory: ExtractedMemory, other: ExtractedMemory | KnownFact) -> bool:
    """Whether two statements of one attribute have the same wording, with nothing in common beside."""
    mine, theirs = attribute_of(said_of(memory.content)), attribute_of(said_of(other.content))
    if mine is None or theirs is None or mine.wording != theirs.wording:
        return False
    if mine.name == "job" and mine.subject != "user":
        return False  # of others one hears employer, place and title in turn
    values = _words(memory.content) - _words(mine.phrase), _words(other.content) - _words(theirs.phrase)
    if not all(values):  # the value is in what the pattern found: a nurse
        values = _words(mine.phrase), _words(theirs.phrase)
    return values[0].isdisjoint(values[1])


def _contradict(memory: ExtractedMemory, other: ExtractedMemory | KnownFact) -> bool:
    return memory.single_valued and memory.attribute is not None and _same_attribute(other, memory)


def _words(text: str) -> set[str]:
    """What a statement is about, in words: without days, numbers and the words of the change itself."""
    return {
        word
        for word in subject_words(said_of(text))
        if word not in NUMBERS
        and word not in _OF_CHANGE
        and not any(char.isdigit() for char in word)
        and not (CJK_CHARACTER.match(word) and any(day in word for day in CALENDAR))
    }
