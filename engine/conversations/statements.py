"""What the user states in their messages: no questions, requests, guesses, quotations or acting.

A sentence counts by its strength: its telling words, and more for a first person, a past tense, a name, a
number. What is strong enough carries the weaker statements of its message along. Of a question only those
clauses count that state something on their own ("I'm vegetarian, what can I cook?").
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from engine.conversations import attributes as cue
from engine.conversations.attributes import attribute_of
from engine.conversations.whose import played_turns
from engine.heads.judgements import FACTS, LASTING, MOST_TAKEN_BACK, Heads, Judged, is_vital, retires
from jiyi.protocol.conversations import Message
from jiyi.text.splitting import sentences
from jiyi.text.words import CJK, Language, is_filler, language_of, telling

#: What each thing in a sentence adds to the number of its telling words; "you" takes away.
FIRST_PERSON, THIRD_PERSON, PAST, NAME, NUMBER, TO_YOU, ANSWER = 1.5, 1.0, 0.5, 1.0, 1.0, -2.5, 1.0
#: From here on a message has something to keep: .59 of the turns of five long chats, .90 of those asked
#: about.
STRONG = 3.5
#: What says less is never kept, whatever the heads say: of 1,143 lasting rows three are as weak.
TELLING = 2.0
#: A statement about oneself in words that say little is carried along from this length on.
CARRIED, CARRIED_WORDS = 0.5, 3
#: Chinese pairs of characters overlap: as many make one word.
PAIRS_A_WORD = 2.0
#: Characters of a message that are read: a longer one is a document.
READ_CHARS = 4_000
#: An answer with fewer telling words cannot be understood without its question.
ANSWER_WORDS = 4
MAX_ASKED_CHARS = 200
#: How often a weak statement should be worth keeping that the list of attributes knows.
OF_ATTRIBUTE = 0.8
#: A statement that alone is less likely worth keeping ends nothing either: thanks, requests.
LEAST_LASTING = 0.05

_CODE = re.compile(r"(?s:```.*?(?:```|\Z))|^(?: {4}|\t|> ?|\$ |>>> |Traceback).*$", re.MULTILINE)
_CLAUSE = re.compile(
    r"(?<=[,，；;])\s*|(?<!\s)\s++[-–—]++\s+|(?<=[^\s]) (?=(?:so|but|and)"
    r" (?:what|how|where|which|can|could|should|do|is|any)\b)"
)
#: The sentence is about somebody or something else.
_OF_OTHERS = re.compile(r"(?:my|the|it|he|she|we|they)\b|[他她它]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Statement:
    """Sentences of one message that belong together.

    ``question``: the one without which it cannot be understood; ``lasting``: a preference for how to be
    answered; ``trouble``: a problem with a tool or task, no fact of the user; ``vital``: of somebody's health
    for long.
    """

    turn: int
    text: str
    language: Language
    strength: float
    question: str = ""
    lasting: bool = False
    trouble: bool = False
    vital: bool = False


def statements(
    messages: Sequence[Message], since: int = 0, heads: Heads | None = None, facts: Sequence[str] = ()
) -> list[list[Statement]]:
    """Of each message of the user from ``since`` on, what it states that is worth keeping; none without.

    With ``heads`` these judge that; without, the strength of each sentence does. ``facts`` were kept of
    earlier messages: what takes back any of it is worth keeping, too.
    """
    acting = played_turns(messages)
    called = _called({message.name for message in messages if message.name})
    by_message = [
        group
        for turn, message in enumerate(messages)
        if turn >= since and message.role == "user" and turn not in acting
        if (group := list(_of_message(turn, message, _question_before(messages, turn), called)))
    ]
    if heads is not None:
        return _worth_keeping(by_message, messages, heads, facts, called)
    strong = [[statement for statement in group if statement.strength > 0] for group in by_message]
    return [
        group
        for group in strong
        if any(statement.strength >= STRONG or statement.lasting or statement.vital for statement in group)
    ]


def _worth_keeping(
    by_message: list[list[Statement]],
    messages: Sequence[Message],
    heads: Heads,
    facts: Sequence[str],
    called: re.Pattern[str] | None,
) -> list[list[Statement]]:
    """Of each message its lasting statements; if it is lasting only as a whole, the likeliest one of them.

    And those that take back a statement that is kept: "I gave up Spanish".
    """
    before = [_said_before(messages, group[0].turn) for group in by_message]
    statement_texts = [
        [_without_address(statement.text, called) for statement in group] for group in by_message
    ]
    in_context = list(zip(before, statement_texts, strict=True))
    whole = heads.facts([(context, " ".join(texts)) for context, texts in in_context])
    alone = iter(heads.facts([(context, text) for context, texts in in_context for text in texts]))
    least, of_attribute = heads.least(FACTS, LASTING), heads.least(FACTS, LASTING, OF_ATTRIBUTE)
    chosen_groups, rest = [], list[Statement]()
    for group, message in zip(by_message, whole, strict=True):
        chances = [_chance(next(alone), statement, of_attribute) for statement in group]
        chosen = [statement for statement, chance in zip(group, chances, strict=True) if chance >= least]
        if not chosen and message is not None and message.probabilities[LASTING] >= least and any(chances):
            chosen = [group[chances.index(max(chances))]]
        chosen_groups.append(chosen)
        judged = zip(group, chances, strict=True)
        rest += [one for one, chance in judged if one not in chosen and chance >= LEAST_LASTING]
    retractions = _taking_back(
        rest, [statement for chosen in chosen_groups for statement in chosen], heads, facts
    )
    result = [
        [retractions.get(id(one), one) for one in group if one in first or id(one) in retractions]
        for group, first in zip(by_message, chosen_groups, strict=True)
    ]
    return [chosen for chosen in result if chosen]


def _taking_back(
    candidates: Sequence[Statement], chosen: Sequence[Statement], heads: Heads, facts: Sequence[str]
) -> dict[int, Statement]:
    """The statements, by their ``id()``, that take back something known, or kept of an earlier message.

    What does so is no problem with a tool: "I gave up Spanish".
    """
    pairs, whose = [], []
    for place, statement in enumerate(candidates):
        earlier = [*facts, *(other.text for other in chosen if other.turn < statement.turn)]
        pairs += [(older, statement.text) for older in earlier]
        whose += [place] * len(earlier)
    counted = Counter(place for place, is_so in zip(whose, retires(heads, pairs), strict=True) if is_so)
    taking = [candidates[place] for place, count in counted.items() if count <= MOST_TAKEN_BACK]
    return {id(statement): replace(statement, trouble=False) for statement in taking}


def _chance(judged: Judged | None, statement: Statement, of_attribute: float) -> float:
    """How likely a statement is worth keeping; preferences for answers, health, known attributes surely are.

    A weak statement with a known attribute needs only ``of_attribute``: "I like pears very much."
    """
    chance = 0.0 if judged is None else judged.probabilities[LASTING]
    if statement.lasting or statement.vital:
        return 1.0
    if statement.strength < TELLING:
        return 0.0
    is_strong = statement.strength >= STRONG or chance >= of_attribute
    return 1.0 if is_strong and attribute_of(statement.text) is not None else chance


def _said_before(messages: Sequence[Message], turn: int) -> str:
    """What the assistant, or another speaker, said right before."""
    if turn == 0:
        return ""
    before, message = messages[turn - 1], messages[turn]
    return "" if (before.role, before.name) == (message.role, message.name) else before.text[-READ_CHARS:]


def _called(names: set[str]) -> re.Pattern[str] | None:
    """Speakers who are addressed: "Thanks, Gina!" names nobody."""
    if not names:
        return None
    others = "|".join(map(re.escape, sorted(names | {name.split()[0] for name in names if name.strip()})))
    return re.compile(
        rf"(?:\A|[,，]\s*|(?<=[!！] ))(?:{others})(?=[,，.!?！。]|\Z)|(?<=hey )\w+|(?<=hi )\w+", re.IGNORECASE
    )


def _without_address(text: str, called: re.Pattern[str] | None) -> str:
    """The text without its addressee: the heads have learned from what people say to an assistant."""
    return text if called is None else called.sub("", text).lstrip(" ,，!！")


def _question_before(messages: Sequence[Message], turn: int) -> str:
    """The question that the message before ends with, if it is somebody else's and asks for a fact."""
    last = sentences(_said_before(messages, turn))[-1:]
    if not last or not cue.QUESTION_MARK.search(last[0]) or cue.OPINION_QUESTION.search(last[0]):
        return ""
    return last[0].strip()[:MAX_ASKED_CHARS]


def _of_message(
    turn: int, message: Message, question_before: str, called: re.Pattern[str] | None
) -> Iterator[Statement]:
    if cue.HANDED_OVER.search(message.text[:READ_CHARS]):
        return
    text = _CODE.sub(" ", message.text[:READ_CHARS])
    first = True
    for sentence in _lines(text):
        language = language_of(sentence)
        for part in _stated(sentence):
            trouble = cue.TROUBLE.search(part) is not None or cue.FAILED.search(part) is not None
            lasting = _is_lasting(part)
            if not lasting and cue.REQUEST.search(part):
                continue
            strength = STRONG if lasting else strength_of(_without_address(part, called), language)
            question = ""
            if first and question_before and not cue.UNSURE.search(part):
                words = _count(part, language)
                if _answers(part, words):
                    least = STRONG if words or cue.YES.search(part) else 0.0
                    strength, question = max(strength + ANSWER, least), question_before
            first = False
            vital = is_vital(part)
            yield Statement(turn, part, language, strength, question, lasting, trouble and not vital, vital)
        first = False


def _answers(text: str, words: float) -> bool:
    says = words >= 1 or cue.YES.match(text) is not None
    return words < ANSWER_WORDS and not cue.NO_STATEMENT.match(text) and says


def _lines(text: str) -> Iterator[str]:
    lines = (line.strip() for sentence in sentences(text) for line in sentence.splitlines())
    return filter(None, lines)


def _stated(sentence: str) -> Iterator[str]:
    """The parts of a sentence that state something."""
    sentence = cue.TO_KEEP.sub("", cue.TAG_QUESTION.sub("", sentence)).strip()
    masked = _without_quotations(sentence)
    if masked != sentence and (
        not telling(masked) or cue.SAYS_ONLY.search(masked) or _others_words(sentence, masked)
    ):
        return
    if cue.UNSURE.search(masked) and _count(masked, language_of(masked)) < ANSWER_WORDS:
        return
    not_so = (cue.ROLE_PLAY, cue.FICTION, cue.PASSING, cue.IMAGINED)
    if cue.REPORTED.search(sentence) or any(words.search(masked) for words in not_so):
        return
    asks = cue.QUESTION_MARK.search(masked) is not None or cue.ASKING.search(masked) is not None
    if not asks and not cue.OPEN.search(masked):
        yield masked
        return
    for clause in _CLAUSE.split(masked):
        if cue.OPEN.search(clause):
            if not clause.isascii():
                return  # 如果…，就…
        elif not asks or (
            cue.FIRST_PERSON.search(clause)
            and not cue.QUESTION_MARK.search(clause)
            and not cue.ASKING.search(clause)
        ):
            yield clause.strip(" ,，;；")


def _is_lasting(text: str) -> bool:
    """A preference for how the assistant is to answer, not a habit of the user's own ("I always swim")."""
    return cue.LASTING.search(text) is not None and not (
        cue.FIRST_PERSON.match(text.lstrip()) or _OF_OTHERS.match(text.lstrip())
    )


def strength_of(text: str, language: Language) -> float:
    """How much a sentence says; 0 if nothing that anybody would ask for."""
    count = _count(text, language)
    name, number = cue.NAME.search(text) is not None, cue.NUMBER.search(text) is not None
    if count < 1 and not (name or number):
        return CARRIED if cue.FIRST_PERSON.search(text) and len(telling(text)) >= CARRIED_WORDS else 0.0
    first = cue.FIRST_PERSON.search(text) is not None
    adds = [
        (FIRST_PERSON, first),
        (THIRD_PERSON, not first and cue.THIRD_PERSON.search(text)),
        (PAST, cue.PAST.search(text)),
        (NAME, name),
        (NUMBER, number),
        (TO_YOU, cue.SECOND_PERSON.search(text)),
    ]
    strength = count + sum(weight for weight, there in adds if there)
    return max(strength, STRONG) if number and cue.MOVED_TO.search(text) else strength


def _count(text: str, language: Language) -> float:
    """Telling words, each once; what any sentence of a chat may hold is none."""
    words = {
        word
        for word in telling(text)
        if word not in cue.EMPTY and not is_filler(word) and (len(word) > 1 or language == "zh")
    }
    pairs = sum(1 for word in words if re.match(f"[{CJK}]", word))
    return len(words) - pairs + pairs / PAIRS_A_WORD


def _others_words(sentence: str, masked: str) -> bool:
    """Whether it is hardly more than somebody's words of themselves ("she texted me 'I'm moving'")."""
    in_first_person = any(cue.FIRST_PERSON.search(quoted) for quoted in cue.QUOTED.findall(sentence))
    return in_first_person and _count(masked, language_of(masked)) < ANSWER_WORDS


def _without_quotations(sentence: str) -> str:
    """The sentence without what somebody else's words are in it; titles stay."""
    if not cue.SAYING.search(sentence):
        return sentence
    return cue.QUOTED.sub(" ", sentence)
