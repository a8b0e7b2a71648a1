"""What is worth asking about many statements, and what they say again and again."""

from __future__ import annotations

import re

import numpy as np

from jiyi.providers.llms.questions import FocalPoints, Insight, InsightList, Insights, Points
from jiyi.providers.llms.rules.topics import topics
from jiyi.providers.llms.rules.wordlists import quote
from jiyi.retrieval.lexicon import Lexicon
from jiyi.text.tokens import tokens
from jiyi.text.words import Language

#: Statements that are looked at; a reflection brings dozens.
MAX_STATEMENTS = 500
#: Characters of a statement that are read, and that are quoted.
MAX_READ, MAX_QUOTED = 1_000, 240
#: A group of statements that shares more than this with an earlier one says the same again.
OVERLAP = 0.6
#: Some topics turn out to be an earlier group under another name: so many are looked at for each insight.
TOPICS_PER_INSIGHT = 3
#: Most statements that one insight rests on: the most central ones.
MAX_EVIDENCE = 12

QUESTIONS: dict[Language, str] = {"zh": "关于{topic}，有什么值得注意的？", "en": "What is known about {topic}?"}
CONCERN: dict[Language, str] = {"zh": "有{count}条记忆与{topic}有关：{central}", "en": "{count} memories concern {topic}: {central}"}
#: An insight among the statements is taken for what it quotes, so that insights on insights do not nest.
_FRAME = re.compile(r"\A(?:有\d+条记忆与.{1,80}?有关：|\d+ memories concern .{1,80}?: )")


def focal_points(question: FocalPoints) -> Points:
    """The most salient topics as questions; where there are none, the statements themselves."""
    statements = _bare(question.statements)
    names = [topic.name for topic in topics(statements, question.count, question.agent_id)]
    names = names or [line for statement in statements if (line := quote(statement, MAX_QUOTED))][: question.count]
    names = names or [quote(question.agent_id, MAX_QUOTED) or "…"]
    asked = [QUESTIONS[question.language].format(topic=quote(name, MAX_QUOTED)) for name in names]
    return Points(questions=list(dict.fromkeys(asked)))


def insights(question: Insights) -> InsightList:
    """Each topic of several statements with the most central of them; else the statement nearest to the focal point."""
    statements = _bare(question.statements)
    lexicon = Lexicon()
    for statement in statements:
        lexicon.add(tokens(statement))
    found: list[Insight] = []
    groups: list[set[int]] = []
    most = TOPICS_PER_INSIGHT * question.count
    for topic in topics(statements, most, question.agent_id, question.focal_point, least_members=2):
        group = set(topic.members)
        if any(len(group & other) > OVERLAP * len(group | other) for other in groups):
            continue
        order = _most_central_first(lexicon, topic.members)
        said = {"topic": quote(topic.name, MAX_QUOTED), "central": quote(statements[order[0]], MAX_QUOTED)}
        groups.append(group)
        text = CONCERN[question.language].format(count=len(group), **said)
        found.append(Insight(text=text, evidence=sorted(order[:MAX_EVIDENCE])))
        if len(found) == question.count:
            break
    return InsightList(insights=found or [_nearest(lexicon, statements, question.focal_point)])


def _most_central_first(lexicon: Lexicon, members: tuple[int, ...]) -> list[int]:
    """A group's statements by how much they are like the others of the group; equals in their order."""
    inside = list(members)
    likeness = np.zeros(len(inside))
    for number in inside:
        scores = lexicon.likeness(number)
        likeness += scores[inside] / max(float(scores[number]), 1e-9)
    return [inside[place] for place in np.argsort(-likeness, kind="stable")]


def _nearest(lexicon: Lexicon, statements: list[str], focal_point: str) -> Insight:
    best = int(np.argmax(lexicon.bm25(tokens(focal_point))))
    text = quote(statements[best], MAX_QUOTED) or quote(focal_point, MAX_QUOTED) or "…"
    return Insight(text=text, evidence=[best])


def _bare(statements: list[str]) -> list[str]:
    return [_FRAME.sub("", statement[:MAX_READ]) for statement in statements[:MAX_STATEMENTS]]
