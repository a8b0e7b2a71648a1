"""What of a conversation is kept: the utterance that says most about what is to come, or that says most at all."""

from __future__ import annotations

import re
from collections import Counter

from engine.providers.llms.questions import Memo, OneSentence, Planning, Poignancy
from engine.providers.llms.rules import poignancy
from engine.providers.llms.rules.wordlists import one_line, quote, word_list
from engine.text.keywords import keywords_ranked
from jiyi.text.words import Language, normalise

#: Characters of an utterance that are quoted.
MAX_QUOTED = 300
MAX_NAME = 100
#: Utterances that are looked at: the last ones.
MAX_UTTERANCES = 200
#: Characters of an utterance that are weighed.
MAX_READ = 2_000

#: What each thing in an utterance counts for: a word of planning as much as three telling words.
PLAN, NUMBER, KEYWORD, SMALL_TALK, QUESTION = 3.0, 1.0, 1.0, -3.0, -1.5
#: More of them count no further: long utterances would win by length.
MOST_NUMBERS, MOST_KEYWORDS, MOST_SMALL_TALK = 2, 6, 2

#: A run of Chinese digits is looked at once, from its beginning, however long it is.
_NUMBER = re.compile(r"\d|(?<![一二两三四五六七八九十])[一二两三四五六七八九十]++[点号月日]")
_ASKING = re.compile(r"[?？]\s*\Z")


def planning(question: Planning) -> OneSentence:
    """The utterance with the most plans in it, quoted; where nobody plans anything, the one that says most."""
    return _best(question.utterances, question.language, for_plans=True)


def memo(question: Memo) -> OneSentence:
    """The utterance that weighs and says most, quoted."""
    return _best(question.utterances, question.language, for_plans=False)


def _best(utterances: list[tuple[str, str]], language: Language, *, for_plans: bool) -> OneSentence:
    heard = [(speaker, line) for speaker, said in utterances[-MAX_UTTERANCES:] if (line := one_line(said))]
    if not heard:
        nothing = "这次谈话里什么也没有说。" if language == "zh" else "Nothing was said in this conversation."
        return OneSentence(sentence=nothing)
    speaker, line = max(heard, key=lambda item: _worth(item[1], for_plans=for_plans))  # the first of equals
    name, quoted = quote(speaker, MAX_NAME), quote(line, MAX_QUOTED)
    if language == "zh":
        return OneSentence(sentence=f"{name or '有人'}说：“{quoted}”")
    return OneSentence(sentence=f'{name or "Somebody"} said: "{quoted}"')


def _worth(line: str, *, for_plans: bool) -> float:
    text = normalise(line[:MAX_READ])[:MAX_READ]
    cues = Counter(label for label, _ in {(cue.label, cue.phrase) for cue in word_list("cues").find(text)})
    worth = KEYWORD * min(len(keywords_ranked(text)), MOST_KEYWORDS)
    worth += NUMBER * min(len(_NUMBER.findall(text)), MOST_NUMBERS) + SMALL_TALK * min(cues["small_talk"], MOST_SMALL_TALK)
    worth += QUESTION if _ASKING.search(text) else 0.0
    if for_plans:
        return worth + PLAN * cues["plan"]
    return worth + poignancy.weigh(Poignancy(agent_id="", text=text)).poignancy
