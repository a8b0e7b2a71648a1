"""What was found, in words for an agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jiyi.protocol.stores import Hit
from jiyi.stores.types import Fidelity
from jiyi.text.budget import estimate_tokens
from jiyi.text.prompting import PREFACE, one_line, quoted, quoted_to_tokens
from jiyi.text.tokens import tokens
from jiyi.text.words import Language

#: Before and after what was found. The seed's label; the original's is English.
LABEL, END = "===== 相关记忆 =====", "===== End of Memory ====="
#: Tokens of the whole, at most (design §13).
BUDGET = 2_000
#: Fewer tokens of an item say nothing; and those of its number.
LEAST_TOKENS, NUMBER_TOKENS = 12, 2


def rendered(
    ranked: Sequence[Ranked], *, label: str = LABEL, max_tokens: int | None = BUDGET, language: Language = "en"
) -> tuple[str, list[Ranked]]:
    """The text, and what is in it; by stores, the one with the best item first. Empty if there is nothing.

    Items are quoted below the preface (:mod:`jiyi.text.prompting`): none can pass for the end of the memory, or for another
    store's heading.
    """
    room = None if max_tokens is None else max_tokens - estimate_tokens(f"{label}\n{PREFACE[language]}\n{END}")
    taken: list[tuple[Ranked, str]] = []
    headed: set[str] = set()
    for one in ranked:
        said = one.hit.item.content_summary.strip()
        if not said:
            continue
        line = quoted(said)
        if room is not None:
            heading = 0 if one.store in headed else estimate_tokens(_heading(one.store))
            left = room - heading - NUMBER_TOKENS
            if left < LEAST_TOKENS:
                break
            line = quoted_to_tokens(said, left)
            if not line:
                break
            room = left - estimate_tokens(line)
        headed.add(one.store)
        taken.append((one, line))
    if not taken:
        return "", []
    lines = [label, PREFACE[language]]
    for store in dict.fromkeys(one.store for one, _ in taken):
        lines += ["", _heading(store)]
        texts = [line for one, line in taken if one.store == store]
        lines += [f"{number}. {line}" for number, line in enumerate(texts, 1)]
    return "\n".join([*lines, "", END]), [one for one, _ in taken]


def _heading(store: str) -> str:
    return f"--- {one_line(store)} ---"


def into_prompt(memory: str | None, message: str) -> str:
    """A prompt's last message with what was found before it; unchanged if nothing was."""
    return message if memory is None else f"{memory}\n\n{message}"


def into_messages(memory: str | None, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Messages with one of the user's more, before the last of the user's; unchanged if nothing was found."""
    found = [dict(message) for message in messages]
    if memory is None:
        return found
    place = next((number for number in reversed(range(len(found))) if found[number].get("role") == "user"), len(found))
    return [*found[:place], {"role": "user", "content": memory}, *found[place:]]


#: What the store's own score counts.
STORE_WEIGHT = 0.7
#: What newness with length, and shared words, count.
NEWNESS, OVERLAP = 0.7, 0.3
#: Hours in which newness goes down to its floor: thirty days.
FADES_IN_HOURS, LEAST_NEWNESS = 720.0, 0.1
#: Texts shorter or longer than these, in characters, count less.
SHORT_TEXT, LONG_TEXT = 20, 200
SHORT_FACTOR, LONG_FACTOR = 0.5, 0.8


@dataclass(frozen=True, slots=True)
class Ranked:
    """An item found, with its store and its place among all."""

    store: str
    hit: Hit
    score: float


def rank(
    found: Mapping[str, Sequence[Hit]], query: str, now: datetime, *, weight: float = STORE_WEIGHT, fidelity: Fidelity = "jiyi"
) -> list[Ranked]:
    """All items, best first; equal ones in the order of their stores."""
    wanted = _words(query, fidelity)
    ranked = []
    for store, hits in found.items():
        scale = max([1.0, *(hit.score for hit in hits if hit.score is not None)])  # scores are to be comparable: 1 at most
        for hit in hits:
            own = _newness(hit, now) * _length_factor(hit.item.content_summary) * NEWNESS + OVERLAP * _overlap(wanted, hit, fidelity)
            scored = hit.score is not None and fidelity == "jiyi"
            score = weight * hit.score / scale + (1 - weight) * own if scored and hit.score is not None else own
            ranked.append(Ranked(store, hit, score))
    return sorted(ranked, key=lambda one: -one.score)


def _newness(hit: Hit, now: datetime) -> float:
    hours = max(0.0, (now.timestamp() - hit.item.timestamp) / 3_600)
    return max(LEAST_NEWNESS, 1 - hours / FADES_IN_HOURS)


def _length_factor(text: str) -> float:
    if len(text) < SHORT_TEXT:
        return SHORT_FACTOR
    return LONG_FACTOR if len(text) > LONG_TEXT else 1.0


def _overlap(wanted: frozenset[str], hit: Hit, fidelity: Fidelity) -> float:
    return len(wanted & _words(hit.item.content_summary, fidelity)) / len(wanted) if wanted else 0.0


def _words(text: str, fidelity: Fidelity) -> frozenset[str]:
    return frozenset(text.lower().split() if fidelity == "devall" else tokens(text))
