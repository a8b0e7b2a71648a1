"""The parts of an English clause.

There is no cheap way to tell verbs from nouns: a list of verbs, the endings -ed and (after a name) -s, and what stands
after "is" and "will" do for statements.
"""

from __future__ import annotations

import re

from engine.providers.llms.rules.wordlists import TRIM, read

#: Words of a subject at most.
MAX_SUBJECT = 8

_BE = frozenset("is are was were am be been being 's i'm we're they're you're he's she's it's isn't aren't wasn't weren't".split())
_HELPING = _BE | frozenset(
    """has have had will would can could should may might must do does did cannot won't can't couldn't wouldn't shouldn't
    doesn't don't didn't hasn't haven't hadn't i'll he'll she'll we'll they'll you'll i've we've they've you've""".split()
)
#: Between a helping verb and its verb.
_BETWEEN = frozenset(
    """not never also just still already now always often only really finally again currently going to usually sometimes
    probably quickly quietly slowly soon almost even both""".split()
)
#: Belong to the verb that they follow: wakes up, talks to.
_PARTICLES = frozenset("to up out off on down away back about for with at into in over".split())
#: After one of these stands a noun, or a clause of its own.
_NOUN_FOLLOWS = frozenset("the a an his her my your their our its of to for in on at with from by this that no".split())
_NO_VERB_FOLLOWS_HELPING = _NOUN_FOLLOWS | frozenset("as which who and or but if when while".split())
#: End like verbs and are none, or stand after the noun that they describe.
_NO_VERBS = frozenset("red bed shed seed need speed hundred naked sacred wicked beloved united indeed sled named called based".split())

#: "Yesterday, …", "On Monday morning, …": says when, not who.
_WHEN = re.compile(
    r"(?:(?:yesterday|today|tonight|tomorrow|now|then|later|finally|suddenly|and|but|so|also|meanwhile)\b,?\s*"
    r"|(?:this|last|next|every|on|at|in|after|before|by|since|during)\b[^,]{1,30},\s*"
    r"|(?:this|last|next|every)\s(?:morning|afternoon|evening|night|week|month|year|\w+day)\s+)+",
    re.IGNORECASE,
)
_LEADING = re.compile(r"\A(?:and|or|but|the|a|an|his|her|my|your|their|our|its|some)\s+(?=\S)", re.IGNORECASE)


def _verbs() -> frozenset[str]:
    lines = [line for line in read("verbs.en.txt").splitlines() if not line.startswith("#")]
    return frozenset(" ".join(lines).split())


VERBS = _verbs()


def parts(clause: str) -> tuple[str, str, str] | None:
    """Subject (empty if the clause begins with its verb), predicate and object; None if no verb is found."""
    words = _WHEN.sub("", clause, count=1).split() if _WHEN.match(clause) else clause.split()
    plain = [word.lower().strip(TRIM).replace("’", "'") for word in words]
    at = next((place for place in range(min(len(words), MAX_SUBJECT + 1)) if _is_verb(words, plain, place)), None)
    if at is None:
        return None
    end = at + 1
    if plain[at] in _HELPING:
        after_be = plain[at] in _BE
        while end < len(words) and plain[end] in _BETWEEN | _HELPING:
            after_be = after_be or plain[end] in _BE
            end += 1
        end += end < len(words) and _follows_helping(plain[end], after_be=after_be)
    if end < len(words) - 1 and plain[end] in _PARTICLES and plain[end - 1] not in _HELPING:
        end += 1
    subject = " ".join(words[:at])
    if not subject and "'" in plain[at]:  # I'll, she's
        subject = plain[at].partition("'")[0]
    return subject, " ".join(plain[at:end]), _LEADING.sub("", " ".join(words[end:]).partition(",")[0])


def _is_verb(words: list[str], plain: list[str], place: int) -> bool:
    word, before = plain[place], plain[place - 1] if place else ""
    if word in _HELPING:
        return place > 0 or "'" in word
    if before in _NOUN_FOLLOWS or word in _NO_VERBS:
        return False
    if word in VERBS or (word.endswith("ed") and len(word) > 4):
        return True
    if place == 0:
        return word.endswith("ing") and len(word) > 5
    names = all(name[:1].isupper() and not name.endswith(("'s", "’s")) for name in words[:place])
    return names and word.endswith("s") and not word.endswith(("ss", "us", "'s"))


def _follows_helping(word: str, *, after_be: bool) -> bool:
    if after_be:
        return word.endswith(("ing", "ed", "en")) or word in VERBS
    return word not in _NO_VERB_FOLLOWS_HELPING and word.isalpha()
