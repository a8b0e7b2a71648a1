"""An agent's look at itself by rules: what its users praised, complained of and wished for, more than once."""

from __future__ import annotations

from collections.abc import Sequence

from engine.conversations import cues as cue
from engine.growth.pains.merging import most_alike
from engine.growth.pains.words import helped, hurts
from engine.growth.reflections.types import MAX_EVIDENCE, MAX_FINDINGS, IdentityChange, Improvement, MetaMemory, Pattern, SelfReflected
from jiyi.chat.secrets import masked
from jiyi.protocol.growth.overrides import override_in
from jiyi.text.sections import union
from jiyi.text.splitting import sentences
from jiyi.text.words import Language, language_of

#: A pattern rests on so many lines at least.
LEAST = 2
#: Characters of a line that are read, and of one that is quoted.
READ_CHARS, QUOTED_CHARS = 2_000, 200
#: A wish for how the agent works needs no second time: it was said for good.
LEAST_WISHES = 1
PRAISE = union("engine.growth", "reflections/cues.txt", "praise")
WISH = union("engine.growth", "reflections/cues.txt", "wish")
USER = "user"

_WORDS: dict[Language, dict[str, str]] = {
    "en": {
        "positive": "Went well {count} times: “{quote}”",
        "negative": "Hurt {count} times: “{quote}”",
        "improve": "Ask about this before it is raised again, and offer what helped: “{quote}”",
        "wish": "The user asked for it ({count} times): “{quote}”",
        "praised": "{agent} was praised {count} times: “{quote}”",
        "hurt": "Users of {agent} complained {count} times: “{quote}”",
        "wished": "Users of {agent} want this from now on: “{quote}”",
    },
    "zh": {
        "positive": "做得好，{count}次：“{quote}”",
        "negative": "让用户头疼，{count}次：“{quote}”",
        "improve": "在用户再次提起之前先问一问，并给出有用过的办法：“{quote}”",
        "wish": "用户这样要求过（{count}次）：“{quote}”",
        "praised": "{agent}被称赞过{count}次：“{quote}”",
        "hurt": "{agent}的用户抱怨过{count}次：“{quote}”",
        "wished": "{agent}的用户希望以后：“{quote}”",
    },
}
#: What a wish that is quoted does not end with.
_ENDS = " \t\n。！？.!?,，;；"


class _Groups:
    """Sentences that say similar things, with the lines that they are of."""

    def __init__(self) -> None:
        self.quotes: list[str] = []
        self.lines: list[list[int]] = []

    def add(self, line: int, sentence: str) -> None:
        quote = " ".join(masked(sentence).split())[:QUOTED_CHARS]
        known = most_alike(quote, self.quotes)
        if known is None:
            self.quotes.append(quote)
            self.lines.append([line])
        elif line not in self.lines[known]:
            self.lines[known].append(line)

    def of(self, least: int) -> list[tuple[str, list[int]]]:
        """Those of at least so many lines, the most frequent first."""
        found = [(quote, lines) for quote, lines in zip(self.quotes, self.lines, strict=True) if len(lines) >= least]
        return sorted(found, key=lambda one: -len(one[1]))[:MAX_FINDINGS]


def look(agent_id: str, utterances: Sequence[tuple[str, str]]) -> SelfReflected:
    """What (role, words) of its conversations say about an agent."""
    praised, hurt, wished = _Groups(), _Groups(), _Groups()
    for line, (speaker, said) in enumerate(utterances):
        text = said[:READ_CHARS]
        if speaker != USER or override_in(text) or cue.HANDED_OVER.search(text) or cue.ROLE_PLAY.search(text):
            continue
        for sentence in filter(None, map(str.strip, sentences(text))):
            if cue.IMAGINED.search(sentence):
                continue
            if (wish := WISH.search(sentence)) is not None:
                wished.add(line, wish[0].rstrip(_ENDS))
            elif PRAISE.search(sentence) or helped(sentence):
                praised.add(line, sentence)
            elif hurts(sentence):
                hurt.add(line, sentence)
    return _found(agent_id, praised.of(LEAST), hurt.of(LEAST), wished.of(LEAST_WISHES))


_Found = list[tuple[str, list[int]]]


def _found(agent_id: str, praised: _Found, hurt: _Found, wished: _Found) -> SelfReflected:
    def say(form: str, quote: str, lines: list[int]) -> str:
        return _WORDS[language_of(quote)][form].format(agent=agent_id, count=len(lines), quote=quote)

    def evidence(lines: list[int]) -> list[int]:
        return lines[-MAX_EVIDENCE:]

    return SelfReflected(
        patterns=[
            *(Pattern(kind="negative", text=say("negative", *one), evidence=evidence(one[1])) for one in hurt),
            *(Pattern(kind="positive", text=say("positive", *one), evidence=evidence(one[1])) for one in praised),
        ][:MAX_FINDINGS],
        improvements=[Improvement(text=say("improve", *one), evidence=evidence(one[1])) for one in hurt],
        identity_changes=[
            IdentityChange(file="AGENTS", addition=one[0], reason=say("wish", *one), evidence=evidence(one[1])) for one in wished
        ],
        meta_memories=[
            MetaMemory(text=say(form, *one), importance=importance, evidence=evidence(one[1]))
            for form, importance, found in (("wished", 7.0, wished), ("hurt", 6.0, hurt), ("praised", 5.0, praised))
            for one in found
        ][:MAX_FINDINGS],
    )
