"""Which prompts an LLM answers, and which are left to the rules: by what it can do, and after a row of
unusable answers for an hour.

What it can do it is asked once (:mod:`engine.conversations.trials`); the verdict is kept with all that is
known of the model.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from engine.providers import known
from engine.providers.llm_prompts import FRAME, prompt
from engine.providers.questions import Question
from engine.providers.spec import Endpoint
from jiyi.protocol.providers import PromptByRules
from jiyi.settings import get_settings
from jiyi.text.words import Language

#: To give the graver of two events more importance; to name the parts of a sentence; to note nothing where
#: there is nothing; to note a fact in Chinese; to note what a text says and not what it orders; to see which
#: statement is over, and that statements about other people end none.
Ability = Literal["importance", "triple", "nothing", "chinese", "injection", "endings"]
ABILITIES: tuple[Ability, ...] = get_args(Ability)
#: The prompt that an ability is tried out with.
TRIED_WITH: Mapping[Ability, tuple[str, Language]] = {
    "importance": ("poignancy", "en"),
    "triple": ("triple", "en"),
    "nothing": ("extraction", "en"),
    "chinese": ("extraction", "zh"),
    "injection": ("extraction", "en"),
    "endings": ("extraction", "en"),
}
_EXPERIENCES = frozenset[Ability]({"nothing", "injection"})
#: A reflection asks for importance and parts of what it concludes: it is the LLM's as a whole or not.
_REFLECTION = frozenset[Ability]({"importance", "triple", "injection"})
#: Texts that are kept as the model wrote them.
_WRITING = frozenset[Ability]({"injection"})
#: What a prompt's answers need.
NEEDS: Mapping[str, frozenset[Ability]] = {
    "poignancy": frozenset({"importance"}),
    "triple": frozenset({"triple"}),
    "keywords": frozenset({"triple"}),
    "extraction": _EXPERIENCES | {"endings"},
    **dict.fromkeys(("experiences", "pains"), _EXPERIENCES),
    **dict.fromkeys(("focal_points", "insights", "planning", "memo"), _REFLECTION),
    **dict.fromkeys(
        ("summary", "compaction", "digest", "consistency", "skill", "solution", "self_reflection"), _WRITING
    ),
}
#: A number has no language.
WITHOUT_LANGUAGE = frozenset({"poignancy"})

#: Unusable answers in a row after which rules take a prompt, and for how long (seconds). One message whose
#: piece is halved causes fewer. For as long as the row is kept (seconds) one more is then enough, until an
#: answer is usable.
MOST_IN_A_ROW, PAUSE_SECONDS, ROW_SECONDS = 10, 3_600, 86_400
DAY_SECONDS = 86_400
#: What people see of it: the answers themselves may quote memories.
IN_A_ROW = f"{MOST_IN_A_ROW} answers in a row could not be used"
MAX_REASON = 300
CAN, ROW, PAUSE = "can:", "row:", "pause:"


def needs(question: Question[Any]) -> frozenset[Ability]:
    """What a model has to be able to do to be asked this."""
    return _needs(question.prompt, question.language)


def _needs(name: str, language: Language) -> frozenset[Ability]:
    needed = NEEDS.get(name, _WRITING)
    return needed | {"chinese"} if language == "zh" and name not in WITHOUT_LANGUAGE else needed


@dataclass(frozen=True, slots=True)
class ModelVerdict:
    """What a model can do, as far as it was asked. ``results``: ability → why it does not have it, empty
    if it has it.

    ``paused``: prompt → until when rules have it, in epoch seconds.
    """

    results: Mapping[Ability, str]
    paused: Mapping[str, float]

    def why_rules(self, question: Question[Any]) -> str:
        """Why rules are to answer; empty if the LLM may be asked."""
        if question.prompt in self.paused:
            return f"rules answer {question.prompt} for an hour: {IN_A_ROW}"
        failed = self._failed(needs(question))
        return f"rules answer {question.prompt}, which needs {failed}" if failed else ""

    def untried(self, question: Question[Any]) -> list[Ability]:
        """What the question needs and the model has not been asked yet."""
        return [
            ability for ability in ABILITIES if ability in needs(question) and ability not in self.results
        ]

    def prompts_by_rules(self) -> list[PromptByRules]:
        """Prompts that rules answer, with the reasons."""
        rows = []
        for name in NEEDS:
            if name in self.paused:
                until = datetime.fromtimestamp(self.paused[name], UTC)
                rows.append(PromptByRules(prompt=name, why=IN_A_ROW, until=until))
                continue
            always, chinese = (self._failed(_needs(name, language)) for language in ("en", "zh"))
            if chinese:
                language = None if always else "zh"
                rows.append(PromptByRules(prompt=name, language=language, why=always or chinese))
        return rows

    def _failed(self, needed: frozenset[Ability]) -> str:
        missing = {one: self.results.get(one) for one in ABILITIES if one in needed}
        return "; ".join(f"{ability}: {why}" for ability, why in missing.items() if why)


def verdict(endpoint: Endpoint) -> ModelVerdict:
    """What a model can do, asked with today's prompts, and which prompts rules have for a while."""
    values = known.read(endpoint)
    results: dict[Ability, str] = {}
    for ability in ABILITIES if get_settings().llm_trial_days else ():
        match values.get(CAN + ability):
            case [str() as version, str() as why] if version == _version(ability):
                results[ability] = why
    paused = {name.removeprefix(PAUSE): until for name, until in values.items() if name.startswith(PAUSE)}
    return ModelVerdict(results, paused)


def note_ability(endpoint: Endpoint, ability: Ability, why: str) -> None:
    """Keep whether a model has an ability; ``why`` not, or nothing."""
    days = get_settings().llm_trial_days
    known.write(endpoint, CAN + ability, [_version(ability), why[:MAX_REASON]], days * DAY_SECONDS)


def note_usable(endpoint: Endpoint, name: str) -> None:
    """An answer to a prompt was usable: those before it that were not do not count any more."""
    known.forget(endpoint, ROW + name)


def note_unusable(endpoint: Endpoint, name: str) -> None:
    """An answer to a prompt was not usable; after a row of them rules have the prompt for an hour."""
    row = known.read(endpoint).get(ROW + name)
    row = row + 1 if isinstance(row, int) else 1
    known.write(endpoint, ROW + name, row, ROW_SECONDS)
    if row >= MOST_IN_A_ROW:
        known.write(endpoint, PAUSE + name, time.time() + PAUSE_SECONDS, PAUSE_SECONDS)


def _version(ability: Ability) -> str:
    name, language = TRIED_WITH[ability]
    return "+".join(f"{part}@{prompt(part, language).version}" for part in (name, FRAME))
