"""What the new messages of a conversation tell, found by rules: no model, the same answer each time.

What a message states is one memory, or several where it says different things of the user, each with the weaker statements
that follow it. Every memory stands alone: who said it, days as dates, and the question that a short answer answers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from engine.conversations.extraction.attributes import Attribute, attribute_of, person_in
from engine.conversations.extraction.changes import linked
from engine.conversations.extraction.problems import experiences
from engine.conversations.extraction.profile_signals import profile_signals
from engine.conversations.extraction.statements import Statement, statements
from engine.conversations.extraction.topics import keywords
from engine.conversations.extraction.words import FIRST_PERSON
from engine.heads.judgements import ANY, ATTRIBUTES, Heads
from engine.heads.retiring import said_of
from engine.providers.llms.questions import Extraction, Poignancy
from engine.providers.llms.rules.english import VERBS
from engine.providers.llms.rules.poignancy import weigh
from engine.text.changes import CHANGE
from engine.times.anchored import with_dates
from jiyi.protocol.conversations.types import MAX_CONTENT_CHARS, MAX_EXPERIENCES, MAX_MEMORIES, CombinedExtraction, ExtractedMemory, Message

#: Keywords of a memory.
KEYWORDS = 5
#: Of memories without an attribute, and of wishes for how to be answered.
ORDINARY, LASTING = 3.0, 7.0
#: Messages before one in which somebody was named whom a pronoun means.
LOOK_BACK = 6

_CLAUSE = re.compile(r"(?<=[,，;；])|(?= and \w)", re.IGNORECASE)
_AND = re.compile(r"[\s,，;；]{0,9}(?:and )?", re.IGNORECASE)
#: Who speaks of themselves, and may leave the pronoun out in the clauses that follow.
_I = re.compile(r"\W{0,9}(?:(?P<en>i)\b|(?P<zh>我)(?![的家们]))", re.IGNORECASE)
_PRONOUN = re.compile(r"\b(?:he|she|his|her)\b|[他她](?!们)", re.IGNORECASE)


def extract(question: Extraction, heads: Heads | None = None) -> CombinedExtraction:
    """The memories, experiences and signals in the messages from ``question.since`` on; what an assistant says is no fact of the user.

    With ``heads`` these judge what is worth keeping, of which kind it is, and what it does to what is known.
    """
    messages = question.messages
    lived = experiences(messages, question.since)
    solved = {turn for one in lived for turn in one.turns}
    memories: list[ExtractedMemory] = []
    person = None
    for made in statements(messages, question.since, heads, [said_of(fact.content) for fact in question.known]):
        kept = [one for one in made if not (one.trouble or one.turn in solved)]  # a problem is kept with what solved it
        person = _person_before(messages, made[0].turn) or person
        for said, group in _groups(kept, person):
            memories.append(_memory(said, group, messages[group[0].turn], person))
    return CombinedExtraction(
        memories=linked(_of_kinds(memories[:MAX_MEMORIES], heads), question.known, heads),
        experiences=lived[:MAX_EXPERIENCES],
        profile_signals=profile_signals(messages, question.since),
    )


def _of_kinds(memories: list[ExtractedMemory], heads: Heads | None) -> list[ExtractedMemory]:
    """With the kind and, where the list of attributes has none, the attribute that the heads are sure of."""
    if heads is None:
        return memories
    said = [("", said_of(one.content)) for one in memories]
    least = heads.least(ATTRIBUTES, ANY)
    found = []
    for memory, kind, attribute in zip(memories, heads.kinds(said), heads.attributes(said), strict=True):
        update: dict[str, str] = {}
        if memory.attribute is None and attribute is not None and attribute.probability >= least and attribute.label != "other":
            update["attribute"] = attribute.label
        if memory.attribute is None and kind is not None:
            update["type"] = "preference" if kind.label == "preference" else "knowledge"
        found.append(memory.model_copy(update=update))
    return found


def _person_before(messages: Sequence[Message], turn: int) -> str | None:
    """Whom a pronoun in this message means, going by the user's messages up to it."""
    own = [message.text for message in messages[max(0, turn - LOOK_BACK) : turn + 1] if message.role == "user"]
    return next((person for text in reversed(own) if (person := person_in(text))), None)


def _groups(made: list[Statement], person: str | None) -> list[tuple[Attribute | None, list[Statement]]]:
    """Statements of one message by what they say; the ones that say nothing of the list belong to the one before."""
    groups: list[tuple[Attribute | None, list[Statement]]] = []
    for one in (part for statement in made for part in _parts(statement, person)):
        said = attribute_of(one.text, person)
        current = groups[-1][0] if groups else None
        if groups and (said is None or current is None or (said.name, said.subject) == (current.name, current.subject)):
            groups[-1] = (current or said, [*groups[-1][1], one])
        else:
            groups.append((said, [one]))
    return groups


def _parts(statement: Statement, person: str | None) -> list[Statement]:
    """A statement cut before each clause that says something else of the user: their name, then their job."""
    parts: list[str] = []
    before: Attribute | None = None
    for part in _CLAUSE.split(statement.text):
        clause, said = _own(part, statement.text, before, person)
        if before is not None and before.single_valued and said is not None and said.single_valued and said.name != before.name:
            parts.append(clause)
            before = said
        else:
            parts = [*parts[:-1], "".join([*parts[-1:], clause])]
            before = before or said
    return [replace(statement, text=part.strip(" ,，;；")) for part in parts] if len(parts) > 1 else [statement]


def _own(clause: str, sentence: str, before: Attribute | None, person: str | None) -> tuple[str, Attribute | None]:
    """What a clause says of the user, if they speak in it or in the sentence ("I live here and work there", then with its pronoun)."""
    stripped = clause[_AND.match(clause).end() :]  # type: ignore[union-attr] # it matches nothing, too
    if FIRST_PERSON.match(stripped):
        return clause, attribute_of(stripped, person)
    speaks = _I.match(sentence)
    if speaks is None or before is None or before.subject != "user":
        return clause, None
    verb = stripped.partition(" ")[0].lower()
    if speaks["en"] and not (verb in VERBS or verb.endswith("ed")):
        return clause, None  # "I hate meetings, nothing before ten"
    whole = f"我{stripped}" if speaks["zh"] else f"I {stripped}"
    said = attribute_of(whole, person)
    # What somebody likes is a list of things that belong together: only what there is one of stands alone.
    if said is not None and said.single_valued and ":" not in said.name and said.subject == "user" and said.said.startswith(("i ", "我")):
        return whole, said
    return clause, None


def _memory(said: Attribute | None, group: list[Statement], message: Message, person: str | None) -> ExtractedMemory:
    text = " ".join(one.text for one in group)
    lasting = any(one.lasting for one in group)
    vital = any(one.vital for one in group)
    chinese = group[0].language == "zh"
    who = message.name or ("用户" if chinese else "User")
    told = with_dates(text, message.at)
    if person and not person_in(text):
        told = _PRONOUN.sub(lambda match: f"{match.group()} ({person})", told, count=1)
    if asked := group[0].asked:
        told = f"（被问“{asked}”）{told}" if chinese else f'(asked "{asked}") {told}'
    content = f"{who}：{told}" if chinese else f"{who}: {told}"
    category = said.category if said is not None else "user_preference" if lasting else "user_fact"
    poignancy = weigh(Poignancy(agent_id="", text=text)).poignancy
    return ExtractedMemory(
        content=content[:MAX_CONTENT_CHARS],
        type="preference" if category == "user_preference" else "knowledge",
        category=category,
        keywords=keywords(text, KEYWORDS),
        importance=max(said.importance if said else 0.0, LASTING if lasting or vital else ORDINARY, poignancy),
        subject=(message.name or "user") if said is None or said.subject == "user" else said.subject,
        attribute=said.name if said else None,
        single_valued=said is not None and said.single_valued and (not said.name.startswith("likes:") or CHANGE.search(text) is not None),
        turns=[group[0].turn],
        negative=said is not None and said.over,
    )
