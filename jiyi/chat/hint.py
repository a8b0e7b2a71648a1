"""The hint: one pending candidate, told to the model so that it may ask its user."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

from jiyi.chat.chain import Exchange
from jiyi.protocol.artifacts import ArtifactKind
from jiyi.text.budget import estimate_tokens
from jiyi.text.prompting import PREFACE, quoted, quoted_to_tokens
from jiyi.text.words import Language, language_of

#: Tokens of a hint at most.
HINT_TOKENS = 150
#: … of which the name and the description may take.
_NAME_TOKENS, _DESCRIPTION_TOKENS = 30, 45
#: … or so much of that, if it does not fit.
_SHARES = (1.0, 0.5, 0.2, 0.0)
#: Sessions that are remembered as having had theirs; and seconds between two questions for one.
SESSIONS, ASK_SECONDS = 1_000, 60.0

_SAYS: dict[Language, str] = {
    "en": "[A {kind} was learned, is not in use and waits to be confirmed. If it fits, ask the user once whether to keep it. "
    "{preface} {name}, about {about}.]",
    "zh": "[学到一个{kind}，尚未启用，等待确认。如果合适，可问用户一次是否保留。{preface}{name}，内容：{about}。]",
}
_KINDS: dict[Language, dict[ArtifactKind, str]] = {
    "en": {"skill": "skill", "pipeline": "workflow"},
    "zh": {"skill": "技能", "pipeline": "流程"},
}


def hint(kind: ArtifactKind, name: str, description: str) -> str:
    """What is put into a prompt of a candidate: its name and what it is about, quoted, at most ``HINT_TOKENS`` tokens."""
    language = language_of(name + description)
    text = ""
    for share in _SHARES:
        given = {"name": _quoted(name, share * _NAME_TOKENS), "about": _quoted(description, share * _DESCRIPTION_TOKENS)}
        text = _SAYS[language].format(kind=_KINDS[language][kind], preface=PREFACE[language], **given)
        if estimate_tokens(text) <= HINT_TOKENS:
            break
    return text


def _quoted(text: str, tokens: float) -> str:
    return quoted_to_tokens(" ".join(text.split()), int(tokens)) or quoted("")


class HintStage:
    """Puts one hint a session into the prompt (priority 78); asks for it at most once in ``ASK_SECONDS``.

    Args:
        pending: the hint for an agent, asked within so many seconds; empty if nothing waits.
        clock: monotonic seconds.
    """

    name, priority = "evolution", 78

    def __init__(self, pending: Callable[[str, float], str] | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._pending, self._clock = pending, clock
        #: When each session may be asked for next; never again, once it had its hint.
        self._next: OrderedDict[tuple[str, str], float] = OrderedDict()
        self._lock = Lock()

    def missing(self) -> str:
        return "candidates" if self._pending is None else ""

    def before(self, exchange: Exchange) -> Exchange:
        if self._pending is None or exchange.session_id is None:
            return exchange
        key, now = (exchange.agent_id, exchange.session_id), self._clock()
        with self._lock:
            if now < self._next.get(key, now):
                return exchange
            self._note(key, now + ASK_SECONDS)  # also if nobody answers
        text = self._pending(exchange.agent_id, max(exchange.left, 0.01))
        if not text or not exchange.fits(text):
            return exchange
        with self._lock:
            self._note(key, math.inf)
        return exchange.told(text)

    def after(self, exchange: Exchange) -> Exchange:
        return exchange

    def _note(self, key: tuple[str, str], when: float) -> None:
        self._next[key] = when
        self._next.move_to_end(key)
        while len(self._next) > SESSIONS:
            self._next.popitem(last=False)
