"""What several outputs that say similar things come to: their most central sentences, quoted."""

from __future__ import annotations

import numpy as np

from engine.providers.llms.questions import Digest, Digested
from engine.providers.llms.rules.topics import topics
from engine.providers.llms.rules.wordlists import one_line, quote
from engine.retrieval.lexicon import Lexicon
from jiyi.text.splitting import sentences
from jiyi.text.tokens import tokens

#: Statements, and sentences of them all, that are looked at.
MAX_STATEMENTS, MAX_SENTENCES = 200, 600
#: Characters of a sentence that are read: each is compared with each.
MAX_READ = 1_000
#: Sentences that are quoted, and characters of each and of the topic.
QUOTED, MAX_QUOTED, MAX_TITLE = 3, 240, 80
#: Sentences with fewer tokens say little by themselves.
LEAST_TOKENS = 3
#: A sentence that shares more than this of its words with one that is quoted already says the same again.
OVERLAP = 0.5


def digest(question: Digest) -> Digested:
    """Up to three sentences that are most like all the others, in the order in which they were said."""
    statements = question.statements[:MAX_STATEMENTS]
    heard = [(number, one_line(sentence[:MAX_READ])) for number, text in enumerate(statements) for sentence in sentences(text)]
    said = [item for item in heard if item[1]][:MAX_SENTENCES]
    telling = [item for item in said if len(tokens(item[1])) >= LEAST_TOKENS] or said
    if not telling:
        return Digested(topic="…", summary="…", evidence=[0])
    chosen = sorted(_central([sentence for _, sentence in telling]))
    joint = "" if question.language == "zh" else " "
    names = topics(statements, 1, question.agent_id, least_members=min(2, len(statements)))
    topic = names[0].name if names else telling[chosen[0]][1]
    return Digested(
        topic=quote(topic, MAX_TITLE) or "…",
        summary=joint.join(quote(telling[place][1], MAX_QUOTED) for place in chosen) or "…",
        evidence=sorted({telling[place][0] for place in chosen}),
    )


def _central(said: list[str]) -> list[int]:
    """Places of the sentences that are most like all, without those that repeat one taken before."""
    lexicon = Lexicon()
    words = [set(tokens(sentence)) for sentence in said]
    for sentence in said:
        lexicon.add(tokens(sentence))
    centrality = sum((lexicon.likeness(place) for place in range(len(said))), np.zeros(len(said)))
    taken: list[int] = []
    for place in np.argsort(-np.round(centrality, 9), kind="stable"):
        mine = words[place]
        if all(len(mine & words[other]) <= OVERLAP * len(mine | words[other]) for other in taken):
            taken.append(int(place))
        if len(taken) == QUOTED:
            break
    return taken
